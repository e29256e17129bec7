"""The lines of a verdict on the clock `instructions`: each cell and part that moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iotoll.records.models import CellVerdict, Comparison, PoolRecord
from iotoll.verdict.elements import element_functions, element_text
from iotoll.verdict.growth import is_of_most, rare

WHOLE = "whole I/O"
WORK = "work outside I/Os"
"""What stands where a section's name would."""


def parts(verdict: CellVerdict) -> Iterator[tuple[str, Comparison]]:
    """A cell's comparisons of instructions with their names: sections, whole I/O, other work."""
    for section in verdict.sections:
        yield section.section.value, section
    if verdict.whole is not None:
        yield "whole", verdict.whole
    if verdict.work is not None:
        yield "work", verdict.work


def all_parts(verdict: CellVerdict) -> Iterator[tuple[str, Comparison]]:
    """As `parts`, and the elements that moved: ``ELEMENT:SECTION``."""
    yield from parts(verdict)
    for one in verdict.elements:
        yield f"{one.element}:{one.section.value if one.section else 'whole'}", one


def moved_lines(
    verdicts: Sequence[CellVerdict], pools: Sequence[PoolRecord], how: str
) -> list[str]:
    """One line for everything gated that grew, or shrank."""
    lines = [
        f"{v.cell}: {name} {c.delta:+.0f} instructions ({_percent(c.relative)}){_share(c)}"
        for v in verdicts
        for name, c in parts(v)
        if c.moved == how and c.gated
    ]
    lines += [
        f"{v.cell}: {e.element.partition('.')[0]} {element_text(e)} for an I/O,"
        f" {e.section.value if e.section else WHOLE}{element_functions(e)}"
        for v in verdicts
        for e in v.elements
        if e.moved == how and e.gated
    ]
    return lines + [pool.sentence for pool in pools if pool.moved == how]


def rarely(moved: Sequence[Comparison]) -> str:
    """What some I/Os pay beside what most of them do: goes on behind what these say."""
    some = rare_cost(moved)
    return f", and {some}" if some else ""


def rare_cost(moved: Sequence[Comparison]) -> str:
    """``+5,008 in 12% of I/Os``, if most of these have such a cost; else nothing."""
    found = [one for one in map(rare, moved) if one]
    if 2 * len(found) <= len(moved):
        return ""
    # A middle of shares and sizes could be of two cells that have nothing in common.
    middle = sorted(found, key=lambda one: one.delta)[(len(found) - 1) // 2]
    return f"{middle.delta:+,} in {middle.share:.0%} of I/Os"


def _percent(relative: float) -> str:
    """``+6.3%``; below 0.1 % with more digits, so that no growth reads as none."""
    digits = 1 if abs(relative) >= 0.001 else 3
    return f"{relative:+.{digits}%}"


def _share(found: Comparison) -> str:
    """Which I/Os moved, where it was not most of them, or by far more than most did."""
    if found.paired is None or is_of_most(found):
        return rarely([found])
    largest = [c for c in found.paired.clusters if (c.delta > 0) == (found.moved == "grew")]
    largest = [c for c in largest if abs(c.delta) > found.paired.size]
    first = f", mostly {largest[0].delta:+d}" if largest else ""
    of = "rounds of I/Os" if found.paired.trial and found.paired.trial.of == "rounds" else "I/Os"
    return f" on average: {found.share:.0%} of {of} moved{first}"
