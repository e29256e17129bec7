"""Work outside I/Os: all that the CPUs executed for a cell, less what grew inside its I/Os.

A cost need not be where an I/O waits for it: a timer, a work queue or a thread may pay it later.
So the *total* of a cell, all instructions of the kernel from the cell's beginning until what its
I/Os have put off has run, is compared as a sum, per I/O. What the I/Os' own sections, or the whole
I/O, grew by is taken off, so that no cost is told twice; what is left is *outside*. What a request
grew by is taken off for each request of the cell: those of the journal also run after their I/O.

The total of all functions is not steady to the instruction: another kernel wakes fio and trace-cmd
a few times more or less, and looks for free blocks in this cell or the next. So it must exceed a
share of itself, and what two boots of the base differ by. What changed functions execute has no
such noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from iotoll.records.models import (
    CellRecord,
    Comparison,
    SectionComparison,
    WorkComparison,
    WorkFunction,
    WorkRecord,
)
from iotoll.records.models.base import REQUEST_SECTIONS
from iotoll.verdict.policy import WorkRule

SHOWN = 8
"""Functions that a comparison names, those that differ most."""


def compare_work(
    base: Sequence[CellRecord],
    candidate: Sequence[CellRecord],
    parts: tuple[Sequence[SectionComparison], Comparison | None],
    rule: WorkRule,
    changed: frozenset[str] = frozenset(),
) -> WorkComparison | None:
    """Candidate against base over the boots of both; None where one side was not counted.

    ``parts`` are the sections and the whole I/O of the same cell; ``changed`` the functions with
    other machine code.
    """
    ours, theirs = ([r.work for r in side if r.work] for side in (base, candidate))
    if not ours or len(ours) < len(theirs) or not theirs:
        return None
    pairs = list(zip(ours, theirs, strict=False))
    inside = _inside(*parts, _requests(candidate))
    every = [after.per_io - before.per_io for before, after in pairs]
    some = [_sum(after, changed) - _sum(before, changed) for before, after in pairs]
    outside = [_less(difference, inside) for difference in every]
    by_change = [_less(difference, inside) for difference in some]
    first, delta, own = _mean(o.per_io for o in ours[: len(pairs)]), _mean(outside), _own(ours)
    limit = max(rule.threshold, rule.share * first, own)
    moved: Literal["grew", "shrank", "same"] = "same"
    is_of_change = False
    # Growth in one boot is an alarm that asks for more boots. Less needs them, and asks for none.
    for name, way in (("grew", 1), ("shrank", -1))[: 2 if len(pairs) > 1 else 1]:
        if _exceed(outside, limit, way) or _exceed(by_change, rule.changed, way):
            moved = name  # type: ignore[assignment]
            is_of_change = not _exceed(outside, limit, way)
    if is_of_change or abs(_mean(by_change)) > abs(delta):
        delta = _mean(by_change)  # noise of the others hides some of it, or all
    return WorkComparison(
        base=round(first, 1),
        candidate=round(first + delta, 1),
        delta=round(delta, 1),
        relative=delta / first if first else 0.0,
        threshold=round(limit, 1),
        gated=rule.gated,
        moved=moved,
        confidence=_confidence(outside, by_change, own),
        why=rule.why,
        total=round(first + _mean(every), 1),
        inside=round(inside, 1),
        changed=round(_mean(by_change), 1),
        own=round(own, 1) if len(ours) > 1 else None,
        functions=_functions(pairs, changed),
    )


def _exceed(values: Sequence[float], limit: float, way: int) -> bool:
    """Whether each boot's value is beyond the limit, upwards or downwards."""
    return all(way * value > limit for value in values)


def _sum(work: WorkRecord, functions: frozenset[str]) -> float:
    """Instructions per I/O of some functions."""
    return sum(n for name, n in work.functions.items() if name in functions) / work.ios


def _requests(boots: Sequence[CellRecord]) -> float:
    """Requests of a cell's disk for each of its I/Os, whoever waits for them; at least one."""
    return max(_mean(boot.requests["seen"] / max(boot.ios["seen"], 1) for boot in boots), 1.0)


def _inside(
    sections: Sequence[SectionComparison], whole: Comparison | None, requests: float
) -> float:
    """Mean instructions that an I/O grew by in what is compared I/O by I/O."""
    found = sum(
        part.paired.mean * (requests if part.section in REQUEST_SECTIONS else 1.0)
        for part in sections
        if part.paired
    )
    if (
        whole is not None
        and whole.paired
        and whole.has_moved
        and abs(whole.paired.mean) > abs(found)
    ):
        return whole.paired.mean
    return found


def _less(difference: float, inside: float) -> float:
    """What is left of a difference without what lies inside I/Os; never of the other sign."""
    if difference > 0:
        return max(difference - max(inside, 0.0), 0.0)
    return min(difference - min(inside, 0.0), 0.0)


def _own(boots: Sequence[WorkRecord]) -> float:
    """The largest difference between two boots of the base, whose cells begin at other moments."""
    totals = [boot.per_io for boot in boots]
    return max(totals) - min(totals)


def _confidence(outside: Sequence[float], by_change: Sequence[float], own: float) -> str:
    each = ", ".join(f"{value:+,.1f}" for value in outside)
    text = f"{each} per I/O" if len(outside) == 1 else f"{each} per I/O in {len(outside)} boots"
    if any(by_change):
        text += f", {_mean(by_change):+,.1f} of it in changed functions"
    return text + (f"; boots of the base differ by up to {own:,.1f}" if own else "")


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _functions(
    pairs: Sequence[tuple[WorkRecord, WorkRecord]], changed: frozenset[str]
) -> list[WorkFunction]:
    """The named functions that differ most, per I/O, over all boots; changed ones first."""
    found = []
    for name in {name for pair in pairs for side in pair for name in side.functions if name}:
        base, candidate = (
            round(_mean(pair[i].functions.get(name, 0) / pair[i].ios for pair in pairs), 1)
            for i in (0, 1)
        )
        if base != candidate:
            found.append(
                WorkFunction(name=name, base=base, candidate=candidate, changed=name in changed)
            )
    found.sort(key=lambda f: (not f.changed, -abs(f.candidate - f.base), f.name))
    return found[:SHOWN]
