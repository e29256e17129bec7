"""Two traces side by side: how long each section takes in both, and its share of the I/O."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.core.errors import UsageError
from iotoll.records import results
from iotoll.records.models import CellRecord, Section, Stats
from iotoll.records.text import clean, number, percent, plural, section_title, signed_percent
from iotoll.reports.page import view

Compared = dict[str, Any]
"""What two cells are beside each other, as ``--json`` prints it."""

WHOLE = "total"


def paired(
    before: Sequence[CellRecord], after: Sequence[CellRecord], traces: tuple[Path, ...]
) -> list[tuple[CellRecord, CellRecord]]:
    """Return the cells of both traces that are called alike; single ones, whatever their names.

    Raises UsageError where none fit, or where the figures are of different clocks.
    """
    if len(before) == len(after) == 1:
        pairs = [(before[0], after[0])]
    else:
        named = {record.cell: record for record in after}
        pairs = [(record, named[record.cell]) for record in before if record.cell in named]
    names = " and ".join(map(str, traces))
    if not pairs:
        raise UsageError(f"--compare: no cell of {names} is called alike")
    for one, other in pairs:
        if one.unit is not other.unit:
            units = f"{one.unit.value} and {other.unit.value}"
            raise UsageError(f"--compare: {names} have different clocks: {units}")
    return pairs


def compared(one: CellRecord, other: CellRecord) -> Compared:
    """Return both sides of each section, of the overhead and of the whole I/O.

    A share is of the mean I/O; ``points`` is its difference in percentage points. What a side's
    trace does not tell is null.
    """
    sections = [s for s in view.shown_sections(one.clock) if s in {*one.sections, *other.sections}]
    rows: dict[str, Compared] = {
        section.value: _row(
            _side(one, _elapsed(one, section)), _side(other, _elapsed(other, section))
        )
        for section in sections
    }
    rows["overhead"] = _row(_side(one, one.overhead.elapsed), _side(other, other.overhead.elapsed))
    rows[WHOLE] = _row(_side(one, one.total.elapsed), _side(other, other.total.elapsed))
    return {
        "cells": [one.cell, other.cell],
        "unit": one.unit.value,
        "clock": one.clock.value,
        "ios": [one.total.elapsed.count, other.total.elapsed.count],
        "invalid": [one.invalid, other.invalid],
        "sections": rows,
        "devices": _devices(one, other),
        "judged": False,
    }


DURATIONS = ("q2d", "d2c", "q2c")
"""Queue to issue, issue to completion, and both: what requests have without any system call."""


def _devices(one: CellRecord, other: CellRecord) -> list[Compared]:
    """Both sides of what requests and bios took, by device; single ones, whatever their numbers.

    A share is of the mean from queue to completion.
    """
    sides = [
        {d["dev"]: d for d in (record.blocks or {}).get("devices", [])} for record in (one, other)
    ]
    first, second = sides
    if len(first) == len(second) == 1:
        pairs = [(*first.values(), *second.values())]
    else:
        pairs = [(device, second[dev]) for dev, device in first.items() if dev in second]
    return [
        {
            "devices": [a["dev"], b["dev"]],
            "rows": [a["requests"] or a["bios"], b["requests"] or b["bios"]],
            "durations": {name: _row(_took(a, name), _took(b, name)) for name in DURATIONS},
        }
        for a, b in pairs
    ]


def _took(device: Compared, name: str) -> Compared:
    """A duration of a device's requests; nothing where completions are missing that it needs."""
    known = device["durations"] if name == "q2d" or not device["overdue"] else {}
    stats, whole = known.get(name, {}), known.get("q2c", {}).get("mean")
    share = stats["mean"] / whole if stats and whole else None
    return {key: stats.get(key) for key in ("median", "mean", "p99")} | {"share": share}


def _elapsed(record: CellRecord, section: Section) -> Stats:
    part = record.sections.get(section)
    return part.elapsed if part else Stats(count=0)


def _side(record: CellRecord, stats: Stats) -> Compared:
    shown = (record.sections.get(s) for s in view.shown_sections(record.clock))
    means = [part.elapsed.mean for part in shown if part and part.elapsed.mean is not None]
    whole = sum(means)
    share = stats.mean / whole if stats.mean is not None and whole else None
    return {"median": stats.median, "mean": stats.mean, "p99": stats.p99, "share": share}


