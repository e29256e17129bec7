"""Instructions by function of all requests of a cell's I/Os, from what the boot executed.

`attribute` follows calls and takes an I/O's first request. Here the analyser itself divides: once
for each function, with that function's instructions in place of all (`measure.elements.cut`). So
sums over functions are the analyser's own counts, whatever rule it has for further requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iotoll.boards.plugin import TRACING, WINDOWS
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.kernels.symbols import USER
from iotoll.measure.boot_trace import COMM, BootTraceFile, disk_of, measure
from iotoll.measure.boot_trace import Window as Span
from iotoll.measure.elements import Readings, cut
from iotoll.measure.iotable import IoTable
from iotoll.measure.windows import ACCESS, NO_WINDOW, Ints, Windows, read_windows
from iotoll.records.models import Clock, Section

SECTIONS = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION, Section.RETURN)
"""Those in which the CPU works for the I/O."""

COLUMNS = tuple(f"own_{section.value}" for section in SECTIONS)


@dataclass(frozen=True)
class CellFunctions:
    """One cell of one kernel: instructions of all its I/Os, in integers.

    ``totals`` are the analyser's own counts by section, ``counts`` those of each function by
    section; a function that has none is left out. ``callers`` are calls of each function by who
    calls it, from the first I/O to the last, in any task.
    """

    cell: str
    ios: int
    totals: Mapping[Section, int]
    counts: Mapping[Section, Mapping[str, int]]
    callers: Mapping[str, Mapping[str, int]]


def by_function(
    folder: Path, cells: Sequence[str], on_cell: Callable[[int], None] = lambda _: None
) -> dict[str, CellFunctions]:
    """Divide the cells of a boot's folder; ``on_cell`` is told how many are done.

    Errors are those of `windows_of` and `cells_of`.
    """
    counter = _Counter(windows_of(folder))
    found: dict[str, CellFunctions] = {}
    for file, span, device, table in cells_of(folder, cells):
        with file.reading():
            found[span.name] = counter.cell(file, span, device, table)
        on_cell(len(found))
    return found


def windows_of(folder: Path) -> Windows:
    """What a boot executed; UsageError where it has not kept that, or has several CPUs."""
    windows = read_windows(folder)
    if windows is None:
        raise UsageError(
            f"{folder}: has no {WINDOWS}: only exact boards keep what they executed; measure"
            " again on one"
        )
    if len(windows.of_cpu) > 1:
        raise UsageError(f"{folder}: is of several CPUs: only those of one CPU are divided yet")
    return windows


def cells_of(
    folder: Path, cells: Sequence[str]
) -> Iterator[tuple[BootTraceFile, Span, str, IoTable]]:
    """Cells of a boot's folder: trace, where the cell is in it, the disk's number, and its I/Os.

    Raises InfrastructureError where the boot's files contradict each other.
    """
    for path in sorted(folder.glob("*/trace.dat")):
        file = BootTraceFile(path)
        for span in (span for span in file.windows if span.name in cells):
            device = _device(folder, disk_of(span))
            options = {"device": device, "comm": COMM, "tracing": folder / TRACING}
            (measured,) = measure(file, [span], Clock.INSTRUCTIONS, **options)  # type: ignore[arg-type]
            yield file, span, device, measured.table


def cut_cell(
    file: BootTraceFile, span: Span, device: str, sums: tuple[Readings, Ints], ios: int
) -> dict[str, Any]:
    """The `COLUMNS` of a cell with another count (`iotoll.measure.elements.cut`).

    Raises InfrastructureError where these are not the same ``ios`` I/Os.
    """
    spans = [(span.start, span.end)]
    (columns,) = cut(*sums, str(file.data), device, spans, COMM, COLUMNS)
    if len(columns["pid"]) != ios:
        raise InfrastructureError(f"{file.path}: with another count it was cut into other I/Os")
    return columns


def _device(folder: Path, label: str) -> str:
    try:
        rows = [line.split() for line in (folder / "boot/devices").read_text().splitlines()]
        return {row[0]: row[2] for row in rows}[label]
    except (OSError, IndexError, KeyError) as error:
        raise InfrastructureError(
            f"{folder}: the board did not say which disk {label} is"
        ) from error


@dataclass(frozen=True)
class _Part:
    """The readings of the clock around a cell, by time, and how many marks are before each."""

    times: Ints
    places: Ints

    @property
    def marks(self) -> slice:
        """The marks between the first reading and the last."""
        return slice(int(self.places.min()), int(self.places.max()))

    def sums(self, each: Ints) -> Ints:
        """What is before each reading, from the first mark on, of a value of each mark."""
        total = np.concatenate([[0], np.cumsum(each)])
        found: Ints = total[self.places - self.marks.start]
        return found

    def until(self, values: np.ndarray) -> Ints:
        """The same of a value of each mark of the boot."""
        return self.sums(values[self.marks].astype(np.int64))


class _Counter:
    """Divides the cells of one boot."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._order = np.argsort(windows.times, kind="stable")
        self._times = windows.times[self._order]
        self._places = windows.places[self._order]
        self._window, entry, often = windows.entries
        blocks = entry < ACCESS
        places = np.concatenate([windows.blocks["address"], windows.accesses["address"]])
        # Functions with an instruction of no function of the image have the number -2.
        of_place = windows.symbols.index(places)
        number = windows.numbers
        self._function = of_place[number]
        length = np.zeros(len(places), np.int64)
        length[: len(windows.blocks)] = windows.blocks["instructions"]
        self._executed = length[number] * often
        self._names, self._group = np.unique(self._function, return_inverse=True)
        self._by_group = np.argsort(self._group, kind="stable")
        self._begins = np.searchsorted(self._group[self._by_group], np.arange(len(self._names) + 1))
        self._calls = self._found_calls(entry, blocks)

    def cell(self, file: BootTraceFile, span: Span, device: str, table: IoTable) -> CellFunctions:
        """Divide one cell, whose I/Os ``table`` has."""
        totals = {s: int(table.own(s).sum()) for s in SECTIONS}
        counts: dict[Section, dict[str, int]] = {section: {} for section in SECTIONS}
        if not len(table):
            return CellFunctions(span.name, 0, totals, counts, {})
        often = self._ran(table)
        here = np.bincount(self._group, self._executed * often[self._window], len(self._names))
        part = self._part(span)
        ends = np.searchsorted(part.times, np.stack([table["start"], table.end]))
        readings = Readings(part.times, [np.arange(len(part.times))])
        sums = (
            (self._name(group), self._until(group, part)) for group in np.flatnonzero(here).tolist()
        )
        for name, until in [*sums, (USER, part.until(self._windows.marks["user"]))]:
            # Most of what runs between two I/Os is in none.
            if not (until[ends[1]] - until[ends[0]]).any():
                continue
            columns = cut_cell(file, span, device, (readings, until), len(table))
            for section, column in zip(SECTIONS, COLUMNS, strict=True):
                if value := int(columns[column].sum()):
                    counts[section][name] = counts[section].get(name, 0) + value
        return CellFunctions(span.name, len(table), totals, counts, self._callers(often))

    def _name(self, group: int) -> str:
        return self._windows.symbols.name(int(self._names[group]))

    def _part(self, span: Span) -> _Part:
        """The marks of one cell."""
        last = min(span.end, np.iinfo(np.int64).max)
        low = max(int(np.searchsorted(self._times, span.start)) - 1, 0)
        high = int(np.searchsorted(self._times, last, side="right"))
        return _Part(self._times[low:high], self._places[low:high])

    def _until(self, group: int, part: _Part) -> Ints:
        """Instructions of a function before each reading of the clock of a cell."""
        mine = self._by_group[self._begins[group] : self._begins[group + 1]]
        size = len(self._windows.windows)
        each = np.zeros(size + 1, np.int64)
        each[:size] = np.bincount(self._window[mine], self._executed[mine], size)
        window = self._windows.marks["window"][part.marks].astype(np.int64)
        return part.sums(each[np.where(window == NO_WINDOW, size, window)])

    def _ran(self, table: IoTable) -> Ints:
        """How often each window ran from a cell's first I/O to its last; shape (windows,)."""
        size = len(self._windows.windows)
        ends = np.searchsorted(self._times, [table["start"].min(), table.end.max()])
        low, high = self._places[ends]
        ran = self._windows.marks["window"][low:high]
        return np.bincount(ran[ran != NO_WINDOW].astype(np.int64), minlength=size)

    def _found_calls(self, entry: np.ndarray, blocks: np.ndarray) -> tuple[Ints, Ints, Ints]:
        """Windows in which a function is entered, the function, and what ran right before it."""
        symbols, windows = self._windows.symbols, self._windows
        ordered = windows.windows["is_ordered"].astype(bool)[self._window]
        address = windows.blocks["address"][np.where(blocks, entry, 0)]
        known = blocks & (self._function >= 0)
        start = symbols.starts[np.where(known, self._function, 0)]
        here = np.flatnonzero(known & ordered & (address == start))
        here = here[here > 0]
        before = here - 1
        here = here[
            (self._window[before] == self._window[here])
            & (self._function[before] >= 0)
            & (self._function[before] != self._function[here])
        ]
        return self._window[here], self._function[here], self._function[here - 1]

    def _callers(self, often: Ints) -> dict[str, dict[str, int]]:
        window, called, caller = self._calls
        times = often[window]
        ran = times > 0
        pairs = np.stack([called[ran], caller[ran]], axis=1)
        kinds, place = np.unique(pairs, axis=0, return_inverse=True)
        sums = np.bincount(place.reshape(-1), times[ran], len(kinds)).astype(np.int64)
        found: dict[str, dict[str, int]] = {}
        for (one, other), number in zip(kinds.tolist(), sums.tolist(), strict=True):
            name, by = self._windows.symbols.name(one), self._windows.symbols.name(other)
            mine = found.setdefault(name, {})
            mine[by] = mine.get(by, 0) + number
        return found
