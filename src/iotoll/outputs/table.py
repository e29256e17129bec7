"""One cell in the terminal, laid out for 80 columns and more."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.models import CellRecord, Clock, Section, Stats
from iotoll.report import view
from iotoll.report.counts import counts, fio_lines
from iotoll.report.text import (
    clean,
    clock_note,
    number,
    percent,
    plural,
    section_title,
    unit_label,
)

PATHS_SHOWN = 5
_HEADS = ("I/Os", "median", "mean", "p99", "max", "share")


def _grid(console: Console, title: str, *heads: str, words: int = 1) -> Table:
    console.print()
    console.print(Text(title, "bold"))
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="dim",
    )
    for index, head in enumerate(heads):
        table.add_column(head, justify="left" if index < words else "right", no_wrap=True)
    return table


def print_cell(record: CellRecord, console: Console) -> None:
    """Print everything that one trace says about one cell, with the counts that qualify it."""
    _head(record, console)
    unit = unit_label(record.unit, record.clock)
    if record.total.elapsed.count:
        _sections(record, console, f"Elapsed, {unit}", "elapsed")
        _sections(record, console, f"Executed for the I/O itself (own), {unit}", "own")
        _own_table(record, console, unit)
        _steps(record, console, unit)
    _facts(record, console)


def _head(record: CellRecord, console: Console) -> None:
    console.print(Text(clean(record.cell), "bold"))
    virtual = record.clock is Clock.INSTRUCTIONS
    if virtual:
        console.print(Text(clock_note(record.clock, virtual), "dim"))
    if record.filters:
        words = " ".join(f"{option} {clean(value)}" for option, value in record.filters.items())
        console.print(Text(f"Only: {words}", "bold"))
    if record.invalid is not None:
        console.print(Text(f"! invalid: {clean(record.invalid)}", "bold yellow"))
    if lost := view.lost_events(record):
        dropped = plural(view.dropped_ios(record), "I/O")
        console.print(Text(f"! {plural(lost, 'trace event')} lost, {dropped} left out", "yellow"))
    if not record.total.elapsed.count:
        console.print(Text("! no I/O to show", "yellow"))


def _sections(record: CellRecord, console: Console, title: str, which: str) -> None:
    table = _grid(console, title, "section", *_HEADS)
    rows: list[tuple[str, Stats]] = [
        (section_title(s), getattr(record.sections[s], which))
        for s in view.shown_sections(record.clock)
        if s in record.sections
    ]
    rows.append(("overhead 1+2+4", getattr(record.overhead, which)))
    if record.clock is Clock.TIME:
        rows.append(("whole I/O", getattr(record.total, which)))
    whole = _whole(record, which)
    for label, stats in rows:
        table.add_row(
            label,
            number(stats.count),
            number(stats.median),
            number(stats.mean),
            number(stats.p99),
            number(stats.max),
            percent(stats.mean / whole if stats.mean is not None and whole else None),
        )
    console.print(table)


def _whole(record: CellRecord, which: str) -> float:
    """Mean that shares refer to: of the sections that have a meaning on the clock."""
    shown = view.shown_sections(record.clock)
    means = [getattr(record.sections[s], which).mean for s in shown if s in record.sections]
    return float(sum(mean for mean in means if mean is not None))


def _own_table(record: CellRecord, console: Console, unit: str) -> None:
    heads = ("section", "clean median", "clean I/Os", "corrected", "first request")
    table = _grid(console, f"Own medians that foreign work does not touch, {unit}", *heads)
    for section in view.shown_sections(record.clock):
        if section not in record.sections:
            continue
        part = record.sections[section]
        table.add_row(
            section_title(section),
            number(part.own_clean.median),
            percent(part.own_clean.count / part.own.count if part.own.count else None),
            number(part.corrected_median),
            number(part.first.median),
        )
    console.print(table)


def _steps(record: CellRecord, console: Console, unit: str) -> None:
    shown = view.shown_sections(record.clock)
    found = [step for step in record.steps if step.section in shown]
    if not found:
        return
    heads = ("section", "step", "I/Os", "median", "p99", "what happens")
    table = _grid(console, f"Where in the sections the time went, {unit}", *heads, words=2)
    table.columns[-1].justify = "left"
    table.columns[-1].no_wrap = False
    before: Section | None = None
    for step in found:
        table.add_row(
            step.section.value if step.section is not before else "",
            step.step,
            number(step.ios),
            number(step.median),
            number(step.p99),
            Text(step.meaning, "dim"),
        )
        before = step.section
    console.print(table)


def _facts(record: CellRecord, console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", max_width=18)
    table.add_column(overflow="fold")
    for label, text in counts(record):
        table.add_row(Text(label), Text(text))
    for agrees, text in fio_lines(record):
        table.add_row(Text("fio"), Text(text, "" if agrees else "bold yellow"))
    for path in sorted(record.paths, key=lambda p: (-p.ios, p.path))[:PATHS_SHOWN]:
        table.add_row(Text("path"), Text(f"{clean(path.path)}: {plural(path.ios, 'I/O')}"))
    console.print()
    console.print(table)
