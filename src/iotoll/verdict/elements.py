"""Other costs than instructions, element by element: candidate against base, by the same rule.

An element (``pipelines/elements.toml``) is one more integer of each I/O and section. Which I/Os are
paired, and when a count has moved, is `iotoll.verdict.instructions`' to say; here are the counts.
Only what moved is kept: there are a hundred counts a cell. Where boards keep no windows, a boot has
one mean of a cell for each element that its trace tells (`compare_counted`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain, repeat
from statistics import median
from typing import Any, Literal

from iotoll.boards.cells import parse_cell
from iotoll.kernels.symbols import NOWHERE
from iotoll.measure.elements import load_elements, runs_of
from iotoll.records.models import CellRecord, Section
from iotoll.records.models.analysis import ElementRecord, Runs
from iotoll.records.models.verdict import ElementComparison, WorkFunction
from iotoll.verdict.amount import rounded
from iotoll.verdict.policy import AT_ONCE, CountedRule, CountRule, Policy

Judge = Callable[
    [Sequence[CellRecord], Sequence[CellRecord], Section | None, Sequence[CountRule]],
    dict[str, Any] | None,
]
"""Compares the counts that two sides' records have in place of instructions: the fields of a
`Comparison` by the first rule by which they moved, or None where they did by none."""

LINES = "data_lines"
"""An element that each I/O has, where lines of cache are counted."""

PMU = "pmu"
"""The element behind whose dot is an event of a board's PMU."""

NO_CHANGED = "shown only: I/Os are in flight at once, and no changed function has more of it"

SHOWN = 4
"""Functions that a comparison names, those that differ most."""


def compare_elements(
    base: Sequence[CellRecord],
    candidate: Sequence[CellRecord],
    policy: Policy,
    judge: Judge,
    changed: Collection[str] = (),
) -> list[ElementComparison]:
    """The elements of a cell that moved, I/O by I/O where both sides' boots counted them so.

    ``changed`` are functions whose machine code the candidate changed: they are named first. Where
    I/Os are in flight at once, the moment at which one ends decides whose section an interrupt is
    in, and how many requests it ends: there an element blocks in sections alone, and where a
    changed function has more of it.
    """
    if not base or not all(record.vector is not None for record in (*base, *candidate)):
        return compare_counted(base, candidate, policy.counted)
    records = (*base, *candidate)
    keys = sorted({key for record in records for key in record.vector or ()} - _uncounted(records))
    at_once = parse_cell(base[0].cell).depth > 1
    parts = (*policy.sections, *(() if at_once else (None,)))
    found = [m for key in keys for m in _of(key, parts, base, candidate, policy, judge)]
    found = [
        _with_functions(one, differing(one.element, base, candidate, changed), at_once)
        for one in found
    ]
    return [one for one in found if one.section is not None or not _is_told(one, found)]


Counted = Literal["counted in the trace", "PMU, a separate run"]

IN_TRACE: Counted = "counted in the trace"
OF_PMU: Counted = "PMU, a separate run"
"""What is said of each element that no windows have."""


def how_counted(element: str) -> Counted:
    """Who counted an element that no windows have."""
    return OF_PMU if element.partition(".")[0] == PMU else IN_TRACE


def compare_counted(
    base: Sequence[CellRecord], candidate: Sequence[CellRecord], rule: CountedRule
) -> list[ElementComparison]:
    """The elements of a cell that moved by their means of boots, whole I/Os alone; shown only.

    An element that a usable boot could not count is not compared, nor are too few boots.
    """
    before, after = ([_means(r) for r in s if r.invalid is None] for s in (base, candidate))
    if min(len(before), len(after)) < rule.boots:
        return []
    keys = sorted(set.intersection(*(set(one) for one in (*before, *after))))
    sides = ((key, [one[key] for one in before], [one[key] for one in after]) for key in keys)
    moved = (_counted(key, was, now, rule) for key, was, now in sides)
    return [one for one in moved if one is not None]


def _means(record: CellRecord) -> dict[str, float]:
    """What a boot counted of a cell for one I/O, by element: in its trace, and by its PMU."""
    by_event = record.pmu.per_io if record.pmu else {}
    return {**(record.counted or {}), **{f"{PMU}.{name}": n for name, n in by_event.items()}}


def _counted(
    key: str, base: Sequence[float], candidate: Sequence[float], rule: CountedRule
) -> ElementComparison | None:
    was, now = median(base), median(candidate)
    own = max(max(side) - min(side) for side in (base, candidate))
    least = max(rule.own * own, rule.least, rule.share * was)
    if abs(now - was) < least:
        return None
    boots, how = f"{len(base)} and {len(candidate)} boots", how_counted(key)
    return ElementComparison(
        element=key,
        base=was,
        candidate=now,
        delta=round(now - was, 4),
        relative=(now - was) / was if was else 0.0,
        threshold=round(least, 4),
        gated=False,
        moved="grew" if now > was else "shrank",
        confidence=f"{how}: medians of {boots}, of which two of one side differ by {own:.2g}",
        why=f"shown only: {how}",
    )


