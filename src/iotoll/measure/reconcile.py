"""Compares what the trace says of a cell with what fio itself reports.

fio reads its clock in user space just before and just after the I/O, so each of its latencies is
the trace's plus a nearly constant amount: the way into and out of the kernel, fio's own code
between the two, and the first and last probe. Measured over 560 cells of 20 boots (psync, clock
``instructions``): clat's mean exceeds the trace's by 1,401 to 3,853 instructions, lat's by 1,635 to
11,130 (it includes filling the buffer). Where the page cache serves I/Os, threads do not sleep, and
one may lose the CPU between its I/O's end and fio's look at the clock: up to 53,899 in the mean of
80 such cells. p50 and p99 are the middles of fio's buckets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from iotoll.measure.fio import BUCKET, FioJob, Latency
from iotoll.measure.fio_choice import Calls, FioChoice, choice
from iotoll.measure.iotable import Ints, IoTable, present
from iotoll.records.models import Clock
from iotoll.records.models.io_checks import FigureCheck, FioCheck


@dataclass(frozen=True)
class Tolerance:
    """fio minus trace may be from ``-relative * v`` to ``extra + relative * v`` of a value v."""

    extra: float
    relative: float

    def check(self, figure: str, fio: float, trace: float) -> FigureCheck:
        """Judge one figure; ``fio`` and ``trace`` in ns."""
        low, high = -self.relative * trace, self.extra + self.relative * trace
        difference = fio - trace
        return FigureCheck(
            figure=figure,
            fio=round(fio, 1),
            trace=round(trace, 1),
            difference=round(difference, 1),
            low=round(low, 1),
            high=round(high, 1),
            agrees=low <= difference <= high,
        )


@dataclass(frozen=True)
class Tolerances:
    """What is allowed on one clock; reasons in docs/outputs.md."""

    clat: Tolerance
    lat: Tolerance
    cached: Tolerance
    """Instead of both, for cells with I/Os that the page cache served."""

    def percentile(self, which: Tolerance) -> Tolerance:
        """As ``which``, and half of fio's bucket to either side."""
        return Tolerance(which.extra, which.relative + BUCKET / 2)


TOLERANCES: Mapping[Clock, Tolerances] = {
    Clock.INSTRUCTIONS: Tolerances(
        clat=Tolerance(5_000, 0.0), lat=Tolerance(20_000, 0.0), cached=Tolerance(100_000, 0.0)
    ),
    # Some thousand instructions of a slow core; no real board was in reach to measure it.
    Clock.TIME: Tolerances(
        clat=Tolerance(20_000, 0.02), lat=Tolerance(40_000, 0.02), cached=Tolerance(100_000, 0.02)
    ),
}


@dataclass(frozen=True)
class _Found:
    """The I/Os that are compared: those in the table, those beside it, and how many there are."""

    table: IoTable
    rest: Calls | None
    seen: int


def reconcile(
    job: FioJob,
    marker: FioJob | None,
    table: IoTable,
    seen: int,
    tolerances: Tolerances | None,
    rest: Callable[[], Calls] | None = None,
    beside: FioJob | None = None,
) -> FioCheck:
    """Compare a cell with its fio job.

    ``table`` holds the cell's measured I/Os, ``seen`` counts all that the trace shows. ``marker``
    is the job that fio ran just before the cell, inside the cell's window; its I/Os come first.
    ``beside`` is a job that ran at the same time on another disk, which ``table`` leaves out.
    Without ``tolerances`` latencies are not compared: times of a virtual board say nothing.
    ``rest`` finds the system calls that ``table`` lacks, because the page cache served them; with
    it and with the options in fio's JSON only the job's own I/Os are compared.
    """
    wanted = choice(job) if rest else None
    chosen = marker and (not wanted or wanted.covers(choice(marker)))
    before = marker.ios if marker and chosen else 0
    notes: list[str] = []
    found = _found(job, wanted, table, seen, rest)
    if wanted and found.seen < seen:
        notes.append(f"{seen - found.seen:,} others: fio's options ask for {wanted}")
    other = beside.ios if beside else 0
    ios_agree = found.seen == job.ios + before + other
    figures: list[FigureCheck] = []
    bytes_agree = None
    if not ios_agree:
        notes.append("latencies: the numbers of I/Os differ")
    elif beside:
        notes.append("latencies and bytes: another disk's I/Os run beside")
    elif (complete := _complete(job, before, found)) is None:
        missing = job.ios - len(_without_marker(found.table, before))
        notes.append(f"latencies and bytes: {missing} of {job.ios} I/Os have no values")
    else:
        durations, size = complete
        if job.trims:
            notes.append("bytes: a call that trims does not return them")
        else:
            bytes_agree = size == job.bytes
        figures = _latencies(job, durations, before, found, tolerances, notes)
    return FioCheck(
        ios_agree=ios_agree,
        ios_in_trace=found.seen - before - other,
        bytes_agree=bytes_agree,
        figures=figures,
        not_compared=notes,
    )


