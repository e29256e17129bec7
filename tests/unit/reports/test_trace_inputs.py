"""`iotoll analyze` with other clocks, with fio's jobs, and of two traces."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from iotoll.records.models import Clock
from iotoll.reports.trace.filters import Filters
from iotoll.reports.trace.reader import load
from tests.trace.test_formats import with_clock
from tests.unit.analyzing import refused, run
from tests.unit.tables import READ, SYNC8


def fio_of(trace: Path, jobs: int, folder: Path) -> Path:
    """fio's JSON of a run of so many jobs of other names, which did what the trace shows."""
    (cell,) = load(trace, Clock.TIME, Filters(comm="fio"))
    durations = cell.table.duration.tolist()
    sizes = cell.table["bytes"].tolist()
    found: list[dict[str, Any]] = []
    for job in range(jobs):
        times, size = durations[job::jobs], sum(sizes[job::jobs])
        clat = {"N": len(times), "mean": sum(times) / len(times), "bins": {}}
        side = {"total_ios": len(times), "io_bytes": size, "clat_ns": clat}
        found.append({"jobname": f"job{job}", "error": 0, "read": side})
    path = folder / "fio.json"
    path.write_text("{\n" + json.dumps({"jobs": found})[1:])
    return path


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_g4_9_all_jobs_of_fio_belong_to_the_only_cell(jobs: int, tmp_path: Path) -> None:
    done = run(READ, "--comm", "fio", "--json", "--fio", fio_of(READ, jobs, tmp_path))
    (record,) = json.loads(done.stdout)
    assert done.exit_code == 0
    assert record["fio_check"]["ios_agree"] and record["fio_check"]["bytes_agree"]
    assert [f["agrees"] for f in record["fio_check"]["figures"]] == [True]


def test_g4_9_what_fio_counted_otherwise_is_shown_and_told_by_the_exit_code(tmp_path: Path) -> None:
    path = fio_of(READ, 2, tmp_path)
    path.write_text(path.read_text().replace('"total_ios": 512', '"total_ios": 500', 1))
    done = run(READ, "--comm", "fio", "--fio", path)
    assert done.exit_code == 3
    shown = done.stdout.replace("\xa0", " ")
    assert "! invalid: fio did 1012 I/Os, the trace has 1024" in shown
    assert "2 submission" in shown


@pytest.mark.parametrize(
    "words", [("--perfetto", "x"), ("--window", "0", "1"), ("--clock", "instructions")]
)
def test_g4_2_what_promises_ns_refuses_ticks(words: tuple[str, ...], tmp_path: Path) -> None:
    trace = with_clock(tmp_path, "x86-tsc")
    line = refused(trace, *(str(tmp_path / w) if w == "x" else w for w in words))
    assert line.startswith(words[0]) and str(trace) in line
    assert "ticks" in line and "trace-cmd record -C mono" in line
    assert not (tmp_path / "x").exists()


def test_g4_2_tables_name_ticks(tmp_path: Path) -> None:
    import polars as pl

    trace, rows = with_clock(tmp_path, "x86-tsc"), tmp_path / "ios.parquet"
    text = run(trace, "--parquet", rows, "--svg", tmp_path / "pictures").stdout
    assert "Elapsed, ticks (clock: time)" in text and " ns " not in text
    assert pl.read_parquet_metadata(rows)["iotoll.unit"] == "ticks"
    pictures = [p.read_text() for p in (tmp_path / "pictures").iterdir()]
    assert pictures and all("ticks" in p for p in pictures)
    other = with_clock(tmp_path, "mono")
    assert "Elapsed, ns (clock: time)" in run(other).stdout


