"""A ledger as one HTML file: its table, and a waterfall for each family, all on one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from iotoll.bisect.fields import LEDGER
from iotoll.bisect.terminal import effort, named, titled
from iotoll.records.text import fixed
from iotoll.reports.kit.page import Table, page_template
from iotoll.reports.kit.svg import WIDTH, Panel

Part = tuple[str, str]

WHY = {
    "limit": "not divided: the limit on builds was reached",
    "skipped": "not divided: those between them do not build or boot",
    "commit": "",
    "small": "no more than the gate's threshold",
}


NAMED = 3
"""Functions of a row that are named."""


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
    ``moved`` says for each family whether the gate's rule counts it, ``some`` which I/Os have it.
    """

    title: str
    author: str
    note: str
    values: tuple[int, ...]
    depth: int = 0
    kind: str = "commit"
    moved: tuple[bool, ...] = ()
    some: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()

    @property
    def function(self) -> str:
        """Functions with other machine code, as a row names them."""
        if not self.functions:
            return ""
        more = len(self.functions) - NAMED
        names = ", ".join(f"{name}()" for name in self.functions[:NAMED])
        return names + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class Ledger:
    """Everything that a page or a text of a ledger shows.

    ``left`` is what no row has; ``unchanged`` commits changed nothing that the rule sees. ``open``
    commits can change the board's kernel, which are all measured with ``every``.
    """

    good: Mapping[str, Any]
    bad: Mapping[str, Any]
    board: str
    families: Sequence[Family]
    rows: Sequence[LedgerRow]
    left: tuple[int, ...]
    totals: tuple[int, ...]
    unchanged: int
    open: int
    every: bool
    commits: int
    cells: int
    partial: bool
    spent: Mapping[str, Any]
    disk: Mapping[str, Any]
    skipped: Sequence[str] = field(default_factory=list)

    def adds_up(self) -> bool:
        """Whether the rows of depth 0 and what is left have the totals, in every family."""
        top = [self.left, *(row.values for row in self.rows if row.depth == 0)]
        return tuple(map(sum, zip(*top, strict=True))) == self.totals

    @property
    def unseen(self) -> str:
        """What such a ledger cannot see; empty where every commit was measured."""
        if self.every or self.open < 2:
            return ""
        return (
            "Commits that cancel each other between two measured ones are not seen:"
            f" --every measures all {self.open} that can change the kernel"
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
    """The ledger as plain text, with what it took, as a mailing list takes it."""
    return "\n".join([*ledger_lines(ledger), "", ledger_effort(ledger)]) + "\n"


def ledger_effort(ledger: Ledger) -> str:
    """What it took, in one line."""
    return effort({"spent": ledger.spent, "disk": ledger.disk})


def ledger_lines(ledger: Ledger) -> list[str]:
    """The ledger in lines of at most 100 columns or so."""
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
        if row.function:
            lines.append(f"{indent}  other machine code: {row.function}")
        if row.note:
            lines.append(f"{indent}  ({row.note})")
        lines += [f"{indent}  {line}" for line in _values(ledger, row.values, row.some)]
    if any(ledger.left):
        lines += [LEFT_OVER, *(f"  {line}" for line in _values(ledger, ledger.left))]
    if ledger.unchanged:
        lines.append(f"{ledger.unchanged} commits moved nothing that the gate's rule sees.")
    lines += ["", "B minus A, which is the sum of the rows above that are not indented:"]
    lines += [f"  {line}" for line in _values(ledger, ledger.totals) or ["nothing differs"]]
    lines += [ledger.unseen] if ledger.unseen else []
    if ledger.partial:
        lines.append("the limit on builds was reached: rows say what it keeps together")
    return lines


LEFT_OVER = "left: steps that the gate's rule does not count"


def _values(ledger: Ledger, values: Sequence[int], some: Sequence[str] = ()) -> list[str]:
    notes = some or [""] * len(values)
    shown = [(f, v, n) for f, v, n in zip(ledger.families, values, notes, strict=True) if v]
    wide = max((len(f.label) for f, _, _ in shown), default=0)
    return [
        f"{f.label:<{wide}}  {titled(f.section):<10} {number(v):>8}" + (f"  ({n})" if n else "")
        for f, v, n in shown
    ]


def ledger_data(ledger: Ledger) -> dict[str, Any]:
    """The ledger as JSON; values are instructions per I/O."""
    return {
        "schema_version": LEDGER,
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
                "moved": list(row.moved),
                "some": list(row.some),
                "functions": list(row.functions),
            }
            for row in ledger.rows
        ],
        "left": [v / 10 for v in ledger.left],
        "unchanged": ledger.unchanged,
        "open": ledger.open,
        "every": ledger.every,
        "totals": [v / 10 for v in ledger.totals],
        "adds_up": ledger.adds_up(),
        "commits": ledger.commits,
        "partial": ledger.partial,
        "skipped": list(ledger.skipped),
        "spent": dict(ledger.spent),
        "disk": dict(ledger.disk),
    }


