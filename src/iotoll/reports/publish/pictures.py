"""The report's figures of one cell as SVG files of their own, to be attached to a test."""

from __future__ import annotations

import re

from iotoll.records.models import Clock
from iotoll.reports.page import diagrams
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.svg import WIDTH, palette
from iotoll.reports.page.view import CellView, is_corrected, shown_sections


def pictures(evidence: Evidence, view: CellView) -> dict[str, str]:
    """Return the pictures that there are of a cell: title to SVG text, on a white ground."""
    made = {}
    if any(row.comparison for row in view.rows):
        sections, end = shown_sections(evidence.clock), diagrams.reach_of([view])
        panel = diagrams.moved_panel("m", view.name.full, [view], sections, end)
        made["Candidate minus base, with thresholds"] = standalone(panel)
    share = evidence.clock is Clock.TIME
    draft = diagrams.Measure(not share and is_corrected([view]), share, 1.0)
    stacks = [diagrams.stack(view, side, draft) for side in evidence.sides]
    full = max((sum(value for _, value in stack) for stack in stacks), default=0.0)
    if full:
        measure = diagrams.Measure(draft.corrected, share, full)
        panel = diagrams.sections_panel("s", view.name.full, [view], measure)
        made["Latency sections"] = standalone(panel)
    if flame := evidence.flames.get(view.name.full):
        made["Differential flame graph: red is more, blue is less"] = flame
    return made


def standalone(panel: str) -> str:
    """Make a file of a page's inline ``<svg>``: with its own colours, font, size and ground."""
    found = re.search(r'viewBox="0 0 [\d.]+ ([\d.]+)"', panel)
    height = found[1] if found else str(WIDTH)
    colours = palette()
    text = re.sub(r"var\(--([a-z_]+)\)", lambda m: colours.get(m[1], "sans-serif"), panel)
    # Twice the size of the page's panel: a picture on its own has the room.
    size = f'width="{2 * WIDTH}" height="{2 * float(height):g}"'
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    text = text.replace("<svg ", f"<svg {names} {size} ", 1)
    ground = f'<rect width="100%" height="100%" fill="{colours["page"]}"/>'
    return re.sub(r"(</desc>)", rf"\1{ground}", text, count=1) + "\n"
