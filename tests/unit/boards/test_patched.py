"""The patched QEMU: what identifies it, and each reason why it is not there, in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from iotoll.boards import patched
from iotoll.boards.board import load_virtual_board
from iotoll.boards.qemu import qemu_binary
from iotoll.core.errors import InfrastructureError

TOOLS = patched.build_script().parent


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))


def build(tools: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(tools / "build.sh"), *words],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_folder_is_in_the_cache_and_named_by_a_digest(tmp_path: Path) -> None:
    folder = patched.folder()
    assert folder.parent == tmp_path / "cache/qemu"
    assert folder.name == patched.digest()
    assert len(patched.digest()) == 16
    assert not folder.exists()
    assert build(TOOLS, "--print").stdout == f"{folder}\n", "the script says the same"


@pytest.mark.parametrize("name", ["patches", "devices", "requirements.txt", "build.sh"])
def test_each_input_changes_the_digest(tmp_path: Path, name: str) -> None:
    tools = tmp_path / "tools"
    shutil.copytree(TOOLS, tools)
    before = build(tools, "--print").stdout
    assert before.strip().endswith(patched.digest()), "it does not depend on where the files lie"
    path = tools / name
    changed = sorted(path.iterdir())[0] if path.is_dir() else path
    changed.write_text(changed.read_text() + "# more\n")
    after = build(tools, "--print").stdout
    assert after and after != before


def test_source_with_another_sha256_is_refused(tmp_path: Path) -> None:
    (tmp_path / "qemu.tar.xz").write_bytes(b"not QEMU")
    done = build(TOOLS, QEMU_SOURCE=str(tmp_path / "qemu.tar.xz"))
    assert done.returncode == 4
    assert "the sha256 of" in done.stderr.splitlines()[-1]
    assert "not built" in patched.why_not()
    assert not patched.folder().exists()


def test_source_that_is_not_there(tmp_path: Path) -> None:
    done = build(TOOLS, QEMU_SOURCE=str(tmp_path / "nowhere"))
    assert done.returncode == 4
    assert "QEMU_SOURCE: there is no file" in done.stderr.splitlines()[-1]


def test_unknown_argument_is_a_usage_error() -> None:
    done = build(TOOLS, "--help-me")
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: " in done.stderr


def test_missing_compiler_is_named(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in (
        "bash",
        "sha256sum",
        "cut",
        "mkdir",
        "flock",
        "tr",
        "sort",
        "dirname",
        "df",
        "tail",
    ):
        (tools / name).symlink_to(str(shutil.which(name)))
    done = build(TOOLS, PATH=str(tools))
    assert done.returncode == 4
    last = done.stderr.splitlines()[-1]
    assert "not built: missing " in last and " gcc " in last and "ninja" in last


def test_board_without_its_qemu_says_how_to_get_it() -> None:
    board = load_virtual_board("virt-arm64")
    with pytest.raises(InfrastructureError, match=r"is not built: .*build\.sh .*-stock"):
        qemu_binary(board)


def test_build_that_is_there_is_not_built_again() -> None:
    for target in ("aarch64", "x86_64"):
        program(target)
    done = build(TOOLS)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(patched.folder()), "")


def test_one_target_may_be_there_without_the_other(tmp_path: Path) -> None:
    program("aarch64")
    done = build(TOOLS, "aarch64")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(patched.folder()), "")
    done = build(TOOLS, "x86_64", QEMU_SOURCE=str(tmp_path / "nowhere"))
    assert done.returncode == 4, "the other is still to be built"
    assert (patched.folder() / "bin/qemu-system-aarch64-exact").is_file()
    with pytest.raises(InfrastructureError, match=r"bash .*/build\.sh x86_64 "):
        patched.binary("qemu-system-x86_64-exact")


def program(target: str) -> None:
    path = patched.folder() / f"bin/qemu-system-{target}-exact"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o755)


def test_a_container_image_has_it_beside_its_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    shutil.copytree(TOOLS, tools)
    monkeypatch.setattr(patched, "build_script", lambda: tools / "build.sh")
    assert patched.folder().parent == tmp_path / "cache/qemu"
    (tools / "built" / patched.digest()).mkdir(parents=True)
    assert patched.folder() == tools / "built" / patched.digest()
    (tools / "devices/aarch64.mak").write_text("# another QEMU than the one that was built\n")
    patched.digest.cache_clear()
    assert patched.folder().parent == tmp_path / "cache/qemu"
    patched.digest.cache_clear()