def reconcile_without_calls(job: FioJob, table: IoTable, seen: int) -> FioCheck:
    """As `reconcile`, where no event tells of system calls (User Mode Linux).

    Neither shows there what the marker job reads from memory, nor how long a call takes.
    """
    if len(table) and (table["op"] == "fsync").all():
        return _of_syncs(job, seen)
    wanted = choice(job)
    ios = wanted.ios(table) if wanted else table
    others = len(table) - len(ios)
    notes = ["latencies: fio's also hold the ways in and out of the kernel, unmarked here"]
    if others:
        notes.append(f"{others:,} others: fio's options ask for {wanted}")
    ios_agree = seen - others == job.ios
    bytes_agree = None
    if not ios_agree:
        notes.append("bytes: the numbers of I/Os differ")
    elif len(ios) < job.ios:
        notes.append(f"bytes: {job.ios - len(ios)} of {job.ios} I/Os have no values")
    else:
        bytes_agree = int(ios["bytes"].sum()) == job.bytes
    return FioCheck(
        ios_agree=ios_agree,
        ios_in_trace=seen - others,
        bytes_agree=bytes_agree,
        figures=[],
        not_compared=notes,
    )


def _of_syncs(job: FioJob, seen: int) -> FioCheck:
    """Of a cell whose fsyncs are its I/Os: where no event tells of calls, no write shows.

    fio counts no fdatasync, and ends a thread without syncing its last write.
    """
    every = job.options.get("fdatasync", "")
    agree = seen == job.syncs
    if not job.syncs and every.isdigit() and int(every):
        threads, most = job.options.get("numjobs", "1"), job.ios // int(every)
        agree = threads.isdigit() and most - int(threads) <= seen <= most
    return FioCheck(
        ios_agree=agree,
        ios_in_trace=seen,
        bytes_agree=None,
        figures=[],
        not_compared=["writes, bytes and latencies: the fsyncs alone show here"],
    )


def _latencies(
    job: FioJob,
    durations: Ints,
    before: int,
    found: _Found,
    tolerances: Tolerances | None,
    notes: list[str],
) -> list[FigureCheck]:
    """Compare the latencies; none, with a note why, where fio measured something else."""
    if tolerances is None:
        notes.append("latencies: times of a virtual board are a smoke test")
    elif job.options.get("sqthread_poll", "0") == "1":
        notes.append("latencies: fio's also hold the wait until the kernel's thread looks")
    elif job.options.get("iodepth", "1") != "1":
        notes.append("latencies: of several I/Os in flight fio's also hold its own queue")
    else:
        if len(_without_marker(found.table, before)) < job.ios:
            tolerances = replace(tolerances, clat=tolerances.cached, lat=tolerances.cached)
        return _figures(job, durations, _is_sync(found.table), tolerances, notes)
    return []


