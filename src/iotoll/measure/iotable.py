"""The analyser's per-I/O table as numpy columns: one row per measured I/O, in order of start.

The only place that knows the layout of `_native.io_table`. Columns that this build of the analyser,
or this trace, does not give are absent: `IoTable.has` is False, `IoTable.get` returns None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from iotoll.records.models import Section

Kind = Literal["int", "time", "uint", "str", "bool"]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Column:
    """One column: ``unit`` is "" for plain numbers and words; ``optional`` cells may be missing.

    ``kind`` ``time`` is an absolute time or a duration in clock units of the trace.
    """

    name: str
    kind: Kind
    unit: str
    text: str
    optional: bool = False


MARKS: Mapping[str, str] = {
    "fs_begin": "direct I/O begins in the file system (iomap_dio_rw_begin)",
    "bio_queue": "the block layer receives the bio (block_bio_queue)",
    "getrq": "a request and its tag are allocated (block_getrq)",
    "insert": "it enters the scheduler or dispatch queue (block_rq_insert)",
    "issue": "the request goes to the driver (block_rq_issue)",
    "device": "the driver hands it to the device (see device_mark)",
    "irq": "the completion interrupt begins (irq_handler_entry)",
    "softirq": "the block softirq begins (softirq_entry, BLOCK)",
    "driver_done": "the driver sees the completion (nvme_complete_rq ...)",
    "rq_complete": "the block layer completes the request (block_rq_complete)",
    "io_done": "accounting ends (block_io_done)",
    "dio_complete": "the file system completes direct I/O (iomap_dio_complete)",
    "uring_complete": "io_uring posts the completion (io_uring_complete)",
    "waking": "the waiting task is woken (sched_waking)",
    "sched_in": "the waiting task runs again (sched_switch)",
}
"""Marks of the columns ``at_*``, in the order in which a plain I/O passes them."""

_PLAIN = (
    Column("start", "time", "clock", "time of the user submission"),
    Column("end", "time", "clock", "time of the completion as the user sees it"),
    Column("pid", "int", "", "thread number of the task"),
    Column(
        "op", "str", "", "system call, or what else began the I/O: pread64, io_submit, bio, ..."
    ),
    Column("kind", "str", "", "sync, libaio, io_uring or bio"),
    Column("dev", "str", "", "device as major:minor"),
    Column("sector", "uint", "512 B", "first sector of the first request", optional=True),
    Column("bytes", "int", "B", "bytes transferred, or a negative error number"),
    Column("direction", "str", "", "read, write, flush, discard or other"),
    Column("path", "str", "", "requests in order of issue: letters of rwbs and KiB"),
    Column("clean", "bool", "", "nothing foreign ran in the software sections"),
    Column("requests", "int", "", "requests that carried part of the I/O"),
    Column("detached", "int", "", "requests that outlived the system call"),
    Column("bios", "int", "", "bios submitted for it"),
    Column("merges", "int", "", "bios that joined another request"),
    Column("splits", "int", "", "bios that were split"),
    Column("requeues", "int", "", "requests that the driver could not take at first"),
    Column("queue", "int", "", "hardware queue", optional=True),
    Column("submit_cpu", "int", "", "CPU of the submission"),
    Column("complete_cpu", "int", "", "CPU of the completion"),
    Column("start_mark", "str", "", "event that set the start"),
    Column("device_mark", "str", "", "event that ended section submission"),
    Column("interrupt_mark", "str", "", "event that ended section hardware"),
    Column("end_mark", "str", "", "event that set the end"),
    Column("reaped", "time", "clock", "time the user took the completion", optional=True),
)


def _sections(prefix: str, what: str) -> tuple[Column, ...]:
    return tuple(
        Column(f"{prefix}_{s.value}", "time", "clock", f"{what} of section {s.value}")
        for s in Section
    )


_FIRST = tuple(
    Column(
        f"first_{s.value}", "time", "clock", f"own time of {s.value}, first request", optional=True
    )
    for s in (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION)
)
_AT = tuple(
    Column(f"at_{mark}", "time", "clock", f"first request: {text}", optional=True)
    for mark, text in MARKS.items()
)
COLUMNS: tuple[Column, ...] = (
    *_PLAIN,
    *_sections("elapsed", "elapsed time"),
    *_sections("own", "own time"),
    *_FIRST,
    *_AT,
)
"""Every column that the analyser may give."""

_DTYPES: Mapping[Kind, Any] = {
    "int": np.int64,
    "time": np.int64,
    "uint": np.uint64,
    "str": np.object_,
    "bool": np.bool_,
}


@dataclass(frozen=True)
class IoTable:
    """Columns by name, all of length ``len(table)``; optional ones are masked arrays."""

    columns: Mapping[str, npt.NDArray[Any]]
    rows: int

    def __len__(self) -> int:
        return self.rows

    def has(self, name: str) -> bool:
        """Tell whether the analyser gave this column."""
        return name in self.columns

    def get(self, name: str) -> npt.NDArray[Any] | None:
        """Return a column, or None when it is absent."""
        return self.columns.get(name)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.columns[name]

    def elapsed(self, section: Section) -> Ints:
        """Elapsed time of a section, clock units, one per I/O."""
        return self.columns[f"elapsed_{section.value}"]

    def own(self, section: Section) -> Ints:
        """Own time of a section, clock units, one per I/O."""
        return self.columns[f"own_{section.value}"]

    @property
    def sections(self) -> tuple[Section, ...]:
        """The sections that the source tells of: from blktrace not all of them."""
        return tuple(s for s in Section if self.has(f"elapsed_{s.value}"))

    @property
    def duration(self) -> Ints:
        """Whole duration of each I/O (clock units): its sections add up to it, if all are told."""
        if self.has("end"):
            whole: Ints = self.columns["end"] - self.columns["start"]
            return whole
        total = np.zeros(self.rows, np.int64)
        for section in self.sections:
            total += self.elapsed(section)
        return total

    @property
    def end(self) -> Ints:
        """Time of each I/O's end (clock units)."""
        start: Ints = self.columns["start"]
        return start + self.duration

    def without(self, sections: Iterable[Section]) -> IoTable:
        """Return it without what is of some sections."""
        gone = {f"{kind}_{s.value}" for s in sections for kind in ("elapsed", "own", "first")}
        left = {name: column for name, column in self.columns.items() if name not in gone}
        return IoTable(left, self.rows)

    def take(self, rows: Mask | Ints) -> IoTable:
        """Return the chosen rows, by mask or by index."""
        chosen = {name: column[rows] for name, column in self.columns.items()}
        return IoTable(chosen, len(chosen["start"]))


