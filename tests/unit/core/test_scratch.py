"""Scratch folders: gone at the end, and after a kill with the next one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from iotoll.core.scratch import scratch, sweep


def test_g3_11_a_killed_process_leaves_nothing_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    program = (
        "import os, signal; from iotoll.core.scratch import scratch\n"
        "with scratch() as folder:\n"
        "    (folder / 'image').write_text('large'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -9 and len(list(tmp_path.iterdir())) == 1
    with scratch() as one:
        assert list(tmp_path.iterdir()) == [one]
        with scratch() as other:
            assert {one, other} == set(tmp_path.iterdir()), "one that is in use stays"
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_locked_yet_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    made = Path.rename

    def swept(path: Path, target: Path) -> Path:
        sweep()  # another process's, between the folder's making and its lock's name
        return made(path, target)

    monkeypatch.setattr(Path, "rename", swept)
    with scratch() as folder:
        assert folder.is_dir()
