"""Estimated time of each section of a cell's I/Os, for the boots of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from iotoll.boards.plugin import TRACING, WINDOWS
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.kernels.symbols import Symbols, read_symbols
from iotoll.measure.boot_trace import COMM, BootTraceFile, Window, disk_of, measure
from iotoll.measure.elements import Readings, cut
from iotoll.measure.iotable import IoTable
from iotoll.measure.windows import Windows, read_windows
from iotoll.records.models import Clock, Section
from iotoll_lab.estimate.core import WHICH, Core, load_core
from iotoll_lab.estimate.stream import Boot, ran_between

SECTIONS = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION, Section.RETURN)
"""Those in which the CPU works for the I/O."""
_COLUMNS = tuple(f"own_{section.value}" for section in SECTIONS)


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
    windows = read_windows(folder)
    if windows is None:
        raise UsageError(
            f"{folder}: has no {WINDOWS}: only exact arm64 boards with one CPU keep what they"
            " executed; measure again on one"
        )
    symbols = read_symbols(image)
    for path in sorted(folder.glob("*/trace.dat")):
        file = BootTraceFile(path)
        for span in (span for span in file.windows if span.name in cells):
            device = _device(folder, disk_of(span))
            options = {"device": device, "comm": COMM, "tracing": folder / TRACING}
            (measured,) = measure(file, [span], Clock.INSTRUCTIONS, **options)  # type: ignore[arg-type]
            if len(measured.table):
                boot = _Cell(windows, symbols, file, span, device, measured.table)
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
        order = np.argsort(windows.times, kind="stable")
        ends = np.searchsorted(windows.times[order], [table["start"].min(), table.end.max()])
        low, high = windows.places[order[ends]].tolist()
        boot = Boot(windows, self.symbols, ran_between(windows, low, high))
        readings = Readings.of(windows)
        sums = [self._ns(boot, load_core(core, one), readings) for one in which]
        for section, column in zip(SECTIONS, _COLUMNS, strict=True):
            counted = float(table.own(section).mean())
            yield Estimate(self.span.name, section, counted, tuple(ns[column] for ns in sums))

    def _ns(self, boot: Boot, core: Core, readings: Readings) -> dict[str, float]:
        """Mean ns per I/O of each column."""
        spans = [(self.span.start, self.span.end)]
        until = boot.until(core)
        with self.file.reading():
            (columns,) = cut(
                readings, until, str(self.file.data), self.device, spans, COMM, _COLUMNS
            )
        if len(columns["pid"]) != len(self.table):
            raise InfrastructureError(f"{self.file.path}: its cycles were cut into other I/Os")
        return {c: float(columns[c].mean()) * 1000 / core.mhz for c in _COLUMNS}


def _device(folder: Path, label: str) -> str:
    rows = (line.split() for line in (folder / "boot/devices").read_text().splitlines())
    found = {row[0]: row[2] for row in rows if len(row) > 2}
    if label not in found:
        raise InfrastructureError(f"{folder}: the board did not say which disk {label} is")
    return found[label]
