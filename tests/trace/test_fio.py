"""F2.4: whole fio runs, real traces: the I/Os of fio's own count are found by fio's options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iotoll.measure.boot_trace import BootTraceFile, Window, make_record, measure
from iotoll.measure.fio import FioJob, Latency
from iotoll.records.models import Clock
from iotoll.records.models.io_checks import FioCheck

FOLDER = Path(__file__).with_name("data") / "kernels"
OPTIONS: dict[str, tuple[str, str]] = {
    # As in record/guest/cases.sh: engine (none: fio's default) and block size.
    **dict.fromkeys(
        ("psync", "lean", "threads", "osync", "fsync", "flush", "fua"), ("psync", "4k")
    ),
    **dict.fromkeys(("loop", "partition", "readahead"), ("psync", "4k")),
    **dict.fromkeys(("split", "blktrace_split"), ("psync", "2m")),
    **dict.fromkeys(("libaio", "libaio_batch", "blktrace_merge"), ("libaio", "4k")),
    **dict.fromkeys(
        ("uring", "uring_batch", "uring_sqpoll", "uring_poll", "uring_fsync"), ("io_uring", "4k")
    ),
    **dict.fromkeys(("pvsync2", "pvsync2_poll"), ("pvsync2", "4k")),
    "blktrace_fsync": ("psync", "4k"),
    "blktrace": ("libaio", "16k"),
    "requeue": ("libaio", "64k"),
    "dm": ("libaio", "32k"),
    "split_write": ("libaio", "1m"),
    "uring_buffered": ("io_uring", "4k"),
    "append": ("psync", "16k"),
    "discard": ("psync", "64k"),
    "mmap": ("mmap", "4k"),
}
TRACES = sorted(path.name.removesuffix(".fio.json") for path in FOLDER.glob("*.fio.json"))


def job(name: str, options: dict[str, str]) -> FioJob:
    """The totals of a recording's fio; its JSON was cut down to counts."""
    jobs = json.loads((FOLDER / f"{name}.fio.json").read_text())["jobs"]
    sides = ("read", "write", "trim")
    counts = {s: sum(j[s]["total_ios"] for j in jobs if s in j) for s in sides}
    ios = sum(counts.values())
    latency = Latency(ios, 0.0, {})
    trims, syncs = counts["trim"], sum(j["sync"]["total_ios"] for j in jobs if "sync" in j)
    return FioJob(
        "load", ios, 0, 0, None, latency, latency, trims=trims, syncs=syncs, options=options
    )


def check(name: str, options: dict[str, str]) -> FioCheck:
    """The reconciliation of a whole recording, whoever's I/Os it shows."""
    file = BootTraceFile(FOLDER / f"{name}.dat")
    (found,) = measure(file, [Window("load", 0, 2**63)], Clock.TIME, comm="fio")
    made = make_record(found, {"load": job(name, options)}, Clock.TIME, "0" * 64).fio_check
    assert made is not None
    return made


@pytest.mark.parametrize("name", TRACES)
def test_the_ios_of_a_whole_fio_run_are_those_that_fio_counts(name: str) -> None:
    workload = name.split("-")[-1]
    engine, size = OPTIONS[workload]
    found = check(name, {"ioengine": engine, "bs": size})
    assert found.ios_agree is (engine != "mmap"), found
    if engine == "mmap":
        assert found.ios_in_trace == 0 and "options ask for page faults" in found.not_compared[0]


def test_without_options_the_files_that_fio_reads_at_its_start_count_too() -> None:
    """The finding: fio did 24, and 123 were seen (124 at the time), the job's fsyncs among them."""
    assert check("6.1-x86_64-nvme-append", {}).ios_in_trace == 123
    found = check("6.1-x86_64-nvme-append", {"bs": "16k"})
    assert (found.ios_agree, found.ios_in_trace) == (True, 24)
    assert "99 others: fio's options ask for pread64 and pwrite64 of 16,384 bytes" in (
        found.not_compared
    )


def test_what_the_options_do_not_ask_for_is_a_disagreement() -> None:
    found = check("6.1-x86_64-nvme-append", {"bs": "8k"})
    assert (found.ios_agree, found.ios_in_trace) == (False, 0)
