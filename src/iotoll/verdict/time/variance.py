"""How noisy is a figure today? Few pairs, helped by the board's history.

Three pairs say little about their own variance. As limma does for genes (Smyth 2004), the variance
of a figure's pairs is moderated: averaged with what is known beforehand, each by its degrees of
freedom. Beforehand here means the same figure's pairs of boots of one and the same kernel on the
same board (its *history*). How far history can be trusted today is read from all figures of the
run together: when today's variances differ from it by more than chance, it weighs less.

A pair far from the middle of its figure's others is drawn in to `CLIP` standard deviations before
anything is averaged (winsorized: Tukey and McLaughlin 1963), since boots have heavy tails; one
beyond `FAR` is no tail any more but another mode of the board, such as a slow boot, and is set
aside. Both treat growth and shrinkage alike. How many a figure may set aside is a question of its
own (`sequential`), and a figure without history sets none aside.

Two guards keep a calm history from making a noisy day look sure. When the figures together are
noisier than their history, it is scaled up. When most pairs of a single figure would have to be
drawn in, or what is left of it is noisy itself, history is not about that figure today: it stands
on its own pairs alone, as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, digamma, polygamma

from iotoll.verdict.time.limits import MIDDLE_SQUARE

Floats = NDArray[np.float64]

CLIP = 2.5
"""Standard deviations, of history and of today's inflation, beyond which a pair is drawn in."""

FAR = 4.0
"""Standard deviations beyond which a pair is set aside."""

NOISY = 0.01
"""A figure whose pairs, without those set aside, are this unlikely by its history, over the number
of figures, stands alone: of 128 quiet ones none does in 99 of 100 looks."""

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
    far: NDArray[np.int8]


def moderate(
    ratios: Floats, history: Floats, known: Floats, noisy: NDArray[np.bool_] | None = None
) -> Moderated:
    """Mean and moderated variance of each figure's log ratios.

    ``ratios`` has shape (..., pairs, figures), NaN where a pair has no valid value. ``history`` is
    the variance of one pair known beforehand, of the same shape or one that broadcasts to it (pairs
    on different boards have different ones), and ``known`` its degrees of freedom, shape
    (..., figures), 0 where there is no history: ``history`` is then a weight alone. Figures that
    are known to be ``noisy`` today (..., figures) stand alone.
    """
    history = np.broadcast_to(history, ratios.shape)
    known = np.broadcast_to(known, (*ratios.shape[:-2], ratios.shape[-1]))
    level = np.sqrt(_level(ratios, history, known))[..., None]
    reach = np.where(known > 0, CLIP * level, np.inf)
    middle, deviation = _middle(ratios), np.sqrt(history)
    far = np.abs(ratios - middle) > (FAR / CLIP) * reach[..., None, :] * deviation
    room = reach[..., None, :] * deviation
    near = np.where(far, np.nan, np.clip(ratios, middle - room, middle + room))
    core = _spread(np.where(far, np.nan, ratios), history)
    beyond = ((near != ratios) & ~np.isnan(ratios)).sum(axis=-2)
    pairs = (~np.isnan(ratios)).sum(axis=-2)
    alone = 2 * beyond > pairs
    unlikely = NOISY / ratios.shape[-1]
    alone |= (known > 0) & (chdtrc(core.freedom, core.freedom * core.ratio / level**2) < unlikely)
    alone = alone if noisy is None else alone | noisy
    drawn = _spread(np.where(alone[..., None, :], ratios, near), history)
    prior, inflation = _prior(drawn, np.where(alone, 0.0, known))
    freedom = prior + drawn.freedom
    part = prior * inflation[..., None] + drawn.freedom * drawn.ratio
    variance = np.maximum(part / np.maximum(freedom, 1.0) * drawn.scale, FLOOR)
    sure = (drawn.pairs > 0) & (freedom > 0)
    error = np.where(sure, np.sqrt(variance / np.maximum(drawn.pairs, 1)), np.inf)
    sign = np.where(far & ~alone[..., None, :], np.sign(ratios - middle), 0).astype(np.int8)
    deviations = np.sqrt(variance)
    return Moderated(drawn.mean, error, freedom, deviations, drawn.pairs, inflation, alone, sign)


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


def _middle(ratios: Floats) -> Floats:
    """The median of each figure's pairs, shape (..., 1, figures); 0 where it has none."""
    ordered = np.sort(np.where(np.isnan(ratios), np.inf, ratios), axis=-2)
    count = (~np.isnan(ratios)).sum(axis=-2)[..., None, :]
    low = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=-2)
    high = np.take_along_axis(ordered, count // 2 % ordered.shape[-2], axis=-2)
    return np.where(count > 0, (low + high) / 2, 0.0)


def _level(ratios: Floats, history: Floats, known: Floats) -> Floats:
    """By how much today is noisier than history, as a ratio of variances, at least 1; shape (...).

    From the median step between neighbouring pairs of all figures that have a history, since
    neither what they grew by nor a few pairs far away change that much.
    """
    steps = np.diff(ratios / np.sqrt(history), axis=-2) ** 2 / 2
    flat = np.where((known > 0)[..., None, :], steps, np.nan).reshape(*ratios.shape[:-2], -1)
    count = (~np.isnan(flat)).sum(axis=-1, keepdims=True)
    if not flat.shape[-1]:
        return np.ones(ratios.shape[:-2])
    ordered = np.sort(flat, axis=-1)
    middle = np.take_along_axis(ordered, np.minimum(count // 2, flat.shape[-1] - 1), axis=-1)[
        ..., 0
    ]
    return np.asarray(np.maximum(np.nan_to_num(middle, nan=0.0) / MIDDLE_SQUARE, 1.0))


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


@dataclass(frozen=True)
class Beforehand:
    """What pairs of one kernel with itself show of a figure, shapes (..., figures).

    ``variance`` of a pair, and ``far``: the share of pairs that were set aside.
    """

    variance: Floats
    far: Floats


def of_history(ratios: Floats) -> Beforehand:
    """The noise of a pair from pairs of one kernel with itself.

    ``ratios`` has shape (..., pairs, figures), without NaN. Outliers are set aside and drawn in as
    `moderate` does, by the median absolute deviation, so that both estimate the same thing.
    """
    middle = np.median(ratios, axis=-2, keepdims=True)
    deviation = 1.4826 * np.median(np.abs(ratios - middle), axis=-2, keepdims=True)
    far = np.abs(ratios - middle) > FAR * deviation
    room = CLIP * deviation
    kept = (~far).sum(axis=-2)
    drawn = np.where(far, 0.0, np.clip(ratios, middle - room, middle + room) - middle)
    mean = drawn.sum(axis=-2, keepdims=True) / np.maximum(kept, 1)[..., None, :]
    rest = np.where(far, 0.0, drawn - mean)
    variance = (rest**2).sum(axis=-2) / np.maximum(kept - 1, 1)
    return Beforehand(np.asarray(np.maximum(variance, FLOOR)), np.asarray(far.mean(axis=-2)))
