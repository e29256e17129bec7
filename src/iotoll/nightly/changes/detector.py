"""Where a series of nights changed its level.

On the clock `instructions` an exact board repeats itself, so every step is real. On `time` a
generalised likelihood ratio over a window decides: the level before each possible boundary against
the level after it, in standard errors. Values are winsorised about their own level. Nights follow
one another: both levels are fitted to what each night adds to the one before (AR(1)), so that the
night of a step, which is all new, counts for more than those after it. Values are logs of tip over
reference; NaN is a gap.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WINDOW = 30
"""Nights in which a boundary is looked for."""
BEFORE = 90
"""Nights before a boundary that its level is made of, at most."""
LIMIT = 3.87
"""Score that a boundary must exceed (docs/validation.md gives its error rates)."""
WARM_UP = 10
"""Nights before a boundary, at least."""
AFTER = 3
"""Nights after a boundary, at least: one or two nights are not a level."""
_CLIP = 3.0  # robust standard deviations: one bad night is no level
_NOISE_CLIP = 8.0  # but several make a noisy series: heavy tails need a wider error
_MAD = 1.4826  # makes a median absolute deviation one standard deviation of a normal
_MEMORY = 240  # nights that the correlation is estimated from
_LIKELY_RHO, _WORTH = 0.3, 80  # assumed of a series, and worth how many of its own nights
_MOST_RHO = 0.6
# What a score is lowered by, so that false alarms come evenly from levels of all lengths and from
# series of all ages: for each night that the later level has less than _FEW (by more where tails
# are heavy: three wild nights are no level), or more than _MANY; and in a young series, whose noise
# and correlation are not known well.
_FEW, _SHORT, _TAILS = 6, 0.1, 10.0
_MANY, _LONG = 12, 0.05
_YOUNG = 20.0  # over the series' nights, squared
_SHIFT = 6  # nights that a boundary is looked for around the likeliest one
_PLAUSIBLE = 5.0  # logarithm of the likelihood that a boundary may lack
_TINY = 1e-300  # in place of a variance of 0
_EVERY = 10  # nights between two estimates of the crude noise
_SCREEN = 0.8  # of the limit: what the quick look lets pass to the full test


@dataclass(frozen=True)
class Step:
    """A change of level: ``index`` is the first night after it, ``found`` the night that showed it.

    ``last`` is the last night before it that has a value. Where noise hides which night it was,
    both are as far apart as that is unknown, so that a comparison of the two kernels shows it.
    ``before`` and ``after`` are levels in the series' own unit; ``score`` is a normal deviate,
    infinite on an exact series.
    """

    last: int
    index: int
    found: int
    before: float
    after: float
    score: float

    @property
    def size(self) -> float:
        """After less before."""
        return self.after - self.before


def exact_steps(values: Floats) -> list[Step]:
    """Every night of an exact series that differs from the last one measured; shape (nights,)."""
    known = np.flatnonzero(~np.isnan(values))
    pairs = itertools.pairwise(known)
    return [
        Step(int(a), int(b), int(b), float(values[a]), float(values[b]), float("inf"))
        for a, b in pairs
        if values[a] != values[b]
    ]


def noisy_steps(
    values: Floats, resets: frozenset[int] = frozenset(), limit: float = LIMIT
) -> list[Step]:
    """Steps of one noisy series, as each night would have found them; shape (nights,).

    At ``resets`` (another board or job) a new baseline begins and no step is claimed.
    """
    steps = []
    series = Baseline(values, resets, limit)
    while (step := series.suspect()) is not None:
        steps.append(step)
        series.believe(step)
    return steps


class Baseline:
    """A noisy series that is read night by night; what is believed begins a new baseline."""

    def __init__(self, values: Floats, resets: frozenset[int], limit: float = LIMIT) -> None:
        self.limit = limit
        self._known = np.flatnonzero(~np.isnan(values))
        self._values = values[self._known]
        bounds = sorted(int(np.searchsorted(self._known, r)) for r in resets)
        self._ends = [*bounds, len(self._known)]
        self._start = self._tonight = 0

    def suspect(self) -> Step | None:
        """The next night's suspected step, or None when there is none to the end of the series."""
        while self._start < len(self._known):
            end = next(e for e in self._ends if e > self._start)
            part = self._values[self._start : end]
            for night in screened(part, self.limit * _SCREEN, self._tonight - self._start):
                split, score = likeliest(part[: night + 1])
                if score > self.limit:
                    self._tonight = self._start + night + 1
                    return self._step(part[: night + 1], split, score)
            self._start = self._tonight = end
        return None

    def believe(self, step: Step) -> None:
        """Take ``step`` for real: its boundary begins the next baseline."""
        self._start = self._tonight = int(np.searchsorted(self._known, step.index))

    def _step(self, part: Floats, split: int, score: float) -> Step:
        nights = self._known[self._start : self._start + len(part)]
        first, index = placed(part, split)
        before, after = levels(part, index)
        found = int(nights[-1])
        return Step(int(nights[first - 1]), int(nights[index]), found, before, after, score)


