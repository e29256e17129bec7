"""The exact test that confirms a regression: sign flips, and the largest statistic of all figures.

When the candidate changes nothing, which boot of a pair was called the candidate is chance, so
each pair's log ratios (of all figures together) might as well have had the other sign. Of n pairs
there are 2^n such data sets. The p value of a figure is the share of them in which the *largest*
statistic of any figure is at least this figure's: exact whatever the distribution of the noise and
however figures hang together (Westfall and Young 1993), for all figures at once. It assumes no
variance and no history right: those only make the statistics of figures comparable.

A share of 2^n cannot be below 2^-n, so the pairs decide what can be promised: see `levels`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from iotoll.verdict.time.variance import CLIP

Floats = NDArray[np.float64]

MOST_PAIRS = 20
"""Beyond, 2^n data sets are more than a gate should wait for."""

NOISY = 9.0
"""Mean square over that of the middle figure from which a figure is scaled by its own alone."""

BEYOND = 3.5
"""Standard deviations above its figure's middle size from which a value is left out."""

CHUNK = 4096
"""Data sets that are held in memory at a time."""


@cache
def _signs(pairs: int) -> NDArray[np.float32]:
    codes = np.arange(1 << pairs, dtype=np.uint32)
    bits = (codes[:, None] >> np.arange(pairs, dtype=np.uint32)) & 1
    return (1 - 2 * bits.astype(np.int8)).astype(np.float32)


def confirm(
    ratios: Floats, history: Floats, known: Floats, asked: NDArray[np.bool_] | None = None
) -> Floats:
    """The exact p value of each figure for "it grew", shape (figures,); NaN if not ``asked`` for.

    ``ratios`` are log ratios, shape (pairs, figures), NaN where a pair has no valid value.
    ``history`` (the same shape, or one that broadcasts to it) is the variance of a pair beforehand
    and ``known`` (shape (figures,)) its degrees of freedom, 0 where there is none.
    """
    pairs, figures = ratios.shape
    if pairs > MOST_PAIRS:
        raise ValueError(f"{pairs} pairs have too many sign flips: {MOST_PAIRS} at most")
    kin = np.broadcast_to(known, (figures,)) > 0
    kept = _kept(ratios / np.sqrt(np.broadcast_to(history, ratios.shape)), kin)
    values, count = np.nan_to_num(kept), (~np.isnan(kept)).sum(axis=0)
    statistic = _Statistic.of(values, count, kin)
    observed = statistic.value(values.sum(axis=0))
    found = np.full(figures, np.nan)
    for figure in np.flatnonzero(np.ones(figures, np.bool_) if asked is None else asked):
        bar = observed[figure]
        # Sums that differ by rounding alone count as equal, so that a tie is never won by chance.
        if np.isneginf(bar):
            found[figure] = 1.0
            continue
        limit = statistic.sums_at(bar - 1e-9 * max(1.0, abs(bar))).astype(np.float32) - 1e-5
        found[figure] = _share_reaching(values.astype(np.float32), limit)
    return found


def _share_reaching(values: NDArray[np.float32], limit: NDArray[np.float32]) -> float:
    """The share of sign flips in which any figure's sum reaches its limit."""
    signs = _signs(len(values))
    reached = 0
    for start in range(0, len(signs), CHUNK):
        sums = signs[start : start + CHUNK] @ values
        reached += int((sums >= limit).any(axis=1).sum())
    return reached / len(signs)


def _kept(values: Floats, known: NDArray[np.bool_]) -> Floats:
    """Values without those that are far from zero; the size alone decides, which has no sign.

    Where history gives the scale of a figure, a value `BEYOND` standard deviations (of today: the
    middle of all figures) above its figure's middle size is left out, so that a slow boot has no
    say; elsewhere one beyond `CLIP` robust deviations is drawn in to there.
    """
    size = np.where(np.isnan(values), np.inf, np.abs(values))
    count = (~np.isnan(values)).sum(axis=0)
    middle = np.take_along_axis(np.sort(size, axis=0), count[None] // 2 % len(values), axis=0)
    middle = np.where(np.isfinite(middle), middle, 1.0)
    room = CLIP * 1.4826 * middle
    usual = middle[0, known & (count > 0)]
    today = max(1.0, 1.4826 * float(np.median(usual))) if len(usual) else 1.0
    far = known & (size > middle + BEYOND * today)
    return np.where(far, np.nan, np.where(known, values, np.clip(values, -room, room)))


@dataclass(frozen=True)
class _Statistic:
    """A moderated t of each figure: half its own variance, half the middle of its kin's.

    A figure far noisier than its kin has a plain t, ``part`` 1 of its own variance: with half of
    it the few noisy figures would be the largest of most data sets, and hide growth elsewhere.
    All its parts are made of squares, which have no sign, so they are the same in every data set,
    as the test demands; and the few figures that grew do not move a median. It grows with a
    figure's sum, so that asking for a value is asking for a sum.
    """

    own: Floats
    squares: Floats
    scale: Floats
    part: Floats
    usable: NDArray[np.bool_]

    @classmethod
    def of(cls, values: Floats, count: NDArray[np.int64], known: NDArray[np.bool_]) -> _Statistic:
        squares = (values**2).sum(axis=0)
        scale = np.ones(squares.shape)
        for kin in (known, ~known):
            some = kin & (count > 0)
            if some.any():
                scale[some] = max(float(np.median(squares[some] / count[some])), 1e-18)
        part = np.where(squares > NOISY * scale * np.maximum(count, 1), 1.0, 0.5)
        return cls(np.maximum(count, 2) - 1.0, squares, scale, part, count >= 2)

    def value(self, sums: Floats) -> Floats:
        """The statistic of each figure for its sum."""
        rest = np.maximum(self.squares - sums**2 / (self.own + 1), 0.0)
        variance = (1 - self.part) * self.scale + self.part * rest / self.own
        variance = np.maximum(variance, 1e-18)
        return np.where(self.usable, sums / np.sqrt((self.own + 1) * variance), -np.inf)

    def sums_at(self, value: float) -> Floats:
        """The sum of each figure with which its statistic is ``value``."""
        most = (1 - self.part) * self.scale + self.part * self.squares / self.own
        most = most * (self.own + 1)
        size = abs(value) * np.sqrt(most / (1 + self.part * value**2 / self.own))
        return np.where(self.usable, np.sign(value) * size, np.inf)
