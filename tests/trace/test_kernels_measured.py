"""What the analyser says of real traces of every kernel: against fio, and as it was reviewed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.trace.native import record_of, table_of

FOLDER = Path(__file__).with_name("data") / "kernels"
EXPECTED = FOLDER.parent / "kernels-measured.json"
TRACES = sorted(path.stem for path in FOLDER.glob("*.dat"))
# What fio counts is no I/O of a device here, or nothing tells which: the page cache serves it
# (readahead, append, fsync), a page fault reads it (mmap), a worker of io_uring does it.
UNCOUNTED = ("readahead", "append", "fsync", "uring_fsync", "mmap", "flush", "merge", "sd-flush")


def measured(name: str) -> dict[str, Any]:
    """Counts, marks, paths and medians of a trace's I/Os."""
    record = record_of(FOLDER / f"{name}.dat", comm="fio")
    keep = {key: record[key] for key in ("device", "ios", "requests", "marks")}
    keep["paths"] = {p["path"]: p["ios"] for p in record["paths"]}
    keep["medians"] = {
        section: part["elapsed"].get("median") for section, part in record["sections"].items()
    }
    return keep


@pytest.mark.parametrize("name", TRACES)
def test_expected(name: str) -> None:
    assert measured(name) == json.loads(EXPECTED.read_text())[name]


@pytest.mark.parametrize("name", TRACES)
def test_every_io_of_fio_is_found(name: str) -> None:
    path = FOLDER / f"{name}.fio.json"
    workload = name.split("-")[-1]
    if not path.exists():
        pytest.skip("fio did not make this load")
    if workload.removeprefix("blktrace_") in UNCOUNTED:
        pytest.skip(f"fio counts other things than the block layer sees: {workload}")
    sides = ("read", "write", "trim")
    jobs = json.loads(path.read_text())["jobs"]
    wanted = sum(job[side]["total_ios"] for job in jobs for side in sides if side in job)
    ios = measured(name)["ios"]
    assert ios["measured"] + ios["ambiguous"] == wanted
    assert ios["dropped_lost"] == 0


@pytest.mark.parametrize("name", TRACES)
def test_sections_add_up_and_marks_are_in_order(name: str) -> None:
    table = table_of(FOLDER / f"{name}.dat")
    sections = [column for key, column in table.items() if key.startswith("elapsed_")]
    order = ("bio_queue", "getrq", "insert", "issue", "device", "irq", "rq_complete", "io_done")
    for row, start in enumerate(table["start"]):
        assert sum(column[row] for column in sections) == table["end"][row] - start
        times = [table[f"at_{mark}"][row] for mark in order]
        present = [time for time in times if time is not None]
        # A requeued request has the marks of its first way down and of its last one.
        if not table["requeues"][row]:
            assert present == sorted(present)
        assert all(start <= time for time in present)


if __name__ == "__main__":
    everything = {name: measured(name) for name in TRACES}
    EXPECTED.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")
