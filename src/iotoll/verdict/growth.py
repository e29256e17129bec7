"""How much a value grew, and whether a whole I/O grew by more than its sections did."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iotoll.records.models.verdict import Cluster, Comparison


def weight(found: Comparison) -> float:
    """How much it moved, in the verdict's unit: the mean where that is far more than the median.

    What most I/Os pay says nothing of what the others do.
    """
    if found.twins is None or found.twins.mean <= found.delta + found.threshold:
        return found.delta
    return found.twins.mean


def share(found: Comparison) -> float:
    """The same as a share of the base; infinite where the base has nothing."""
    if found.twins is None and found.base:
        return found.relative
    return weight(found) / found.base if found.base else math.inf


def is_of_most(found: Comparison) -> bool:
    """Whether most I/Os moved by about ``delta``; else that is the mean of what few did."""
    if found.twins is None:
        return True
    return 2 * max(found.twins.above, found.twins.below) > found.twins.pairs


def rare(found: Comparison) -> Cluster | None:
    """What some I/Os pay beside what most of them do; where few moved, their mean is told."""
    return found.twins.rare if found.twins and is_of_most(found) else None


def is_covered(whole: Comparison, sections: Sequence[Comparison]) -> bool:
    """Whether a whole I/O grew by no more than these of its sections together, and a threshold."""
    return weight(whole) <= sum(map(weight, sections)) + whole.threshold


def moved_alone(whole: Comparison, sections: Sequence[Comparison]) -> bool:
    """Whether a whole I/O moved, and by more than those of its sections that moved as it did.

    Noise in a few I/Os does not make it so: means, by which `is_covered` goes, are not compared.
    """
    if not whole.has_moved:
        return False
    alike = [s for s in sections if s.gated and s.moved == whole.moved]
    way = -1 if whole.moved == "shrank" else 1
    return not alike or way * (_told(whole) - sum(map(_told, alike))) > whole.threshold


def _told(found: Comparison) -> float:
    some = rare(found)
    if some is None or found.twins is None:
        return found.delta
    return found.delta + (some.delta - found.twins.commonest) * some.share
