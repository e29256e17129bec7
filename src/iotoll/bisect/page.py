"""A ledger as one HTML file: a waterfall for each family, and the table that it is drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from iotoll.bisect.terminal import named, titled
from iotoll.records.text import fixed
from iotoll.reports.kit.page import Table, page_template
from iotoll.reports.kit.svg import WIDE, Panel

Part = tuple[str, str]

WHY = {
    "same": "nothing differs between their ends",
    "tiny": "an instruction per I/O at most, or noise of work outside I/Os: not divided",
    "limit": "not divided: the limit on builds was reached",
    "skipped": "not divided: those between them do not build or boot",
    "commit": "",
    "small": "no more than the gate's threshold: the boot alone can do that, without the commit",
}


@dataclass(frozen=True)
class Family:
    """Cells of one device that have the same values in every row, in one section."""

    label: str
    section: str
    cells: tuple[str, ...]

    @property
    def part(self) -> Part:
        """A cell and section that stands for all of them."""
        return self.cells[0], self.section


@dataclass(frozen=True)
class LedgerRow:
    """One row as it is shown; ``values`` are tenths, one per family.

    ``depth`` is 0 for rows that add up to the total; deeper ones are what a merge above them holds.
    """

    title: str
    author: str
    note: str
    values: tuple[int, ...]
    depth: int = 0
    kind: str = "commit"


@dataclass(frozen=True)
class Ledger:
    """Everything that a page or a text of a ledger shows."""

    good: Mapping[str, Any]
    bad: Mapping[str, Any]
    board: str
    families: Sequence[Family]
    rows: Sequence[LedgerRow]
    totals: tuple[int, ...]
    commits: int
    cells: int
    partial: bool
    spent: Mapping[str, Any]
    disk: Mapping[str, Any]
    skipped: Sequence[str] = field(default_factory=list)

    def adds_up(self) -> bool:
        """Whether the rows of depth 0 have the totals, in every family."""
        top = [row.values for row in self.rows if row.depth == 0]
        return (
            tuple(map(sum, zip(*top, strict=True))) == self.totals if top else not any(self.totals)
        )


def families(columns: Sequence[Mapping[Part, int]]) -> list[Family]:
    """Group the parts of all rows by equal values, so that a group loses nothing."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for part in sorted({part for column in columns for part in column}):
        values = tuple(column.get(part, 0) for column in columns)
        key = (part[0].partition("-")[0], part[1], values)
        groups.setdefault(key, []).append(part[0])
    return [Family(label(cells), key[1], tuple(cells)) for key, cells in groups.items()]


def label(cells: Sequence[str]) -> str:
    """One name for several cells: what differs between them becomes a star."""
    rows = [cell.split("-") for cell in cells]
    if len(cells) == 1:
        return cells[0]
    if len({len(row) for row in rows}) > 1:
        return f"{rows[0][0]}-* ({len(cells)} cells)"
    words = [words[0] if len(set(words)) == 1 else "*" for words in zip(*rows, strict=True)]
    return f"{'-'.join(words)} ({len(cells)} cells)"


def number(tenths: int) -> str:
    """Tenths of an instruction as a signed number; whole where it is."""
    return fixed(tenths / 10, 1 if tenths % 10 else 0, sign=True, minus="-")


def ledger_text(ledger: Ledger) -> str:
    """The ledger as plain text of at most 100 columns or so, as a mailing list takes it."""
    lines = [
        f"Instructions per I/O from {named(dict(ledger.good))}",
        f"                       to {named(dict(ledger.bad))}",
        f"Board {ledger.board} (exact counts, not time), {ledger.commits} commits,"
        f" {ledger.cells} cells that differ",
        "",
    ]
    for row in ledger.rows:
        indent = "    " * row.depth
        lines.append(f"{indent}{row.title}")
        if row.author:
            lines.append(f"{indent}  by {row.author}")
        if row.note:
            lines.append(f"{indent}  ({row.note})")
        lines += [f"{indent}  {line}" for line in _values(ledger, row.values)]
    lines += ["", "B minus A, which is the sum of the rows above that are not indented:"]
    lines += [f"  {line}" for line in _values(ledger, ledger.totals) or ["nothing differs"]]
    spent = ledger.spent
    lines += [
        "",
        f"kernels built: {spent['builds']} ({spent['build_seconds']:.0f} s), from the cache:"
        f" {spent['cached']}; boots: {spent['boots']} ({spent['boot_seconds']:.0f} s);"
        f" commits skipped: {spent['skipped']}; disk: {ledger.disk['folder'] / 1e6:.0f} MB",
    ]
    if ledger.partial:
        lines.append("the limit on builds was reached: rows say what it keeps together")
    return "\n".join(lines) + "\n"


def _values(ledger: Ledger, values: Sequence[int]) -> list[str]:
    shown = [(f, v) for f, v in zip(ledger.families, values, strict=True) if v]
    wide = max((len(f.label) for f, _ in shown), default=0)
    return [f"{f.label:<{wide}}  {titled(f.section):<10} {number(v):>8}" for f, v in shown]


