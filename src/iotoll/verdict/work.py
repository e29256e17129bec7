"""Work outside I/Os: all that the CPUs executed for a cell, less what grew inside its I/Os.

A cost need not be where an I/O waits for it: a timer, a work queue or a thread may pay it later.
So the *total* of a cell, all instructions of the kernel from the cell's beginning until what its
I/Os have put off has run, is compared as a sum, per I/O. What the I/Os' own sections, or the whole
I/O, grew by is taken off, so that no cost is told twice; what is left is *outside*.

A sum is steadier than any I/O: ticks and page refills meet other I/Os in another kernel, but are as
many. What two boots of the base differ by is noise all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from iotoll.records.models import (
    CellRecord,
    Comparison,
    SectionComparison,
    WorkComparison,
    WorkFunction,
    WorkRecord,
)
from iotoll.verdict.policy import WorkRule

SHOWN = 8
"""Functions that a comparison names, those that differ most."""


def compare_work(
    base: Sequence[CellRecord],
    candidate: Sequence[CellRecord],
    sections: Sequence[SectionComparison],
    whole: Comparison | None,
    rule: WorkRule,
) -> WorkComparison | None:
    """Candidate against base over the boots of both; None where one side was not counted.

    ``sections`` and ``whole`` are what the same cell's I/Os differ by.
    """
    ours, theirs = ([r.work for r in side if r.work] for side in (base, candidate))
    if not ours or not theirs or len(ours) < len(theirs):
        return None
    pairs = list(zip(ours, theirs, strict=False))
    differences = [after.per_io - before.per_io for before, after in pairs]
    inside = _inside(sections, whole)
    outside = [_less(difference, inside) for difference in differences]
    own = _own(ours)
    limit = max(float(rule.threshold), rule.noise * own)
    moved: Literal["grew", "shrank", "same"] = "same"
    if all(value > limit for value in outside):
        moved = "grew"
    elif all(value < -limit for value in outside):
        moved = "shrank"
    first = sum(before.per_io for before, _ in pairs) / len(pairs)
    delta = round(sum(outside) / len(outside), 1)
    total = first + sum(differences) / len(pairs)
    return WorkComparison(
        base=round(first, 1),
        candidate=round(first + delta, 1),
        delta=delta,
        relative=delta / first if first else 0.0,
        threshold=float(rule.threshold),
        gated=rule.gated,
        moved=moved,
        confidence=_confidence(outside, own),
        why=rule.why,
        total=round(total, 1),
        inside=round(inside, 1),
        own=round(own, 1) if len(ours) > 1 else None,
        functions=_functions(pairs),
    )


def _inside(sections: Sequence[SectionComparison], whole: Comparison | None) -> float:
    """Mean instructions that an I/O grew by in what is compared I/O by I/O."""
    found = sum(_mean(section) for section in sections)
    if whole is not None and whole.has_moved and abs(mean := _mean(whole)) > abs(found):
        return mean
    return found


def _mean(part: Comparison) -> float:
    """Of the mean difference of an I/O's part, what falls on each of the cell's I/Os."""
    if part.twins is None:
        return 0.0
    return part.twins.mean


def _less(difference: float, inside: float) -> float:
    """What is left of a difference without what lies inside I/Os; never of the other sign."""
    if difference > 0:
        return max(difference - max(inside, 0.0), 0.0)
    return min(difference - min(inside, 0.0), 0.0)


def _own(boots: Sequence[WorkRecord]) -> float:
    """The largest difference between two boots of the base, whose cells begin at other moments."""
    totals = [boot.per_io for boot in boots]
    return max(totals) - min(totals)


def _confidence(outside: Sequence[float], own: float) -> str:
    each = ", ".join(f"{value:+,.1f}" for value in outside)
    if len(outside) == 1:
        return f"{each} per I/O in one boot of each side"
    return f"{each} per I/O in {len(outside)} boots; {own:,.1f} between boots of the base"


@dataclass(frozen=True)
class _Sum:
    name: str
    base: float
    candidate: float


def _functions(pairs: Sequence[tuple[WorkRecord, WorkRecord]]) -> list[WorkFunction]:
    """The named functions that differ most, per I/O, over all boots."""
    names = {name for pair in pairs for side in pair for name in side.functions if name}
    sums = [_Sum(n, *(_mean_of(n, [p[i] for p in pairs]) for i in (0, 1))) for n in names]
    sums.sort(key=lambda one: (-abs(one.candidate - one.base), one.name))
    return [
        WorkFunction(name=one.name, base=round(one.base, 1), candidate=round(one.candidate, 1))
        for one in sums[:SHOWN]
        if round(one.base, 1) != round(one.candidate, 1)
    ]


def _mean_of(name: str, boots: Sequence[WorkRecord]) -> float:
    return sum(boot.functions.get(name, 0) / boot.ios for boot in boots) / len(boots)
