"""Instructions by function of all requests of a cell's I/Os, from what the boot executed.

`attribute` follows calls and takes an I/O's first request. Here the analyser itself divides: once
for each function, with that function's instructions in place of all (`measure.elements.cut`). So
sums over functions are the analyser's own counts, whatever rule it has for further requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iotoll.boards.plugin import TRACING, WINDOWS
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.kernels.symbols import USER
from iotoll.measure.boot_trace import COMM, BootTraceFile, disk_of, measure
from iotoll.measure.boot_trace import Window as Span
from iotoll.measure.elements import cut
from iotoll.measure.iotable import IoTable
from iotoll.measure.windows import ACCESS, NO_WINDOW, Ints, Windows, read_windows
from iotoll.records.models import Clock, Section

SECTIONS = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION, Section.RETURN)
"""Those in which the CPU works for the I/O."""

_COLUMNS = tuple(f"own_{section.value}" for section in SECTIONS)


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

    Raises UsageError where the boot has not kept what it executed, InfrastructureError where its
    files contradict each other.
    """
    windows = read_windows(folder)
    if windows is None:
        raise UsageError(
            f"{folder}: has no {WINDOWS}: only exact arm64 boards with one CPU keep what they"
            " executed; measure again on one"
        )
    counter = _Counter(windows)
    found: dict[str, CellFunctions] = {}
    for path in sorted(folder.glob("*/trace.dat")):
        file = BootTraceFile(path)
        for span in (span for span in file.windows if span.name in cells):
            device = _device(folder, disk_of(span))
            options = {"device": device, "comm": COMM, "tracing": folder / TRACING}
            (measured,) = measure(file, [span], Clock.INSTRUCTIONS, **options)  # type: ignore[arg-type]
            with file.reading():
                found[span.name] = counter.cell(file, span, device, measured.table)
            on_cell(len(found))
    return found


def _device(folder: Path, label: str) -> str:
    try:
        rows = [line.split() for line in (folder / "boot/devices").read_text().splitlines()]
        return {row[0]: row[2] for row in rows}[label]
    except (OSError, IndexError, KeyError) as error:
        raise InfrastructureError(
            f"{folder}: the board did not say which disk {label} is"
        ) from error


class _Counter:
    """Divides the cells of one boot."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._order = np.argsort(windows.times, kind="stable")
        self._times = windows.times[self._order]
        self._window, entry, often = windows.entries
        blocks = entry < ACCESS
        places = np.concatenate([windows.blocks["address"], windows.accesses["address"]])
        # Functions with an instruction of no function of the image have the number -2.
        of_place = windows.symbols.index(places)
        number = np.where(blocks, entry, len(windows.blocks) + (entry & ~ACCESS))
        self._function = of_place[number]
        length = np.where(blocks, windows.blocks["instructions"][np.where(blocks, entry, 0)], 0)
        self._executed = length.astype(np.int64) * often
        self._names, self._group = np.unique(self._function, return_inverse=True)
        self._by_group = np.argsort(self._group, kind="stable")
        self._begins = np.searchsorted(self._group[self._by_group], np.arange(len(self._names) + 1))
        self._calls = self._found_calls(entry, blocks)

    def cell(self, file: BootTraceFile, span: Span, device: str, table: IoTable) -> CellFunctions:
        """Divide one cell, whose I/Os ``table`` has."""
        totals = {s: int(table.own(s).sum()) for s in SECTIONS}
        counts: dict[Section, dict[str, int]] = {section: {} for section in SECTIONS}
        often = self._ran(table)
        here = np.bincount(self._group, self._executed * often[self._window], len(self._names))
        until = {
            self._windows.symbols.name(int(self._names[group])): self._until(group)
            for group in np.flatnonzero(here).tolist()
        }
        for name, sums in [*until.items(), (USER, self._user())]:
            columns = self._cut(file, span, device, sums, len(table), name)
            for section, column in zip(SECTIONS, _COLUMNS, strict=True):
                if value := int(columns[column].sum()):
                    mine = counts[section]
                    mine[name] = mine.get(name, 0) + value
        return CellFunctions(span.name, len(table), totals, counts, self._callers(often))

    def _cut(
        self, file: BootTraceFile, span: Span, device: str, until: Ints, ios: int, name: str
    ) -> dict[str, Any]:
        spans = [(span.start, span.end)]
        (columns,) = cut(self._times, until, str(file.data), device, spans, COMM, _COLUMNS)
        if len(columns["pid"]) != ios:
            raise InfrastructureError(f"{file.path}: {name} was cut into other I/Os")
        return columns

    def _until(self, group: int) -> Ints:
        """Instructions of a function before each reading of the clock, in order of time."""
        mine = self._by_group[self._begins[group] : self._begins[group + 1]]
        size = len(self._windows.windows)
        each = np.bincount(self._window[mine], self._executed[mine], size).astype(np.int64)
        return self._windows.sums(each)[self._order]

    def _user(self) -> Ints:
        """The same of user space, which marks count and windows do not."""
        total = np.concatenate([[0], np.cumsum(self._windows.marks["user"].astype(np.int64))])
        user: Ints = total[self._windows.places][self._order]
        return user

    def _ran(self, table: IoTable) -> Ints:
        """How often each window ran from a cell's first I/O to its last; shape (windows,)."""
        size = len(self._windows.windows)
        if not len(table):
            return np.zeros(size, np.int64)
        ends = np.searchsorted(self._times, [table["start"].min(), table.end.max()])
        low, high = self._windows.places[self._order[ends.clip(0, len(self._times) - 1)]]
        ran = self._windows.marks["window"][low:high]
        return np.bincount(ran[ran != NO_WINDOW].astype(np.int64), minlength=size)

    def _found_calls(self, entry: Ints, blocks: np.ndarray) -> tuple[Ints, Ints, Ints]:
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