def _found(
    job: FioJob,
    wanted: FioChoice | None,
    table: IoTable,
    seen: int,
    rest: Callable[[], Calls] | None,
) -> _Found:
    """Choose the job's I/Os; all of them where nothing tells which they are."""
    if wanted is None or rest is None:
        more = None if len(table) == seen or rest is None or not _is_sync(table) else rest()
        return _Found(table, more, seen)
    ios, more = wanted.ios(table), rest()
    if wanted.asynchronous:
        # All but the system calls that wait, of which the table and the rest have each, and what
        # has no end in the trace. The ring's own fsyncs are entries of it too.
        others = len(table) - len(ios) + len(more) + more.unfinished
        return _Found(ios, None, seen - others - (job.syncs if wanted.syncs else 0))
    more = wanted.calls(more)
    return _Found(ios, more, len(ios) + len(more))


def _complete(job: FioJob, before: int, found: _Found) -> tuple[Ints, int] | None:
    """Durations of all of the job's I/Os, and their bytes; None when some cannot be found."""
    cell = _without_marker(found.table, before)
    if len(cell) == job.ios:
        return _whole(cell), int(cell["bytes"].sum())
    if found.rest is None:
        return None
    starts = np.concatenate([found.table["start"], found.rest.start])
    if len(starts) != found.seen:
        return None
    order = np.argsort(starts, kind="stable")[before:]
    durations = np.concatenate([_whole(found.table), found.rest.duration])
    size = np.concatenate([found.table["bytes"], found.rest.returned])
    return durations[order], int(size[order].sum())


def _without_marker(table: IoTable, before: int) -> IoTable:
    """Leave out the marker job's I/Os, if they were measured at all (their file may be cached).

    They come first, by a thread that does nothing else.
    """
    pids = table["pid"]
    is_marker = 0 < before < len(table) and (pids == pids[0]).sum() == before
    return table.take(np.arange(before if is_marker else 0, len(table)))


def _is_sync(table: IoTable) -> bool:
    kind = table.get("kind")
    return kind is None or bool((kind == "sync").all())


def _whole(table: IoTable) -> Ints:
    """Duration of each I/O as its user sees it: until it took the completion, where that is known.

    Shape (I/Os,), clock units.
    """
    duration = table.duration
    reaped = table.get("reaped")
    if reaped is None:
        return duration
    known = present(reaped)
    duration[known] = np.ma.getdata(reaped)[known] - table["start"][known]
    return duration


def _figures(
    job: FioJob, durations: Ints, sync: bool, allowed: Tolerances, notes: list[str]
) -> list[FigureCheck]:
    found: list[FigureCheck] = []
    if not len(durations):
        notes.append("latencies: no I/O")
        return found
    pairs = [("clat", job.clat, allowed.clat), ("lat", job.lat, allowed.lat)]
    if not sync:
        # An asynchronous clat begins when io_submit returns; the trace's I/O begins at its entry.
        notes.append("clat and slat: of asynchronous I/O only lat spans what the trace measures")
        pairs = pairs[1:]
    for name, latency, tolerance in pairs:
        if latency is None:
            notes.append(f"{name}: not in fio's JSON")
            continue
        mean = float(durations.mean())
        found.append(tolerance.check(f"{name} mean", latency.mean, mean))
        found += _percentiles(name, latency, durations, allowed.percentile(tolerance), notes)
    return found


def _percentiles(
    name: str, latency: Latency, durations: Ints, tolerance: Tolerance, notes: list[str]
) -> list[FigureCheck]:
    ordered = sorted(map(float, durations.tolist()))
    found = []
    for percent in (50.0, 99.0):
        figure = f"{name} p{percent:g}"
        value = latency.percentiles.get(percent)
        if value is None:
            notes.append(f"{figure}: not in fio's JSON")
            continue
        rank = math.ceil(percent / 100 * len(ordered)) - 1
        # fio adds not quite the same to each I/O: neighbours may change places.
        near = [ordered[rank], *ordered[max(0, rank - 1) : rank], *ordered[rank + 1 : rank + 2]]
        checks = [tolerance.check(figure, value, v) for v in near]
        found.append(next((c for c in checks if c.agrees), checks[0]))
    return found