def _masked(values: Sequence[Any], dtype: Any) -> npt.NDArray[Any]:
    missing = np.fromiter((v is None for v in values), np.bool_, len(values))
    filled = [0 if v is None else v for v in values] if missing.any() else values
    return np.ma.MaskedArray(np.asarray(filled, dtype), missing)


def unpacked(column: Column, values: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Convert a column that the analyser gives as bytes (`_native.stream`, `_native.blocks`)."""
    first, *rest = values
    if column.kind == "str":
        (names,) = rest
        return np.asarray(names, np.object_)[np.frombuffer(first, np.uint32)]
    if column.kind == "bool":
        return np.frombuffer(first, np.uint8).astype(np.bool_)
    numbers = np.frombuffer(first, np.int64).astype(_DTYPES[column.kind])
    if not column.optional:
        return numbers
    absent = np.frombuffer(rest[0], np.bool_) if rest else np.zeros(len(numbers), np.bool_)
    return np.ma.MaskedArray(numbers, absent)


def joined(tables: Sequence[IoTable]) -> IoTable:
    """Some batches as one table; what one of them lacks is missing in its rows."""
    rows = sum(len(table) for table in tables)
    made: dict[str, npt.NDArray[Any]] = {}
    for column in COLUMNS:
        if not any(table.has(column.name) for table in tables):
            continue
        parts = []
        for table in tables:
            found = table.get(column.name)
            if found is None:
                empty = np.zeros(len(table), _DTYPES[column.kind])
                found = np.ma.MaskedArray(empty, np.ones(len(table), np.bool_))
            parts.append(found)
        made[column.name] = (np.ma if column.optional else np).concatenate(parts)
    return IoTable(made, rows)


def _column(column: Column, values: Any) -> npt.NDArray[Any]:
    if isinstance(values, tuple):
        return unpacked(column, values)
    if column.optional and not isinstance(values, np.ndarray):
        return _masked(values, _DTYPES[column.kind])
    made: npt.NDArray[Any] = np.asarray(values, _DTYPES[column.kind])
    return np.ma.MaskedArray(made) if column.optional else made


def from_native(raw: Mapping[str, Any]) -> IoTable:
    """Convert what `_native.io_table` returns. An optional column without any value is absent."""
    start = raw["start"]
    rows = len(start[0]) // 8 if isinstance(start, tuple) else len(start)
    made: dict[str, npt.NDArray[Any]] = {}
    for column in COLUMNS:
        if column.name not in raw:
            continue
        converted = _column(column, raw[column.name])
        if column.optional and (rows == 0 or np.ma.getmaskarray(converted).all()):
            continue
        made[column.name] = converted
    return IoTable(made, rows)


def present(column: npt.NDArray[Any]) -> Mask:
    """Return which cells of an optional column have a value."""
    return ~np.ma.getmaskarray(column)
