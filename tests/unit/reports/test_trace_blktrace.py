"""``iotoll analyze`` of raw blktrace files: what they tell, and that they do not tell the rest."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

from iotoll.core.errors import UsageError
from iotoll.records.models import CellRecord, Clock, Section
from iotoll.reports.trace.filters import Filters
from iotoll.reports.trace.reader import TraceCell, load
from tests.unit.analyzing import refused, run

RUNS = Path(__file__).parents[2] / "trace/data/blktrace"
NAMES = sorted({path.name.partition(".blktrace.")[0] for path in RUNS.glob("*.blktrace.0")})
SCSI = RUNS / "scsi-6.12"
NONE = "\N{EN DASH}"
UNSEEN = {Section.VFS_FS, Section.COMPLETION, Section.RETURN}
ABSENT = ("own_", "first_", "clean", "interrupt_mark", *(f"elapsed_{s.value}" for s in UNSEEN))


def only(path: Path = SCSI, **filters: object) -> TraceCell:
    (cell,) = load(path, Clock.TIME, Filters(**filters))  # type: ignore[arg-type]
    return cell


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_named_by_itself_or_one_of_its_files(name: str) -> None:
    found = [only(RUNS / f"{name}{end}") for end in ("", ".blktrace.0", ".blktrace.1")]
    assert found[0].record.cell == name and len(found[0].table) > 0
    for other in found[1:]:
        assert other.record == found[0].record


@pytest.mark.parametrize("name", NAMES)
def test_what_it_cannot_tell_is_absent_and_never_zero(name: str) -> None:
    cell = only(RUNS / name)
    record, table = cell.record, cell.table
    assert set(record.not_in_source) == UNSEEN
    assert set(record.sections) == set(table.sections) == set(Section) - UNSEEN
    assert not any(column.startswith(ABSENT) for column in table.columns)
    assert record.overhead.elapsed.count == record.total.own.count == 0
    assert "clean" not in record.ios and record.marks["interrupt"] == {}
    assert record.total.elapsed.count == len(table) == record.ios["measured"]
    assert (table["end"] == table["start"] + table.duration).all()
    assert {step.section for step in record.steps} <= set(table.sections)
    for part in record.paths:
        assert part.clean is None and set(part.sections) == set(table.sections)


def test_the_table_says_so() -> None:
    text = " ".join(run(SCSI).stdout.replace("\xa0", " ").split())
    assert (
        "3 hardware + completion" in text and f"1 vfs_fs {NONE} {NONE} {NONE} {NONE} 2 sub" in text
    )
    assert "not in this source vfs_fs, return (blktrace sees no system calls); completion" in text
    assert "Executed for the I/O itself" not in text and "clean" not in text


def test_all_outputs_of_one_call_hold_the_same_ios(tmp_path: Path) -> None:
    out = [f"--{kind}={tmp_path / kind}" for kind in ("parquet", "perfetto", "svg")]
    found = run(SCSI, "--comm", "fio", "--min-size", "4097", "--slowest", 3, "--json", *out)
    (data,) = json.loads(found.stdout)
    record = CellRecord.model_validate(data)
    rows = pl.read_parquet(tmp_path / "parquet")
    assert 0 < record.ios["selected"] == len(rows) < record.ios["measured"]
    assert rows["bytes"].min() > 4096 and set(rows["task"]) == {"fio"}  # type: ignore[operator]
    assert not any(name.startswith(ABSENT) for name in rows.columns)
    trace = pb.Trace()
    trace.ParseFromString((tmp_path / "perfetto").read_bytes())
    names = {n.name for p in trace.packet for n in p.interned_data.event_names}
    assert {"submission", "hardware + completion"} <= names
    assert not names & {s.value for s in (*UNSEEN, Section.HARDWARE)}
    for kind in ("cdf", "timeline"):
        drawn = (tmp_path / "svg" / f"scsi-6.12-{kind}.svg").read_text()
        assert "hardware + completion" in drawn and "vfs_fs" not in drawn
    for slow in record.slowest:
        assert set(slow.elapsed) == set(Section) - UNSEEN
        assert sum(slow.elapsed.values()) == slow.duration
        first, last = slow.events[0], slow.events[-1]
        assert (first.event, first.at) == ("queue", 0)
        assert (last.event, last.at) == ("complete", slow.duration)
        assert any(event.event == "issue" for event in slow.events)


def test_filters() -> None:
    whole = only()
    task = {pid for pid in whole.table["pid"].tolist() if whole.task(pid) == "fio"}
    assert len(only(comm="fio").table) == len(only(pids=tuple(task)).table) > 0
    assert len(only(comm="nobody").table) == 0
    kinds = Counter(whole.table["direction"].tolist())
    assert kinds["read"] > 50 < kinds["write"]
    for direction, count in kinds.items():
        assert len(only(directions=(direction,)).table) == count
    assert len(only(device="8:0").table) == len(whole.table)
    with pytest.raises(UsageError, match="9:9: no request or bio"):
        only(device="9:9")
    halves = [only(window=window).table for window in (("0", "+1.5"), ("+1.5", "1e9"))]
    assert all(0 < len(half) < len(whole.table) for half in halves)
    assert halves[0]["end"].max() < halves[1]["start"].min()


def test_lost_events_are_counted() -> None:
    record = only(RUNS / "dropped-7.3").record
    assert record.trace["lost_events"] == 13
    assert "! 13 trace events lost" in run(RUNS / "dropped-7.3").stdout.replace("\xa0", " ")


def copy(folder: Path) -> Path:
    for cpu in (0, 1):
        shutil.copy(f"{SCSI}.blktrace.{cpu}", folder / f"run.blktrace.{cpu}")
    return folder / "run"


def test_missing_files_are_named(tmp_path: Path) -> None:
    path = copy(tmp_path)
    assert refused(tmp_path / "other").startswith(f"{tmp_path}/other: no such file, nor one of")
    (tmp_path / "run.blktrace.0").rename(tmp_path / "run.blktrace.3")
    message = "has no file of CPU 0, and some up to CPU 3; get it, or make it an empty file"
    assert f"{path}: {message}" in refused(path)
    for cpu in (0, 2):
        (tmp_path / f"run.blktrace.{cpu}").touch()
    record = only(path).record
    assert record.trace["cpus"] == 4 and record.ios == only().record.ios


def test_bad_files_are_named(tmp_path: Path) -> None:
    path = copy(tmp_path)
    bad = tmp_path / "run.blktrace.1"
    whole = bad.read_bytes()
    bad.write_bytes(whole[:-100])
    assert only(path).record.trace["lost_ranges"] == 1
    bad.write_bytes(b"hello" * 20)
    record = only(path).record
    assert record.ios["dropped_lost"] == record.ios["seen"] > 0, "that CPU may have done anything"
    assert record.invalid is not None
    (tmp_path / "run.blktrace.0").write_bytes(b"")
    assert f"{bad}: is not a raw blktrace file" in refused(path)
    bad.write_bytes(bytes([9, *whole[1:]]))
    assert f"{bad}: has version 9 of the format, and 7 and 8 are known" in refused(path)
    bad.unlink()
    bad.mkdir()
    assert str(bad) in refused(path)


def test_fio_needs_system_calls(tmp_path: Path) -> None:
    (tmp_path / "fio.json").write_text("{}")
    assert "which records no system calls" in refused(SCSI, "--fio", tmp_path / "fio.json")
