"""A study on the exact board: fresh, at once, interrupted or again, it leaves the same bytes."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.vm.conftest import LIMIT, command, environment, needs_board, succeed
from tests.vm.test_gate import await_workload

pytestmark = [pytest.mark.vm, pytest.mark.long]
BOARD = "virt-arm64"
STUDY = """
title = "Two cells"
question = "Is a direct read cheaper than a buffered one, on two devices?"
[sources.own]
title = "this test"
[matrix]
extends = "default"
devices = ["ufs"]
families = []
[variants.base]
why = "the board's own device"
cells = ["ufs-4k-randread-t1-direct", "ufs-4k-randread-t1-sync"]
[variants.slow]
why = "a device of 80 us"
cells = ["ufs-4k-randread-t1-direct"]
[variants.slow.devices.ufs.model]
read_ns = 80000
read_ns_per_kib = 0
[[tables]]
name = "sw"
title = "Software"
form = "bars"
drawn = ["sw"]
columns = [
    { key = "sw", title = "SW", unit = "us", formula = "c.sw", digits = 2 },
    { key = "hw", title = "HW off the model", unit = "us", formula = "c.hw - c.model", digits = 2 },
]
rows = [
    { label = "direct", cells = { c = "ufs-4k-randread-t1-direct" } },
    { label = "slow", cells = { c = "ufs-4k-randread-t1-direct@slow" } },
]
[[claims]]
text = "The device's latency is the model's, and software does not depend on it"
source = "own"
kind = "shape"
formula = "b.hw - a.hw > 63 and b.hw - a.hw < 64 and abs(a.sw / b.sw - 1) < 0.03"
cells = { a = "ufs-4k-randread-t1-direct@base", b = "ufs-4k-randread-t1-direct@slow" }
"""


PAGES = ["index.html", "study.json", "two-sw.svg", "two.md"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study's file."""
    needs_board(BOARD)
    path = tmp_path_factory.mktemp("study") / "two.toml"
    path.write_text(STUDY)
    return path


def start(*words: str | Path) -> subprocess.Popen[str]:
    """A fresh study, left to itself."""
    fresh = command("study", *words, "--fresh")
    pipe = subprocess.PIPE
    return subprocess.Popen(fresh, env=environment(), stdout=pipe, stderr=pipe, text=True)


@pytest.fixture(scope="module")
def folders(study: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two folders, filled by two commands at the same time."""
    folder = tmp_path_factory.mktemp("out")
    # One kernel is built once: the other command waits for it.
    out = [folder / "one", folder / "other"]
    processes = [start(study, "--out", path) for path in out]
    for process in processes:
        _, err = process.communicate(timeout=4 * LIMIT)
        assert process.returncode == 0, err
    return out


def contents(folder: Path) -> dict[str, bytes]:
    """The pages of a study's folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_two_runs_at_once_leave_the_same_bytes(folders: list[Path]) -> None:
    one, other = map(contents, folders)
    assert sorted(one) == PAGES
    assert one == other
    found = json.loads(one["study.json"])
    assert [claim["verdict"] for claim in found["claims"]] == ["shape holds"]
    boots = [sorted(f.glob("variants/*/run/sides/base/boots/1/boot.json")) for f in folders]
    assert len(boots[0]) == len(boots[1]) == 2


def test_an_interrupted_study_resumes_to_the_same_bytes(
    study: Path, folders: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = (study, "--out", out)
    process = start(*words)
    await_workload(process, out / "variants/slow/run/sides/base/boots/1/console.log")
    beside = subprocess.run(
        command("study", *words),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert beside.returncode == 2
    assert f"{out}: another iotoll works on this study" in beside.stderr
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert "the same command resumes" in err
    first = out / "variants/base/run/sides/base/boots/1/boot.json"
    kept = first.stat().st_mtime_ns
    assert contents(out) == {}
    succeed("study", *words, "--fresh")
    assert first.stat().st_mtime_ns == kept
    assert contents(out) == contents(folders[0])


def test_a_finished_study_boots_again_only_when_asked_to(study: Path, folders: list[Path]) -> None:
    out = folders[1]
    boot = out / "variants/base/run/sides/base/boots/1/boot.json"
    before, kept = contents(out), boot.stat().st_mtime_ns
    succeed("study", study, "--out", out)
    assert boot.stat().st_mtime_ns == kept
    succeed("study", study, "--fresh", "--out", out)
    assert boot.stat().st_mtime_ns != kept
    assert contents(out) == before
