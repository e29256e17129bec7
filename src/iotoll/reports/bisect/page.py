"""A ledger as one HTML file: a waterfall for each family, and the table that it is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iotoll.reports.bisect.ledger import Ledger, number
from iotoll.reports.bisect.text import titled
from iotoll.reports.markup import page_environment

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
    environment = page_environment("iotoll.reports.bisect")
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
