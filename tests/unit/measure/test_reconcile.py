"""Real boots against fio's own JSON, as it was and tampered with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from iotoll import _native
from iotoll.core.errors import InfrastructureError
from iotoll.measure import boot_trace
from iotoll.measure.fio import FioJob, Latency, read_jobs
from iotoll.measure.fio_choice import Calls, choice
from iotoll.measure.fio_words import fio_lines, fio_warnings
from iotoll.measure.iotable import from_native
from iotoll.measure.reconcile import TOLERANCES, reconcile
from iotoll.records import results
from iotoll.records.models import BootRecord, CellRecord, Clock
from tests.unit.runs import BOOTS, CELLS
from tests.unit.tables import full, raw

DIRECT = CELLS[0]
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BOOTS / "base", tmp_path / "boot"))


def measured(folder: Path, change: Change | None = None, **boot: object) -> CellRecord:
    """The first cell of a boot whose fio job was changed before."""
    path = folder / "ufs/fio.json"
    text = path.read_text()
    start = text.index("{\n")
    data = json.loads(text[start:])
    job = next(job for job in data["jobs"] if job["jobname"] == DIRECT)
    if change:
        change(job)
    path.write_text(text[:start] + json.dumps(data, indent=1))
    record = results.read(folder / "boot.json", BootRecord).model_copy(update=boot)
    cells, _ = boot_trace.analyze_boot(folder, record)
    return cells[DIRECT]


def measure(
    file: boot_trace.BootTraceFile, windows: list[boot_trace.Window]
) -> list[boot_trace.Measured]:
    return [*boot_trace.measure(file, windows, Clock.INSTRUCTIONS, device="8:0", comm="fio")]


def test_a_real_boot_agrees(folder: Path) -> None:
    record = measured(folder)
    check = record.fio_check
    assert check is not None and check.agrees and check.bytes_agree
    assert check.ios_in_trace == record.fio["ios"] == 256
    found = {f.figure: f for f in check.figures}
    assert set(found) == {"clat mean", "clat p50", "clat p99", "lat mean"}
    assert 1_000 < found["clat mean"].difference < 4_000
    assert check.not_compared == ["lat p50: not in fio's JSON", "lat p99: not in fio's JSON"]
    assert record.invalid is None and fio_warnings(record) == []


def slower(job: dict[str, Any]) -> None:
    job["read"]["clat_ns"]["mean"] += 20_000


def faster(job: dict[str, Any]) -> None:
    job["read"]["lat_ns"]["mean"] -= 5_000


def other_tail(job: dict[str, Any]) -> None:
    part = job["read"]["clat_ns"]
    del part["bins"]
    part["percentile"]["99.000000"] = int(part["percentile"]["99.000000"] * 1.03)


@pytest.mark.parametrize(
    ("change", "figure"), [(slower, "clat mean"), (faster, "lat mean"), (other_tail, "clat p99")]
)
def test_a_tampered_latency_is_a_warning(folder: Path, change: Change, figure: str) -> None:
    record = measured(folder, change)
    assert record.fio_check is not None and not record.fio_check.agrees
    assert [f.figure for f in record.fio_check.figures if not f.agrees] == [figure]
    assert record.invalid is None, "the figures are usable, and the reader is warned"
    (warning,) = fio_warnings(record)
    assert warning.startswith(f"fio disagrees: {figure} ") and "(allowed " in warning


@pytest.mark.parametrize("more", [1, -1])
def test_another_number_of_ios_makes_the_cell_invalid(folder: Path, more: int) -> None:
    def change(job: dict[str, Any]) -> None:
        job["read"]["total_ios"] += more

    record = measured(folder, change)
    assert record.invalid == f"fio did {256 + more} I/Os, the trace has 256"
    assert record.fio_check is not None and record.fio_check.figures == []


def test_other_bytes_are_a_warning(folder: Path) -> None:
    def change(job: dict[str, Any]) -> None:
        job["read"]["io_bytes"] -= 512

    record = measured(folder, change)
    assert record.fio_check is not None and record.fio_check.bytes_agree is False
    assert fio_warnings(record) == ["fio disagrees: the numbers of bytes differ"]


@pytest.mark.parametrize("value", [10**400, float("inf"), float("nan"), -1, "many", None, [1]])
def test_f6_6_numbers_that_no_fio_prints_are_refused(folder: Path, value: Any) -> None:
    """FINDINGS F6.6: 10**400 I/Os ended in a traceback, in the reader and in the report."""

    def ios(job: dict[str, Any]) -> None:
        job["read"]["total_ios"] = value

    def mean(job: dict[str, Any]) -> None:
        job["read"]["clat_ns"]["mean"] = value

    for change in (ios, mean):
        with pytest.raises(InfrastructureError, match="not fio's JSON: "):
            measured(folder, change)
    with pytest.raises(ValidationError, match="fio"):
        CellRecord.model_validate({"fio": {"ios": value}})


def test_missing_percentiles_and_latencies_are_said(folder: Path) -> None:
    def change(job: dict[str, Any]) -> None:
        del job["read"]["clat_ns"]["percentile"], job["read"]["clat_ns"]["bins"]
        del job["read"]["lat_ns"]

    check = measured(folder, change).fio_check
    assert check is not None and check.agrees
    assert [f.figure for f in check.figures] == ["clat mean"]
    assert check.not_compared == [
        "clat p50: not in fio's JSON",
        "clat p99: not in fio's JSON",
        "lat: not in fio's JSON",
    ]


def test_times_of_a_virtual_board_are_not_compared(folder: Path) -> None:
    check = measured(folder, clock=Clock.TIME).fio_check
    assert check is not None and check.agrees and check.figures == []
    assert check.not_compared == ["latencies: times of a virtual board are a smoke test"]


def test_percentiles_of_bins_are_those_that_fio_prints() -> None:
    for job in read_jobs(BOOTS / "base/ufs/fio.json").values():
        text = (BOOTS / "base/ufs/fio.json").read_text()
        data = json.loads(text[text.index("{\n") :])
        (own,) = [j for j in data["jobs"] if j["jobname"] == job.name]
        printed = own["read"]["clat_ns"]["percentile"]
        assert job.clat is not None
        assert job.clat.percentiles == {float(p): v for p, v in printed.items()}


def job(**changes: Any) -> FioJob:
    values: dict[str, Any] = {
        "name": "x",
        "ios": 3,
        "bytes": 12288,
        "error": 0,
        "slat": None,
        "clat": None,
        "lat": None,
    }
    return FioJob(**{**values, **changes})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bs": "4k"}, "pread64 and pwrite64 of 4,096 bytes"),
        ({"ioengine": "sync", "bs": "4k,64k"}, "read and write of 4,096 to 65,536 bytes"),
        ({"ioengine": "pvsync2", "bsrange": "512-1M"}, "preadv2 and pwritev2 of 512 to 1,048,576"),
        ({"ioengine": "vsync", "bssplit": "4k/60:64kb/40"}, "readv and writev of 4,096 to 65,536"),
        ({"ioengine": "psync", "bs": "huge"}, "pread64 and pwrite64"),
        ({"ioengine": "psync", "bs": "4k", "kb_base": "1000"}, "pread64 and pwrite64"),
        ({"ioengine": "libaio", "bs": "4k"}, "io_submit"),
        ({"ioengine": "mmap"}, "page faults"),
        ({"ioengine": "rados", "bs": "4k"}, "None"),
        ({}, "None"),
    ],
)
def test_f2_4_what_fio_did_is_told_by_its_options(options: dict[str, str], said: str) -> None:
    assert str(choice(job(options=options))).startswith(said)


def test_f2_4_jobs_of_one_name_are_one_job(tmp_path: Path) -> None:
    """Without group_reporting each of ``numjobs`` has an entry: the last one alone was taken."""
    text = (BOOTS / "base/ufs/fio.json").read_text()
    data = json.loads(text[text.index("{\n") :])
    (first,) = [j for j in data["jobs"] if j["jobname"] == DIRECT]
    path = tmp_path / "fio.json"
    path.write_text(json.dumps({"global options": {"bs": "4k"}, "jobs": [first, first]}, indent=1))
    (found,) = read_jobs(path).values()
    assert (found.ios, found.options["bs"]) == (512, "4k")
    assert found.clat is not None and found.clat.count == 512


def test_asynchronous_ios_are_compared_until_they_are_reaped() -> None:
    table = {name: values[:3] for name, values in full().items()}
    table["kind"] = ["io_uring"] * 3
    table["reaped"] = [end + 500 for end in table["end"]]
    table["bytes"] = [4096] * 3
    durations = [r - s for r, s in zip(table["reaped"], table["start"], strict=True)]
    mean = sum(durations) / 3
    latency = Latency(3, mean + 2_000, {})
    check = reconcile(
        job(clat=latency, lat=latency),
        None,
        from_native(table),
        3,
        TOLERANCES[Clock.INSTRUCTIONS],
    )
    (figure,) = check.figures
    assert (figure.figure, figure.difference) == ("lat mean", 2_000)
    assert any(note.startswith("clat and slat: ") for note in check.not_compared)


def test_ios_without_figures_are_said() -> None:
    table = from_native({name: values[:2] for name, values in raw().items()})
    check = reconcile(job(), None, table, 3, TOLERANCES[Clock.TIME])
    assert check.not_compared == ["latencies and bytes: 1 of 3 I/Os have no values"]
    assert check.agrees and check.bytes_agree is None


def test_calls_that_the_page_cache_served_are_timed_too() -> None:
    table = from_native({name: values[:2] for name, values in raw().items()})
    durations = [*table.duration.tolist(), 400]
    latency = Latency(3, sum(durations) / 3 + 50_000, {50.0: sorted(durations)[1] + 50_000.0})
    asked = job(clat=latency, bytes=int(table["bytes"].sum()) + 4096)
    values = (int(table["start"][1]) + 1, 400, 4096)
    start, duration, returned = (np.array([v], np.int64) for v in values)
    more = Calls(np.array(["pread64"], np.object_), start, duration, returned)
    allowed = TOLERANCES[Clock.INSTRUCTIONS]
    check = reconcile(asked, None, table, 3, allowed, lambda: more)
    assert check.agrees and check.bytes_agree
    assert [f.figure for f in check.figures] == ["clat mean", "clat p50"]
    whole = from_native({name: values[:3] for name, values in raw().items()})
    late = Latency(3, float(whole.duration.mean()) + 50_000, {})
    asked = job(clat=late, bytes=int(whole["bytes"].sum()))
    assert not reconcile(asked, None, whole, 3, allowed).agrees, "these slept: less is allowed"


def test_the_calls_of_a_real_cell_are_its_ios(folder: Path) -> None:
    file = boot_trace.BootTraceFile(folder / "ufs/trace.dat")
    window = file.windows[1]
    (measured_cell,) = measure(file, [window])
    table = measured_cell.table
    calls = [c for c in _native.calls(str(file.path)) if window.start <= c[2] <= window.end]
    wanted = zip(*(table[c].tolist() for c in ("pid", "start")), table.end.tolist(), strict=True)
    assert {c[0] for c in calls} == {"pread64"}
    assert sorted(c[1:4] for c in calls) == sorted(wanted)
    assert sum(c[4] for c in calls) == table["bytes"].sum()
    half = replace(measured_cell, table=table.take(np.arange(0, len(table), 2)))
    jobs = read_jobs(folder / "ufs/fio.json")
    record = boot_trace.make_record(half, jobs, Clock.INSTRUCTIONS, "0" * 64)
    assert record.fio_check is not None and record.fio_check.agrees
    assert len(record.fio_check.figures) == 4


def test_the_markers_own_io_may_be_cached_or_not(folder: Path) -> None:
    record = measured(folder)
    assert record.ios["measured"] == 257, "here the marker's read went to the disk"
    jobs = read_jobs(folder / "ufs/fio.json")
    file = boot_trace.BootTraceFile(folder / "ufs/trace.dat")
    table = measure(file, file.windows)[0].table
    cached = table.take(np.arange(1, len(table)))
    for rows in (table, cached):
        allowed = TOLERANCES[Clock.INSTRUCTIONS]
        check = reconcile(jobs[DIRECT], jobs[f"mark-{DIRECT}"], rows, 257, allowed)
        assert check.agrees and len(check.figures) == 4


def test_lines_tell_both_sides(folder: Path) -> None:
    lines = fio_lines(measured(folder))
    assert all(agrees for agrees, _ in lines)
    assert lines[0][1].replace("\xa0", " ") == "agrees: 256 I/Os and all bytes"
    assert "clat mean 92,645,966, +1,47" in lines[1][1]


@pytest.mark.parametrize("ios", [None, "many", [], float("inf")])
def test_f6_6_a_damaged_record_without_fios_number_is_no_bug_of_ours(
    folder: Path, ios: object
) -> None:
    record = measured(folder)
    fio = {**record.fio, "ios": ios} if ios is not None else {}
    lines = fio_lines(record.model_copy(update={"fio": fio}))
    assert lines[0] == (False, "disagrees: fio's own number of I/Os is not known")
