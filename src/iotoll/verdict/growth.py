"""How much a value grew, and whether a whole I/O grew by more than its sections did."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iotoll.records.models.verdict import Cluster, Comparison

_NOISE = 0.05
"""A mean that is larger by so small a share holds ticks that met a few I/Os, and no other cost."""


def weight(found: Comparison) -> float:
    """How much it moved, in the verdict's unit, per I/O: what reports say and trailers accept.

    The median, with what only some I/Os pay; the mean where that is far more, since what most
    I/Os pay says nothing of what the others do.
    """
    if found.paired is None:
        return found.delta
    some = rare(found)
    told = found.delta + ((some.delta - found.delta) * some.share if some else 0.0)
    near = told + found.threshold + _NOISE * abs(told)
    return told if found.moved == "shrank" or found.paired.mean <= near else found.paired.mean


def share(found: Comparison) -> float:
    """The same as a share of the base; infinite where the base has nothing."""
    if found.paired is None and found.base:
        return found.relative
    return weight(found) / found.base if found.base else math.inf


def is_of_most(found: Comparison) -> bool:
    """Whether most I/Os moved by about ``delta``; else that is the mean of what few did."""
    if found.paired is None:
        return True
    return 2 * max(found.paired.above, found.paired.below) > found.paired.pairs


def rare(found: Comparison) -> Cluster | None:
    """What some I/Os pay beside what most of them do; where few moved, their mean is told."""
    return found.paired.rare if found.paired and is_of_most(found) else None


def is_covered(whole: Comparison, sections: Sequence[Comparison]) -> bool:
    """Whether a whole I/O grew by no more than these of its sections together, and a threshold."""
    return weight(whole) <= sum(map(weight, sections)) + whole.threshold


def moved_alone(whole: Comparison, sections: Sequence[Comparison]) -> bool:
    """Whether a whole I/O moved, and by more than those of its sections that moved as it did."""
    if not whole.has_moved:
        return False
    alike = [s for s in sections if s.gated and s.moved == whole.moved]
    way = -1 if whole.moved == "shrank" else 1
    return not alike or way * (weight(whole) - sum(map(weight, alike))) > whole.threshold