def _uncounted(records: Sequence[CellRecord]) -> set[str]:
    """Lines of cache and misses, where not all boots counted them: each I/O touches lines."""
    touches = {name for name, one in load_elements().elements.items() if one.touch is not None}
    return touches if any(LINES not in (one.vector or ()) for one in records) else set()


def _is_told(whole: ElementComparison, found: Sequence[ElementComparison]) -> bool:
    """Whether the sections have all of what a whole I/O moved by."""
    sections = sum(
        one.delta for one in found if one.element == whole.element and one.section is not None
    )
    return sections * whole.delta > 0 and abs(sections) >= abs(whole.delta)


def _of(
    key: str,
    parts: Sequence[Section | None],
    base: Sequence[CellRecord],
    candidate: Sequence[CellRecord],
    policy: Policy,
    judge: Judge,
) -> list[ElementComparison]:
    rules = (policy.element(key), policy.shown(key))
    found = []
    for part in parts:
        sides = [[_values(record, key, part) for record in side] for side in (base, candidate)]
        if sides[0][: len(sides[1])] == sides[1]:
            continue
        before, after = ([in_place(r, key, part) for r in side] for side in (base, candidate))
        if values := judge(before, after, part, rules):
            found.append(ElementComparison(element=key, section=part, **values))
    return found


def _values(record: CellRecord, key: str, part: Section | None) -> Runs:
    """The element's values of one section of each I/O; zeros where it has none."""
    element = (record.vector or {}).get(key)
    if element is None:
        # Where an I/O has no such section, it has no count of it.
        known = record.in_order.sections.get(part, []) if record.in_order and part else []
        ios = len(record.in_order.thread) if record.in_order else 0
        return runs_of([None if v is None else 0 for v in known] if part else [0] * ios)
    return element.whole if part is None else element.sections.get(part, [])


def in_place(record: CellRecord, key: str, part: Section | None) -> CellRecord:
    """The record with an element's counts of a section (None: the whole) for instructions."""
    if record.in_order is None:
        return record
    values = list(chain.from_iterable(repeat(v, n) for v, n in _values(record, key, part)))
    update = {"whole": values} if part is None else {"sections": {part: values}}
    return record.model_copy(update={"in_order": record.in_order.model_copy(update=update)})


def _with_functions(
    found: ElementComparison, functions: Sequence[WorkFunction], at_once: bool
) -> ElementComparison:
    why = why_shown(functions, found.section, found.delta > 0) if at_once and found.gated else ""
    update = {"gated": False, "why": why} if why else {}
    return found.model_copy(update={**update, "functions": list(functions[:SHOWN])})


def why_shown(functions: Sequence[WorkFunction], section: Section | None, grew: bool) -> str:
    """Why an element that moved blocks nothing where I/Os are in flight at once; empty if it may.

    ``functions`` are those of `differing`: one that the candidate changed must have more of it, or
    less where it shrank.
    """
    if section is None:
        return AT_ONCE.replace("shown only", "not compared")
    is_of_changed = any(f.changed and (f.candidate > f.base) is grew for f in functions)
    return "" if is_of_changed else NO_CHANGED


def differing(
    key: str,
    base: Sequence[CellRecord],
    candidate: Sequence[CellRecord],
    changed: Collection[str],
) -> list[WorkFunction]:
    """The functions that have more or fewer of it for an I/O of the cell, in the first boots.

    They are counted in any task, and what timers do differs by chance: changed ones come first.
    """
    sides = [(record.vector or {}).get(key) for record in (base[0], candidate[0])]
    counts = [
        _per_io(side, record) for side, record in zip(sides, (base[0], candidate[0]), strict=True)
    ]
    found = [
        WorkFunction(
            name=name,
            base=counts[0].get(name, 0.0),
            candidate=counts[1].get(name, 0.0),
            changed=name in changed,
        )
        for name in sorted({*counts[0], *counts[1]} - {NOWHERE})
        if counts[0].get(name, 0.0) != counts[1].get(name, 0.0)
    ]
    found.sort(key=lambda f: (not f.changed, -abs(f.candidate - f.base), f.name))
    return found


def _per_io(element: ElementRecord | None, record: CellRecord) -> dict[str, float]:
    ios = len(record.in_order.thread) if record.in_order else 0
    if element is None or not ios:
        return {}
    return {name: round(count / ios, 2) for name, count in element.functions.items()}


def element_text(found: ElementComparison) -> str:
    """``+1 register read of UFS``."""
    return load_elements().text(found.element, rounded(found.delta, 2), minus="-")


def element_functions(found: ElementComparison) -> str:
    """Where it is, the function that differs most the same way: `` in f()``; or nothing."""
    same = [f for f in found.functions if (f.candidate - f.base) * found.delta > 0]
    return f" in {same[0].name}()" if same else ""
