"""What the CPUs of a board took from each other in a cell: per I/O, by section, by function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from iotoll.core.errors import InfrastructureError
from iotoll.explain.by_function import COLUMNS, SECTIONS, cells_of, cut_cell
from iotoll.kernels.symbols import Symbols
from iotoll.measure.boot_trace import BootTraceFile, Window
from iotoll.measure.elements import Readings
from iotoll.measure.iotable import IoTable
from iotoll.measure.windows import CLOCK as CLOCK_MARK
from iotoll.measure.windows import Ints, Windows, read_windows
from iotoll_lab.contention.coherence import LINE_BITS, Shared, shared
from iotoll_lab.contention.names import DataNames
from iotoll_lab.contention.recorder import CLOCK, CLOSE, OPEN, Accesses

COUNTS = ("transfers", "false", "invalidations", "hand_overs")
"""What is counted; ``false`` are those of the transfers that no value needed."""

_FEWEST = 0.05
"""Per I/O: of a function that has less of a count in a cell, what is the I/Os' is not asked."""


@dataclass(frozen=True)
class CellSharing:
    """One cell of one boot, per I/O.

    ``totals`` are of all that any CPU did from the first I/O to the last, by `COUNTS`, and ``data``
    the same by ``function: data``. ``own`` is what was in the I/Os' own time, by count, and
    ``functions`` the same by function, of those that have `_FEWEST` of it in all. ``instructions``
    are own ones, the mean I/O's. ``false_lines`` is how many lines had a false transfer in every
    tenth I/O or more.
    """

    cell: str
    ios: int
    instructions: float
    totals: dict[str, float]
    own: dict[str, float]
    false_lines: int
    functions: dict[str, dict[str, float]] = field(default_factory=dict)
    data: dict[str, dict[str, float]] = field(default_factory=dict)


def sharing(
    folder: Path, cells: Sequence[str], accesses: Accesses, symbols: Symbols, names: DataNames
) -> Iterator[CellSharing]:
    """Of a boot's folder, cell by cell; raises InfrastructureError where its files contradict."""
    windows = read_windows(folder)
    if windows is None:
        raise InfrastructureError(f"{folder}: the boot kept no windows")
    boot = _Boot(windows, accesses, symbols, names)
    for file, span, device, table in cells_of(folder, cells):
        if len(table):
            yield boot.cell(file, span, device, table)


@dataclass(frozen=True, eq=False)
class _Own:
    """What of some events the analyser finds in the own time of a cell's I/Os."""

    windows: Windows
    file: BootTraceFile
    span: Window
    device: str
    ios: int

    def per_io(self, marks: Ints) -> float:
        """The mean I/O's, of events before these marks of the clock."""
        until = self.windows.mark_sums(marks, np.ones(len(marks), np.int64))
        sums = (Readings.of(self.windows), until)
        columns = cut_cell(self.file, self.span, self.device, sums, self.ios)
        return float(sum(columns[column].sum() for column in COLUMNS)) / self.ios