def levels(values: Floats, split: int) -> tuple[float, float]:
    """The levels before and after a boundary, as medians."""
    old, new = values[max(0, split - BEFORE) : split], values[split:]
    return float(np.median(old)), float(np.median(new))


def placed(values: Floats, split: int) -> tuple[int, int]:
    """The first and the last boundary near ``split`` that are plausible.

    Each night then lies nearest to its own level, by the likelihood of a Laplace distribution.
    `likeliest` says whether there is a boundary: a clear step is told as soon as AFTER nights may
    be after it, of which the first is then one before it that was clipped.
    """
    before, after = levels(values, split)
    away = np.concatenate([values[:split] - before, values[split:] - after])
    noise = max(_MAD * float(np.median(np.abs(away))), _TINY)
    gain = (np.abs(values - before) - np.abs(values - after)) * np.sqrt(2) / noise
    low, high = max(1, split - _SHIFT), min(len(values) - 1, split + _SHIFT)
    sums = np.cumsum(gain[::-1])[::-1][low : high + 1]  # of all nights from each boundary on
    plausible = np.flatnonzero(sums >= sums.max() - _PLAUSIBLE)
    return low + int(plausible[0]), low + int(plausible[-1])


def screened(values: Floats, limit: float, since: int = 0) -> Iterator[int]:
    """Nights whose crude score passes ``limit``: the full test is only made of these.

    The crude noise is too small on purpose (of differences), so that the screen passes what the
    full test could.
    """
    size = len(values)
    first = max(since, WARM_UP + AFTER - 1)
    if size <= first:
        return
    nights = np.arange(first, size)[:, None]
    splits = nights - np.arange(AFTER - 1, WINDOW)
    low = np.maximum(0, splits - BEFORE)
    moves = np.abs(np.diff(values))
    sums = np.concatenate([[0.0], np.cumsum(_tamed(values, moves))])
    usable = splits >= WARM_UP
    splits = np.maximum(splits, 1)
    old = (sums[splits] - sums[low]) / (splits - low)
    new = (sums[nights + 1] - sums[splits]) / (nights + 1 - splits)
    error = np.sqrt(1 / (splits - low) + 1 / (nights + 1 - splits))
    scores = np.where(usable, np.abs(new - old) / error, 0.0).max(axis=1)
    span = BEFORE + WINDOW
    padded = np.concatenate([np.full(span, np.nan), moves])
    rows = np.lib.stride_tricks.sliding_window_view(padded, span)[first:size:_EVERY]
    noise = np.repeat(np.nanmedian(rows, axis=1) * _MAD / np.sqrt(2), _EVERY)[: size - first]
    yield from (int(i) + first for i in np.flatnonzero(scores > limit * noise))


def likeliest(values: Floats) -> tuple[int, float]:
    """The likeliest boundary of the last WINDOW nights and its score; shape (nights,).

    At least WARM_UP + AFTER nights. A flat series has the score 0.
    """
    # No boundary of the last WINDOW nights has a level that is made of earlier ones.
    cut = max(0, len(values) - BEFORE - WINDOW)
    whole, values = values, values[cut:]
    splits = _splits(len(whole)) - cut
    place = np.arange(len(values))
    old = (place < splits[:, None]) & (place >= splits[:, None] - BEFORE)
    new = place >= splits[:, None]
    levels = np.where(new, _medians(values, new)[:, None], _medians(values, old)[:, None])
    used = old | new
    away = np.where(used, values - levels, np.nan)
    robust = _MAD * _medians(np.abs(away), used)[:, None]

    def clipped(at: float) -> Floats:
        return np.where(used, levels + np.clip(away, -at * robust, at * robust), 0.0)

    tame, wild = clipped(_CLIP), clipped(_NOISE_CLIP)
    count_old, count_new = old.sum(1), new.sum(1)
    mean_old = np.where(old, tame, 0.0).sum(1) / count_old
    mean_new = np.where(new, tame, 0.0).sum(1) / count_new
    rest = np.where(used, wild - np.where(new, mean_new[:, None], mean_old[:, None]), 0.0)
    variance = (rest**2).sum(1)
    variance[variance == 0] = np.inf
    tails = np.sqrt(variance / np.maximum((np.where(used, tame - levels, 0.0) ** 2).sum(1), _TINY))
    distance = np.abs(mean_new - mean_old) / np.sqrt(variance / (count_old + count_new - 2))
    best = int(np.argmax(distance / np.sqrt(1 / count_old + 1 / count_new)))
    rho = correlation(whole, cut + int(splits[best]))
    scores = _fitted(tame, wild, old, new, rho)
    short = _SHORT * (1 + _TAILS * np.maximum(0.0, tails - 1))
    scores -= short * np.maximum(0, _FEW - count_new) + _LONG * np.maximum(0, count_new - _MANY)
    scores -= (_YOUNG / len(whole)) ** 2
    scores[robust[:, 0] == 0] = 0.0
    best = int(np.argmax(scores))
    return cut + int(splits[best]), float(max(scores[best], 0.0))


