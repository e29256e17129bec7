"""A real boot of User Mode Linux, where no event tells of system calls, cut into sections."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from iotoll.boards.cells import parse_cell
from iotoll.gate import conclude
from iotoll.measure import boot_trace
from iotoll.records import results
from iotoll.records.models import BootRecord, CellRecord, Section
from iotoll.reports.page import view
from iotoll.run.setup import Setup

FOLDER = Path(__file__).parents[1] / "data/uml"
IOS = 24
SPANS = {
    "ubd-4k-randread-t1-direct": ("iomap_dio_rw_begin", "iomap_dio_complete"),
    "ubd-4k-randread-t1-sync": ("mm_filemap_add_to_page_cache", "mm_filemap_get_pages"),
    "ubd-4k-randwrite-t1-sync": ("ext4_da_write_begin", "ext4_sync_file_exit"),
    "ubd-4k-randwrite-t1-fsync": ("ext4_sync_file_enter", "ext4_sync_file_exit"),
    "ubd-4k-randread-t1-direct-io_uring": ("io_uring_submit_req", "io_uring_complete"),
    "nvmeloop-4k-randread-t1-direct": ("iomap_dio_rw_begin", "iomap_dio_complete"),
}


def analyzed(folder: Path) -> dict[str, CellRecord]:
    return boot_trace.analyze_boot(folder, results.read(folder / "boot.json", BootRecord))[0]


@pytest.fixture(scope="module")
def cells() -> dict[str, CellRecord]:
    return analyzed(FOLDER)


@pytest.mark.parametrize("name", SPANS)
def test_each_kind_of_io_begins_and_ends_with_its_events(
    cells: dict[str, CellRecord], name: str
) -> None:
    record, start, end = cells[name], *SPANS[name]
    # fio does not sync a thread's last write.
    ios = IOS - 1 if parse_cell(name).sync_every else IOS
    assert record.invalid is None
    assert (record.ios["seen"], record.ios["measured"]) == (ios, ios)
    assert record.marks["start"] == {start: ios} and record.marks["end"] == {end: ios}
    assert record.fio_check is not None and record.fio_check.ios_agree
    assert record.fio_check.bytes_agree is (None if parse_cell(name).sync_every else True)
    for section in (Section.VFS_FS, Section.SUBMISSION, Section.RETURN):
        assert record.sections[section].own.mean, section


def test_the_target_is_nvme_loops_device(cells: dict[str, CellRecord]) -> None:
    record = cells["nvmeloop-4k-randread-t1-direct"]
    assert record.marks["device"] == {"block_rq_issue": IOS}
    assert record.marks["interrupt"] == {"nvme_complete_rq": IOS}
    assert [path.path for path in record.paths] == ["R4"]
    assert (record.sections[Section.HARDWARE].elapsed.median or 0) > 1000


def test_a_write_that_waits_has_the_requests_of_its_sync(cells: dict[str, CellRecord]) -> None:
    paths = {path.path: path.ios for path in cells["ubd-4k-randwrite-t1-sync"].paths}
    assert sum(paths.values()) == IOS
    assert all(path.startswith("WS4+") and "FF" in path for path in paths), paths


def test_a_number_of_ios_that_fio_did_not_do_makes_a_cell_invalid(tmp_path: Path) -> None:
    """Of calls, of entries, and of fsyncs, which fio counts beside the writes."""
    folder = Path(shutil.copytree(FOLDER, tmp_path / "boot"))
    for path in folder.glob("*/fio.json"):
        data = json.loads(path.read_text())
        for job in data["jobs"]:
            for side in (job["read"], job["write"], job["sync"]):
                side["total_ios"] += 1 if side["total_ios"] else 0
        path.write_text(json.dumps(data, indent=1))
    found = analyzed(folder)
    assert set(found) == set(SPANS)
    for name, record in found.items():
        assert "I/Os, the trace has" in (record.invalid or ""), name


def test_without_what_says_that_no_event_tells_of_calls_there_is_no_io(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "boot"))
    boot = json.loads((folder / "boot.json").read_text())
    del boot["facts"]["before"]["calls"]
    (folder / "boot.json").write_text(json.dumps(boot))
    found = analyzed(folder)
    # An entry of io_uring is one anywhere.
    assert {name for name, record in found.items() if record.ios["seen"]} == {
        "ubd-4k-randread-t1-direct-io_uring"
    }


def test_a_completion_that_no_event_begins_has_no_value(cells: dict[str, CellRecord]) -> None:
    """null_blk and scsi_debug end a request in their queue function."""
    record = cells["ubd-4k-randread-t1-direct"]
    assert view.figures([record], Section.COMPLETION).raw
    unmarked = record.model_copy(
        update={"marks": {**record.marks, "interrupt": {"none": record.ios["measured"]}}}
    )
    assert view.figures([unmarked], Section.COMPLETION) == view.SectionFigures()
    assert view.figures([unmarked], Section.SUBMISSION).raw


def test_a_verdict_says_between_which_events_ios_lie(cells: dict[str, CellRecord]) -> None:
    result = SimpleNamespace(cells={name: [record] for name, record in cells.items()})
    said = conclude._shortened(cast(Setup, SimpleNamespace(result=lambda side: result)))
    for name, (start, end) in SPANS.items():
        assert f"{start} to {end} (" in said and name in said
    empty = SimpleNamespace(result=lambda side: SimpleNamespace(cells={}))
    assert conclude._shortened(cast(Setup, empty)) == ""
