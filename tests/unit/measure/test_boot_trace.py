"""From what a board handed over to figures: real boots, and all that can be wrong with them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from iotoll.core.errors import InfrastructureError
from iotoll.measure import boot_trace
from iotoll.measure.io_order import GATE_COLUMNS
from iotoll.records import results
from iotoll.records.models import BootRecord, CellRecord, Section
from tests.unit.runs import BOOTS, CELLS

DIRECT = CELLS[0]


@pytest.fixture(scope="module")
def figures() -> tuple[dict[str, CellRecord], dict[str, float]]:
    return boot_trace.analyze_boot(BOOTS / "base", boot_record(BOOTS / "base"))


def boot_record(folder: Path) -> BootRecord:
    return results.read(folder / "boot.json", BootRecord)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a real boot, to damage."""
    return Path(shutil.copytree(BOOTS / "candidate", tmp_path / "boot"))


@pytest.mark.parametrize("data", [b"", b"ufs\n", b"ufs /dev/sda \xff\xfe:0\n"])
def test_disks_that_the_board_did_not_name(folder: Path, data: bytes) -> None:
    (path,) = folder.glob("**/devices")
    path.write_bytes(data)
    with pytest.raises(InfrastructureError, match="the board did not say which disk"):
        boot_trace.analyze_boot(folder, boot_record(folder))


def edit_fio(folder: Path, change: Callable[[dict[str, object]], None], cell: str = DIRECT) -> None:
    path = folder / "ufs/fio.json"
    text = path.read_text()
    start = text.index("{\n")
    data = json.loads(text[start:])
    change(next(job for job in data["jobs"] if job["jobname"] == cell))
    path.write_text(text[:start] + json.dumps(data, indent=1))


def test_every_cell_has_its_figures(
    figures: tuple[dict[str, CellRecord], dict[str, float]],
) -> None:
    cells, _ = figures
    assert list(cells) == CELLS
    for record in cells.values():
        assert record.invalid is None
        assert record.ios["seen"] >= record.fio["ios"] == 256
        assert record.device["driver"] == "ufs" if "driver" in record.device else True
        assert set(record.gate) == set(GATE_COLUMNS)
        assert all(len(counts) >= 250 for counts in record.gate.values())
    direct = cells[DIRECT].sections
    assert 3000 < (direct[Section.VFS_FS].own.median or 0) < 3500
    assert 5000 < (direct[Section.SUBMISSION].own.median or 0) < 5500
    assert 2000 < (direct[Section.COMPLETION].own.median or 0) < 2500


def test_events_are_calibrated(
    figures: tuple[dict[str, CellRecord], dict[str, float]],
) -> None:
    cells, costs = figures
    assert {"block_bio_queue", "block_rq_issue", "ufshcd_command", "queue_rq_return"} <= set(costs)
    assert all(400 < cost < 1000 for name, cost in costs.items() if name != "queue_rq_return")
    part = boot_trace.corrected(cells[DIRECT], costs).sections[Section.SUBMISSION]
    assert part.corrected_median is not None
    assert part.own.median is not None
    assert 0 < part.corrected_median < part.own.median - 1000


def test_f2_8_no_corrected_median_is_below_zero(
    figures: tuple[dict[str, CellRecord], dict[str, float]],
) -> None:
    cells, costs = figures
    high = dict.fromkeys(costs, 1e9)
    for record in cells.values():
        found = boot_trace.corrected(record, high).sections
        for section, part in record.sections.items():
            expected = part.own.median if not part.probe_events else None
            assert found[section].corrected_median == expected


def test_without_costs_nothing_is_corrected(
    figures: tuple[dict[str, CellRecord], dict[str, float]],
) -> None:
    record = figures[0][DIRECT]
    assert boot_trace.corrected(record, {}) == record


def test_cost_of_an_event_that_never_fired() -> None:
    costs = {"irq_handler_exit": 500.0, "sched_switch": 600.0, "block_rq_issue": 700.0}
    assert boot_trace.cost_of("sched_switch", costs) == 600
    assert boot_trace.cost_of("irq_handler_entry", costs) == 500, "a kin event's"
    assert boot_trace.cost_of("sys_enter_pread64", costs) == 600, "the median"


