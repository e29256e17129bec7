"""What a run says of each cell and section, in the words that test reports have in common.

Every published format takes its outcomes from here, so that none of them can disagree: a regression
and a broken candidate are a failure, what failed around the candidate is an error, and whatever
nobody judged is skipped with the reason. Only what was judged and did not grow passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from iotoll.records.models import (
    CellVerdict,
    Comparison,
    Finding,
    GrowthRecord,
    Outcome,
    Section,
    SectionComparison,
    VerdictRecord,
)
from iotoll.records.text import clean, number, signed
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.findings import findings, of_cell
from iotoll.reports.page.headline import verdict_sentence
from iotoll.reports.page.sure import in_words
from iotoll.verdict.limits import limit_line, rate_line
from iotoll.verdict.words import rarely


class Status(StrEnum):
    """The outcome of one check."""

    PASSED = "passed"
    FAILURE = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


_OUTCOMES = {
    Outcome.PASS: Status.PASSED,
    Outcome.REGRESSION: Status.FAILURE,
    Outcome.BROKEN: Status.FAILURE,
    Outcome.INFRASTRUCTURE: Status.ERROR,
    Outcome.INCONCLUSIVE: Status.SKIPPED,
}


@dataclass(frozen=True)
class Check:
    """One thing that was, or should have been, judged.

    ``cell`` is empty for the run as a whole; ``section`` is None for a cell (or run) as a whole,
    and for what a cell's sections make together: then ``figure`` names it (``overhead``).
    ``reason`` is one line of plain text without control characters.
    """

    cell: str
    section: Section | None
    status: Status
    reason: str
    comparison: SectionComparison | None = None
    figure: str = ""

    @property
    def part(self) -> str:
        """The part of a cell that was judged: a section, or a figure; empty for all of it."""
        return self.section.value if self.section else self.figure

    @property
    def name(self) -> str:
        """``verdict`` of the run, ``cell`` of a whole cell, or the part of it."""
        return (self.part or "cell") if self.cell else "verdict"


def judged(verdict: VerdictRecord) -> bool:
    """Whether anybody judged the figures: a smoke test's verdict may say pass and means nothing."""
    failed = verdict.outcome in (Outcome.INFRASTRUCTURE, Outcome.BROKEN)
    return failed or verdict.can_gate


def run_check(evidence: Evidence) -> Check:
    """The outcome of the run as a whole."""
    verdict, failure = evidence.verdict, evidence.failure
    if verdict is None and failure is not None:
        reason = one_line(f"{failure.step}: {failure.message}")
        return Check("", None, _OUTCOMES[failure.outcome], reason)
    if verdict is None and evidence.manifest.kind == "measure":
        return Check("", None, Status.SKIPPED, "one kernel was measured: there is nothing to judge")
    if verdict is None:
        return Check("", None, Status.ERROR, "the run has no verdict yet: repeat its command")
    sentence = one_line(verdict_sentence(evidence))
    if not judged(verdict):
        return Check("", None, Status.SKIPPED, f"nobody judged these values: {sentence}")
    return Check("", None, _OUTCOMES[verdict.outcome], sentence)


def checks(evidence: Evidence) -> list[Check]:
    """The run's own check first, then one per cell and section, in the order of the verdict."""
    whole = run_check(evidence)
    found = [whole]
    verdict = evidence.verdict
    cells = list(verdict.cells) if verdict else []
    found += _limits(verdict) if verdict else []
    told = findings(evidence)
    for cell in cells:
        found += _cell(cell, verdict is not None and judged(verdict), told)
    found += _throughput(verdict) if verdict else []
    known = {cell.cell for cell in cells}
    for choice in evidence.selection.cells if evidence.selection else []:
        if choice.cell not in known and not (verdict and verdict.identical_images):
            reason = f"not judged: {whole.reason}"
            found.append(Check(choice.cell, None, Status.SKIPPED, reason))
    return found


def _limits(verdict: VerdictRecord) -> list[Check]:
    """One check for each limit that differs, with its name in the place of a cell's."""
    found = []
    for one in verdict.limits:
        status, reason = Status.FAILURE, one_line(limit_line(one))
        if not judged(verdict):
            status = Status.SKIPPED
        elif not one.gated:
            status, reason = Status.SKIPPED, f"not gated: {reason}: the base does not report it"
        elif one.accepted is not None:
            status, reason = Status.PASSED, f"accepted ({one_line(one.accepted)}): {reason}"
        elif verdict.outcome is Outcome.INCONCLUSIVE:
            status, reason = Status.SKIPPED, f"inconclusive: {reason}"
        found.append(Check(one_line(one.name), None, status, reason, figure="limit"))
    return found


