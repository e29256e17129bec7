"""A ledger as one HTML file: a waterfall for each family, and the table that it is drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iotoll.bisect.terminal import named, titled
from iotoll.reports.markup import page_environment

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
    sign = "+" if tenths > 0 else "-" if tenths < 0 else ""
    whole, rest = divmod(abs(tenths), 10)
    return f"{sign}{whole:,}" + (f".{rest}" if rest else "")


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


WIDTH, HEIGHT, LEFT, TOP = 760, 220, 60, 16
SHOWN = 12
"""Waterfalls of a page: of the families with the largest movement; the table has all."""


@dataclass(frozen=True)
class Bar:
    """One bar of a waterfall in the units of its SVG; ``edge`` is where the next one begins."""

    x: float
    y: float
    width: float
    height: float
    edge: float
    kind: str
    title: str
    value: str


@dataclass(frozen=True)
class Waterfall:
    """From A to B in one family: each bar is a row of the ledger."""

    title: str
    bars: Sequence[Bar]
    zero: float
    total: str


def ledger_page(ledger: Ledger) -> str:
    """The whole page."""
    environment = page_environment("iotoll.bisect")
    falls = waterfalls(ledger)
    return (
        environment.get_template("ledger.html.j2").render(
            ledger=ledger,
            falls=falls,
            has_small=any(bar.kind == "small" for fall in falls for bar in fall.bars),
            left_out=max(0, len(ledger.families) - SHOWN),
            number=number,
            width=WIDTH,
            height=HEIGHT,
            left=LEFT,
        )
        + "\n"
    )


def waterfalls(ledger: Ledger) -> list[Waterfall]:
    """One for each family, those with the largest movement first."""
    top = [row for row in ledger.rows if row.depth == 0]
    sizes = [sum(abs(row.values[i]) for row in top) for i in range(len(ledger.families))]
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])[:SHOWN]
    return [_waterfall(ledger, i) for i in order if sizes[i]]


def _waterfall(ledger: Ledger, index: int) -> Waterfall:
    rows = [r for r in ledger.rows if r.depth == 0 and r.values[index]]
    levels = [0]
    for row in rows:
        levels.append(levels[-1] + row.values[index])
    low, high = min(levels), max(levels)
    scale = (HEIGHT - 3 * TOP) / max(high - low, 1)
    wide = (WIDTH - LEFT) / (len(rows) + 1)

    def at(level: int) -> float:
        return round(TOP + (high - level) * scale, 1)

    bars = []
    for place, row in enumerate(rows):
        before, after = levels[place], levels[place + 1]
        kind = "small" if row.kind == "small" else "grew" if after > before else "shrank"
        bars.append(_bar(place, wide, at(before), at(after), kind, row.title, row.values[index]))
    total = ledger.totals[index]
    bars.append(_bar(len(rows), wide, at(0), at(levels[-1]), "total", "B minus A", total))
    family = ledger.families[index]
    return Waterfall(f"{family.label}: {titled(family.section)}", bars, at(0), number(total))


def _bar(
    place: int, wide: float, before: float, after: float, kind: str, title: str, value: int
) -> Bar:
    return Bar(
        x=round(LEFT + place * wide + wide * 0.1, 1),
        y=min(before, after),
        width=round(wide * 0.8, 1),
        height=max(1.0, round(abs(before - after), 1)),
        edge=after,
        kind=kind,
        title=title,
        value=number(value),
    )
