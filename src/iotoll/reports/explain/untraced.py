"""The table of `iotoll explain --untraced`: with events, calibrated, and without events."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.records.models import UntracedCell, UntracedRecord
from iotoll.reports.page.text import clean, number

_HEADINGS = ("traced", "calibrated", "untraced", "off by")
"""With trace events; that, less their calibrated cost; without events; calibrated less that."""


def print_untraced(record: UntracedRecord, console: Console) -> None:
    """Print medians of instructions per I/O, section by section, for each cell and kernel."""
    console.print(Text(f"{record.board}: instructions per I/O, medians", "bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("cell", "kernel", "section"):
        table.add_column(heading, overflow="fold")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for cell in record.cells:
        for row in rows(cell):
            table.add_row(*row)
    console.print(table)
    for cell in record.cells:
        if cell.not_cut or not cell.ios:
            text = f"! {clean(cell.cell)}, {cell.side}: {cell.ios} I/Os cut, {cell.not_cut} not"
            console.print(Text(text, "yellow"))


def rows(cell: UntracedCell) -> list[tuple[str, ...]]:
    """A line for each section, then the sum of those that have all three values."""
    found: list[tuple[str, ...]] = []
    sums, whole = [0.0, 0.0, 0.0], bool(cell.sections)
    for section in cell.sections:
        values = (section.traced, section.calibrated, section.untraced)
        found.append((clean(cell.cell), cell.side, section.section.value, *_numbers(values)))
        whole = whole and None not in values
        sums = [total + (value or 0.0) for total, value in zip(sums, values, strict=True)]
    if whole:
        found.append((clean(cell.cell), cell.side, "all four", *_numbers(tuple(sums))))
    return found


def _numbers(values: tuple[float | None, ...]) -> tuple[str, str, str, str]:
    traced, calibrated, untraced = ("-" if v is None else number(v) for v in values)
    known = values[1] is not None and values[2] is not None
    off = f"{(values[1] or 0) - (values[2] or 0):+.0f}" if known else "-"
    return traced, calibrated, untraced, off
