"""How a verdict on the clock `time` came about: pairs, intervals, and the promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from iotoll.records.models import CellVerdict, GrowthRecord, SequentialRecord
from iotoll.records.text import NO_VALUE, CellName, cell_name, percent, plural, signed_percent
from iotoll.reports.kit.page import Table
from iotoll.reports.kit.svg import WIDTH, Panel
from iotoll.reports.page.evidence import Evidence

STATES = {
    "grew": "▲ grew: confirmed",
    "alarm": "▲ alarm, not confirmed",
    "within": "within",
    "open": "? undecided",
}
"""State of a figure → its sign and words."""

_LABEL, _LETTER = 118, 5.6
"""Width of the cells' names at least, and of one of their letters on average."""
_ROW = 30


@dataclass(frozen=True)
class GrowthView:
    """What the report shows of the pairs; ``facts`` are (label, text)."""

    facts: Sequence[tuple[str, str]]
    table: Table
    panels: Sequence[tuple[str, Markup]]
    caption: str


def growth_view(evidence: Evidence) -> GrowthView | None:
    """Return the pairs of a run and what they say; None for a run without them."""
    verdict = evidence.verdict
    if verdict is None or verdict.sequential is None:
        return None
    cells = sorted(((cell_name(v.cell), v) for v in verdict.cells), key=lambda found: found[0])
    groups: dict[str, list[tuple[CellName, GrowthRecord]]] = {}
    for name, cell in cells:
        if cell.growth:
            groups.setdefault(name.group, []).append((name, cell.growth[0]))
    reach = _reach([growth for rows in groups.values() for _, growth in rows])
    panels = [
        (title, Markup(pairs_panel(f"g{at}", title, rows, reach)))
        for at, (title, rows) in enumerate(groups.items())
    ]
    figure = next((rows[0][1].figure for rows in groups.values()), "")
    return GrowthView(
        _facts(verdict.sequential),
        growth_table([cell for _, cell in cells]),
        panels,
        f"Growth of {figure} in each pair of boots (dots, in order from top to bottom), and the "
        "interval in which it lies (bar). The thin line marks no change, the grey band ends at "
        "what must be ruled out before a pass. Dots beyond the scale stand at its ends.",
    )


def _facts(found: SequentialRecord) -> list[tuple[str, str]]:
    order = ", ".join("AB" if pair.first == "base" else "BA" for pair in found.pairs)
    history = (
        f"{plural(found.history, 'pair')} of one kernel with itself; today's noise is "
        f"{found.inflation**0.5:.2f} times theirs"
        if found.history
        else "none: the pairs alone say how noisy they are, so more of them are needed"
    )
    facts = [
        ("Promise", found.promise),
        (
            "Pairs",
            f"{found.used} of at most {found.most_pairs} ({found.looks[-1]}, and one more for each "
            f"that is set aside), in the order {order}",
        ),
        ("Board time", f"{found.board_minutes:.1f} minutes"),
        ("History", history),
    ]
    boards = sorted({pair.device for pair in found.pairs})
    facts.append(("Boards", ", ".join(boards)))
    unused = [f"pair {pair.pair}: {pair.unused}" for pair in found.pairs if pair.unused]
    return facts + ([("Not used", "; ".join(unused))] if unused else [])


def growth_table(cells: Sequence[CellVerdict]) -> Table:
    """Return every value that was judged: its growth, interval, noise, and what follows."""
    rows = [
        (
            cell.cell,
            growth.figure,
            signed_percent(growth.growth) if growth.pairs else NO_VALUE,
            f"{_bound(growth.low)} to {_bound(growth.high)}",
            _limit(growth),
            str(growth.pairs),
            percent(growth.noise, 2),
            "; ".join(
                part
                for part in (
                    STATES[growth.state],
                    "▼ shrank" if growth.improved else "",
                    growth.why,
                )
                if part
            ),
        )
        for cell in cells
        for growth in cell.growth
    ]
    head = ("Cell", "Figure", "Growth", "Interval", "Ruled out at", "Pairs", "Pair noise", "So")
    return Table(head, rows, words=2, prose=True)


def _limit(growth: GrowthRecord) -> str:
    """What is ruled out, and the policy's own limit where that is another one."""
    asked = percent(growth.unacceptable)
    if growth.limit is None:
        return asked
    return f"{'nothing' if growth.limit >= 10 else percent(growth.limit)} (policy: {asked})"


def _bound(value: float) -> str:
    return signed_percent(value) if abs(value) < 10 else "anything"


def _reach(growths: Sequence[GrowthRecord]) -> float:
    """What the scale ends at on either side: the widest interval, but five limits at most."""
    if not growths:
        return 0.01
    limit = max(growth.unacceptable for growth in growths)
    widest = max(max(abs(growth.low), abs(growth.high)) for growth in growths)
    return min(max(1.5 * limit, widest), 5 * limit)


def pairs_panel(
    name: str, title: str, rows: Sequence[tuple[CellName, GrowthRecord]], reach: float
) -> str:
    """Draw each cell's pairs as dots and its interval as a bar on a strip; ``reach`` ends it."""
    panel = Panel(24 + _ROW * len(rows))
    left = max(_LABEL, _LETTER * max((len(cell.workload) for cell, _ in rows), default=0))
    middle, half = (left + WIDTH) / 2, (WIDTH - left) / 2 - 8

    def place(value: float) -> float:
        return middle + half * min(max(value / reach, -1.0), 1.0)

    for value, align in ((-reach, "left"), (0.0, "center"), (reach, "right")):
        panel.text(place(value), 8, signed_percent(value) if value else "0", "muted", 9, align)
    for at, (cell, growth) in enumerate(rows):
        top = 18.0 + _ROW * at
        panel.line(0, top, WIDTH, top)
        panel.text(0, top + _ROW / 2, cell.workload, size=10)
        limit = place(growth.limit or growth.unacceptable) - middle
        panel.bar(middle - limit, top + 2, 2 * limit, _ROW - 4, "band")
        panel.line(middle, top + 2, middle, top + _ROW - 2, "muted")
        colour = "grew" if growth.state in ("grew", "alarm") else "ink"
        colour = "shrank" if growth.improved else colour
        low, high = place(growth.low), place(growth.high)
        panel.bar(low, top + _ROW / 2 - 1.5, max(high - low, 1.0), 3, colour)
        known = [ratio for ratio in growth.ratios if ratio is not None]
        for number, ratio in enumerate(known):
            y = top + 5 + (_ROW - 10) * (number + 0.5) / len(known)
            panel.dot(place(ratio), y, colour, hollow=True)
    text = "Growth in each pair of boots and the interval of their mean, per workload."
    return panel.svg(name, f"Pairs of boots, {title}", text)
