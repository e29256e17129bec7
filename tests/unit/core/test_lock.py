"""A lock that is waited for, and what is made once behind one."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from iotoll_lab.local import root as lab_root

from iotoll.boards import ramdisk
from iotoll.core.lock import held
from iotoll.core.progress import Progress

HOLD = """
import sys, time
from pathlib import Path
from iotoll.core.lock import held
from iotoll.core.progress import Progress
with held(Path(sys.argv[1]), Progress(quiet=True), ""):
    print("held", flush=True)
    time.sleep(60)
"""


def test_waits_for_the_other_process_and_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "made" / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        got = threading.Event()

        def wait() -> None:
            with held(path, Progress(), "waiting for the other one"):
                got.set()

        thread = threading.Thread(target=wait)
        thread.start()
        assert not got.wait(0.3)
        other.kill()  # the lock ends with its process, however that ends
        thread.join(10)
    assert got.is_set()
    assert "waiting for the other one" in capfd.readouterr().err


def test_two_commands_make_one_board_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[Path] = []

    def build(_arch: str, folder: Path, _contents: ramdisk.Contents) -> None:
        made.append(folder)
        time.sleep(0.2)
        folder.mkdir()
        (folder / "packages").write_text("fio 3\n")
        (folder / "rootfs.cpio.sha256").write_text("00\n")

    monkeypatch.setattr(ramdisk, "_build", build)
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: ramdisk.get_image("arm64", Progress(quiet=True)), range(2))
    assert (one, len(made)) == (two, 1)


def test_two_commands_make_one_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[Path] = []

    def build(folder: Path) -> None:
        made.append(folder)
        time.sleep(0.2)
        folder.mkdir()

    monkeypatch.setattr(lab_root, "_build", build)
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: lab_root.get_root(Progress(quiet=True)), range(2))
    assert (one, made) == (two, [one])