ROW, LEFT, RIGHT = 20, 100, 50
"""Height of a waterfall's row, and the width that its labels take; in SVG units."""
SHOWN = 12
"""Waterfalls of a page: of the families with the largest movement; the table has all."""
_COLOURS = {"grew": "grew", "shrank": "shrank", "small": "muted", "total": "vfs_fs"}


@dataclass(frozen=True)
class Bar:
    """One bar of a waterfall, between two levels in tenths; ``place`` is its row in the table."""

    title: str
    place: str
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

    @property
    def levels(self) -> list[int]:
        """All levels that its bars reach, in tenths."""
        return [0, *(bar.after for bar in self.bars)]


def ledger_page(ledger: Ledger) -> str:
    """The whole page."""
    falls = waterfalls(ledger)
    ends = [level for fall in falls for level in fall.levels]
    scale = (min(ends, default=0), max(ends, default=0))
    return (
        page_template("iotoll.bisect", "ledger.html.j2").render(
            ledger=ledger,
            falls=[(fall, Markup(_drawn(f"w{n}", fall, scale))) for n, fall in enumerate(falls)],
            has_small=any(bar.kind == "small" for fall in falls for bar in fall.bars),
            left_out=max(0, len(ledger.families) - SHOWN),
            rows=_table(ledger),
        )
        + "\n"
    )


def _table(ledger: Ledger) -> Table:
    head = ["", "Commit, function"]
    head += [Markup("{} <br>{}").format(f.label, titled(f.section)) for f in ledger.families]
    numbers = iter(range(1, len(ledger.rows) + 1))
    rows = [
        ["" if row.depth else str(next(numbers)), _row_title(row), *_cells(row)]
        for row in ledger.rows
    ]
    if any(ledger.left):
        rows.append(["", LEFT_OVER, *(number(v) if v else "" for v in ledger.left)])
    return Table(head, [*rows, ["", "B minus A", *map(number, ledger.totals)]], words=2, total=True)


def _cells(row: LedgerRow) -> list[Markup | str]:
    """Values with the I/Os that have them; what the gate's rule does not count is grey."""
    made: list[Markup | str] = []
    some, moved = row.some or [""] * len(row.values), row.moved or [True] * len(row.values)
    for value, note, counts in zip(row.values, some, moved, strict=True):
        if not value:
            made.append("")
            continue
        text = Markup("{}").format(number(value))
        if note:
            text += Markup('<span class="note">{}</span>').format(note)
        made.append(text if counts else Markup('<span class="muted">{}</span>').format(text))
    return made


def _row_title(row: LedgerRow) -> Markup:
    said = (row.author, row.function, row.note)
    notes = [Markup('<span class="note">{}</span>').format(n) for n in said if n]
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
    top = [row for row in ledger.rows if row.depth == 0]
    for place, row in enumerate(top, 1):
        if value := row.values[index]:
            small = bool(row.moved) and not row.moved[index]
            kind = "small" if small else "grew" if value > 0 else "shrank"
            bars.append(Bar(row.title, str(place), kind, level, level + value, number(value)))
            level += value
    if left := ledger.left[index]:
        bars.append(Bar(LEFT_OVER, "left", "small", level, level + left, number(left)))
        level += left
    total = number(ledger.totals[index])
    bars.append(Bar("B minus A", "B", "total", 0, level, total))
    family = ledger.families[index]
    return Waterfall(f"{family.label}: {titled(family.section)}", bars, total)


def _drawn(name: str, fall: Waterfall, ends: tuple[int, int]) -> str:
    """The chart: a row for each bar, as in the table; every bar begins where the one above ends.

    ``ends`` are of all charts.
    """
    low, high = ends
    scale = (WIDTH - LEFT - RIGHT) / max(high - low, 1)
    height = ROW * len(fall.bars) + 2 * ROW
    panel = Panel(height)

    def at(level: int) -> float:
        return LEFT + (level - low) * scale

    panel.text(at(0), ROW / 2, "A", align="center")
    panel.line(at(0), ROW, at(0), height - ROW / 2, "second")
    for place, bar in enumerate(fall.bars, 1):
        y, left = ROW * place, min(at(bar.before), at(bar.after))
        wide = max(1.0, abs(at(bar.before) - at(bar.after)))
        panel.bar(left, y + 3, wide, ROW - 6, _COLOURS[bar.kind], f"{bar.title}: {bar.value}")
        if bar.kind != "total":
            panel.line(at(bar.after), y + 3, at(bar.after), y + ROW + 3, "second")
        hash_ = bar.title.split(" ")[0] if bar.place.isdigit() else ""
        panel.text(0, y + ROW / 2, f"{bar.place} {hash_}".strip(), "muted")
        panel.text(left + wide + 4, y + ROW / 2, bar.value)
    return panel.svg(
        name, f"{fall.title}: waterfall from A to B", f"{fall.total} instructions per I/O"
    )