def _throughput(verdict: VerdictRecord) -> list[Check]:
    """One check for each cell whose time per I/O on the modelled device is judged."""
    found = []
    for one in verdict.throughput:
        status, reason = Status.PASSED, one_line(rate_line(one))
        if not judged(verdict) or one.moved == "unknown":
            status = Status.SKIPPED
        elif one.accepted is not None:
            reason = f"accepted ({one_line(one.accepted)}): {reason}"
        elif one.moved == "grew":
            status = Status.FAILURE
        found.append(Check(one.cell, None, status, reason, figure="throughput"))
    return found


def _cell(cell: CellVerdict, gate: bool, told: Sequence[Finding]) -> list[Check]:
    why = one_line(cell.why)
    if cell.outcome in (Outcome.INFRASTRUCTURE, Outcome.BROKEN) or not cell.sections:
        status = _OUTCOMES[cell.outcome]
        if not cell.sections and status is Status.PASSED:
            status, why = Status.SKIPPED, "no section of this cell was judged"
        return [Check(cell.cell, None, status, why or cell.outcome.value)]
    # On the clock `time` the overhead is judged beside the sections that it is made of.
    whole = [g for g in cell.growth if g.section is None]
    return [
        *(_figure(cell, growth, gate) for growth in whole),
        *(_section(cell, found, gate, told) for found in cell.sections),
        *([_compared(cell, cell.whole, gate, told, "whole")] if cell.whole else ()),
        *([_compared(cell, cell.work, gate, told, "work")] if cell.work else ()),
    ]


def _figure(cell: CellVerdict, growth: GrowthRecord, gate: bool) -> Check:
    bounds = f"{growth.bounds} in {growth.pairs} pairs of boots"
    status, reason = Status.PASSED, bounds
    if not gate:
        status, reason = Status.SKIPPED, "shown only: nobody judged these values"
    elif cell.outcome is Outcome.INCONCLUSIVE:
        status, reason = Status.SKIPPED, f"inconclusive: {one_line(cell.why)}"
    elif growth.accepted is not None:
        reason = f"accepted ({one_line(growth.accepted)}): grew by {growth.growth:+.1%}; {bounds}"
    elif growth.state == "grew":
        status, reason = Status.FAILURE, f"grew by {growth.growth:+.1%}; {bounds}"
    elif growth.improved:
        reason = f"became faster by {-growth.growth:.1%}; {bounds}"
    return Check(cell.cell, None, status, reason, figure=growth.figure)


def _section(
    cell: CellVerdict, found: SectionComparison, gate: bool, told: Sequence[Finding]
) -> Check:
    check = _compared(cell, found, gate, told, found.section.value)
    return replace(check, section=found.section, comparison=found, figure="")


def _compared(
    cell: CellVerdict, found: Comparison, gate: bool, told: Sequence[Finding], part: str
) -> Check:
    status, reason = Status.PASSED, one_line(in_words(found))
    if not gate:
        status, reason = Status.SKIPPED, "shown only: nobody judged these values"
    elif not found.gated:
        status, reason = Status.SKIPPED, f"not gated: {one_line(found.why) or 'shown only'}"
    elif cell.outcome is Outcome.INCONCLUSIVE or found.moved not in ("grew", "shrank", "same"):
        why = cell.why if cell.outcome is Outcome.INCONCLUSIVE else found.why or found.moved
        status, reason = Status.SKIPPED, f"inconclusive: {one_line(why)}"
    elif found.has_moved:
        one = of_cell(told, cell.cell, part)
        said = f"{one_line(one.sentence)}; here " if one else ""
        reason = f"{said}{moved_by(found)}; {reason}"
        if found.accepted is not None:
            reason = f"accepted ({one_line(found.accepted)}): {reason}"
        elif found.moved == "grew":
            status = Status.FAILURE
    return Check(cell.cell, None, status, reason, figure=part)


def moved_by(found: Comparison) -> str:
    """Return ``+329, 2,384 to 2,713, threshold 12``, and what few I/Os have beside it.

    Of what it is a share the finding says.
    """
    size = signed(found.delta) + rarely([found])
    ends = f"{number(found.base)} to {number(found.candidate)}"
    return f"{size}, {ends}, threshold {number(found.threshold)}"


def one_line(text: str) -> str:
    """Text that others wrote, without control characters, on one line."""
    return " ".join(clean(text).split())
