"""One cell in the terminal.

Where a table is too wide for the terminal, columns that matter least are left out, and said to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from iotoll.measure.fio_words import fio_lines
from iotoll.records.models import CellRecord, Clock, Section, Stats
from iotoll.records.text import (
    clean,
    clock_note,
    number,
    percent,
    plural,
    section_title,
    unit_label,
)
from iotoll.reports.page import view
from iotoll.reports.page.counts import counts
from iotoll.reports.trace.filters import fixed_name
from iotoll.reports.trace.missing import command, overdue

PATHS_SHOWN = 5
_HEADS = ("median", "mean", "p99", "max", "share")
_NONE = Stats(count=0)
_Row = Sequence[str | Text]


def _print(
    console: Console,
    title: str,
    heads: Sequence[str],
    rows: Iterable[_Row],
    words: Sequence[str],
    least: Sequence[str] = (),
) -> None:
    """Print a table whose columns ``words`` are text, the others numbers.

    Of the columns ``least`` as many as need be are left out, the first one first.
    """
    rows = list(rows)
    left_out: list[str] = []
    anywhere = console.options.update_width(1000)
    table = _table(heads, rows, words, left_out)
    for name in least:
        if Measurement.get(console, anywhere, table).maximum <= console.width:
            break
        left_out.append(name)
        table = _table(heads, rows, words, left_out)
    console.print()
    console.print(Text(title, "bold"))
    console.print(table)
    if left_out:
        # The second line of a head stands below that of its left neighbour.
        names = dict.fromkeys(name.replace("\n", " ").strip() for name in left_out)
        console.print(Text(f"Too narrow for: {', '.join(names)}", "dim"))


def _table(
    heads: Sequence[str], rows: Iterable[_Row], words: Sequence[str], left_out: Sequence[str]
) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    shown = [place for place, head in enumerate(heads) if head not in left_out]
    for head in (heads[place] for place in shown):
        table.add_column(head, justify="left" if head in words else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[place] for place in shown))
    return table


def print_cell(record: CellRecord, console: Console) -> None:
    """Print everything that one trace says about one cell, with the counts that qualify it."""
    _head(record, console)
    unit = unit_label(record.unit, record.clock)
    if record.total.elapsed.count:
        ios = plural(record.total.elapsed.count, "I/O")
        _sections(record, console, f"Elapsed, {unit}, {ios}", "elapsed")
        if record.total.own.count:
            _sections(record, console, f"Executed for the I/O itself (own), {unit}", "own")
            _own_table(record, console, unit)
        _steps(record, console, unit)
        if part := record.total.elapsed.resolution:
            line = f"More values than are kept one by one: quantiles known to {percent(part)}"
            console.print(Text(line, "dim"))
    if record.blocks:
        print_blocks(record, console)
    _facts(record, console)


def print_blocks(record: CellRecord, console: Console) -> None:
    """Print requests and bios of each device, its layers and tasks, and what else could be told."""
    blocks = record.blocks or {}
    unit = unit_label(record.unit, record.clock)
    durations = ("Q2D\nmedian", "D2C\nmedian", "\np99", "Q2C\nmedian", "\np99")
    heads = ("device", "what", "rows", *durations, "deepest")
    rows: list[_Row] = []
    for device in blocks["devices"]:
        found = device["durations"]
        for what in (w for w in ("requests", "bios") if device[w]):
            figures = [_figure(found, *key, device, what) for key in _DURATIONS]
            deepest = number(device["deepest"]) if what == "requests" else ""
            rows.append((_device(device), what, number(device[what]), *figures, deepest))
    _print(console, f"Requests and bios, {unit}", heads, rows, ("device", "what"), _LEAST)
    _layers(blocks, console)
    for device in blocks["devices"]:
        if parts := device["partitions"]:
            shares = ", ".join(f"{_named(part)}: {number(n)}" for part, n in parts.items())
            console.print(Text(f"{device['dev']} by partition: {shares}", "dim"))
        tasks = [
            f"{clean(t['task'] or '?')} {t['pid']}: {number(t['rows'])}"
            for t in device["tasks"][:_TASKS]
        ]
        more = len(device["tasks"]) - _TASKS
        text = ", ".join(tasks) + (", ..." if more > 0 else "")
        console.print(Text(f"{device['dev']} by task: {text}", "dim"))
    if told := command(record, blocks):
        what, line = told
        console.print(Text(f"For {what}, record with:", "dim"))
        # As a shell takes it, in short lines.
        folded = line.replace(" -e ", " \\\n    -e ").replace(" -o ", " \\\n    -o ")
        console.print(Text(f"  {folded}"))


_TASKS = 4
_LEAST = ("deepest", "\np99", "what", "Q2C\nmedian")
_DURATIONS = (
    ("q2d", "median"),
    ("d2c", "median"),
    ("d2c", "p99"),
    ("q2c", "median"),
    ("q2c", "p99"),
)


def _figure(found: dict[str, Any], name: str, which: str, device: dict[str, Any], what: str) -> str:
    """A duration; none of a device some of whose completions are missing."""
    both = device["requests"] and device["bios"]
    if name not in found or (both and what == "bios"):
        return ""
    if name != "q2d" and device["overdue"]:
        return "missing"
    return number(found[name][which])


def _device(device: dict[str, Any]) -> str:
    above = f" under {', '.join(device['above'])}" if device["above"] else ""
    return _named(device["dev"]) + above


def _named(dev: str) -> str:
    """A device's number, and its name where the kernel fixes it by the number."""
    name = fixed_name(dev)
    return f"{dev} {name}" if name else dev


