"""What a board executed, as the plugin of tools/plugin recorded it: blocks, runs and marks.

A *block* is a number of instructions in a row. A *run* is one execution of a block, whole or up to
where an exception or a device ended it. A *mark* is the value of a register before a chosen
instruction: probe 0 is the trace clock, as it is about to be returned; probe 1 the task that a CPU
switches to.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotoll.core.errors import InfrastructureError
from iotoll.measure.explain.symbols import Symbols

CLOCK, SWITCH = 0, 1
"""Numbers of the probes."""

CLOCK_FUNCTION, SWITCH_FUNCTION = "trace_clock_local", "cpu_switch_to"

_RUN_BITS = 10
_SIZE = 4  # bytes of an instruction of arm64

Ints = npt.NDArray[np.int64]
_BLOCK = np.dtype([("address", "<u8"), ("instructions", "<u8")])
_MARK = np.dtype([("run", "<u8"), ("executed", "<u8"), ("probe", "<u8"), ("value", "<u8")])


@dataclass(frozen=True)
class Record:
    """One boot: ``blocks`` and ``marks`` as structured arrays, ``runs`` as packed words."""

    blocks: npt.NDArray[np.void]
    runs: npt.NDArray[np.uint32]
    marks: npt.NDArray[np.void]

    @cached_property
    def clock(self) -> npt.NDArray[np.void]:
        """The marks of the trace clock, in order of time."""
        return self.marks[self.marks["probe"] == CLOCK]

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

    def between(self, first: int, last: int) -> tuple[Ints, Ints]:
        """Blocks and executed instructions of the runs between two clock marks, in order."""
        low, high = int(self.clock["run"][first]), int(self.clock["run"][last])
        words = self.runs[low:high]
        return (words >> _RUN_BITS).astype(np.int64), (words & ((1 << _RUN_BITS) - 1)).astype(
            np.int64
        )


def read_record(prefix: Path) -> Record:
    """Read ``PREFIX.blocks``, ``.runs`` and ``.marks``; raises InfrastructureError if not whole."""
    try:
        meta = json.loads(_path(prefix, "json").read_text())
        blocks = np.fromfile(_path(prefix, "blocks"), _BLOCK)
        marks = np.fromfile(_path(prefix, "marks"), _MARK)
        empty = not _path(prefix, "runs").stat().st_size
        runs = np.zeros(0, "<u4") if empty else np.memmap(_path(prefix, "runs"), "<u4", "r")
    except (OSError, ValueError) as error:
        raise InfrastructureError(f"{prefix}: the plugin left no whole record: {error}") from error
    if [meta["blocks"], meta["runs"], meta["marks"]] != [len(blocks), len(runs), len(marks)]:
        raise InfrastructureError(f"{prefix}: the plugin's record is cut off")
    if len(marks) and np.any(np.diff(marks["executed"].astype(np.int64)) < 0):
        raise InfrastructureError(f"{prefix}: the marks of the record are not in order")
    return Record(blocks, runs, marks)


def _path(prefix: Path, ending: str) -> Path:
    return prefix.with_name(f"{prefix.name}.{ending}")


class Places:
    """Functions of a record's blocks: a block may reach from one function into the next."""

    def __init__(self, record: Record, symbols: Symbols) -> None:
        self.symbols = symbols
        self._record = record
        address = record.blocks["address"]
        last = address + np.uint64(_SIZE) * (record.blocks["instructions"] - np.uint64(1))
        self.function = symbols.index(address)
        """Number of the function in which each block begins (`Symbols.index`)."""
        self._crosses = self.function != symbols.index(last)

    def totals(self, blocks: Ints, counts: Ints) -> dict[int, int]:
        """Instructions by function of those runs."""
        whole = ~self._crosses[blocks]
        functions = self.function[blocks[whole]]
        number, inverse = np.unique(functions, return_inverse=True)
        sums = np.bincount(inverse, counts[whole], len(number)).astype(np.int64)
        found = dict(zip(number.tolist(), sums.tolist(), strict=True))
        for block, count in zip(blocks[~whole].tolist(), counts[~whole].tolist(), strict=True):
            for function in self.symbols.index(self.addresses(block, count)).tolist():
                found[function] = found.get(function, 0) + 1
        return found

    def addresses(self, block: int, count: int) -> npt.NDArray[np.uint64]:
        """The addresses of a block's first ``count`` instructions."""
        first = self._record.blocks["address"][block]
        steps: npt.NDArray[np.uint64] = np.arange(count, dtype=np.uint64) * np.uint64(_SIZE)
        return steps + first
