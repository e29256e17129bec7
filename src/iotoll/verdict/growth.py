"""How much a value grew, and whether a whole I/O grew by more than its sections did."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iotoll.records.models.verdict import Comparison


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


def is_covered(whole: Comparison, sections: Sequence[Comparison]) -> bool:
    """Whether a whole I/O moved by no more than these of its sections together, and a threshold."""
    direction = -1 if whole.moved == "shrank" else 1
    known = sum(weight(section) for section in sections)
    return direction * (weight(whole) - known) <= whole.threshold


def moved_alone(whole: Comparison, sections: Sequence[Comparison]) -> bool:
    """Whether a whole I/O moved, and by more than those of its sections that moved as it did."""
    alike = [s for s in sections if s.gated and s.moved == whole.moved]
    return whole.moved in ("grew", "shrank") and not (alike and is_covered(whole, alike))
