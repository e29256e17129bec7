"""The report as one HTML file: no network, readable on a phone and on paper.

Its one script filters and sorts the table of cells; without it the page says the same.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Template
from markupsafe import Markup

from iotoll.records.models import Clock, Finding, Section
from iotoll.records.text import clean, clock_note, section_title, unit_label
from iotoll.reports.kit.page import Table, page_template
from iotoll.reports.page import diagrams, tables
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.findings import blocking, findings
from iotoll.reports.page.growth import growth_view
from iotoll.reports.page.headline import (
    candidate_title,
    headline,
    provenance,
    remarks,
    selection_by_reason,
    summary,
)
from iotoll.reports.page.modelled import latency_note, latency_table, model_facts, models_of
from iotoll.reports.page.summary import first_screen
from iotoll.reports.page.view import (
    CellView,
    all_counted,
    by_group,
    cells,
    device_ratios,
    is_corrected,
    shown_sections,
    unit_of,
    values_of,
)

_PICTURES = 3
"""Devices of which one I/O is drawn."""


@dataclass(frozen=True)
class FigureView:
    """One figure of the page: panels, what to know to read them, and the same data as a table."""

    name: str
    title: str
    unit: str
    caption: str
    legend: Sequence[tuple[str, str]]
    panels: Sequence[tuple[str, Markup]]
    table: Table


@dataclass(frozen=True)
class Page:
    """Everything that the template places."""

    evidence: Evidence
    views: list[CellView]
    sections: tuple[Section, ...]
    found: list[Finding]
    figures: list[FigureView] = field(default_factory=list)

    @property
    def usable(self) -> bool:
        """Whether there is any figure to draw."""
        return any(view.has_values for view in self.views)


def page_html(evidence: Evidence) -> str:
    """Return the whole page as text."""
    views = cells(evidence)
    page = Page(evidence, views, shown_sections(evidence.clock), findings(evidence, views))
    if page.usable:
        page.figures.extend(_figures(page))
    return template().render(**_context(page)) + "\n"


def template() -> Template:
    """What a page is rendered with."""
    return page_template("iotoll.reports.page", "report.html.j2")


def _context(page: Page) -> dict[str, Any]:
    evidence = page.evidence
    failure = evidence.failure
    return {
        "title": candidate_title(evidence),
        "head": headline(evidence, page.found),
        "first_screen": first_screen(evidence, page.views, page.found),
        "one_io": _one_io(page) if page.usable else [],
        "shown_only": [one.sentence for one in page.found if one.kind == "ungated"],
        "overview": tables.overview(page.views, page.sections, page.found),
        "summary": summary(evidence),
        "failure": failure,
        "log_tail": clean(failure.log_tail) if failure else "",
        "remarks": remarks(page.views),
        "models": model_facts(evidence),
        "latencies": latency_table(evidence, page.views),
        "latency_note": latency_note(page.views),
        "values": values_of(page.views),
        "counted": all_counted(page.views),
        "growth": growth_view(evidence),
        "flames": {cell: _image(svg) for cell, svg in evidence.flames.items()},
        "figures": page.figures,
        "unit": unit_label(unit_of(evidence), evidence.clock),
        "note": clock_note(evidence.clock, evidence.virtual, evidence.native),
        "groups": by_group(page.views),
        "cell_table": tables.cell_figures,
        "cell_judgements": tables.cell_judgements,
        "cell_steps": tables.cell_steps,
        "open_cells": {one.cells[0] for one in blocking(page.found) if one.cells},
        "selection": evidence.selection,
        "reasons": selection_by_reason(evidence),
        "provenance": provenance(evidence),
        "verdict": evidence.verdict,
    }


def _image(svg: str) -> str:
    """The address of a picture that is part of the page; as an image, it can run no script."""
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


def _one_io(page: Page) -> list[tuple[str, Markup]]:
    """The picture of one I/O of each device that has findings, else of the first: 3 at most."""
    by_name = {view.name.full: view for view in page.views if view.has_values}
    named = [one.cells[0] for one in blocking(page.found) if one.cells]
    chosen: dict[str, CellView] = {}
    for name in [*named, *by_name]:
        if view := by_name.get(name):
            chosen.setdefault(view.name.device, view)
        if not named and chosen:
            break
    wanted = {view.name.device for view in chosen.values() if view.name.full in named} or chosen
    share = page.evidence.clock is Clock.TIME
    draft = diagrams.Measure(not share and is_corrected(page.views), share, 1.0)
    made: list[tuple[str, Markup]] = []
    for device, view in list(chosen.items())[:_PICTURES]:
        stacks = [diagrams.stack(view, side, draft) for side in page.evidence.sides]
        full = max((sum(value for _, value in parts) for parts in stacks), default=0.0)
        if device in wanted and full and len(page.evidence.sides) > 1:
            measure = diagrams.Measure(draft.corrected, share, full)
            svg = diagrams.io_panel(f"io{len(made)}", view, measure)
            made.append((f"One I/O of {view.name.full}", Markup(svg)))
    return made


def _figures(page: Page) -> list[FigureView]:
    made = []
    if any(row.comparison for view in page.views for row in view.rows):
        made.append(_moved_figure(page))
    made.append(_sections_figure(page))
    ratio = _ratio_figure(page)
    return [*made, ratio] if ratio else made


def _moved_figure(page: Page) -> FigureView:
    groups = by_group(v for v in page.views if any(r.comparison for r in v.rows))
    end = diagrams.reach_of([v for views in groups.values() for v in views])
    panels = [
        (title, Markup(diagrams.moved_panel(f"m{i}", title, views, page.sections, end)))
        for i, (title, views) in enumerate(groups.items())
    ]
    return FigureView(
        "delta",
        "Base against candidate",
        unit_label(unit_of(page.evidence), page.evidence.clock),
        "Candidate minus base. The grey band is the threshold on either side of no change; beyond "
        f"it the strip is logarithmic, with a tick at each power of ten up to {end} thresholds. "
        "▲ grew, ▼ shrank, ◆ grew and is accepted, △ grew in one of two pairs of boots. A hollow "
        "dot with its value in brackets is shown only: the section is not gated in that cell.",
        (),
        panels,
        tables.change_table([v for views in groups.values() for v in views], page.sections),
    )


def _sections_figure(page: Page) -> FigureView:
    share = page.evidence.clock is Clock.TIME
    corrected = not share and is_corrected(page.views)
    draft = diagrams.Measure(corrected, share, 1.0)
    groups = by_group(page.views)
    # One scale per I/O mode: devices stay comparable, and O_SYNC writes do not flatten the rest.
    full: dict[str, float] = {}
    for view in page.views:
        for side in page.evidence.sides:
            total = sum(value for _, value in diagrams.stack(view, side, draft))
            full[view.name.mode] = max(full.get(view.name.mode, 0.0), total)
    panels = []
    for i, (title, views) in enumerate(groups.items()):
        measure = diagrams.Measure(corrected, share, full[views[0].name.mode])
        panels.append((title, Markup(diagrams.sections_panel(f"s{i}", title, views, measure))))
    return FigureView(
        "sections",
        "Latency sections of one I/O",
        "share of the whole I/O (clock: time)"
        if share
        else unit_label(unit_of(page.evidence), page.evidence.clock),
        _sections_caption(share, values_of(page.views), bool(models_of(page.evidence))),
        [(s.value, section_title(s)) for s in page.sections],
        panels,
        tables.stack_table(page.views, page.sections, draft),
    )


_HARDWARE = {
    False: "The section 'hardware' has no meaning on this clock and is not reported.",
    True: "The section 'hardware' is a modelled device's: see 'Modelled device'.",
}


def _sections_caption(share: bool, kind: str, modelled: bool) -> str:
    if share:
        return (
            "Mean share of each latency section in the whole I/O; the number is the share of "
            "software, return included. Raw values: the cost of recording the trace is in them."
        )
    return (
        "Median per section, stacked; the number is their sum. What was judged is drawn as judged: "
        f"two bars differ by the verdict's change. {kind} Panels of one I/O mode share a scale. "
        + _HARDWARE[modelled]
    )


def _ratio_figure(page: Page) -> FigureView | None:
    groups = device_ratios(page.views)
    if not groups:
        return None
    panels = [
        (f"{title}: share of UFS", Markup(diagrams.ratio_panel(f"r{i}", title, ratios)))
        for i, (title, ratios) in enumerate(groups.items())
    ]
    names = dict.fromkeys(r.name.device_label for ratios in groups.values() for r in ratios)
    both = len(page.evidence.sides) > 1
    sides = " Thick bar and number: base; thin grey bar: candidate." if both else ""
    return FigureView(
        "devices",
        f"{' and '.join(names)} against UFS",
        f"share of UFS's software overhead (clock: {page.evidence.clock.value})",
        "Software overhead (sections 1, 2 and 4) as a share of UFS's in the same workload. "
        f"{values_of(page.views)} Cells whose values have the recorder are left out.{sides}",
        (),
        panels,
        tables.ratio_table([r for ratios in groups.values() for r in ratios]),
    )
