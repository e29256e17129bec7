"""The wheel works without the repository, installed by pip, pipx and uv tool."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from iotoll.core.paths import DATA_FOLDERS, cache_dir
from tests.vm.conftest import CELLS, EXAMPLES, LIMIT, ROOT, UNCALIBRATED, needs_board

UV = [*ROOT.glob(".cache/uv-*/bin/uv")]
NOT_SHIPPED = {"__pycache__", "built", "valid", "invalid"}
"""Folders that stay here; the last two are the samples of results-schema, for tests."""
pytestmark = [pytest.mark.vm, pytest.mark.skipif(not UV, reason="no uv: make setup installs it")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel for this machine; its Rust part is compiled already, by the set-up."""
    folder = tmp_path_factory.mktemp("dist")
    succeed(UV[-1], "build", "--quiet", "--wheel", "--out-dir", folder, ROOT)
    (found,) = folder.glob("*.whl")
    return found


def succeed(*words: str | Path, **more: str) -> str:
    """Run a program in the root folder; returns what it prints, and fails where it does."""
    done = subprocess.run(
        [*map(str, words)],
        cwd="/",
        env=clean() | more,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def clean() -> dict[str, str]:
    """The environment without what leads to this repository."""
    lost = ("PYTHONPATH", "VIRTUAL_ENV", "IOTOLL_DUT", "IOTOLL_NODE_TOOLS")
    kept = {name: value for name, value in os.environ.items() if name not in lost}
    inside = str(ROOT)
    path = [word for word in kept["PATH"].split(os.pathsep) if not word.startswith(inside)]
    return kept | {"PATH": os.pathsep.join(path)}


def installed(how: str, wheel: Path, folder: Path) -> Path:
    """Install the wheel in an empty environment; returns its command."""
    if how == "pip":
        succeed("python3", "-m", "venv", folder / "env")
        succeed(folder / "env/bin/pip", "install", "--quiet", wheel)
        return folder / "env/bin/iotoll"
    places = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    if how == "uv tool":
        succeed(UV[-1], "tool", "install", "--quiet", wheel, **places)
    else:
        homes = {"PIPX_HOME": str(folder / "pipx"), "PIPX_BIN_DIR": str(folder / "bin")}
        succeed(UV[-1], "tool", "run", "pipx", "install", wheel, **places, **homes)
    return folder / "bin/iotoll"


def check_data(iotoll: Path) -> None:
    """It finds all its data, and where it is not complete it says how to complete it."""
    assert "virt-arm64" in succeed(iotoll, "list", "boards")
    assert "default" in succeed(iotoll, "list", "matrices")
    assert str(ROOT) not in succeed(iotoll, "list", "cells")
    done = subprocess.run(
        [iotoll, "doctor", "--json"], cwd="/", env=clean(), capture_output=True, check=False
    )
    findings = {finding["need"]: finding for finding in json.loads(done.stdout)}
    assert findings["trace analyser"]["state"] == "present"
    assert str(ROOT) not in done.stdout.decode(), "nothing of the repository is used"
    assert findings["extra history"]["mend"], "the extra is not there, and has a command"


def test_g2_13_the_wheel_has_every_file_of_the_data_folders(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        modes = {one.filename: one.external_attr >> 16 for one in archive.infolist()}
    lost = [
        str(path.relative_to(ROOT))
        for folder in DATA_FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not NOT_SHIPPED & {*path.relative_to(ROOT).parts}
        if f"iotoll/_data/{path.relative_to(ROOT)}" not in names
    ]
    assert lost == []
    assert modes["iotoll/_data/tools/qemu/build.sh"] & 0o100, "it can be executed"


def test_g2_13_uv_tool_installs_it_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    check_data(installed("uv tool", wheel, tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("how", ["pip", "pipx", "uv tool"])
def test_g2_13_an_installed_wheel_gates_a_patch(how: str, wheel: Path, tmp_path: Path) -> None:
    needs_board("virt-arm64")
    iotoll = installed(how, wheel, tmp_path)
    check_data(iotoll)
    out = tmp_path / "run"
    patch = EXAMPLES / "ufs-submission-cost.patch"
    words: list[str | Path] = [
        "gate",
        "--candidate",
        patch,
        "--cells",
        CELLS,
        "--matrix",
        UNCALIBRATED,
    ]
    done = subprocess.run(
        [iotoll, *words, "--out", out],
        cwd=tmp_path,
        env=clean() | {"IOTOLL_CACHE": str(cache_dir())},
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 1, "a regression"
    assert json.loads((out / "verdict.json").read_text())["outcome"] == "regression"
    assert (out / "report/index.html").is_file()


@pytest.mark.long
def test_the_wheel_for_arm64_analyses_as_this_machine_does(tmp_path: Path) -> None:
    wheels = [*ROOT.glob("dist/iotoll-*_aarch64.whl")]
    if not wheels or shutil.which("qemu-aarch64-static") is None:
        pytest.skip("make dist builds the wheel; apt-get install qemu-user-static runs it")
    root, site = tmp_path / "root", tmp_path / "site"
    # Only unpacked: nothing of it runs before the wheel does.
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    succeed(
        "mmdebstrap",
        "--quiet",
        "--architectures=arm64",
        "--variant=extract",
        "--include=python3,libstdc++6",
        suite,
        root,
    )
    (python,) = (path for path in (root / "usr/bin").glob("python3.*") if "-" not in path.name)
    release = ["--python-platform", "aarch64-manylinux_2_36", "--python-version", python.name[6:]]
    succeed(UV[-1], "pip", "install", "--quiet", *release, "--target", site, wheels[0])
    trace = ROOT / "tests/trace/data/kernels/6.12-arm64-nvme-threadirqs-psync.dat"
    there = ["qemu-aarch64-static", "-L", root, python, "-m", "iotoll"]
    here = [sys.executable, "-m", "iotoll"]
    answers = [
        succeed(*words, "analyze", trace, PYTHONPATH=path)
        for words, path in ((there, str(site)), (here, str(ROOT / "src")))
    ]
    assert "vfs_fs" in answers[0]
    assert answers[0] == answers[1]