def _layers(blocks: dict[str, Any], console: Console) -> None:
    """How long bios of devices on others were in each layer."""
    rows: list[_Row] = []
    for device in blocks["devices"]:
        if not device["below"]:
            continue
        found = device["durations"]
        figures = [
            number(found[name]["median"]) if name in found and not device["overdue"] else ""
            for name in ("before", "below", "after")
        ]
        rows.append((device["dev"], ", ".join(device["below"]), number(device["bios"]), *figures))
    if rows:
        heads = ("device", "on", "bios", "before\nmedian", "below\nmedian", "after\nmedian")
        title = "Layers: in the device, in those below, in the device again"
        _print(console, title, heads, rows, heads[:2])


def _head(record: CellRecord, console: Console) -> None:
    console.print(Text(clean(record.cell), "bold"))
    virtual = record.clock is Clock.INSTRUCTIONS
    if virtual:
        console.print(Text(clock_note(record.clock, virtual), "dim"))
    if record.filters:
        words = " ".join(f"{option} {clean(value)}" for option, value in record.filters.items())
        console.print(Text(f"Only: {words}", "bold"))
    for line in record.warnings or ():
        console.print(Text(f"! {clean(line)}", "bold yellow"), soft_wrap=True)
    if record.invalid is not None:
        console.print(Text(f"! invalid: {clean(record.invalid)}", "bold yellow"))
    for note in record.trace.get("notes", ()):
        console.print(Text(f"! {clean(str(note))}", "yellow"))
    if lost := view.lost_events(record):
        dropped = plural(view.dropped_ios(record), "I/O")
        console.print(Text(f"! {plural(lost, 'trace event')} lost, {dropped} left out", "yellow"))
    if not record.total.elapsed.count:
        console.print(Text(_no_sections(record), "yellow"))


def _no_sections(record: CellRecord) -> str:
    """Why there is no table of sections."""
    if not (record.blocks or {}).get("devices"):
        return "! no I/O to show"
    if overdue(record.blocks or {})[0]:
        return "Completions are missing, so no sections: requests and bios by device:"
    if record.ios.get("seen"):
        return "No I/O could be followed to its end: requests and bios by device:"
    return "No system calls in the trace, so no sections: requests and bios by device:"


def _sections(record: CellRecord, console: Console, title: str, which: str) -> None:
    rows: list[tuple[str, Stats]] = [
        (_title(record, s), getattr(record.sections[s], which) if s in record.sections else _NONE)
        for s in view.shown_sections(record.clock)
        if s in record.sections or s in record.not_in_source
    ]
    rows.append(("overhead 1+2+4", getattr(record.overhead, which)))
    if record.clock is Clock.TIME:
        rows.append(("whole I/O", getattr(record.total, which)))
    whole = _whole(record, which)
    cells = [
        (
            label,
            number(stats.median),
            number(stats.mean),
            number(stats.p99),
            number(stats.max),
            percent(stats.mean / whole if stats.mean is not None and whole else None),
        )
        for label, stats in rows
    ]
    _print(console, title, ("section", *_HEADS), cells, ("section",), ("mean", "max"))


def _title(record: CellRecord, section: Section) -> str:
    return section_title(section).replace(section.value, view.section_label(record, section))


def _whole(record: CellRecord, which: str) -> float:
    """Mean that shares refer to: of the sections that have a meaning on the clock."""
    shown = view.shown_sections(record.clock)
    means = [getattr(record.sections[s], which).mean for s in shown if s in record.sections]
    return float(sum(mean for mean in means if mean is not None))


def _own_table(record: CellRecord, console: Console, unit: str) -> None:
    counted = record.tracing is not None  # nothing is to be corrected
    corrected = () if counted else ("corrected",)
    heads = ("section", "clean\nmedian", "clean\nI/Os", *corrected, "first\nrequest")
    parts = [
        (section, record.sections[section])
        for section in view.shown_sections(record.clock)
        if section in record.sections
    ]
    rows = [
        (
            section_title(section),
            number(part.own_clean.median),
            percent(part.own_clean.count / part.own.count if part.own.count else None),
            *(() if counted else (number(part.corrected_median),)),
            number(part.first.median),
        )
        for section, part in parts
    ]
    title = f"Own medians that foreign work does not touch, {unit}"
    _print(console, title, heads, rows, ("section",))


def _steps(record: CellRecord, console: Console, unit: str) -> None:
    shown = view.shown_sections(record.clock)
    found = [step for step in record.steps if step.section in shown]
    if not found:
        return
    before: Section | None = None
    rows: list[_Row] = []
    for step in found:
        name = step.section.value if step.section is not before else ""
        figures = [number(value) for value in (step.ios, step.median, step.p99)]
        rows.append((name, step.step, *figures))
        before = step.section
    title = f"Where in the sections the time went, {unit}"
    heads = ("section", "step", "I/Os", "median", "p99")
    _print(console, title, heads, rows, ("section", "step"), ("I/Os", "section"))
    meanings = Table.grid(padding=(0, 2))
    meanings.add_column(no_wrap=True)
    meanings.add_column(style="dim")
    for step in found:
        meanings.add_row(step.step, Text(step.meaning))
    console.print()
    console.print(meanings)


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