def _fitted(
    tame: Floats, wild: Floats, old: NDArray[np.bool_], new: NDArray[np.bool_], rho: float
) -> Floats:
    """How far the two levels of each row are apart, as normal deviates; rows are splits.

    Least squares of what each night adds to ``rho`` times the one before. ``wild`` tells the noise.
    """
    each, first, boundary = np.arange(len(tame)), old.argmax(1), new.argmax(1)
    count_old, count_new = old.sum(1), new.sum(1)
    start = tame[each, first][:, None]
    tame, wild = tame - start, wild - start
    later_old = old.copy()
    later_old[each, first] = False
    later_new = new.copy()
    later_new[each, boundary] = False

    def added(values: Floats) -> Floats:
        return np.pad(values[:, 1:] - rho * values[:, :-1], ((0, 0), (1, 0)))

    own, free = added(tame), 1 - rho  # the part of a level that a night after another one adds
    at = own[each, boundary]
    # Normal equations; the first night is known to 1 - rho**2, the boundary's holds both levels.
    aa = 1 + free**2 * (count_old - 1)
    bb = 1 + free**2 * (count_new - 1)
    a_side = free * np.where(later_old, own, 0.0).sum(1) - rho * at
    b_side = at + free * np.where(later_new, own, 0.0).sum(1)
    whole = aa * bb - rho**2
    a = (bb * a_side + rho * b_side) / whole
    b = (aa * b_side + rho * a_side) / whole
    levels = np.where(old, a[:, None], b[:, None])
    rest = np.where(later_old | later_new, added(wild) - free * levels, 0.0)
    jump = added(wild)[each, boundary] - (b - rho * a)
    begun = (1 - rho**2) * (wild[each, first] - a) ** 2
    freedom = count_old + count_new - 2
    variance = ((rest**2).sum(1) + jump**2 + begun) / freedom
    variance[variance == 0] = np.inf
    return _normal(np.abs(b - a) / np.sqrt(variance * (aa + bb - 2 * rho) / whole), freedom)


def correlation(values: Floats, split: int) -> float:
    """Lag-1 correlation of the nights on either side of ``split``, never below 0.

    Of few nights it is hardly known: what is likely counts as much as _WORTH nights.
    """
    low = max(0, split - _MEMORY)
    parts = [values[low:split] - np.median(values[low:split])]
    if len(values) - split > AFTER:
        parts.append(values[split:] - np.median(values[split:]))
    spread = _CLIP * _MAD * float(np.median(np.abs(np.concatenate(parts))))
    parts = [np.clip(part, -spread, spread) for part in parts]
    power = sum(float(part @ part) for part in parts)
    if not power:
        return 0.0
    count = sum(len(part) for part in parts)
    found = sum(float(part[:-1] @ part[1:]) for part in parts) / power
    # A short series underestimates it, by about (1 + 4 rho) / n.
    found += (1 + 4 * max(found, 0.0)) / count
    found = (count * found + _WORTH * _LIKELY_RHO) / (count + _WORTH)
    return float(min(max(found, 0.0), _MOST_RHO))


def _splits(size: int) -> NDArray[np.int64]:
    return np.arange(max(WARM_UP, size - WINDOW), size - AFTER + 1)


def _tamed(values: Floats, moves: Floats) -> Floats:
    """Without outliers that no step explains: far from the nights before and those after."""
    noise = float(np.median(moves)) * _MAD / np.sqrt(2)
    if not noise:
        return values
    pad = np.pad(values, 2, mode="edge")
    local = np.median(np.lib.stride_tricks.sliding_window_view(pad, 5), axis=1)
    return np.clip(values, local - 2 * _CLIP * noise, local + 2 * _CLIP * noise)


def _medians(values: Floats, of: NDArray[np.bool_]) -> Floats:
    """Median of each row's nights that are ``of`` it; rows are splits."""
    rows = np.sort(np.where(of, values, np.inf), axis=1)
    count = of.sum(1)
    each = np.arange(len(rows))
    return np.asarray((rows[each, (count - 1) // 2] + rows[each, count // 2]) / 2)


def _normal(t: Floats, freedom: NDArray[np.int64]) -> Floats:
    """Values of t as normal deviates (Wallace's approximation)."""
    scale = (8 * freedom + 1) / (8 * freedom + 3)
    return np.asarray(scale * np.sqrt(freedom * np.log1p(t * t / freedom)))
