"""What growth can be ruled out of a figure, by its noise: the policy's limit, a wider one, or none.

A figure of 4 % pair noise never rules out 2 % in 16 pairs, and would leave every patch undecided.
Such a figure is judged at the smallest limit that its noise allows, up to the policy's `widest`;
beyond, it is left out. Either way the verdict names it: it is not judged as the policy asks.

Its noise is taken from what the candidate cannot change: the board's history, and the scatter of
the base's own boots today. An alarm is never affected: a figure that grew is blocked all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

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

FEWEST = 8
"""Pairs of which the base's own boots tell that a figure is noisy today."""

NOISY = 4.0
"""Today's variance over history's from which a figure is noisy today."""

MIDDLE_SQUARE = 0.4549
"""The median of the square of a standard normal variable."""

KEPT = 0.75
"""Share of the base's steps that count, the smallest: a slow boot makes two large ones."""

KEPT_SQUARE = float(chi2.cdf(chi2.ppf(KEPT, 1), 3)) / KEPT
"""The mean of the smallest `KEPT` of such squares."""


def ratio_for(chance: float, looks: Sequence[int], pass_levels: Sequence[float]) -> float:
    """Limit over pair noise with which an unchanged figure is within by the last look, so likely."""
    critical = [float(norm.isf(level)) for level in pass_levels]

    def excess(ratio: float) -> float:
        return sum(crossing(looks, critical, drift=ratio)) - chance

    return float(brentq(excess, 1e-3, 20.0, xtol=1e-4))


def today(base: Floats, boards: NDArray[np.int64], kept: NDArray[np.bool_]) -> Floats:
    """The variance of a pair as the base's own boots show it, shape (requests, figures).

    ``base`` (requests, pairs, figures) are log values, ``kept`` the pairs that count. Neighbouring
    boots of one board differ by what two boots of a pair do, so a slow drift does not matter. NaN
    where there are fewer than `FEWEST` such pairs.
    """
    found = np.full((len(base), base.shape[2]), np.nan)
    for row, (values, own, use) in enumerate(zip(base, boards, kept, strict=True)):
        parts = [np.diff(values[use & (own == board)], axis=0) for board in np.unique(own[use])]
        steps = np.concatenate(parts) if parts else np.empty((0, base.shape[2]))
        if len(steps) >= FEWEST - 1:
            least = np.sort(steps**2, axis=0)[: round(KEPT * len(steps))]
            found[row] = least.mean(axis=0) / KEPT_SQUARE
    return found


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
