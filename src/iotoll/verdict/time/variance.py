"""How noisy is a figure today? Few pairs, helped by the board's history.

Three pairs say little about their own variance. As limma does for genes (Smyth 2004), the variance
of a figure's pairs is moderated: averaged with what is known beforehand, each by its degrees of
freedom. Beforehand here means the same figure's pairs of boots of one and the same kernel on the
same board (its *history*). How far history can be trusted today is read from all figures of the
run together: when today's variances differ from it by more than chance, it weighs less.

A pair far from the middle of its figure's others is drawn in to `CLIP` standard deviations before
anything is averaged (winsorized: Tukey and McLaughlin 1963), since boots have heavy tails; this
takes its place among the others from no pair, and treats growth and shrinkage alike.

Two guards keep a calm history from making a noisy day look sure. When the figures together are
noisier than their history, it is scaled up. When most pairs of a single figure would have to be
drawn in, history is not about that figure today: it stands on its own pairs alone, as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

Floats = NDArray[np.float64]

CLIP = 2.5
"""Standard deviations, of history and of today's inflation, beyond which a pair is drawn in."""

EXACT = 1e-4
"""Scatter of log variances that is none: history is then worth all its pairs (20,000 at most)."""

FLOOR = 1e-12
"""Variance of log ratios that no measurement is below: 1e-6, a thousandth of a per mille."""


@dataclass(frozen=True)
class Moderated:
    """Estimates of each figure; arrays of shape (..., figures).

    ``mean`` is the mean log ratio, ``error`` its standard error, ``freedom`` the degrees of freedom
    of that, ``deviation`` the standard deviation of one pair, ``pairs`` how many are used.
    ``inflation`` (shape (...)) is by how much today is noisier than history, as a ratio of
    variances, and ``alone`` marks figures that are not averaged with history.
    """

    mean: Floats
    error: Floats
    freedom: Floats
    deviation: Floats
    pairs: NDArray[np.int64]
    inflation: Floats
    alone: NDArray[np.bool_]


def moderate(ratios: Floats, history: Floats, known: Floats) -> Moderated:
    """Mean and moderated variance of each figure's log ratios.

    ``ratios`` has shape (..., pairs, figures), NaN where a pair has no valid value. ``history`` is
    the variance of one pair known beforehand, of the same shape or one that broadcasts to it (pairs
    on different boards have different ones), and ``known`` its degrees of freedom, shape
    (..., figures), 0 where there is no history: ``history`` is then a weight alone.
    """
    history = np.broadcast_to(history, ratios.shape)
    raw = _spread(ratios, history)
    known = np.broadcast_to(known, raw.mean.shape)
    _, inflation = _prior(raw, known)
    reach = np.where(known > 0, CLIP * np.sqrt(inflation)[..., None], np.inf)
    near = _winsorized(ratios, history, reach)
    alone = 2 * ((near != ratios) & ~np.isnan(ratios)).sum(axis=-2) > raw.pairs
    drawn = _spread(np.where(alone[..., None, :], ratios, near), history)
    prior, _ = _prior(drawn, np.where(alone, 0.0, known))
    freedom = prior + drawn.freedom
    part = prior * inflation[..., None] + drawn.freedom * drawn.ratio
    variance = np.maximum(part / np.maximum(freedom, 1.0) * drawn.scale, FLOOR)
    sure = (drawn.pairs > 0) & (freedom > 0)
    error = np.where(sure, np.sqrt(variance / np.maximum(drawn.pairs, 1)), np.inf)
    return Moderated(drawn.mean, error, freedom, np.sqrt(variance), drawn.pairs, inflation, alone)


@dataclass(frozen=True)
class _Spread:
    """Figures' own pairs: ``ratio`` is today's variance over ``scale``, that known beforehand."""

    mean: Floats
    ratio: Floats
    freedom: Floats
    pairs: NDArray[np.int64]
    scale: Floats


