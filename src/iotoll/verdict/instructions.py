"""The deterministic gate: candidate against base on the `instructions` clock.

A pure function of two result files and a policy. Per cell and section it asks two questions of the
counts per I/O (own instructions on the way of the I/O's first request, and of the return):

- did the comb move (`iotoll.measure.shift`)? Exact to a few instructions wherever counts form a
  comb;
- did the whole distribution grow, that is, even the quartile that grew least? It needs no comb,
  and sees a cost too large or too uneven for the comb.

Either is enough for "grew". One pair of boots that shows it clearly raises an alarm; then a second
pair runs, and a regression is what both pairs show at the same size. The thresholds are data
(pipelines/policies/).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotoll.core.errors import InfrastructureError
from iotoll.measure.shift import Shift, measure_shift
from iotoll.records.models import (
    CellRecord,
    CellVerdict,
    Clock,
    Outcome,
    Section,
    SectionComparison,
    SideResult,
)
from iotoll.verdict.policy import Fit, Policy, SectionRule

QUANTILES = (0.10, 0.25, 0.50, 0.75)
ONE_OF_TWO = "in one of two pairs of boots"


@dataclass(frozen=True)
class Judgement:
    """What a run's figures say: the outcome, and every cell's comparisons."""

    outcome: Outcome
    cells: list[CellVerdict]
    regressions: list[str]
    improvements: list[str]
    sentence: str


def judge(
    base: SideResult,
    candidate: SideResult,
    policy: Policy,
    cells: Sequence[str],
    fit: Fit | None = None,
) -> Judgement:
    """Judge every cell of one pair of boots; ``cells`` are those that were selected.

    ``fit`` says how well a moved comb must fit; without it, as well as for an alarm.

    Raises InfrastructureError when the two sides cannot be compared: another clock or board.
    """
    _check_comparable(base, candidate, policy)
    return judge_cells(base, candidate, policy, cells, fit)


def judge_cells(
    base: SideResult,
    candidate: SideResult,
    policy: Policy,
    cells: Sequence[str],
    fit: Fit | None = None,
) -> Judgement:
    """As `judge`, for sides that are known to be comparable (experiments)."""
    asked = fit or policy.comb.alarm
    return conclude([_cell(name, base, candidate, policy, asked) for name in cells])


def conclude(verdicts: list[CellVerdict]) -> Judgement:
    """The outcome of a run from its cells': the worst of them, and partial results never pass."""
    outcomes = {v.outcome for v in verdicts}
    order = (Outcome.REGRESSION, Outcome.INFRASTRUCTURE, Outcome.INCONCLUSIVE)
    outcome = next((o for o in order if o in outcomes), Outcome.PASS)
    return Judgement(
        outcome,
        verdicts,
        _moved(verdicts, "grew"),
        _moved(verdicts, "shrank"),
        _sentence(outcome, verdicts),
    )


def confirmed(first: Judgement, second: Judgement, policy: Policy) -> Judgement:
    """The second pair's judgement, with only that as moved which the first pair shows too.

    Both are judged with the policy's fit for confirming. What moved in one pair alone, or by
    another size, is the boots' wandering: it is shown, and called neither worse nor better.
    """
    seen = {(v.cell, s.section): s for v in first.cells for s in v.sections}
    verdicts = []
    for verdict in second.cells:
        sections = [
            s
            if s.moved == "same" or _agree(seen.get((verdict.cell, s.section)), s, policy)
            else s.model_copy(update={"moved": "same", "why": f"{s.moved} {ONE_OF_TWO}"})
            for s in verdict.sections
        ]
        worse = any(s.moved == "grew" and s.gated for s in sections)
        outcome = verdict.outcome
        if outcome is Outcome.REGRESSION and not worse:
            outcome = Outcome.PASS
        verdicts.append(verdict.model_copy(update={"sections": sections, "outcome": outcome}))
    return conclude(verdicts)


def _agree(one: SectionComparison | None, other: SectionComparison, policy: Policy) -> bool:
    if one is None or one.moved != other.moved:
        return False
    larger = max(abs(one.delta), abs(other.delta))
    allowed = max(policy.agree.instructions, policy.agree.share * larger)
    return abs(one.delta - other.delta) <= allowed


def only_boot(result: SideResult, index: int) -> SideResult:
    """The side as if only one of its boots (0 is the first) had run."""
    cells = {name: records[index : index + 1] for name, records in result.cells.items()}
    return result.model_copy(update={"boots": result.boots[index : index + 1], "cells": cells})


def _check_comparable(base: SideResult, candidate: SideResult, policy: Policy) -> None:
    clocks = {base.clock, candidate.clock, policy.clock}
    if clocks != {Clock.INSTRUCTIONS}:
        raise InfrastructureError("the deterministic gate judges the clock 'instructions' only")
    boards = [[boot.board_sha256 for boot in side.boots] for side in (base, candidate)]
    if boards[0] != boards[1]:
        raise InfrastructureError("base and candidate ran on different boards or jobs: run again")