def test_a_text_says_how_exact_its_times_are(tmp_path: Path) -> None:
    trace_cmd = shutil.which("trace-cmd")
    if trace_cmd is None:
        pytest.skip("trace-cmd is not installed (apt install trace-cmd)")
    text = subprocess.run([trace_cmd, "report", "-i", str(READ)], capture_output=True, check=True)
    path = tmp_path / "ufs.txt"
    path.write_bytes(text.stdout)
    shown = " ".join(run(path).stdout.split())
    assert "read from text; its times are multiples of 1,000 ns" in shown
    assert "multiples" not in run(READ).stdout


def test_compare_two_traces(tmp_path: Path) -> None:
    words = (READ, SYNC8, "--comm", "fio", "--compare")
    (found,) = json.loads(run(*words, "--json").stdout)
    alone = [json.loads(run(t, "--comm", "fio", "--json").stdout)[0] for t in (READ, SYNC8)]
    for side, record in zip(("first", "second"), alone, strict=True):
        whole = record["total"]["elapsed"]["mean"]
        for name, part in record["sections"].items():
            row = found["sections"][name][side]
            assert row["median"] == part["elapsed"]["median"]
            assert row["share"] == pytest.approx(part["elapsed"]["mean"] / whole)
    rows = found["sections"]
    assert sum(rows[name]["points"] for name in alone[0]["sections"]) == pytest.approx(0)
    assert rows["total"]["first"]["share"] == pytest.approx(1)
    text = run(*words, "--svg", tmp_path).stdout
    assert "first:  " in text and "share" in text and "Not judged." in text
    (picture,) = tmp_path.glob("*-shares.svg")
    assert "Share of the mean I/O by section" in picture.read_text()


def test_compare_wants_two_traces_of_one_clock(tmp_path: Path) -> None:
    assert "--compare: name two TRACEs" in refused(READ, "--compare")
    ticks = with_clock(tmp_path, "counter")
    assert "have different clocks: ns and ticks" in refused(READ, ticks, "--compare")


def test_a_trace_beside_itself_differs_in_nothing() -> None:
    (found,) = json.loads(run(READ, READ, "--compare", "--json").stdout)
    assert {row["points"] for row in found["sections"].values()} <= {0.0, None}


BLOCKS = Path(__file__).parents[2] / "trace/blocks"


def test_g4_1_traces_of_block_events_alone_are_compared_by_device() -> None:
    traces = [BLOCKS / f"{kernel}-x86_64-stacks-block_only.dat" for kernel in ("6.1", "6.12")]
    (found,) = json.loads(run(*traces, "--compare", "--json").stdout)
    alone = [json.loads(run(trace, "--json").stdout)[0]["blocks"]["devices"] for trace in traces]
    assert [pair["devices"] for pair in found["devices"]] == [["259:0"] * 2, ["259:1"] * 2]
    for place, side in enumerate(("first", "second")):
        (device,) = (d for d in alone[place] if d["dev"] == "259:0")
        took = found["devices"][0]["durations"]
        for name, row in took.items():
            assert row[side]["median"] == device["durations"][name]["median"]
        assert sum(took[name][side]["share"] for name in ("q2d", "d2c")) == pytest.approx(1)
    text = run(*traces, "--compare").stdout
    assert "D2C issue, completion" in text and "259:0: 64 and 64 requests or bios" in text
    assert "1 vfs_fs" not in text


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("scsi-block_only", "No system calls in the trace"),
        ("scsi-partitions", "8:0 by partition: 8:1 sda1: "),
        ("scsi-pid_filter", "Completions are missing, so no sections"),
        ("scsi-md_raid1", "9:0 md0"),
    ],
)
def test_g4_1_the_table_names_devices_and_says_why_sections_are_missing(
    case: str, told: str
) -> None:
    shown = run(BLOCKS / f"6.12-x86_64-stacks-{case}.dat").stdout.replace("\xa0", " ")
    assert told in shown
    lines = [line for line in shown.splitlines() if not line.startswith("! ")]
    assert all(len(line) <= 80 for line in lines)
    assert "Too narrow for: \n" not in shown and ", \np99" not in shown
