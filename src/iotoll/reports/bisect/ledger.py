"""A ledger as data, with cells that behave alike as one family, and as text for a mailing list.

Numbers stay whole tenths until they are written, so that what is shown adds up as it was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iotoll.reports.bisect.text import named, titled

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