def test_two_boots_of_one_kernel_agree(
    figures: tuple[dict[str, CellRecord], dict[str, float]],
) -> None:
    other, costs = boot_trace.analyze_boot(BOOTS / "candidate", boot_record(BOOTS / "candidate"))
    assert costs == {}, "no calibration batch, no costs"
    for name, record in figures[0].items():
        for section in (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION):
            assert (
                record.sections[section].first.median == other[name].sections[section].first.median
            )


def test_windows_follow_the_markers() -> None:
    found = boot_trace.BootTraceFile(BOOTS / "base/ufs/trace.dat").windows
    assert [w.name for w in found][:2] == CELLS
    assert found[0].end == found[1].start
    assert found[-1].end == 2**63


@pytest.mark.parametrize("size", [0, 5, 40, 3000, 30_000, -4000])
def test_truncated_trace_is_named(folder: Path, size: int) -> None:
    trace = folder / "ufs/trace.dat"
    trace.write_bytes(trace.read_bytes()[:size])
    with pytest.raises(InfrastructureError, match=r"corrupt trace: .*ufs/trace\.dat"):
        boot_trace.analyze_boot(folder, boot_record(folder))


def test_trace_that_ends_early_misses_its_cells(folder: Path) -> None:
    record = boot_record(folder).model_copy(
        update={"cells": [*CELLS, "nvme-4k-randread-t1-direct"]}
    )
    with pytest.raises(InfrastructureError, match="no trace of nvme-4k-randread-t1-direct"):
        boot_trace.analyze_boot(folder, record)


@pytest.mark.parametrize(
    "text",
    ["", "fio: no JSON here\n", '{\n "jobs": [', '{\n "jobs": [{}]}', "{\n}"],
)
def test_corrupt_fio_result_is_named(folder: Path, text: str) -> None:
    (folder / "ufs/fio.json").write_text(text)
    with pytest.raises(InfrastructureError, match=r"ufs/fio\.json: not fio's JSON"):
        boot_trace.analyze_boot(folder, boot_record(folder))


def test_fio_result_that_is_missing_is_named(folder: Path) -> None:
    (folder / "ufs/fio.json").unlink()
    with pytest.raises(InfrastructureError, match=r"ufs/fio\.json"):
        boot_trace.analyze_boot(folder, boot_record(folder))


@pytest.mark.parametrize("text", ["", "ufs\n", "nvme /dev/nvme0n1 259:0\n"])
def test_board_that_does_not_name_its_disks(folder: Path, text: str) -> None:
    (folder / "boot/devices").write_text(text)
    with pytest.raises(InfrastructureError, match="did not say which disk"):
        boot_trace.analyze_boot(folder, boot_record(folder))


def test_fio_error_makes_the_cell_invalid(folder: Path) -> None:
    edit_fio(folder, lambda job: job.update(error=5))
    cells, _ = boot_trace.analyze_boot(folder, boot_record(folder))
    assert cells[DIRECT].invalid == "fio reported error 5"
    assert cells[CELLS[1]].invalid is None


def test_missing_ios_make_the_cell_invalid(folder: Path) -> None:
    def more(job: dict[str, object]) -> None:
        assert isinstance(job["read"], dict)
        job["read"]["total_ios"] = 4000

    edit_fio(folder, more)
    cells, _ = boot_trace.analyze_boot(folder, boot_record(folder))
    assert cells[DIRECT].invalid == "fio did 4000 I/Os, the trace has 256"


def test_no_io_at_the_device_makes_the_cell_invalid(folder: Path) -> None:
    (folder / "boot/devices").write_text("ufs /dev/sdz 65:0\n")
    cells, _ = boot_trace.analyze_boot(folder, boot_record(folder))
    assert cells[DIRECT].invalid == "no I/O reached the device"


def test_analysis_repeats_bit_for_bit(
    figures: tuple[dict[str, CellRecord], dict[str, float]],
) -> None:
    again = boot_trace.analyze_boot(BOOTS / "base", boot_record(BOOTS / "base"))
    assert again == figures


def test_raw_cells_are_on_the_second_disk() -> None:
    """Of a poll family's raw cell `iotoll explain` found no trace: it looked at the first disk."""
    names = {
        "nvme-4k-randwrite-t1-direct-io_uring-poll-raw": "nvme2",
        "ufs-4k-randtrim-t1-direct": "ufs2",
        "ufs-4k-randread-t8-direct-dev2": "ufs",
        "calibration-nvme-block_rq_issue": "nvme",
    }
    found = {name: boot_trace.disk_of(boot_trace.Window(name, 0, 1)) for name in names}
    assert found == names
