"""The report's three figures, each a set of phone-wide panels drawn as inline SVG.

They show: latency sections as stacked bars (figures 2 and 3 of the Micron white paper), what moved
against its threshold, and other devices as a share of UFS (the paper's figures 4 and 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iotoll.records.models import Comparison, Section, SectionComparison
from iotoll.records.models.run import Side
from iotoll.records.text import number, percent, signed
from iotoll.reports.kit.svg import WIDTH, Panel
from iotoll.reports.page.view import ONCE, CellView, DeviceRatio, SectionFigures, SectionRow

_LABEL = 100
_TOP = 8
_SIDES: dict[Side, str] = {"base": "base", "candidate": "cand."}
_RATIO_BARS: tuple[tuple[Side, int, int], ...] = (("base", 3, 9), ("candidate", 13, 5))


@dataclass(frozen=True)
class Measure:
    """What the length of a stacked bar means, the same for a whole figure."""

    corrected: bool
    share: bool
    full: float

    def value(self, figures: SectionFigures) -> float | None:
        """Return the figure that is drawn."""
        if self.share:
            return figures.share_of_total
        return figures.corrected if self.corrected else figures.raw

    def text(self, value: float) -> str:
        """Return a value as it stands at the end of a bar."""
        return percent(value, 0) if self.share else number(value)

    def end_text(self, parts: Sequence[tuple[Section, float]]) -> str:
        """Return what stands at the end of a bar: its sum, or the share of software in it."""
        if not self.share:
            return self.text(sum(value for _, value in parts))
        software = sum(value for section, value in parts if section is not Section.HARDWARE)
        return f"{self.text(software)} SW"


def stack(view: CellView, side: Side, measure: Measure) -> list[tuple[Section, float]]:
    """Return the bar of one side of a cell; empty when a section has no figure.

    What was judged is drawn as judged, so that the bars of a cell differ by the verdict's change.
    """
    found = []
    for row in view.rows:
        value = _as_judged(row, side, measure)
        if value is None and side in row.sides:
            value = measure.value(row.sides[side])
        if value is None:
            return []
        found.append((row.section, value))
    return found


def _as_judged(row: SectionRow, side: Side, measure: Measure) -> float | None:
    """A judged section's value, less the base's calibrated cost of the recorder on both sides.

    None where not judged.
    """
    judged, base = row.comparison, row.sides.get("base")
    if judged is None or base is None or measure.share or side not in row.sides:
        return None
    if base.raw is None or measure.value(row.sides[side]) is None:
        return None
    cost = base.raw - base.corrected if measure.corrected and base.corrected is not None else 0.0
    # No more than is there, and the same from both sides: their difference stays what was judged.
    cost = min(cost, judged.base, judged.candidate)
    return (judged.base if side == "base" else judged.candidate) - cost


def sections_panel(name: str, title: str, views: Sequence[CellView], measure: Measure) -> str:
    """Draw stacked bars of latency sections, base above candidate, one pair a workload."""
    sides = [s for s in _SIDES if any(stack(v, s, measure) for v in views)]
    step = 13 * len(sides) + 13
    panel = Panel(_TOP + step * len(views) + 6)
    for index, view in enumerate(views):
        y = _TOP + step * index
        if index:
            panel.line(0, y - 6, WIDTH, y - 6)
        panel.text(0, y + 13 * len(sides) / 2, view.name.workload)
        for place, side in enumerate(sides):
            _bar(panel, y + 13 * place, view, side, measure, len(sides) > 1)
    named = " and ".join(sides) or "no side"
    return panel.svg(name, f"Latency sections, {title}", f"Stacked bars per workload for {named}.")


def _bar(
    panel: Panel, y: float, view: CellView, side: Side, measure: Measure, with_side: bool
) -> None:
    left = _LABEL + (28 if with_side else 0)
    if with_side:
        panel.text(left - 4, y + 6, _SIDES[side], "muted", 9, "right")
    parts = stack(view, side, measure)
    if not parts:
        panel.text(left, y + 6, "not usable", "muted", 9)
        return
    x = float(left)
    scale = (WIDTH - left - 48) / (measure.full or 1)
    for section, value in parts:
        # The half-pixel gap separates neighbours whose colours look alike.
        panel.bar(x, y + 1, max(value * scale - 0.5, 0.2), 10, section.value)
        x += value * scale
    panel.text(x + 4, y + 6, measure.end_text(parts), size=10)


def io_panel(name: str, view: CellView, measure: Measure) -> str:
    """Draw one I/O of a cell: its sections in a row, base above candidate, and what changed."""
    sides = [side for side in _SIDES if stack(view, side, measure)]
    rows = [row for row in view.rows if all(side in row.sides for side in sides)]
    panel = Panel(30 * len(sides) + 20 * len(rows) + 22)
    scale = (WIDTH - 46) / (measure.full or 1)
    stacks = {side: dict(stack(view, side, measure)) for side in sides}
    for at, side in enumerate(sides):
        y, x = 4.0 + 30 * at, 46.0
        panel.text(0, y + 10, _SIDES[side], "muted", 10)
        for section, value in stacks[side].items():
            panel.bar(x, y, max(value * scale - 0.5, 0.2), 20, section.value)
            x += value * scale
    top = 30.0 * len(sides) + 12
    for at, row in enumerate(rows):
        y = top + 20 * at
        panel.bar(0, y - 5, 10, 10, row.section.value)
        panel.text(16, y, row.section.value, size=10.5)
        values = " → ".join(measure.text(stacks[side][row.section]) for side in sides)
        panel.text(WIDTH - 92, y, values, size=10.5, align="right")
        if found := row.comparison:
            sign = SIGNS[movement(found)]
            strong = found.gated and found.has_moved and found.accepted is None
            words = f"{signed(found.delta)} {sign}".rstrip()
            colour = found.moved if strong else "muted"
            panel.text(
                WIDTH, y, words if found.gated else f"({words})", colour, 10.5, "right", strong
            )
    panel.line(0, top + 20 * len(rows) - 10, WIDTH, top + 20 * len(rows) - 10)
    total = " → ".join(measure.end_text(list(stacks[side].items())) for side in sides)
    panel.text(16, top + 20 * len(rows), "sum", size=10.5)
    panel.text(WIDTH - 92, top + 20 * len(rows), total, size=10.5, align="right")
    return panel.svg(
        name, f"One I/O of {view.name.full}", "Its latency sections, base above candidate."
    )


def reach_of(views: Sequence[CellView]) -> int:
    """Return where the strips of a figure end, in thresholds: a power of ten, at least 10."""
    ratios = [abs(_ratio(r.comparison)) for v in views for r in v.rows if r.comparison]
    return int(10 ** max(1, math.ceil(math.log10(max([1.0, *ratios])))))


def _ratio(found: SectionComparison) -> float:
    """A change in thresholds; without a threshold every change lies far outside."""
    if found.threshold > 0:
        return found.delta / found.threshold
    return math.copysign(10.0, found.delta) if found.delta else 0.0


def _along(ratio: float, end: int) -> float:
    """Place on a strip from -1 to 1: linear up to the threshold, logarithmic beyond."""
    inner = 1 / (1 + math.log10(end))
    size = abs(ratio)
    share = size * inner if size <= 1 else inner * (1 + math.log10(min(size, end)))
    return math.copysign(share, ratio)


def moved_panel(
    name: str, title: str, views: Sequence[CellView], sections: Sequence[Section], end: int
) -> str:
    """Draw candidate minus base per cell and section on strips that carry their threshold.

    ``end`` is where a strip ends, in thresholds (`reach_of`).
    """
    panel = Panel(42 + 30 * len(views))
    width = (WIDTH - _LABEL) / len(sections)
    centres = [_LABEL + width * (i + 0.5) for i in range(len(sections))]
    reach = width / 2 - 7
    for section, x in zip(sections, centres, strict=True):
        panel.bar(x - width / 2 + 4, 4, width - 8, 3, section.value)
        panel.text(x, 15, section.value, size=9.5 if len(sections) < 5 else 8.5, align="center")
        inner = reach * _along(1, end)
        for place, number_ in ((inner, 1), (reach, end)):  # the other side is its mirror
            panel.text(x + place, 27, f"{number_}", "muted", 6.5, "center")
    panel.text(0, 27, "thresholds", "muted", 7)
    for index, view in enumerate(views):
        y = 36.0 + 30 * index
        panel.line(0, y, WIDTH, y)
        panel.text(0, y + 16, view.name.workload)
        for row, x in zip(view.rows, centres, strict=True):
            if row.comparison:
                _strip(panel, x, y, reach, row.comparison, end)
            else:
                panel.text(x, y + 16, "not judged", "muted", 8, "center")
    text = "Change of each latency section per workload, with its threshold."
    return panel.svg(name, f"Base against candidate, {title}", text)


SIGNS = {"grew": "▲", "shrank": "▼", "same": "", "once": "△", "accepted": "◆", "unknown": "?"}
"""How a section moved → its sign; ``once``: in one of two pairs of boots."""


def movement(found: Comparison) -> str:
    """Return the key of `SIGNS` for a comparison."""
    if found.accepted is not None:
        return "accepted"
    if found.moved == "same" and ONCE in found.why:
        return "once"
    return found.moved if found.moved in SIGNS else "unknown"


def _strip(
    panel: Panel, x: float, y: float, reach: float, found: SectionComparison, end: int
) -> None:
    moved = movement(found)
    strong = found.gated and moved in ("grew", "shrank")
    # Colour is for what the gate acts on; an ungated movement keeps its arrow only.
    kind = found.moved if strong else "muted"
    text = f"{signed(found.delta)} {SIGNS[moved]}".rstrip()
    panel.text(x, y + 9, text if found.gated else f"({text})", kind, 10, "center", strong)
    middle = y + 21
    inner = reach * _along(1, end)
    if found.gated:
        panel.bar(x - inner, middle - 3.5, inner * 2, 7, "band")
    panel.line(x - reach, middle, x + reach, middle)
    panel.line(x, middle - 3.5, x, middle + 3.5, "muted")
    for power in range(1, round(math.log10(end)) + 1):
        for tick in (-_along(10**power, end), _along(10**power, end)):
            panel.line(x + reach * tick, middle - 2, x + reach * tick, middle + 2)
    ratio = _ratio(found)
    place = x + reach * _along(ratio, end)
    marker = "^" if moved == "once" else "o"
    panel.dot(place, middle, kind if strong else "ink", not found.gated or moved == "once", marker)


def ratio_panel(name: str, title: str, ratios: Sequence[DeviceRatio]) -> str:
    """Draw a device's software overhead without the recorder as a share of UFS's, per workload."""
    step = 26
    panel = Panel(22 + step * len(ratios))
    shares = [s for r in ratios for s in (r.share("base"), r.share("candidate")) if s is not None]
    left, room = _LABEL, WIDTH - _LABEL - 40
    scale = room / max(1.0, *shares)
    panel.text(
        left + scale, 7, "UFS = 100 %", "muted", 9.5, "right" if scale > room / 2 else "left"
    )
    for index, ratio in enumerate(ratios):
        y = 16.0 + step * index
        panel.text(0, y + 11, ratio.name.workload)
        for side, top, height in _RATIO_BARS:
            share = ratio.share(side)
            if share is None:
                continue
            panel.bar(
                left, y + top, share * scale, height, "device" if side == "base" else "second"
            )
            if side == "base":
                panel.text(WIDTH, y + 9, percent(share, 0), size=10.5, align="right")
    panel.line(left + scale, 14, left + scale, 22 + step * len(ratios), "ink", 1)
    return panel.svg(name, f"{title} against UFS", "Bars per workload; 100 % is UFS's overhead.")
