"""Figures of one kernel that no verdict belongs to, for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.records.models import CellRecord, Clock, SideResult
from iotoll.records.models.base import SOFTWARE_SECTIONS
from iotoll.reports.page import view
from iotoll.reports.page.counts import fio_warnings
from iotoll.reports.page.text import (
    cell_name,
    clean,
    clock_note,
    number,
    percent,
    plural,
    unit_label,
)


def _grid(console: Console, title: str, *heads: str, words: int = 1) -> Table:
    table = Table(
        title=Text(title, "bold"),
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 1 if len(heads) > 7 else 2, 0, 0),
        header_style="dim",
    )
    for index, head in enumerate(heads):
        table.add_column(head, justify="left" if index < words else "right", no_wrap=True)
    console.print()
    return table


def side_table(result: SideResult, console: Console) -> None:
    """Print one line a cell of one kernel: the median of each section, and the overhead."""
    unit = unit_label(result.unit, result.clock)
    boots = plural(max((len(r) for r in result.cells.values()), default=0), "boot")
    kernel = f"Linux {result.source.version}" if result.source else "ready-made image"
    console.print(Text(f"{kernel}, {plural(len(result.cells), 'cell')}, {boots}", "bold"))
    virtual = any(boot.virtual for boot in result.boots)
    console.print(Text(clock_note(result.clock, virtual), "dim"))
    records = {n: r for n, r in result.cells.items()}
    corrected = result.clock is Clock.INSTRUCTIONS and all(
        part.corrected_median is not None
        for boots_of in records.values()
        for record in boots_of
        for part in record.sections.values()
        if part.own.count
    )
    kind = "corrected median" if corrected else "raw median"
    sections = view.shown_sections(result.clock)
    groups: dict[str, list[str]] = {}
    for name in sorted(map(cell_name, records)):
        groups.setdefault(name.group, []).append(name.full)
    for title, names in groups.items():
        heads = (*(s.value for s in sections), "1+2+4", "clean")
        table = _grid(console, f"{title}: {kind}, {unit}", "cell", *heads)
        for full in names:
            _side_row(table, full, records[full], corrected)
        console.print(table)
    for full, boots_of in records.items():
        for why in dict.fromkeys(r.invalid for r in boots_of if r.invalid is not None):
            console.print(Text(f"! {full}: invalid: {clean(why)}", "yellow"))
        usable = [r for r in boots_of if r.invalid is None]
        for text in dict.fromkeys(text for r in usable for text in fio_warnings(r)):
            console.print(Text(f"! {full}: {clean(text)}", "yellow"))


def _side_row(table: Table, full: str, records: list[CellRecord], corrected: bool) -> None:
    usable = [r for r in records if r.invalid is None]
    if not usable:
        table.add_row(cell_name(full).workload, Text("invalid", "yellow"))
        return
    sections = view.shown_sections(usable[0].clock)
    found = {s: view.figures(usable, s) for s in sections}
    values = {s: f.corrected if corrected else f.raw for s, f in found.items()}
    software = [values[s] for s in SOFTWARE_SECTIONS]
    known = [v for v in software if v is not None]
    total = sum(known) if len(known) == len(software) else None
    shares = [f.clean_share for f in found.values() if f.clean_share is not None]
    table.add_row(
        cell_name(full).workload,
        *(number(v) for v in values.values()),
        number(total),
        percent(min(shares) if shares else None),
    )
