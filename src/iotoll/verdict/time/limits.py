"""What growth can be ruled out of a figure, by its noise: the policy's limit, a wider one, or none.

A figure of 4 % pair noise never rules out 2 % in 16 pairs, and would leave every patch undecided.
Such a figure is judged at the smallest limit that its noise allows, up to the policy's `widest`;
beyond, it is left out. Either way the verdict names it: it is not judged as the policy asks.

Its noise is taken from what the candidate cannot change: the board's history, and the scatter of
the base's own boots today. An alarm is never affected: a figure that grew is blocked all the same.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2, norm

from iotoll.verdict.time.boundaries import crossing

Floats = NDArray[np.float64]

HOPELESS = 0.99
"""A figure that would be within with less than this chance cannot be judged at its limit."""

SURE = 0.9995
"""A wider limit is one at which it would be within with this chance."""

FEWEST = 6
"""Pairs of which the base's own boots tell that a figure is noisy today."""

FEWEST_FOR_LIMIT = 8
"""Pairs of which they tell how noisy."""

NOISY = 4.0
"""Today's variance over history's from which a figure is noisy today."""

TODAY = 1.5
"""Today's noise counts so much more: 8 to 16 boots tell it to a third. With 1.25 a cell that is
four times as noisy today left 5.5 % of unchanged patches undecided, with 1.5 it leaves 2.1 %."""

MIDDLE_SQUARE = 0.4549
"""The median of the square of a standard normal variable."""

KEPT = 0.75
"""Share of the base's steps that count, the smallest: a slow boot makes two large ones."""

KEPT_SQUARE = float(chi2.cdf(chi2.ppf(KEPT, 1), 3)) / KEPT
"""The mean of the smallest `KEPT` of such squares."""


@cache
def ratio_for(chance: float, looks: tuple[int, ...], pass_levels: tuple[float, ...]) -> float:
    """Limit over pair noise with which an unchanged figure is within, so likely, at some look."""
    critical = [float(norm.isf(level)) for level in pass_levels]

    def excess(ratio: float) -> float:
        return sum(crossing(looks, critical, drift=ratio)) - chance

    return float(brentq(excess, 1e-3, 20.0, xtol=1e-4))


def today(base: Floats, boards: NDArray[np.int64]) -> Floats:
    """The variance of a pair as the base's own boots show it, shape (requests, figures).

    ``base`` (requests, pairs, figures) are log values, NaN where one does not count. Neighbouring
    boots of one board differ by what two boots of a pair do, so a slow drift does not matter. NaN
    where there are fewer than `FEWEST` pairs.
    """
    parts = []
    for board in range(int(boards.max(initial=0)) + 1):
        own = np.where((boards == board)[..., None], base, np.nan)
        parts.append(_steps(own))
    steps = np.sort(np.concatenate(parts, axis=1) ** 2, axis=1)  # NaN last
    count = (~np.isnan(steps)).sum(axis=1)
    most = np.round(KEPT * count).astype(np.int64)
    use = np.arange(steps.shape[1])[:, None] < most[:, None]
    mean = np.where(use, steps, 0.0).sum(axis=1) / np.maximum(most, 1)
    return np.asarray(np.where(count >= FEWEST - 1, mean / KEPT_SQUARE, np.nan))


def _steps(values: Floats) -> Floats:
    """What each value adds to the one before it that is there, NaN where there is none."""
    last = np.full((values.shape[0], values.shape[2]), np.nan)
    steps = np.full(values.shape, np.nan)
    for at in range(values.shape[1]):
        steps[:, at] = values[:, at] - last
        last = np.where(np.isnan(values[:, at]), last, values[:, at])
    return steps


def limits(
    unacceptable: Floats, noise: Floats, lowest: float, sure: float, widest: float
) -> Floats:
    """The growth to be ruled out of each figure, shape (requests, figures); infinite: left out.

    ``unacceptable`` (figures,) are the policy's limits and ``noise`` (requests, figures) the
    standard deviation of a pair, all as log ratios. A figure whose noise is more than ``lowest``
    times its limit is hopeless; its wider limit is ``sure`` times its noise.
    """
    wider = np.maximum(noise * sure, unacceptable)
    wider = np.where(wider > widest, np.inf, wider)
    return np.asarray(np.where(noise > unacceptable * lowest, wider, unacceptable))
