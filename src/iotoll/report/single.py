"""Figures that no verdict belongs to, for the terminal: one cell of one trace, or one kernel."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.models import CellRecord, Clock, SideResult, Stats
from iotoll.models.base import SOFTWARE_SECTIONS
from iotoll.report import view
from iotoll.report.text import (
    cell_name,
    clean,
    clock_note,
    number,
    percent,
    plural,
    section_title,
    unit_label,
)

_QUANTILES = ("count", "min", "median", "trimmed_mean", "p90", "p99", "p99_9", "max")
_HEADS = ("I/Os", "min", "median", "trim.mean", "p90", "p99", "p99.9", "max")


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


def _stats_row(table: Table, label: str, stats: Stats) -> None:
    table.add_row(label, *(number(getattr(stats, name)) for name in _QUANTILES))


def cell_table(record: CellRecord, console: Console) -> None:
    """Print everything that one trace says about one cell, with the counts that qualify it."""
    unit = unit_label(record.unit, record.clock)
    virtual = record.clock is Clock.INSTRUCTIONS
    console.print(Text(record.cell, "bold"))
    if virtual:
        console.print(Text(clock_note(record.clock, virtual), "dim"))
    if record.invalid is not None:
        console.print(Text(f"! invalid: {clean(record.invalid)}", "bold yellow"))
    if lost := view.lost_events(record):
        dropped = plural(view.dropped_ios(record), "I/O")
        text = f"! {plural(lost, 'trace event')} lost, {dropped} left out"
        console.print(Text(text, "yellow"))
    shown = [s for s in view.shown_sections(record.clock) if s in record.sections]
    table = _grid(console, f"Elapsed, {unit}", "section", *_HEADS)
    for section in shown:
        _stats_row(table, section_title(section), record.sections[section].elapsed)
    _stats_row(table, "overhead 1+2+4", record.overhead.elapsed)
    if record.clock is Clock.TIME:
        _stats_row(table, "whole I/O", record.total.elapsed)
    console.print(table)
    _own_table(record, console, unit)
    _counts(record, console)


def _own_table(record: CellRecord, console: Console, unit: str) -> None:
    heads = ("section", "own median", "clean median", "clean I/Os", "corrected", "first request")
    table = _grid(console, f"Executed for the I/O itself, {unit}", *heads)
    for section in view.shown_sections(record.clock):
        if section not in record.sections:
            continue
        part = record.sections[section]
        table.add_row(
            section_title(section),
            number(part.own.median),
            number(part.own_clean.median),
            percent(part.own_clean.count / part.own.count if part.own.count else None),
            number(part.corrected_median),
            number(part.first.median),
        )
    console.print(table)


def _counts(record: CellRecord, console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for label, text in view.counts(record):
        table.add_row(Text(label), Text(text))
    for path in sorted(record.paths, key=lambda p: -p.ios)[:5]:
        table.add_row("path", Text(f"{clean(path.path)}: {plural(path.ios, 'I/O')}"))
    console.print()
    console.print(table)


def side_table(result: SideResult, console: Console) -> None:
    """Print one line a cell of one kernel: the median of each section, and the overhead."""
    unit = unit_label(result.unit, result.clock)
    boots = plural(max((len(r) for r in result.cells.values()), default=0), "boot")
    kernel = f"Linux {result.source.version}" if result.source else "ready-made image"
    console.print(Text(f"{kernel}, {plural(len(result.cells), 'cell')}, {boots}", "bold"))
    virtual = any("qemu" in boot.tools for boot in result.boots)
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
