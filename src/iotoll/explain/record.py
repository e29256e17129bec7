"""What a board executed, as the plugin of tools/plugin recorded it: blocks, runs and marks.

A *block* is a number of instructions in a row. A *run* is one execution of a block, whole or up to
where an exception or a device ended it. A *mark* is the value of a register before a chosen
instruction: probe 0 is the trace clock, as it is about to be returned; probes 1 and 2 are the tasks
that a CPU switches to and from. With modelled caches there are also the lines that runs touched.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.kernels.symbols import X86_64, Symbols
from iotoll.kernels.tracing import NAMES, returns_of

CLOCK, SWITCH, PREVIOUS = range(3)
"""Numbers of the probes."""

RUN_BITS = 10
_CHUNK = 1 << 22  # runs that are read at a time

_RESULT = 6
"""Of x86-64: the plugin's number of the register that holds what a function returns."""

Ints = npt.NDArray[np.int64]
BLOCK = np.dtype([("address", "<u8"), ("instructions", "<u8")])
MARK = np.dtype([("run", "<u8"), ("executed", "<u8"), ("probe", "<u8"), ("value", "<u8")])


@dataclass(frozen=True)
class Record:
    """One boot: ``blocks`` and ``marks`` as structured arrays, ``runs`` as packed words.

    ``lines`` are what the runs touched, with flags as in tools/plugin/cache.h, and ``touches`` how
    many of them each run has; None where no caches were modelled. ``cpus`` are the CPUs of the
    marks of the clock, shape (marks,), whose runs lie apart; None: there is one CPU.
    """

    blocks: npt.NDArray[np.void]
    runs: npt.NDArray[np.uint32]
    marks: npt.NDArray[np.void]
    lines: npt.NDArray[np.uint64] | None = None
    touches: npt.NDArray[np.uint16] | None = None
    cpus: Ints | None = None

    @cached_property
    def clock(self) -> npt.NDArray[np.void]:
        """The marks of the trace clock, in order of time.

        That is not always the order of the marks: an interrupt may come between the reading of the
        counter and the mark, and read the clock as well.
        """
        ordered: npt.NDArray[np.void] = self.marks[self._in_time]
        return ordered

    @cached_property
    def _in_time(self) -> Ints:
        """The numbers of the clock's marks, in order of time."""
        number = np.flatnonzero(self.marks["probe"] == CLOCK)
        return number[np.argsort(self.marks["value"][number], kind="stable")]

    def on_one_cpu(self, first: Ints, last: Ints) -> npt.NDArray[np.bool_]:
        """Of pairs of clock marks by their numbers: whether one CPU has both."""
        if self.cpus is None:
            return np.ones(len(first), np.bool_)
        cpus = self.cpus[self._in_time]
        same: npt.NDArray[np.bool_] = cpus[first] == cpus[last]
        return same

    @cached_property
    def _times(self) -> npt.NDArray[np.uint64]:
        times: npt.NDArray[np.uint64] = self.clock["value"]
        return times

    def at(self, times: Ints) -> Ints:
        """Which clock mark has each time; -1: none has. Any shape."""
        wanted = times.astype(np.uint64)
        found = np.searchsorted(self._times, wanted).clip(0, max(len(self._times) - 1, 0))
        if not len(self._times):
            return np.full(times.shape, -1, np.int64)
        return np.where(self._times[found] == wanted, found, -1).astype(np.int64)

    def executed(self, first: Ints, last: Ints) -> Ints:
        """Instructions between pairs of clock marks, by their numbers."""
        done = self.clock["executed"].astype(np.int64)
        return done[last] - done[first]

    def distinct(self) -> npt.NDArray[np.uint32]:
        """The different runs, as packed words in order. A table, as sorting all would take long."""
        seen = np.zeros(len(self.blocks) << RUN_BITS, np.bool_)
        for low in range(0, len(self.runs), _CHUNK):
            seen[self.runs[low : low + _CHUNK]] = True
        return np.flatnonzero(seen).astype(np.uint32)

    def unpack(self, low: int, high: int) -> tuple[Ints, Ints]:
        """Blocks and executed instructions of the runs from number ``low`` to before ``high``."""
        return self.split(self.runs[low:high])

    def split(self, words: npt.NDArray[np.uint32]) -> tuple[Ints, Ints]:
        """Blocks and executed instructions of packed runs."""
        blocks = (words >> RUN_BITS).astype(np.int64)
        return blocks, (words & ((1 << RUN_BITS) - 1)).astype(np.int64)


NOTHING = Record(np.zeros(0, BLOCK), np.zeros(0, np.uint32), np.zeros(0, MARK))
"""A boot in which nothing was to be recorded."""


def probes(symbols: Symbols) -> str:
    """The plugin's option ``probes`` for a kernel; raises UsageError if it lacks a function."""
    names = NAMES[symbols.machine]
    returns, switch = returns_of(symbols, names.clock), symbols.span(names.switch)
    if len(returns) != 1 or switch is None:
        raise UsageError(
            f"the kernel has no function {names.switch}, or not one {names.clock} with one"
            " return: it cannot be explained"
        )
    # Of a switch, arguments are the old and new task.
    result = _RESULT if symbols.machine == X86_64 else 0
    return "+".join((f"{returns[0]:#x}:{result}", f"{switch[0]:#x}:1", f"{switch[0]:#x}:0"))


def read_record(prefix: Path) -> Record:
    """Read ``PREFIX.blocks``, ``.runs`` and ``.marks``; raises InfrastructureError if not whole."""
    try:
        meta = json.loads(_path(prefix, "json").read_text())
        blocks = np.fromfile(_path(prefix, "blocks"), BLOCK)
        marks = np.fromfile(_path(prefix, "marks"), MARK)
        runs = _mapped(_path(prefix, "runs"), "<u4")
        modelled = _path(prefix, "lines").is_file()
        lines = _mapped(_path(prefix, "lines"), "<u8") if modelled else None
        touches = _mapped(_path(prefix, "touches"), "<u2") if modelled else None
    except (OSError, ValueError) as error:
        raise InfrastructureError(f"{prefix}: the plugin left no whole record: {error}") from error
    if [meta["blocks"], meta["runs"], meta["marks"]] != [len(blocks), len(runs), len(marks)]:
        raise InfrastructureError(f"{prefix}: the plugin's record is cut off")
    touched = [len(one) for one in (lines, touches) if one is not None]
    if touched and touched != [meta["lines"], meta["runs"]]:
        raise InfrastructureError(f"{prefix}: the plugin's record of lines is cut off")
    if len(marks) and np.any(np.diff(marks["executed"].astype(np.int64)) < 0):
        raise InfrastructureError(f"{prefix}: the marks of the record are not in order")
    return Record(blocks, runs, marks, lines, touches)


def _mapped(path: Path, kind: str) -> npt.NDArray[Any]:
    """A file as an array that is read where it is used: it may be larger than memory."""
    return np.memmap(path, kind, "r") if path.stat().st_size else np.zeros(0, kind)


def _path(prefix: Path, ending: str) -> Path:
    return prefix.with_name(f"{prefix.name}.{ending}")
