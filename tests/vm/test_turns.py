"""Boards with several CPUs: own times hold what a CPU executed itself, and helpers have one CPU."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from iotoll import _native
from iotoll.boards.qemu import TURNS
from tests.vm.conftest import UNCALIBRATED, measure

pytestmark = pytest.mark.vm
BOARD = "virt-arm64-smp4"
TURN = 10_000  # instructions of one CPU's turn (slice_ns)
# Eight threads on four CPUs that wait for four tags: their I/Os overlap.
CELLS = {"nvme": "nvme-4k-randread-t8-direct-tags4", "ufs": "ufs-4k-randread-t8-direct-tags4"}
COMMITS = "emmc-4k-randwrite-t1-sync"


@pytest.fixture(scope="module")
def boot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("turns") / "run"
    words = ("--matrix", UNCALIBRATED, "--cells", ",".join([*CELLS.values(), COMMITS]), "--json")
    measure(run, BOARD, *words)
    return run / "sides/base/boots/1"


def column(boot: Path, device: str, turns: Path | None) -> np.ndarray:
    disks = [line.split() for line in (boot / "boot/devices").read_text().splitlines()]
    disk = next(words[2] for words in disks if words[0] == device)
    (trace,) = boot.glob(f"{device}*/trace.dat")
    found = _native.analyze(str(trace), device=disk, comm="fio", unit="instructions", turns=turns)
    ((_, table),) = found
    values = table["first_vfs_fs"] if device == "nvme" else table["first_submission"]
    return np.array([value for value in values if value is not None])


@pytest.mark.parametrize("device", CELLS)
def test_own_times_leave_out_the_turns_of_other_cpus(boot: Path, device: str) -> None:
    mixed, own = column(boot, device, None), column(boot, device, boot / TURNS)
    assert len(mixed) == len(own) > 200
    assert (own <= mixed).all()
    # 46 % (NVMe) and 62 % (UFS) of the I/Os overlap; how many, the boot's details decide.
    overlap = mixed >= own + TURN
    assert overlap.mean() > 0.4
    assert np.median(mixed[overlap]) > 3 * TURN > 4 * np.median(own[overlap])
    # What an I/O without overlap costs is the same by either count. (Of all I/Os' 5 % only where
    # enough of the cheapest have none: 5,115 and 5,120 on UFS.)
    alone = ~overlap
    assert alone.sum() > 64
    for part in (5, 50):
        assert np.percentile(own[alone], part) == np.percentile(mixed[alone], part)


def test_turns_of_another_boot_are_refused(boot: Path, tmp_path: Path) -> None:
    whole = (boot / TURNS).read_bytes()
    swapped = bytearray(whole)
    swapped[8::16] = bytes((cpu + 1) % 4 for cpu in whole[8::16])
    other, cut = tmp_path / "other.bin", tmp_path / "cut.bin"
    other.write_bytes(swapped)
    cut.write_bytes(whole[:-5])
    with pytest.raises(_native.TraceError, match="does not belong to this trace"):
        column(boot, "nvme", other)
    with pytest.raises(_native.TraceError, match="is cut off"):
        column(boot, "nvme", cut)


def test_the_journals_thread_and_unbound_workers_have_one_cpu(boot: Path) -> None:
    """Left to the scheduler it had CPU 2 in one boot and CPU 0 in the next."""
    trace = boot / "emmc/trace.dat"
    command = ["trace-cmd", "report", "-F", "sched_switch", str(trace)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.findall(r"\[(\d+)\].*==> (jbd2|kworker/u)", told)
    assert sum(name == "jbd2" for _, name in found) > 200, "a commit of each write"
    assert {cpu for cpu, _ in found} == {"003"}