class _Boot:
    """One boot; both plugins' readings of the clock are the same ones."""

    def __init__(
        self, windows: Windows, accesses: Accesses, symbols: Symbols, names: DataNames
    ) -> None:
        self.windows = windows
        self.accesses = accesses
        self.names = names
        kind, cpu = accesses.records["kind"], accesses.records["cpu"]
        self._opened = np.flatnonzero(kind == OPEN)
        self._closed = np.flatnonzero(kind == CLOSE)
        readings = np.flatnonzero(kind == CLOCK)
        self._readings = [readings[cpu[readings] == c] for c in range(len(windows.of_cpu))]
        is_clock = windows.marks["kind"] == CLOCK_MARK
        self._marks = [low + np.flatnonzero(is_clock[low:high]) for low, high in windows.of_cpu]
        for one, other in zip(self._readings, self._marks, strict=True):
            if len(one) != len(other):
                raise InfrastructureError("the two plugins saw different readings of the clock")
        self._known: dict[int, Shared] = {}
        numbers = symbols.index(accesses.sites["address"])
        self._functions = [symbols.name(number) for number in numbers.tolist()]

    def cell(self, file: BootTraceFile, span: Window, device: str, table: IoTable) -> CellSharing:
        """One cell, whose I/Os ``table`` has."""
        windows, size = self.windows, len(table)
        reach = windows.reach(int(table["start"].min()), int(table.end.max()))
        found = self._of(reach)
        kept = {name: self._within(numbers, reach) for name, numbers in _by_count(found).items()}
        own = _Own(windows, file, span, device, size)
        with file.reading():
            every = {name: own.per_io(self._mark(numbers)) for name, numbers in kept.items()}
            functions = {name: self._own(own, numbers, size) for name, numbers in kept.items()}
        return CellSharing(
            cell=span.name,
            ios=size,
            instructions=float(sum(table.own(s).mean() for s in SECTIONS)),
            totals={name: len(numbers) / size for name, numbers in kept.items()},
            own=every,
            false_lines=self._false_lines(kept["false"], size),
            functions=_by_name(functions),
            data=_by_name({n: self._by_data(k, size) for n, k in kept.items()}),
        )

    def _of(self, reach: Sequence[tuple[int, int]]) -> Shared:
        """What happened in the measurement that these marks are in."""
        firsts = [
            self._readings[cpu][at]
            for cpu, (low, _) in enumerate(reach)
            if (at := int(np.searchsorted(self._marks[cpu], low))) < len(self._marks[cpu])
        ]
        number = int(np.searchsorted(self._opened, min(firsts))) - 1
        if number not in self._known:
            low, high = int(self._opened[number]), int(self._closed[number])
            self._known[number] = shared(self.accesses, low, high)
        return self._known[number]

    def _mark(self, numbers: Ints) -> Ints:
        """The mark of the clock that comes next on the CPU of each of some accesses."""
        cpus = self.accesses.records["cpu"][numbers]
        found = np.full(len(numbers), len(self.windows.marks), np.int64)
        for cpu, (readings, marks) in enumerate(zip(self._readings, self._marks, strict=True)):
            mine = np.flatnonzero(cpus == cpu)
            at = np.searchsorted(readings, numbers[mine])
            known = at < len(marks)
            found[mine[known]] = marks[at[known]]
        return found

    def _within(self, numbers: Ints, reach: Sequence[tuple[int, int]]) -> Ints:
        marks, cpus = self._mark(numbers), self.accesses.records["cpu"][numbers]
        low, high = (np.array(one)[cpus] for one in zip(*reach, strict=True))
        kept: Ints = numbers[(marks >= low) & (marks < high)]
        return kept

    def _own(self, own: _Own, numbers: Ints, ios: int) -> dict[str, float]:
        """What the I/Os have of a count, per I/O, by the function that accessed."""
        sites = self.accesses.records["site"][numbers]
        names = [self._functions[site] for site in sites.tolist()]
        marks, found = self._mark(numbers), {}
        for name, often in sorted(Counter(names).items()):
            if often >= _FEWEST * ios:
                here = np.array([one == name for one in names])
                found[name] = own.per_io(marks[here])
        return found

    def _by_data(self, numbers: Ints, ios: int) -> dict[str, float]:
        rows = self.accesses.records[numbers]
        pairs = zip(rows["site"].tolist(), rows["address"].tolist(), strict=True)
        names = (f"{self._functions[s]}: {self.names.name(a)}" for s, a in pairs)
        return {name: often / ios for name, often in sorted(Counter(names).items())}

    def _false_lines(self, numbers: Ints, ios: int) -> int:
        lines = self.accesses.records["physical"][numbers] >> np.uint64(LINE_BITS)
        _, often = np.unique(lines, return_counts=True)
        return int(np.count_nonzero(10 * often >= ios))


def _by_count(found: Shared) -> dict[str, Ints]:
    every = (found.transfers, found.transfers[found.is_false], found.invalidations)
    return dict(zip(COUNTS, (*every, found.hand_overs), strict=True))


def _by_name(counts: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """By name what of each count it has, without those that have none."""
    names = sorted({name for count in counts.values() for name in count if count[name]})
    return {
        name: {what: count[name] for what, count in counts.items() if count.get(name)}
        for name in names
    }
