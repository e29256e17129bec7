"""A run directory as objects for tests: the run, its cells, and what was compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from iotoll.records.models import CellVerdict, Clock, Section, SectionComparison
from iotoll.records.rundir import RunDir
from iotoll.reports.kit.svg import Picture, standalone
from iotoll.reports.page import diagrams
from iotoll.reports.page.evidence import Evidence, gather
from iotoll.reports.page.view import CellView, cells, is_corrected, shown_sections
from iotoll.reports.publish.checks import Check, checks
from iotoll.reports.publish.links import Link

SCALE = 2.0
"""A picture on its own has the room for twice the size of the page's."""


def pictures(evidence: Evidence, view: CellView) -> dict[str, str]:
    """Return the pictures that there are of a cell: title to SVG text, on a white ground."""
    made = {}
    if any(row.comparison for row in view.rows):
        sections, end = shown_sections(evidence.clock), diagrams.reach_of([view])
        panel = diagrams.moved_panel("m", view.name.full, [view], sections, end)
        made["Candidate minus base, with thresholds"] = standalone(Picture(panel), SCALE)
    share = evidence.clock is Clock.TIME
    draft = diagrams.Measure(not share and is_corrected([view]), share, 1.0)
    stacks = [diagrams.stack(view, side, draft) for side in evidence.sides]
    full = max((sum(value for _, value in stack) for stack in stacks), default=0.0)
    if full:
        measure = diagrams.Measure(draft.corrected, share, full)
        panel = diagrams.sections_panel("s", view.name.full, [view], measure)
        made["Latency sections"] = standalone(Picture(panel), SCALE)
    if flame := evidence.flames.get(view.name.full):
        made["Differential flame graph: red is more, blue is less"] = flame
    return made


@dataclass(frozen=True)
class JudgedRun:
    """A run directory: its result files and what they conclude."""

    directory: RunDir
    links: Sequence[Link] = ()

    @cached_property
    def evidence(self) -> Evidence:
        """Every result file as a model; None or missing keys for what is not there."""
        return gather(self.directory)

    @cached_property
    def checks(self) -> list[Check]:
        """The run's own outcome first, then one per cell and section."""
        return checks(self.evidence)

    @cached_property
    def cells(self) -> dict[str, JudgedCell]:
        """Every cell that was judged, measured or tried, by name."""
        verdict = self.evidence.verdict
        verdicts = {c.cell: c for c in verdict.cells} if verdict else {}
        views = cells(self.evidence)
        return {v.name.full: JudgedCell(self, v, verdicts.get(v.name.full)) for v in views}


@dataclass(frozen=True)
class JudgedCell:
    """One cell: its figures of both sides, and its verdict if it has one."""

    run: JudgedRun
    view: CellView
    verdict: CellVerdict | None

    @cached_property
    def pictures(self) -> dict[str, str]:
        """The report's figures of this cell: title to SVG text."""
        return pictures(self.run.evidence, self.view)

    @property
    def name(self) -> str:
        """Such as ``ufs-4k-randread-t1-direct``."""
        return self.view.name.full


@dataclass(frozen=True)
class JudgedSection:
    """One section of one cell, candidate against base, with the gate's own outcome."""

    cell: JudgedCell
    figures: SectionComparison
    check: Check

    @property
    def section(self) -> Section:
        """The latency section."""
        return self.figures.section
