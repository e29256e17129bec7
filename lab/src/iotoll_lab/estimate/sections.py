"""Estimated time of each section of a cell's I/Os, for the boots of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from iotoll.explain.by_function import COLUMNS, SECTIONS, cells_of, cut_cell, windows_of
from iotoll.kernels.symbols import Symbols, read_symbols
from iotoll.measure.boot_trace import BootTraceFile, Window
from iotoll.measure.elements import Readings
from iotoll.measure.iotable import IoTable
from iotoll.measure.windows import Windows
from iotoll.records.models import Section
from iotoll_lab.estimate.core import WHICH, Core, load_core
from iotoll_lab.estimate.stream import Boot, ran_between


@dataclass(frozen=True)
class Estimate:
    """Mean ns per I/O of one section, by what is taken of what is assumed (`WHICH`).

    ``instructions`` are counted.
    """

    cell: str
    section: Section
    instructions: float
    ns: tuple[float, ...]


def estimates(
    folder: Path,
    image: Path,
    cells: Sequence[str],
    core: str,
    which: Sequence[str] = WHICH,
) -> Iterator[Estimate]:
    """Of a boot's folder, cell by cell; ``ns`` are in the order of ``which``, of `WHICH`.

    Raises UsageError where the boot has not kept what it executed, InfrastructureError where its
    files contradict each other.
    """
    windows, symbols = windows_of(folder), read_symbols(image)
    for file, span, device, table in cells_of(folder, cells):
        if len(table):
            boot = _Cell(windows, symbols, file, span, device, table)
            yield from boot.estimates(core, which)


@dataclass(frozen=True)
class _Cell:
    """One cell of one boot."""

    windows: Windows
    symbols: Symbols
    file: BootTraceFile
    span: Window
    device: str
    table: IoTable

    def estimates(self, core: str, which: Sequence[str]) -> Iterator[Estimate]:
        """Of each section."""
        windows, table = self.windows, self.table
        ((low, high),) = windows.reach(int(table["start"].min()), int(table.end.max()))
        boot = Boot(windows, self.symbols, ran_between(windows, low, high))
        readings = Readings.of(windows)
        sums = [self._ns(boot, load_core(core, one), readings) for one in which]
        for section, column in zip(SECTIONS, COLUMNS, strict=True):
            counted = float(table.own(section).mean())
            yield Estimate(self.span.name, section, counted, tuple(ns[column] for ns in sums))

    def _ns(self, boot: Boot, core: Core, readings: Readings) -> dict[str, float]:
        """Mean ns per I/O of each column."""
        sums = (readings, boot.until(core))
        with self.file.reading():
            columns = cut_cell(self.file, self.span, self.device, sums, len(self.table))
        return {c: float(columns[c].mean()) * 1000 / core.mhz for c in COLUMNS}
