"""Which of a trace's I/Os are those that a fio job counts: by the options in fio's own JSON.

A trace of a whole fio run also holds what fio and the dynamic linker read at the start, and the
calls of ``fsync=N``. fio counts neither among its reads and writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotoll.measure.fio import FioJob
from iotoll.measure.iotable import Ints, IoTable, Mask

DEFAULT_ENGINE = "psync"
"""fio's own default on Linux."""

ENGINES: Mapping[str, tuple[str, ...]] = {
    "sync": ("read", "write"),
    "psync": ("pread64", "pwrite64"),
    "vsync": ("readv", "writev"),
    "pvsync": ("preadv", "pwritev"),
    "pvsync2": ("preadv2", "pwritev2"),
    "libaio": ("io_submit",),
    "io_uring": ("io_uring",),
    "mmap": ("page faults",),
}
"""fio's engine to the table's column ``op``; with other engines all I/Os of the trace count.

Page faults are no system calls: of ``mmap`` the trace has no I/O, and the check says so.
"""

UNCALLED = ("iomap_dio", "page_read", "page_write")
"""Column ``op`` of I/Os where no event tells of system calls, so not of which they are."""
ASYNCHRONOUS = ("io_submit", "io_uring")
TRIMS = ("ioctl", "fallocate")
"""What a synchronous engine trims with."""

_SIZES = ("bs", "blocksize", "bsrange", "blocksize_range", "bssplit")
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


@dataclass(frozen=True)
class Calls:
    """System calls: name, start and duration (clock units), what they returned; one entry each.

    ``unfinished`` counts the I/Os whose begin or end is outside; of which call is not known.
    """

    name: npt.NDArray[np.object_]
    start: Ints
    duration: Ints
    returned: Ints
    unfinished: int = 0

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Mask) -> Calls:
        """Return the chosen calls."""
        return Calls(self.name[rows], self.start[rows], self.duration[rows], self.returned[rows])


@dataclass(frozen=True)
class FioChoice:
    """The calls of a job, and how many bytes each moves: from ``low`` to ``high``."""

    ops: tuple[str, ...]
    low: int = 0
    high: int = 2**62
    trims: bool = False

    @property
    def asynchronous(self) -> bool:
        """Whether the calls only submit."""
        return self.ops[0] in ASYNCHRONOUS

    @property
    def syncs(self) -> bool:
        """Whether an fsync of the job is an I/O of the same kind."""
        return self.ops == ("io_uring",)

    def covers(self, other: FioChoice | None) -> bool:
        """Whether it also takes the I/Os of another job; yes where nothing is known of that."""
        if other is None:
            return True
        return self.ops == other.ops and self.low <= other.low and other.high <= self.high

    def calls(self, calls: Calls) -> Calls:
        """Return those of the job."""
        return calls.take(self._wanted(calls.name, calls.returned))

    def ios(self, table: IoTable) -> IoTable:
        """Return those of the job."""
        ops, size = table["op"], table["bytes"]
        if self.asynchronous:
            return table.take(np.isin(ops.astype(str), self.ops))
        wanted = self._wanted(ops, size)
        direction = table.get("direction")
        if self.trims and direction is not None:
            wanted |= np.isin(ops.astype(str), TRIMS) & (direction == "discard")
        return table.take(wanted)

    def _wanted(self, ops: npt.NDArray[np.object_], size: Ints) -> Mask:
        named: Mask = np.isin(ops.astype(str), (*self.ops, *UNCALLED))
        return named & (self.low <= size) & (size <= self.high)

    def __str__(self) -> str:
        if self.asynchronous:
            return " and ".join(self.ops)
        size = f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"
        return " and ".join(self.ops) + (f" of {size} bytes" if self.low else "")


def choice(job: FioJob) -> FioChoice | None:
    """Return what the job's options say; None where they are absent or of an unknown engine."""
    if not job.options:
        return None
    ops = ENGINES.get(job.options.get("ioengine", DEFAULT_ENGINE))
    if ops is None:
        return None
    sizes = _sizes(job.options)
    low, high = (min(sizes), max(sizes)) if sizes else (0, 2**62)
    return FioChoice(ops, low, high, job.trims > 0)


def _sizes(options: Mapping[str, str]) -> Sequence[int]:
    """All block sizes that the options name (bytes); none where one of them is not understood."""
    if options.get("kb_base", "1024") != "1024":
        return ()
    texts = [options[name] for name in _SIZES if name in options] or ["4k"]
    found = []
    for text in texts:
        for part in re.split(r"[,:-]", text.lower()):
            size = re.fullmatch(r"(\d{1,12})([kmg]?)(?:i?b)?(?:/\d*)?", part.strip())
            if size:
                found.append(int(size[1]) * _UNITS[size[2]])
            elif part.strip():
                return ()
    return found
