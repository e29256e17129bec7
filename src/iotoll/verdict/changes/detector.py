"""Where a series of nights changed its level.

On the clock `instructions` an exact board repeats itself, so every step is real. On `time` a
generalised likelihood ratio over a window decides: the level before each possible boundary against
the level after it, in standard errors. Values are winsorised about their own level, the standard
error counts that nights follow one another, and a score is a normal deviate whatever the number of
nights. Values are logs of tip over reference; NaN is a gap.
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
BEFORE = 60
"""Nights before a boundary that its level is made of, at most."""
LIMIT = 4.3
"""Score that a boundary must exceed (docs/nightly.md gives its error rates)."""
WARM_UP = 10
"""Nights before a boundary, at least."""
AFTER = 3
"""Nights after a boundary, at least: one or two nights are not a level."""
_CLIP = 3.0  # robust standard deviations: one bad night is no level
_NOISE_CLIP = 6.0  # but several make a noisy series: heavy tails need a wider error
_MAD = 1.4826  # makes a median absolute deviation one standard deviation of a normal
_MEMORY = 240  # nights that the correlation is estimated from
_MOST_RHO = 0.6
_EVERY = 10  # nights between two estimates of the crude noise
_SCREEN = 0.7  # of the limit: what the quick look lets pass to the full test


@dataclass(frozen=True)
class Step:
    """A change of level: ``index`` is the first night after it, ``found`` the night that showed it.

    ``last`` is the last night before it that has a value. ``before`` and ``after`` are levels in
    the series' own unit; ``score`` is a normal deviate, infinite on an exact series.
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
        before = float(np.median(part[max(0, split - BEFORE) : split]))
        after = float(np.median(part[split:]))
        found = int(nights[-1])
        return Step(int(nights[split - 1]), int(nights[split]), found, before, after, score)


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
    freedom = count_old + count_new - 2
    variance = (rest**2).sum(1) / freedom
    variance[variance == 0] = np.inf
    distance = np.abs(mean_new - mean_old) / np.sqrt(variance)
    best = int(np.argmax(distance / np.sqrt(1 / count_old + 1 / count_new)))
    rho = correlation(whole, cut + int(splits[best]))
    factor = _long_run(rho, count_old) / count_old + _long_run(rho, count_new) / count_new
    scores = _normal(distance / np.sqrt(factor), freedom)
    best = int(np.argmax(scores))
    return cut + int(splits[best]), float(scores[best])


def correlation(values: Floats, split: int) -> float:
    """Lag-1 correlation of the nights on either side of ``split``, never below 0."""
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
    return float(min(max(found + (1 + 4 * max(found, 0.0)) / count, 0.0), _MOST_RHO))


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


def _long_run(rho: float, count: NDArray[np.int64]) -> Floats:
    """Variance of the mean of ``count`` nights in units of that without correlation."""
    whole = (1 + rho) / (1 - rho)
    return np.asarray(whole - 2 * rho * (1 - rho**count) / (count * (1 - rho) ** 2))


def _normal(t: Floats, freedom: NDArray[np.int64]) -> Floats:
    """Values of t as normal deviates (Wallace's approximation)."""
    scale = (8 * freedom + 1) / (8 * freedom + 3)
    return np.asarray(scale * np.sqrt(freedom * np.log1p(t * t / freedom)))
