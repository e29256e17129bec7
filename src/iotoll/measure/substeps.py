"""Sub-steps: where inside a section the time went, from the marks of each I/O's first request."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotoll.measure.iotable import MARKS, Ints, IoTable, Mask, present
from iotoll.records.models import Section
from iotoll.records.models.io_checks import StepRecord

_ENDS_SECTION = {
    "fs_begin": Section.VFS_FS,
    "bio_queue": Section.VFS_FS,
    "getrq": Section.SUBMISSION,
    "insert": Section.SUBMISSION,
    "issue": Section.SUBMISSION,
    "device": Section.SUBMISSION,
    "irq": Section.HARDWARE,
    "softirq": Section.COMPLETION,
    "driver_done": Section.COMPLETION,
    "rq_complete": Section.COMPLETION,
    "io_done": Section.RETURN,
    "dio_complete": Section.RETURN,
    "uring_complete": Section.RETURN,
    "waking": Section.RETURN,
    "sched_in": Section.RETURN,
    "end": Section.RETURN,
}
"""The section in which a mark lies: a step that ends at the mark is part of it."""

_MEANINGS = {
    ("start", "fs_begin"): "system call, file system up to direct I/O",
    ("start", "bio_queue"): "system call and file system",
    ("fs_begin", "bio_queue"): "map blocks, pin pages, build the bio",
    ("bio_queue", "getrq"): "split and merge tried, then tag wait",
    ("bio_queue", "insert"): "split, merge, tag wait, plug",
    ("bio_queue", "issue"): "split, merge, tag wait, plug, dispatch",
    ("getrq", "insert"): "plug: held back, then handed to the scheduler",
    ("getrq", "issue"): "plug, then dispatch without a scheduler",
    ("insert", "issue"): "in the scheduler or dispatch queue",
    ("issue", "device"): "driver: command, DMA map, doorbell",
    ("device", "irq"): "the device works",
    ("device", "issue"): "driver set up the command before the issue event",
    ("device", "driver_done"): "the device works, completion without its own interrupt",
    ("device", "rq_complete"): "the device works, completion without its own interrupt",
    ("irq", "driver_done"): "interrupt handler up to the driver's completion",
    ("irq", "softirq"): "interrupt handler, then until the block softirq runs",
    ("irq", "rq_complete"): "interrupt handler: driver and block layer complete the request",
    ("driver_done", "rq_complete"): "driver returns the request: DMA unmap, block layer",
    ("driver_done", "softirq"): "until the block softirq runs",
    ("softirq", "driver_done"): "block softirq up to the driver's completion",
    ("softirq", "rq_complete"): "block softirq completes the request",
    ("rq_complete", "io_done"): "accounting and end of the bio",
    ("rq_complete", "waking"): "end of the bio, until the waiting task is woken",
    ("io_done", "waking"): "end of the bio, until the waiting task is woken",
    ("waking", "sched_in"): "wake-up: until the task runs again",
    ("sched_in", "dio_complete"): "the task runs, up to the end of direct I/O",
    ("dio_complete", "end"): "file system and way out of the system call",
    ("sched_in", "end"): "the task runs, way out of the system call",
    ("rq_complete", "end"): "end of the bio, wake-up, way out of the system call",
}


def meaning(first: str, last: str) -> str:
    """Say in plain words what happens between two marks."""
    return _MEANINGS.get((first, last)) or f"from {first} to {last}"


def section_of(mark: str, has_interrupt: bool = True) -> Section:
    """Return the section that a step ending at this mark belongs to.

    Without an interrupt of its own (polling) the driver's completion ends ``hardware``.
    """
    if mark == "driver_done" and not has_interrupt:
        return Section.HARDWARE
    return _ENDS_SECTION[mark]


@dataclass(frozen=True)
class Marks:
    """The marks of each I/O in order of time.

    ``codes`` and ``times`` have shape (I/Os, len(names)); behind an I/O's last mark codes are -1.
    """

    names: tuple[str, ...]
    codes: Ints
    times: Ints


def marks_of(table: IoTable) -> Marks | None:
    """Return the marks within each I/O, its start and end included; None when none is recorded."""
    known = [m for m in MARKS if table.has(f"at_{m}")]
    if not known or not len(table):
        return None
    names = ("start", *known, "end")
    start, end = table["start"], table.end
    far = np.iinfo(np.int64).max
    columns: list[npt.NDArray[np.int64]] = [start]
    for mark in known:
        column = table[f"at_{mark}"]
        value = np.ma.getdata(column)
        inside = present(column) & (value >= start) & (value <= end)
        columns.append(np.where(inside, value, far))
    times = np.stack([*columns, end], axis=1)
    order = np.argsort(times, axis=1, kind="stable")
    times = np.take_along_axis(times, order, axis=1)
    return Marks(names, np.where(times == far, -1, order), times)


def _pairs(marks: Marks) -> Iterator[tuple[str, str, Ints, Mask]]:
    """Each pair of marks that follow each other: names, durations, and which I/Os (a mask)."""
    width = len(marks.names)
    rows = len(marks.codes)
    pair = marks.codes[:, :-1] * width + marks.codes[:, 1:]
    pair[(marks.codes[:, :-1] < 0) | (marks.codes[:, 1:] < 0)] = -1
    spans = np.diff(marks.times, axis=1)
    for code in np.unique(pair[pair >= 0]).tolist():
        here = pair == code
        row = np.zeros(rows, np.bool_)
        row[np.nonzero(here)[0]] = True
        yield marks.names[code // width], marks.names[code % width], spans[here], row


class Durations:
    """Durations of any number in bounded memory.

    Up to ``EXACT`` of them are kept, and every figure is exact. Beyond that they are counted in
    bins of 1/256 of their value (below 512 each value has its own): count, mean and maximum stay
    exact, a quantile is the middle of its bin, 1/512 of the value off at most.
    """

    EXACT = 1 << 14
    _BITS = 8

    def __init__(self) -> None:
        self.loose: list[Ints] = []
        self.bins: Ints | None = None
        self.count, self.sum, self.max = 0, 0, 0

    def add(self, values: Ints, bounded: bool) -> None:
        """Add some; ``bounded``: not all of them need to be kept."""
        self.count += len(values)
        self.sum += int(values.sum())
        self.max = max(self.max, int(values.max(initial=0)))
        if self.bins is None:
            self.loose.append(values)
            if bounded and self.count > self.EXACT:
                self.bins = np.zeros(64 << self._BITS, np.int64)
                for kept in self.loose:
                    self.bins += self._binned(kept)
                self.loose = []
        else:
            self.bins += self._binned(values)

    def _binned(self, values: Ints) -> Ints:
        shift = np.maximum(np.frexp(values.astype(np.float64))[1] - 1 - self._BITS, 0)
        place = (shift << self._BITS) + (values >> shift)
        return np.bincount(place, minlength=64 << self._BITS).astype(np.int64)

    def quantile(self, part: float) -> int:
        """By nearest rank."""
        rank = math.ceil(part * self.count) - 1
        if self.bins is None:
            return int(np.sort(np.concatenate(self.loose))[rank])
        place = int(np.searchsorted(np.cumsum(self.bins), rank + 1))
        shift = max((place >> self._BITS) - 1, 0)
        low = (place - (shift << self._BITS)) << shift
        return min(low + (1 << shift >> 1), self.max)


class StepSums:
    """Sub-steps of I/Os that come in batches."""

    COLUMNS = frozenset({"start", "end", "requests"}).union(
        (f"elapsed_{section.value}" for section in Section), (f"at_{mark}" for mark in MARKS)
    )
    """What is read of a table."""

    def __init__(self, *, bounded: bool) -> None:
        self.bounded = bounded
        self.names = ("start", *MARKS, "end")
        self.spans: dict[tuple[str, str], Durations] = {}
        self.polled = True
        self.sections: tuple[Section, ...] = ()

    def add(self, table: IoTable) -> None:
        """Add some I/Os; only those with a single request count: of more the first one is not the
        whole path."""
        single = table.take(table["requests"] == 1)
        marks = marks_of(single)
        if marks is None:
            return
        self.sections = table.sections
        irq = single.get("at_irq")
        self.polled &= irq is None or not present(irq).any()
        for first, last, spans, _ in _pairs(marks):
            self.spans.setdefault((first, last), Durations()).add(spans, self.bounded)

    def records(self) -> list[StepRecord]:
        """The sub-steps of all sections, in the order of the path; empty without marks."""
        found = []
        for (first, last), spans in self.spans.items():
            section = section_of(last, not self.polled)
            if section is Section.COMPLETION and section not in self.sections:
                section = Section.HARDWARE
            if section not in self.sections:
                continue
            record = StepRecord(
                section=section,
                step=f"{first} -> {last}",
                meaning=meaning(first, last),
                ios=spans.count,
                median=spans.quantile(0.5),
                mean=round(spans.sum / spans.count, 1),
                p99=spans.quantile(0.99),
                max=spans.max,
            )
            places = self.names.index(first), self.names.index(last)
            found.append(((list(Section).index(section), *places), record))
        return [record for _, record in sorted(found, key=lambda f: f[0])]


def steps(table: IoTable) -> list[StepRecord]:
    """Return the sub-steps of all sections, in the order of the path; empty without marks."""
    sums = StepSums(bounded=False)
    sums.add(table)
    return sums.records()