def _cell(
    name: str, base: SideResult, candidate: SideResult, policy: Policy, fit: Fit
) -> CellVerdict:
    sides = (base.cells.get(name, []), candidate.cells.get(name, []))
    if not all(sides):
        return CellVerdict(
            cell=name, outcome=Outcome.INFRASTRUCTURE, sections=[], why="no values of one side"
        )
    invalid = next((r.invalid for side in sides for r in side if r.invalid), None)
    if invalid:
        return CellVerdict(cell=name, outcome=Outcome.INFRASTRUCTURE, sections=[], why=invalid)
    sections = [
        compare(_pooled(sides[0], s), _pooled(sides[1], s), s, policy.rule(name, s), policy, fit)
        for s in policy.sections
        if _pooled(sides[0], s) and _pooled(sides[1], s)
    ]
    if not any(s.gated for s in sections):
        return CellVerdict(
            cell=name,
            outcome=Outcome.INCONCLUSIVE,
            sections=sections,
            why="no section of this cell can be judged",
        )
    worse = any(s.moved == "grew" and s.gated for s in sections)
    return CellVerdict(
        cell=name, outcome=Outcome.REGRESSION if worse else Outcome.PASS, sections=sections
    )


def _pooled(records: list[CellRecord], section: Section) -> list[int]:
    return [value for record in records for value in record.gate.get(section, [])]


def compare(
    base: Sequence[int],
    candidate: Sequence[int],
    section: Section,
    rule: SectionRule,
    policy: Policy,
    fit: Fit,
) -> SectionComparison:
    """Compare one section of one cell; counts per I/O in instructions, none empty."""
    shift = measure_shift(base, candidate, rule.threshold)
    middle = float(np.median(base))
    least, most = _quantile_growth(base, candidate)
    allowed = rule.quartile_floor + rule.quartile_share * middle
    moved, delta, threshold = "same", float(np.median(candidate)) - middle, float(rule.threshold)
    # The teeth are where they were: quartiles then only tell how often each was hit.
    in_place = shift.overlap_still >= policy.comb.in_place
    if abs(shift.delta) > rule.threshold and _fits(shift, fit):
        moved, delta = ("grew" if shift.delta > 0 else "shrank"), float(shift.delta)
        confidence = f"exact: the counts of {len(candidate)} I/Os moved as one comb"
    elif not in_place and (least > allowed or most < -allowed):
        moved, delta = ("grew", least) if least > allowed else ("shrank", most)
        confidence, threshold = f"every quartile moved by more than {allowed:.0f}", allowed
    elif in_place:
        delta = float(shift.delta) if abs(shift.delta) <= rule.threshold else 0.0
        confidence = f"comb in place: overlap {shift.overlap_still:.0%}"
    else:
        confidence, threshold = f"quartiles within {allowed:.0f}", allowed
    few = min(len(base), len(candidate)) < policy.min_ios
    why = f"fewer than {policy.min_ios} I/Os" if few else rule.why
    if rule.gated and not few and threshold == rule.threshold:
        why = ""  # it qualifies the quartiles, and the comb decided
    return SectionComparison(
        section=section,
        base=middle,
        candidate=middle + delta,
        delta=delta,
        relative=delta / middle if middle else 0.0,
        threshold=round(threshold, 1),
        gated=rule.gated and not few,
        moved=moved,
        confidence=confidence,
        why=why,
    )


def _fits(shift: Shift, fit: Fit) -> bool:
    return shift.overlap >= max(fit.overlap, fit.ratio * shift.overlap_still)


def _quantile_growth(base: Sequence[int], candidate: Sequence[int]) -> tuple[float, float]:
    """Smallest and largest growth among the quantiles."""
    growth = np.quantile(candidate, QUANTILES, method="lower") - np.quantile(
        base, QUANTILES, method="lower"
    )
    return float(growth.min()), float(growth.max())


def _moved(verdicts: Sequence[CellVerdict], how: str) -> list[str]:
    return [
        f"{v.cell}: {s.section.value} {s.delta:+.0f} instructions ({s.relative:+.1%})"
        for v in verdicts
        for s in v.sections
        if s.moved == how and s.gated
    ]


def no_figures(verdicts: Sequence[CellVerdict]) -> str:
    """The sentence of a verdict that is infrastructure: which cell, and why."""
    bad = next(v for v in verdicts if v.outcome is Outcome.INFRASTRUCTURE)
    return f"{bad.cell} has no usable values: {bad.why}."


def _sentence(outcome: Outcome, verdicts: Sequence[CellVerdict]) -> str:
    total = len(verdicts)
    if outcome is Outcome.REGRESSION:
        worst = max(
            ((s, v) for v in verdicts for s in v.sections if s.moved == "grew" and s.gated),
            key=lambda pair: pair[0].relative,
        )
        cells = sum(v.outcome is Outcome.REGRESSION for v in verdicts)
        s, v = worst
        return (
            f"The candidate makes {cells} of {total} cells more expensive; most in "
            f"{v.cell}: {s.section.value} {s.delta:+.0f} instructions ({s.relative:+.1%})."
        )
    if outcome is Outcome.INFRASTRUCTURE:
        return no_figures(verdicts)
    if outcome is Outcome.INCONCLUSIVE:
        bad = next(v for v in verdicts if v.outcome is outcome)
        return f"{bad.cell} cannot be judged: {bad.why}."
    better = sum(any(s.moved == "shrank" and s.gated for s in v.sections) for v in verdicts)
    note = f"; {better} became cheaper" if better else ""
    return f"No section of {total} cells grew past its threshold{note}."
