"""``--runner ssh`` with a real sshd, kexec and kernels: a QEMU guest is the developer's board."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotoll.core.progress import Progress
from iotoll.kernels import kernel_job, source
from iotoll.records import results
from iotoll.records.models import BootRecord, SideResult
from iotoll.records.rundir import RunDir
from tests.vm.conftest import LIMIT, command, environment, may_use, needs_board, succeed
from tests.vm.ssh_guest import FRAGMENTS, Guest, board_file

pytestmark = [pytest.mark.vm, pytest.mark.long]
CELL = "ufs-4k-randread-t1-direct"
BEGUN = "iotoll begins "
"""In the kernel's log when the workload begins (lava-jobs/desk/inside.sh)."""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    """What every command asks for; skips where the guest's kernel is not built."""
    needs_board("virt-arm64-stock")
    record = source.base_of("debian", None, Progress(quiet=True))
    if not may_use(kernel_job.KernelJob.make(record, "arm64", FRAGMENTS)):
        pytest.skip("the kernel of the ssh guest is not built, which takes minutes: BUILD_ALL=1")
    folder = tmp_path_factory.mktemp("board")
    matrix = folder / "uncalibrated.toml"
    matrix.write_text('extends = "ufs"\ncalibrate = false\n')
    words: list[str | Path] = ["--board", board_file(folder), "--runner", "ssh"]
    return [*words, "--matrix", matrix, "--cells", CELL]


@pytest.fixture(scope="module")
def guest(words: list[str | Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    folder = tmp_path_factory.mktemp("guest")
    first = Guest(folder, folder / "built/sides/base/build/Image")
    desk = first.desk(boot="kexec")
    succeed("measure", *words, "--lab", desk, "--until", "build", "--out", folder / "built")
    with first:
        yield first


Meanwhile = Callable[[threading.Event], object]
"""Runs beside a command; the event says that this has ended."""


def measured(
    words: list[str | Path], desk: Path, out: Path, meanwhile: Meanwhile = threading.Event.wait
) -> tuple[subprocess.CompletedProcess[str], BootRecord | None]:
    """Measure by ssh while something happens; the command, and the record of its boot if any."""
    is_over = threading.Event()
    other = threading.Thread(target=meanwhile, args=(is_over,))
    other.start()
    try:
        done = subprocess.run(
            command("measure", *words, "--lab", desk, "--out", out),
            env=environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    finally:
        is_over.set()
        other.join()
    path = RunDir.open(out).boot("base", 1) / "boot.json"
    return done, results.read(path, BootRecord) if path.is_file() else None


def when_begun(guest: Guest, then: Callable[[], None]) -> Meanwhile:
    """Do something while the workload runs; nothing where that does not begin."""

    def wait(is_over: threading.Event) -> None:
        before = guest.console().count(BEGUN)
        while guest.console().count(BEGUN) == before:
            if is_over.wait(0.2):
                return
        then()

    return wait


def test_a_kernel_is_started_and_measured(
    words: list[str | Path], guest: Guest, tmp_path: Path
) -> None:
    desk = guest.desk(boot="kexec", ramdisk=str(guest.ramdisk), poll_seconds=1, boot_seconds=600)
    done, record = measured(words, desk, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert record is not None and record.command == ["ssh", "kexec"] and record.virtual
    side = results.read(tmp_path / "run/sides/base/result.json", SideResult)
    (cell,) = side.cells[CELL]
    assert cell.invalid is None and cell.ios["clean"] > 0


def test_a_line_that_is_cut_during_the_workload_costs_nothing(
    words: list[str | Path], guest: Guest, tmp_path: Path
) -> None:
    def cut() -> None:
        guest.line.cut()
        time.sleep(10)
        guest.line.mend()

    desk = guest.desk(boot="kexec", ramdisk=str(guest.ramdisk), poll_seconds=1, boot_seconds=600)
    done, record = measured(words, desk, tmp_path / "run", when_begun(guest, cut))
    assert done.returncode == 0, done.stderr
    assert record is not None and record.died == []


def test_a_board_whose_power_fails_is_tried_once_more(
    words: list[str | Path], guest: Guest, tmp_path: Path
) -> None:
    desk = guest.desk(boot="kexec", ramdisk=str(guest.ramdisk), poll_seconds=1, boot_seconds=600)
    done, record = measured(words, desk, tmp_path / "run", when_begun(guest, guest.start))
    assert done.returncode == 0, done.stderr
    assert record is not None
    (first,) = record.died
    assert "the board rebooted" in first


def test_a_board_that_is_gone_is_infrastructure(
    words: list[str | Path], guest: Guest, tmp_path: Path
) -> None:
    guest.line.cut()
    try:
        done, record = measured(words, guest.desk(boot="kexec"), tmp_path / "run")
    finally:
        guest.line.mend()
    assert (done.returncode, record) == (4, None)
    assert "cannot be reached" in done.stderr
