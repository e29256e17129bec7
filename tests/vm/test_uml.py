"""The board host-uml: a real boot of User Mode Linux, and its records."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from iotoll.boards.matrix import load_matrix
from iotoll.records import results
from iotoll.records.models import Clock, Section, SideResult, Unit
from tests.vm.conftest import measure, needs_virtual_kernel

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="User Mode Linux is x86-64's alone"),
]
BOARD = "host-uml"
SOFTWARE = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION)


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> SideResult:
    """One boot."""
    needs_virtual_kernel(BOARD)
    run = tmp_path_factory.mktemp("uml") / "run"
    measure(run, BOARD, "--json")
    return results.read(run / "sides/base/result.json", SideResult)


def test_every_cell_is_measured_whole(side: SideResult) -> None:
    assert sorted(side.cells) == sorted(load_matrix("host-uml").cells)
    for name, (record,) in side.cells.items():
        assert record.invalid is None, name
        assert (record.clock, record.unit) == (Clock.TIME, Unit.NANOSECONDS)
        assert record.ios["dropped_lost"] == 0
        assert record.fio_check is not None and record.fio_check.ios_agree, name
        assert record.fio_check.bytes_agree, name


def test_iomaps_events_mark_begin_and_end(side: SideResult) -> None:
    for name, (record,) in side.cells.items():
        ios = record.ios["measured"]
        assert record.marks["start"] == {"iomap_dio_rw_begin": ios}, name
        assert record.marks["end"] == {"iomap_dio_complete": ios}, name
        for section in SOFTWARE:
            median = record.sections[section].own.median
            assert median is not None and median > 0, f"{name} {section}"


def test_the_boot_ran_on_this_cpu_with_nothing_of_the_hosts(side: SideResult) -> None:
    (boot,) = side.boots
    assert boot.accelerator == "none" and not boot.virtual
    assert boot.facts.before["calls"] == "iomap"
    assert boot.facts.before["board"] == BOARD
    assert not [word for word in boot.command if "/" in word or "hostfs" in word]


def test_a_patch_to_other_code_has_cells_of_its_own(tmp_path: Path) -> None:
    """O_SYNC writes and cached reads, io_uring, fsync, and NVMe's core: few I/Os of each."""
    needs_virtual_kernel(BOARD)
    matrix = tmp_path / "few.toml"
    matrix.write_text('extends = "host-uml"\nthreads = [1]\n[fio]\nios_4k = 64\n')
    cells = [
        "ubd-4k-randread-t1-sync",
        "ubd-4k-randwrite-t8-sync",
        "ubd-4k-randwrite-t1-direct-io_uring",
        "ubd-4k-randwrite-t1-fsync",
        "nvmeloop-4k-randwrite-t8-direct",
    ]
    run = tmp_path / "run"
    measure(run, BOARD, "--matrix", str(matrix), "--cells", ",".join(cells), "--json")
    side = results.read(run / "sides/base/result.json", SideResult)
    assert sorted(side.cells) == sorted(cells)
    check_whole(side)
    (record,) = side.cells["nvmeloop-4k-randwrite-t8-direct"]
    assert set(record.marks["interrupt"]) == {"nvme_complete_rq"}


def check_whole(side: SideResult) -> None:
    """Each cell's I/Os are all there, and fio's; their begin and end are of one kind."""
    for name, (record,) in side.cells.items():
        assert record.invalid is None, name
        assert record.ios["dropped_lost"] == 0 and not record.trace["lost_events"], name
        assert record.fio_check is not None and record.fio_check.ios_agree, name
        assert record.fio_check.bytes_agree is not False, name
        # Eight threads may wait for one commit, and nothing shows for whom a block was written.
        assert record.ios["measured"] >= 0.95 * (record.ios["seen"] - record.ios["no_request"])
        assert len(record.marks["start"]) == len(record.marks["end"]) == 1, name
        assert record.sections[Section.SUBMISSION].own.mean, name


@pytest.mark.long
def test_every_disk_has_all_cells_and_two_have_no_completion(tmp_path: Path) -> None:
    """null_blk and scsi_debug end a request in their queue function."""
    needs_virtual_kernel(BOARD)
    measure(tmp_path / "run", BOARD, "--matrix", "host-uml-all", "--json")
    side = results.read(tmp_path / "run/sides/base/result.json", SideResult)
    assert sorted(side.cells) == sorted(load_matrix("host-uml-all").cells)
    check_whole(side)
    for name, (record,) in side.cells.items():
        taken = record.sections[Section.COMPLETION].elapsed.max
        assert (taken == 0) == name.startswith(("nullblk-", "scsidebug-")), name