def ledger_data(ledger: Ledger) -> dict[str, Any]:
    """The ledger as JSON; values are instructions per I/O."""
    return {
        "schema_version": "iotoll.ledger/1",
        "good": dict(ledger.good),
        "bad": dict(ledger.bad),
        "board": ledger.board,
        "families": [
            {"label": f.label, "section": f.section, "cells": list(f.cells)}
            for f in ledger.families
        ],
        "rows": [
            {
                "title": row.title,
                "author": row.author,
                "kind": row.kind,
                "depth": row.depth,
                "note": row.note,
                "values": [v / 10 for v in row.values],
            }
            for row in ledger.rows
        ],
        "totals": [v / 10 for v in ledger.totals],
        "adds_up": ledger.adds_up(),
        "commits": ledger.commits,
        "partial": ledger.partial,
        "skipped": list(ledger.skipped),
        "spent": dict(ledger.spent),
        "disk": dict(ledger.disk),
    }


HEIGHT, LEFT, TOP, SPARE = 220, 60, 16, 48
"""Of a waterfall in SVG units; ``SPARE`` is the height that its labels take."""
SHOWN = 12
"""Waterfalls of a page: of the families with the largest movement; the table has all."""
_COLOURS = {"grew": "grew", "shrank": "shrank", "small": "muted", "total": "vfs_fs"}


@dataclass(frozen=True)
class Bar:
    """One bar of a waterfall, between two levels in tenths."""

    title: str
    kind: str
    before: int
    after: int
    value: str


@dataclass(frozen=True)
class Waterfall:
    """From A to B in one family: each bar is a row of the ledger, the last one is B minus A."""

    title: str
    bars: Sequence[Bar]
    total: str


def ledger_page(ledger: Ledger) -> str:
    """The whole page."""
    falls = waterfalls(ledger)
    return (
        page_template("iotoll.bisect", "ledger.html.j2").render(
            ledger=ledger,
            falls=[(fall, Markup(_drawn(f"w{n}", fall))) for n, fall in enumerate(falls)],
            has_small=any(bar.kind == "small" for fall in falls for bar in fall.bars),
            left_out=max(0, len(ledger.families) - SHOWN),
            rows=_table(ledger),
        )
        + "\n"
    )


def _table(ledger: Ledger) -> Table:
    head = ["Commit"]
    head += [Markup("{}<br>{}").format(f.label, f.section) for f in ledger.families]
    rows = [
        [_row_title(row), *(number(value) if value else "" for value in row.values)]
        for row in ledger.rows
    ]
    return Table(head, [*rows, ["B minus A", *map(number, ledger.totals)]], total=True)


def _row_title(row: LedgerRow) -> Markup:
    notes = [Markup('<span class="note">{}</span>').format(n) for n in (row.author, row.note) if n]
    text = Markup("{}{}").format(row.title, Markup("").join(notes))
    return Markup('<span class="inside">{}</span>').format(text) if row.depth else text


def waterfalls(ledger: Ledger) -> list[Waterfall]:
    """One for each family, those with the largest movement first."""
    top = [row for row in ledger.rows if row.depth == 0]
    sizes = [sum(abs(row.values[i]) for row in top) for i in range(len(ledger.families))]
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])[:SHOWN]
    return [_waterfall(ledger, i) for i in order if sizes[i]]


def _waterfall(ledger: Ledger, index: int) -> Waterfall:
    bars, level = [], 0
    for row in ledger.rows:
        if row.depth == 0 and (value := row.values[index]):
            kind = "small" if row.kind == "small" else "grew" if value > 0 else "shrank"
            bars.append(Bar(row.title, kind, level, level + value, number(value)))
            level += value
    total = number(ledger.totals[index])
    bars.append(Bar("B minus A", "total", 0, level, total))
    family = ledger.families[index]
    return Waterfall(f"{family.label}: {titled(family.section)}", bars, total)


def _drawn(name: str, fall: Waterfall) -> str:
    """The chart: every bar begins where the one before it ends."""
    levels = [0, *(bar.after for bar in fall.bars)]
    low, high = min(levels), max(levels)
    scale = (HEIGHT - SPARE) / max(high - low, 1)
    step = (WIDE - LEFT) / len(fall.bars)
    panel = Panel(HEIGHT, WIDE)

    def at(level: int) -> float:
        return TOP + (high - level) * scale

    panel.line(LEFT, at(0), WIDE, at(0), "second")
    panel.text(LEFT - 6, at(0), "A", align="right")
    for place, bar in enumerate(fall.bars):
        x, top = LEFT + step * (place + 0.1), min(at(bar.before), at(bar.after))
        wide, tall = step * 0.8, max(1.0, abs(at(bar.before) - at(bar.after)))
        panel.bar(x, top, wide, tall, _COLOURS[bar.kind], f"{bar.title}: {bar.value}")
        if bar.kind != "total":
            panel.line(x, at(bar.after), x + step, at(bar.after), "second")
        panel.text(x + wide / 2, top - 7, bar.value, align="center")
        named = bar.title[:12] if wide > 62 else str(place + 1)
        below = "B" if bar.kind == "total" else named
        panel.text(x + wide / 2, HEIGHT - 9, below, "muted", align="center")
    return panel.svg(
        name, f"{fall.title}: waterfall from A to B", f"{fall.total} instructions per I/O"
    )
