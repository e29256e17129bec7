"""A study's pictures: bars, shares that fill a bar, and curves; the same bytes always."""

from __future__ import annotations

import math
from itertools import pairwise

from iotoll.records.models.study import StudyColumn, StudyCurve, StudyRow, StudyTable, StudyValue
from iotoll.records.text import fixed
from iotoll.reports.kit.svg import WIDTH, Panel, Picture

LEFT, RIGHT = 4, WIDTH - 58
LINE, GAP = 11, 22
SERIES = ("vfs_fs", "submission", "completion", "return")
"""Colours of the series, as page.css names them."""
SHARES = ("submission", "hardware")


def table_picture(table: StudyTable) -> Picture | None:
    """The picture of a table; None where it has none, or nothing to draw."""
    places = [i for i, column in enumerate(table.columns) if column.key in table.drawn]
    rows = [row for row in table.rows if any(row.values[i].ours is not None for i in places)]
    if table.form == "none" or not rows:
        return None
    columns = [table.columns[i] for i in places]
    draw = _shares if table.form == "shares" else _bars
    colours = SHARES if table.form == "shares" else SERIES
    height = sum(_height(table, places) for _ in rows) + 14
    panel = Panel(height)
    y = 8.0
    values = [row.values[i] for row in rows for i in places]
    top = max(abs(v) for value in values for v in (value.ours or 0, *value.published)) or 1.0
    for row in rows:
        panel.text(LEFT, y, row.label, size=10)
        draw(panel, y + 8, row, places, columns, top)
        y += _height(table, places)
    svg = panel.svg(table.name, table.title, _described(table, rows, places))
    legend = [(colours[n], f"{c.title} [{c.unit}]") for n, c in enumerate(columns)]
    if any(row.values[i].published for row in rows for i in places):
        legend.append(("grew", "published: value or range"))
    return Picture(svg, legend)


def _height(table: StudyTable, places: list[int]) -> float:
    return GAP + LINE * (1 if table.form == "shares" else len(places))


def _described(table: StudyTable, rows: list[StudyRow], places: list[int]) -> str:
    parts = []
    for row in rows:
        values = [
            f"{table.columns[i].title} "
            f"{fixed(row.values[i].ours, table.columns[i].digits)} {table.columns[i].unit}"
            for i in places
        ]
        parts.append(f"{row.label}: {', '.join(values)}")
    return "; ".join(parts)


def _shares(
    panel: Panel,
    y: float,
    row: StudyRow,
    places: list[int],
    columns: list[StudyColumn],
    top: float,
) -> None:
    """One bar that its values fill, with the first one's number."""
    values = [max(row.values[i].ours or 0, 0) for i in places]
    full, x = sum(values) or 1.0, float(LEFT)
    for n, value in enumerate(values):
        wide = (RIGHT - LEFT) * value / full
        panel.bar(x, y, wide, LINE - 2, SHARES[n % len(SHARES)])
        x += wide
    first = row.values[places[0]]
    panel.text(RIGHT + 6, y + 4.5, f"{fixed(first.ours, columns[0].digits)} {columns[0].unit}")
    _published(panel, y, first, full)


def _bars(
    panel: Panel,
    y: float,
    row: StudyRow,
    places: list[int],
    columns: list[StudyColumn],
    top: float,
) -> None:
    """A bar for each drawn column, on one scale for the whole table."""
    for n, i in enumerate(places):
        value = row.values[i]
        if value.ours is not None:
            panel.bar(LEFT, y, (RIGHT - LEFT) * max(value.ours, 0) / top, LINE - 2, SERIES[n % 4])
        panel.text(RIGHT + 6, y + 4.5, fixed(value.ours, columns[n].digits), size=10)
        _published(panel, y, value, top)
        y += LINE


def _published(panel: Panel, y: float, value: StudyValue, full: float) -> None:
    """The published value as a line across the bar, a range as a bracket below it."""
    at = [LEFT + (RIGHT - LEFT) * max(number, 0) / full for number in value.published]
    for x in at:
        panel.line(x, y - 2, x, y + LINE, "grew", 1.6)
    if len(at) == 2:
        panel.line(at[0], y + LINE, at[1], y + LINE, "grew", 1.6)


def curve_picture(curve: StudyCurve) -> Picture | None:
    """The picture of a curve; None without a point."""
    lines = [line for line in curve.lines if line.points]
    if not lines:
        return None
    every = [p for line in lines for p in (*line.points, *line.published, *line.executed)]
    right = max(x for x, _ in every)
    low, high = scale([y for _, y in every])
    panel = Panel(250)

    def at(x: float, y: float) -> tuple[float, float]:
        return 34 + (WIDTH - 50) * x / right, 214 - 200 * (y - low) / (high - low)

    for step in range(5):
        x, y = right * step / 4, low + (high - low) * step / 4
        panel.line(*at(0, y), *at(right, y))
        panel.text(30, at(0, y)[1], f"{y:g}".replace("-", "\u2212"), "muted", 9, "right")
        panel.text(at(x, low)[0], 226, fixed(x, 0), "muted", 9, "center")
    panel.text(4, 226, f"[{curve.unit}]", "muted", 9)
    panel.text(WIDTH / 2, 241, f"{curve.x_title} [{curve.x_unit}]", "muted", 10, "center")
    for n, line in enumerate(lines):
        colour = SERIES[n % len(SERIES)]
        spots = [at(*point) for point in line.points]
        for one, other in pairwise(spots):
            panel.line(*one, *other, colour, 1.6)
        for point in line.executed:
            panel.dot(*at(*point), colour)
        for point in line.published:
            panel.dot(*at(*point), colour, hollow=True)
    described = "; ".join(
        f"{line.label}: {fixed(line.points[0][1], 1)} {curve.unit} at {fixed(line.points[0][0], 1)}"
        f" {curve.x_unit}, {fixed(line.points[-1][1], 1)} {curve.unit} at"
        f" {fixed(line.points[-1][0], 1)} {curve.x_unit}"
        for line in lines
    )
    svg = panel.svg(curve.name, f"{curve.title} [{curve.unit}]", described)
    legend = [(SERIES[n % 4], line.label) for n, line in enumerate(lines)]
    dots = [("filled: executed", any(line.executed for line in lines))]
    dots += [("hollow: published", any(line.published for line in lines))]
    if words := [said for said, there in dots if there]:
        legend.append(("muted", ", ".join(words)))
    return Picture(svg, legend)


def scale(values: list[float]) -> tuple[float, float]:
    """Ends of an axis whose quarters are round numbers: 0 and 60 for values up to 42."""
    low, high = min(0.0, *values), max(0.0, *values)
    power = 10.0 ** math.floor(math.log10((high - low) / 4 or 1.0))
    for n in (1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15):
        step = n * power
        start = math.floor(low / step) * step
        if start + 4 * step >= high:
            break
    return start, start + 4 * step
