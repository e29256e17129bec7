"""The values of one kernel, which no verdict belongs to, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.measure.fio_words import fio_warnings
from iotoll.records.models import CellRecord, Clock, SideResult
from iotoll.records.models.base import SOFTWARE_SECTIONS, Section
from iotoll.records.text import (
    CellName,
    cell_name,
    clean,
    clock_note,
    number,
    percent,
    plural,
    unit_label,
)
from iotoll.reports.page import view


def side_table(result: SideResult, console: Console) -> None:
    """Print a table per device and I/O mode, with one line per cell, and then what is wrong.

    A line has the median of each section over all boots, their sum over sections 1, 2 and 4, and
    the smallest share of clean I/Os; all in the unit of the result's clock.
    """
    boots = plural(max((len(r) for r in result.cells.values()), default=0), "boot")
    kernel = f"Linux {result.source.version}" if result.source else "ready-made image"
    console.print(Text(f"{kernel}, {plural(len(result.cells), 'cell')}, {boots}", "bold"))
    virtual = any(boot.virtual for boot in result.boots)
    # Of all boards, User Mode Linux alone has no events of system calls.
    native = any(boot.facts.before.get("calls") for boot in result.boots)
    console.print(Text(clock_note(result.clock, virtual, native), "dim"))
    corrected = _is_corrected(result)
    records = [record for several in result.cells.values() for record in several]
    kind = "corrected median" if corrected else "raw median"
    if view.recorder_counted(records):
        kind = "median without the recorder"
    unit = unit_label(result.unit, result.clock)
    names = sorted(map(cell_name, result.cells))
    for title, group in groupby(names, key=lambda name: name.group):
        table = _table(f"{title}: {kind}, {unit}", view.shown_sections(result.clock))
        for name in group:
            _add_row(table, name, result.cells[name.full], corrected)
        console.print()
        console.print(table)
    for full, records in result.cells.items():
        for problem in _problems(records):
            console.print(Text(f"! {full}: {problem}", "yellow"))


def _is_corrected(result: SideResult) -> bool:
    """Whether every section with an I/O has a value less the cost of its own trace events."""
    parts = [
        part
        for records in result.cells.values()
        for record in records
        for part in record.sections.values()
        if part.own.count
    ]
    return result.clock is Clock.INSTRUCTIONS and all(
        part.corrected_median is not None for part in parts
    )


def _table(title: str, sections: Sequence[Section]) -> Table:
    heads = [*(section.value for section in sections), "1+2+4", "clean"]
    table = Table(
        title=Text(title, "bold"),
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 1 if len(heads) > 6 else 2, 0, 0),
        header_style="dim",
    )
    table.add_column("cell", no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _add_row(table: Table, name: CellName, records: list[CellRecord], corrected: bool) -> None:
    usable = [record for record in records if record.invalid is None]
    if not usable:
        table.add_row(name.workload, Text("invalid", "yellow"))
        return
    sections = view.shown_sections(usable[0].clock)
    found = {section: view.figures(usable, section) for section in sections}
    values = {s: f.corrected if corrected else f.raw for s, f in found.items()}
    known = [v for s in SOFTWARE_SECTIONS if (v := values[s]) is not None]
    shares = [f.clean_share for f in found.values() if f.clean_share is not None]
    table.add_row(
        name.workload,
        *(number(value) for value in values.values()),
        number(sum(known) if len(known) == len(SOFTWARE_SECTIONS) else None),
        percent(min(shares, default=None)),
    )


def _problems(records: list[CellRecord]) -> list[str]:
    """Each once: why boots of a cell are invalid, and what fio contradicts in the others."""
    invalid = [f"invalid: {clean(r.invalid)}" for r in records if r.invalid is not None]
    doubts = [clean(text) for r in records if r.invalid is None for text in fio_warnings(r)]
    return list(dict.fromkeys([*invalid, *doubts]))
