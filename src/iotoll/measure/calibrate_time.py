"""What one trace event costs on the clock `time`, from the calibration runs of a boot.

The runs are those of `iotoll.measure.calibrate`: one event is recorded twice, or left out. Times
scatter where instruction counts do not, so the cost is a difference of medians, and it is believed
only where it is several times its own standard error. An event whose cost is not believed has
none here: the caller takes the median of those that have (`boot_trace.cost_of`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

LEAST_NS, MOST_NS = 20.0, 20_000.0
"""No event costs less or more: a core at 667 MHz takes some 2 us for the kretprobe's trap."""
ERRORS = 4.0
"""A cost is believed when it is at least so many of its standard errors."""
LEAST_IOS = 64
"""Fewer I/Os say nothing of a median's error."""
TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation, and below: median's error to the mean's."""
MEDIAN_ERROR = 1.2533


def time_cost(
    columns: Sequence[tuple[str, int]],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    left_out: bool,
) -> float | None:
    """ns for one event; ``columns`` are the sections that it touches, with its number in each.

    Of an event that is recorded twice the column with the smallest relative error counts; of one
    that is ``left_out`` all columns together, since the section's end moves. None: not believed.
    """
    found = [
        (change, count)
        for column, count in columns
        if (change := _change(before.get(column), after.get(column))) is not None
    ]
    if not found or (left_out and len(found) < len(columns)):
        return None
    if left_out:
        delta = -sum(change[0] for change, _ in found)
        return _believed(delta, math.sqrt(sum(change[1] ** 2 for change, _ in found)))
    costs = [_believed(change[0] / count, change[1] / count) for change, count in found]
    errors = [change[1] / max(abs(change[0]), 1e-9) for change, _ in found]
    known = [(error, cost) for error, cost in zip(errors, costs, strict=True) if cost is not None]
    return min(known)[1] if known else None


def _believed(cost: float, error: float) -> float | None:
    return cost if LEAST_NS <= cost <= MOST_NS and cost >= ERRORS * error else None


def _change(before: Any, after: Any) -> tuple[float, float] | None:
    """Difference of the medians and its standard error, in ns; None for too few I/Os."""
    sides = [_known(before), _known(after)]
    if any(len(side) < LEAST_IOS for side in sides):
        return None
    errors = [_error(side) for side in sides]
    return float(np.median(sides[1]) - np.median(sides[0])), math.hypot(*errors)


def _known(column: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    values = [] if column is None else np.ma.array(column).tolist()
    return np.array([value for value in values if value is not None], np.float64)


def _error(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Standard error of the median, from the median absolute deviation; at least the clock's."""
    spread = TO_SIGMA * float(np.median(np.abs(values - np.median(values))))
    return MEDIAN_ERROR * max(spread, 1.0) / math.sqrt(len(values))