def _row(one: Compared, other: Compared) -> Compared:
    row: Compared = {"first": one, "second": other, "change": None, "points": None}
    if one["median"] and other["median"] is not None:
        row["change"] = other["median"] / one["median"] - 1
    if None not in (one["share"], other["share"]):
        row["points"] = 100 * (other["share"] - one["share"])
    return row


def print_compared(found: Compared, traces: tuple[Path, ...], console: Console) -> None:
    """Print one pair: a line for each trace, the table, and what qualifies it."""
    names = ("first", "second")
    for name, trace, cell, ios in zip(names, traces, found["cells"], found["ios"], strict=True):
        line = f"{name + ':':<8}{trace}, {cell}, {plural(ios, 'I/O')}"
        console.print(Text(clean(line)), soft_wrap=True)
    for name, why in zip(names, found["invalid"], strict=True):
        if why is not None:
            console.print(Text(f"! {name} is invalid: {clean(why)}", "bold yellow"))
    label = f"{found['unit']} (clock: {found['clock']})"
    names_of = {WHOLE: "whole I/O", **{s.value: section_title(s) for s in Section}}
    if any(found["ios"]):
        _print_rows(
            "section", [(names_of.get(n, n), row) for n, row in found["sections"].items()], console
        )
        note = f"Medians elapsed, in {label}. A share is of the mean I/O. Not judged."
        console.print(Text(note, "dim"), soft_wrap=True)
    for device in found["devices"]:
        title = " and ".join(dict.fromkeys(device["devices"]))
        counts = " and ".join(number(rows) for rows in device["rows"])
        console.print(Text(f"\n{title}: {counts} requests or bios", "bold"))
        _print_rows(
            "from, to", [(_WORDS[n], row) for n, row in device["durations"].items()], console
        )
    if found["devices"]:
        note = f"Medians, in {label}. A share is of the mean from queue to completion. Not judged."
        console.print(Text(note, "dim"), soft_wrap=True)


_WORDS = {"q2d": "Q2D queue, issue", "d2c": "D2C issue, completion", "q2c": "Q2C queue, completion"}


def _print_rows(what: str, rows: Sequence[tuple[str, Compared]], console: Console) -> None:
    """Print both sides of each row, and the change."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(what)
    for head in ("median\nfirst", "\nsecond", "\nchange", "share\nfirst", "\nsecond", "\npoints"):
        table.add_column(head, justify="right", no_wrap=True)
    for title, row in rows:
        one, other = row["first"], row["second"]
        points = row["points"]
        table.add_row(
            title,
            number(one["median"]),
            number(other["median"]),
            "" if row["change"] is None else signed_percent(row["change"]),
            percent(one["share"]),
            percent(other["share"]),
            "" if points is None else f"{points:+.1f}".replace("-", "\u2212"),
        )
    console.print()
    console.print(table)


def write_shares(found: Compared, folder: Path) -> Path:
    """Write ``CELL-shares.svg``: a bar for each trace, of the sections' shares of the I/O."""
    # Loaded only here: it takes longer to start than a small trace to read.
    from iotoll.reports.kit.svg import palette
    from iotoll.reports.trace.plots import new_axes, svg_text

    first, second = found["cells"]
    figure, axes = new_axes(9, 2.6, "Share of the mean I/O by section", f"{first} and {second}")
    colours = palette()
    for place, side in enumerate(("second", "first")):
        left = 0.0
        for section in Section:
            row = found["sections"].get(section.value)
            share = 100 * (row[side]["share"] or 0) if row else 0
            bar = axes.barh(place, share, left=left, color=colours[section.value], height=0.6)
            if place:
                bar.set_label(section_title(section))
            left += share
    axes.set_yticks([0, 1], ["second", "first"])
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the mean I/O, %")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.35), ncols=5, frameon=False, fontsize=9)
    name = "".join(c if c.isalnum() or c in "-._" else "-" for c in first)
    path = folder / f"{name}-shares.svg"
    results.write_text(path, svg_text(figure))
    return path