def _spread(ratios: Floats, history: Floats) -> _Spread:
    valid = ~np.isnan(ratios)
    weight = np.where(valid, 1.0 / history, 0.0)
    values = np.where(valid, ratios, 0.0)
    pairs = valid.sum(axis=-2)
    total = np.maximum(weight.sum(axis=-2), 1e-300)
    mean = np.where(pairs > 0, (weight * values).sum(axis=-2) / total, np.nan)
    rest = np.where(valid, values - np.nan_to_num(mean)[..., None, :], 0.0)
    freedom = np.maximum(pairs - 1, 0).astype(np.float64)
    ratio = (weight * rest**2).sum(axis=-2) / np.maximum(freedom, 1.0)
    return _Spread(mean, ratio, freedom, pairs, np.maximum(pairs, 1) / total)


def _winsorized(ratios: Floats, history: Floats, reach: Floats) -> Floats:
    """Draw pairs in to ``reach`` standard deviations of history around their figure's median."""
    ordered = np.sort(np.where(np.isnan(ratios), np.inf, ratios), axis=-2)
    count = (~np.isnan(ratios)).sum(axis=-2)[..., None, :]
    low = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=-2)
    high = np.take_along_axis(ordered, count // 2 % ordered.shape[-2], axis=-2)
    middle = np.where(count > 0, (low + high) / 2, 0.0)
    room = reach[..., None, :] * np.sqrt(history)
    return np.clip(ratios, middle - room, middle + room)


def _prior(today: _Spread, known: Floats) -> tuple[Floats, Floats]:
    """Degrees of freedom that history is worth today (per figure), and today's inflation.

    Were history exact and today like it, the log of today's variance over history's would scatter
    as that of a chi-square variable; what it scatters more makes history worth less (Smyth 2004,
    section 6.2). It is never worth more than the pairs that it came from.
    """
    usable = (known > 0) & (today.freedom > 0)
    count = usable.sum(axis=-1)
    half = np.where(usable, today.freedom / 2, 1.0)
    logs = np.log(np.where(usable, np.maximum(today.ratio, FLOOR), 1.0)) - digamma(half)
    logs += np.log(half)
    middle = _mean(logs, usable, count)
    squares = _mean((logs - middle[..., None]) ** 2, usable, count)
    scatter = squares * count / np.maximum(count - 1, 1)
    excess = scatter - _mean(polygamma(1, half), usable, count)
    worth = 2 * _inverse_trigamma(np.maximum(excess, EXACT))
    prior = np.where(known > 0, np.minimum(known, worth[..., None]), 0.0)
    level = np.exp(middle + digamma(worth / 2) - np.log(worth / 2))
    # A quiet day is not believed: few pairs look quiet by chance, together when they hang together.
    return prior, np.where(count > 0, np.maximum(level, 1.0), 1.0)


def _mean(values: Floats, usable: NDArray[np.bool_], count: NDArray[np.int64]) -> Floats:
    total: Floats = np.where(usable, values, 0.0).sum(axis=-1)
    return total / np.maximum(count, 1)


def _inverse_trigamma(value: Floats) -> Floats:
    """Solve trigamma(y) = value for y > 0, by Newton's method (Smyth 2004, appendix)."""
    found: Floats = 0.5 + 1.0 / value
    for _ in range(50):
        current = polygamma(1, found)
        step = current * (1 - current / value) / polygamma(2, found)
        found = found + step
        if np.max(-step / found) < 1e-8:
            break
    return found


def of_history(ratios: Floats) -> Floats:
    """The variance of a pair from pairs of one kernel with itself, shape (..., figures).

    ``ratios`` has shape (..., pairs, figures), without NaN. Outliers are drawn in as `moderate`
    draws them in, by the median absolute deviation, so that both estimate the same thing.
    """
    middle = np.median(ratios, axis=-2, keepdims=True)
    room = CLIP * 1.4826 * np.median(np.abs(ratios - middle), axis=-2, keepdims=True)
    drawn = np.clip(ratios, middle - room, middle + room)
    return np.asarray(np.maximum(drawn.var(axis=-2, ddof=1), FLOOR))
