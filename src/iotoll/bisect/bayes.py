"""Where a value changed, on a clock on which each boot only tells something (docs/bisect.md).

One step in a row of commits 0..n: before it the mean is one number, from it on another, larger one;
a boot adds normal noise. The first mean has a flat prior and is integrated out. So is the size of
the change: mostly it is no larger than the noise, or nobody would need many boots (`CHANGE`). So is
the noise: the board's A/A history counts as a few boots (`HISTORY`), and the search's own boots say
the rest, since a history says too little as easily as too much.

The next commit is the one whose boots tell most about where the step is, for what they cost. What
the boots of a commit tell is the mutual information of the step's place and their mean, with both
means as unsure as they are; a table of two numbers holds it (`information`). What they tell about
the means counts for a part (`MEANS`): it makes all later boots tell more.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HISTORY = 8.0
"""The history's noise counts as that of so many repeated boots."""

CHANGE = 0.65
"""Scale of the likeliest changes, in standard deviations of one value (half of a normal
distribution)."""

LARGER, RARER, SCALES = 4.0, 0.01, 4
"""Changes of a scale so many times larger are so many times as likely, and so on for so many
scales; beyond them all are alike."""

SURE = 0.967
"""A search ends when it is so sure of one commit."""

AGAIN = 2
"""A commit is named when it and the one before it have so many boots: one boot may be slow."""

PROMISE = 0.98
"""More than this no search claims: it ends when its own values make it sure, which some do by
chance, and noise is not quite normal."""

TOUCHES = 10.0
"""Prior odds of a commit that touches the code in which the section's time is spent."""

MEANS = 0.3
"""A bit about the means is worth so many bits about the step's place, while that lacks a bit or
more."""

BATCHES = (1, 2, 4, 8)
"""Boots of one commit that are considered as one step."""


@dataclass(frozen=True)
class Costs:
    """Seconds, or any other unit: of one boot, and of a kernel that is not built yet."""

    boot: float = 1.0
    build: float = 1.0


@dataclass(frozen=True)
class Step:
    """What is to be measured next: so many ``boots`` of commit ``place`` (0..n)."""

    place: int
    boots: int
    gain: float


@dataclass
class Search:
    """The state of a search: all values so far, by commit; everything else follows from them.

    ``prior`` has the relative chance of each of the commits 1..n; ``noise`` is the standard
    deviation of one value. ``direction`` is +1 where B is larger than A, else -1. ``skipped`` are
    places that cannot be measured. Nothing is stored but values, so a search resumes from its log.
    """

    size: int
    noise: float
    direction: int = 1
    prior: Sequence[float] | None = None
    costs: Costs = field(default_factory=Costs)
    skipped: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Begin with no value."""
        if self.size < 1 or self.noise <= 0 or self.direction not in (1, -1):
            raise ValueError("a search needs commits, noise above 0 and a direction of 1 or -1")
        self.count: Floats = np.zeros(self.size + 1)
        self.total: Floats = np.zeros(self.size + 1)
        self.square: Floats = np.zeros(self.size + 1)
        chances = np.ones(self.size) if self.prior is None else np.asarray(self.prior, float)
        if chances.shape != (self.size,) or (chances < 0).any() or not chances.sum():
            raise ValueError("the prior needs one chance for each commit, and one above 0")
        with np.errstate(divide="ignore"):
            self._log_prior: Floats = np.log(chances / chances.sum())

    @property
    def sigma(self) -> Floats:
        """The noise that is reckoned with, shape (1,)."""
        return learned(self.noise, self.count, self.total, self.square)

    @property
    def beliefs(self) -> Beliefs:
        """What all values say so far, of shape (n,)."""
        return beliefs(self.count, self.total, self.square, self.noise, self._log_prior)

    def add(self, place: int, value: float) -> None:
        """Take in one boot's value of the commit at ``place``; place 0 is A."""
        self.count[place] += 1
        self.total[place] += value * self.direction
        self.square[place] += value**2

    def posterior(self) -> Floats:
        """Chance of each commit 1..n, shape (n,), that the step is there."""
        return self.beliefs.chance

    def next(self, near: Sequence[int] = ()) -> Step | None:
        """The best step for its cost; None when no commit can be measured.

        ``near`` are places that other boards are measuring now: they are not chosen again.
        """
        banned = np.zeros(self.size + 1, bool)
        banned[[*self.skipped, *near]] = True
        held = self.beliefs
        place, boots, gain = best_step(held, self.count, self.sigma, self.costs, banned)
        if gain <= 0 or banned[place]:
            return None
        return Step(int(place), int(boots), float(gain))

    def several(self, boards: int) -> list[Step]:
        """Steps for several boards at once: none waits for the values of another."""
        steps: list[Step] = []
        fancied = copy.deepcopy(self)
        while len(steps) < boards:
            step = fancied.next([s.place for s in steps])
            if step is None:
                break
            steps.append(step)
            fancied._fancy(step)
        return steps

    def _fancy(self, step: Step) -> None:
        """Take in the values that a step is expected to have, so that the next one adds to it."""
        held = self.beliefs
        is_after = held.chance[: step.place].sum()
        before = (held.chance * held.before).sum()
        mean = before + is_after * ((held.chance * held.after).sum() - before)
        for _ in range(step.boots):
            self.add(step.place, float(mean) * self.direction)

    def effect(self) -> float:
        """The expected change of the mean from A to B, in the values' unit."""
        held = self.beliefs
        return float((held.chance * (held.after - held.before)).sum()) * self.direction

    def likeliest(self) -> tuple[list[int], float]:
        """The likeliest commits that nothing tells apart, oldest first, and their chance together.

        Commits that are skipped merge with the next one that is not: only that one is measured.
        """
        chance = self.posterior()
        best, mass = [0], 0.0
        group: list[int] = []
        for place in range(1, self.size + 1):
            group.append(place)
            if place not in self.skipped or place == self.size:
                own = float(chance[[p - 1 for p in group]].sum())
                if own > mass:
                    best, mass = group, own
                group = []
        return best, mass


def learned(noise: float, count: Floats, total: Floats, square: Floats) -> Floats:
    """The noise of one value, by the history and by what boots of one commit differ.

    ``square`` are sums of squares; all of shape (..., n + 1), the result of shape (..., 1).
    """
    within = np.maximum(square - total**2 / np.maximum(count, 1.0), 0.0).sum(axis=-1, keepdims=True)
    free = np.maximum(count - 1.0, 0.0).sum(axis=-1, keepdims=True)
    return np.asarray(np.sqrt((HISTORY * noise**2 + within) / (HISTORY + free)))


@dataclass(frozen=True)
class Beliefs:
    """What values say, per commit 1..n (last axis): its ``chance`` to be the step, the means
    before and from it, and how many values these rest on.
    """

    chance: Floats
    before: Floats
    after: Floats
    values_before: Floats
    values_after: Floats


def beliefs(
    count: Floats, total: Floats, square: Floats, noise: float, log_prior: Floats
) -> Beliefs:
    """The posterior of values by place 0..n; ``count``, ``total`` and ``square`` have shape
    (..., n + 1).

    Both means and the noise are integrated out, so values have Student's distribution. A fixed
    estimate of the noise would end a search where it happens to be too small; with all changes
    alike, one would end where the values of few boots happen to be far apart.
    """
    counts, totals = np.cumsum(count, axis=-1), np.cumsum(total, axis=-1)
    n0, s0 = counts[..., :-1], totals[..., :-1]
    n1, s1 = counts[..., -1:] - n0, totals[..., -1:] - s0
    f0, f1 = np.maximum(n0, 1e-9), np.maximum(n1, 1e-9)
    m0, m1 = s0 / f0, s1 / f1
    rest = square.sum(axis=-1, keepdims=True) - n0 * m0**2 - n1 * m1**2
    told = HISTORY * noise**2 + np.maximum(rest, 0.0)
    free = HISTORY + np.maximum(n0 + n1 - 2.0, 0.0) + 1.0
    likely = _log_values(m1 - m0, 1 / f0 + 1 / f1, told, free) - 0.5 * np.log(f0 * f1)
    # Where one mean has no value yet nothing is known, and the prior stands.
    likely = np.where((n0 > 0) & (n1 > 0), likely, 0.0) + log_prior
    weight = np.exp(likely - likely.max(axis=-1, keepdims=True))
    return Beliefs(weight / weight.sum(axis=-1, keepdims=True), m0, m1, n0, n1)


def _log_values(change: Floats, inverse: Floats, told: Floats, free: Floats) -> Floats:
    """Log chance, but for a constant, of values whose means are ``change`` apart.

    ``inverse`` is the variance of that in variances of one value; ``told`` are the squares of what
    is noise, which have ``free`` degrees of freedom. The direction is known, and of the size what
    `CHANGE` says.
    """
    parts = []
    for number in range(SCALES):
        scale = (CHANGE * LARGER**number) ** 2
        both = inverse + scale
        squares = told + change**2 / both
        log = number * np.log(RARER) - 0.5 * (np.log(both) + free * np.log(squares))
        # The normal distribution is near enough to Student's here.
        parts.append(
            log + _log_normal_cdf(change * np.sqrt(free * scale / (squares * inverse * both)))
        )
    beyond = SCALES * np.log(RARER) - np.log(CHANGE * LARGER**SCALES) - 0.5 * free * np.log(told)
    parts.append(beyond + _log_normal_cdf(change * np.sqrt(free / (told * inverse))))
    return np.asarray(np.logaddexp.reduce(parts))


def best_step(
    held: Beliefs, count: Floats, sigma: Floats, costs: Costs, banned: NDArray[np.bool_]
) -> tuple[Any, Any, Any]:
    """Place, boots and gain (bits) of the best step; arrays of the leading shape of ``count``."""
    chance = held.chance
    zero = np.zeros((*chance.shape[:-1], 1))
    below = np.concatenate([zero, np.cumsum(chance, axis=-1)], axis=-1)
    first, var0, inverse0 = _mixed(chance, held.before, held.values_before, after=True)
    second, var1, inverse1 = _mixed(chance, held.after, held.values_after, after=False)
    apart = np.maximum(second - first, 0.0)
    lacking = -(chance * np.log2(np.maximum(chance, 1e-300))).sum(axis=-1, keepdims=True)
    rates, gains = [], []
    for boots in BATCHES:
        spread = sigma**2 * (1 / boots + (inverse0 + inverse1) / 2)
        gain = information(below, apart / np.sqrt(spread))
        # Means differ by where the step is: that tells of it on one side of the step alone, and of
        # A and B, whose boots say nothing else.
        for mass, var, inverse in ((1 - below, var0, inverse0), (below, var1, inverse1)):
            gain = gain + mass * np.log2(1 + var / (sigma**2 * (1 / boots + inverse))) / 2
        gain = np.minimum(gain, lacking)
        means = (1 - below) * np.log2(1 + boots * inverse0) + below * np.log2(1 + boots * inverse1)
        gain = gain + MEANS * np.minimum(lacking, 1.0) * means / 2
        gain = np.where(banned, 0.0, gain)
        gains.append(gain)
        rates.append(gain / (costs.boot * boots + costs.build * (count == 0)))
    chosen = np.argmax(np.concatenate(rates, axis=-1), axis=-1)
    batch, place = np.divmod(chosen, count.shape[-1])
    gain = np.take_along_axis(np.concatenate(gains, axis=-1), chosen[..., None], axis=-1)[..., 0]
    return place, np.asarray(BATCHES)[batch], gain


def _mixed(
    chance: Floats, mean: Floats, values: Floats, *, after: bool
) -> tuple[Floats, Floats, Floats]:
    """Per place 0..n over the commits on one side: mean, its variance, and mean of 1 / values."""
    zero = np.zeros((*chance.shape[:-1], 1))

    def side(of: Floats) -> Floats:
        sums = np.concatenate([zero, np.cumsum(of, axis=-1)], axis=-1)
        return np.asarray(sums[..., -1:] - sums if after else sums)

    mass = np.maximum(side(chance), 1e-12)
    first = side(chance * mean) / mass
    variance = np.maximum(side(chance * mean**2) / mass - first**2, 0.0)
    return first, variance, side(chance / np.maximum(values, 1.0)) / mass


@cache
def _table() -> tuple[Floats, Floats, Floats]:
    """Mutual information in bits of a coin of chance p and a normal value that it moves by d."""
    chances, apart = np.linspace(0.0, 1.0, 65), np.linspace(0.0, 8.0, 81)
    grid = np.linspace(-8.0, 16.0, 961)
    width = grid[1] - grid[0]
    zero = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    bits = np.zeros((len(chances), len(apart)))
    for column, d in enumerate(apart):
        one = np.exp(-((grid - d) ** 2) / 2) / np.sqrt(2 * np.pi)
        mix = chances[:, None] * one + (1 - chances[:, None]) * zero
        entropy = -(mix * np.log2(np.maximum(mix, 1e-300))).sum(axis=1) * width
        bits[:, column] = np.maximum(entropy - 0.5 * np.log2(2 * np.pi * np.e), 0.0)
    return chances, apart, bits


def information(chance: Floats, apart: Floats) -> Floats:
    """Bits that a value tells of which of two means it has, of ``chance`` and 1 - ``chance``.

    ``apart`` is the distance of the means in standard deviations of the value.
    """
    chances, distances, bits = _table()
    x = np.clip(chance, 0, 1) * (len(chances) - 1)
    y = np.clip(apart, 0, distances[-1]) / distances[1]
    i, j = (
        np.minimum(x.astype(int), len(chances) - 2),
        np.minimum(y.astype(int), len(distances) - 2),
    )
    u, v = x - i, y - j
    found = (1 - u) * ((1 - v) * bits[i, j] + v * bits[i, j + 1])
    return np.asarray(found + u * ((1 - v) * bits[i + 1, j] + v * bits[i + 1, j + 1]))


def _log_normal_cdf(z: Floats) -> Floats:
    """log of the normal distribution function; Mills' ratio far below 0."""
    near = np.maximum(z, -5.0)
    t = 1 / (1 + 0.2316419 * np.abs(near))
    poly = t * (
        0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
    )
    tail = np.exp(-(near**2) / 2) / np.sqrt(2 * np.pi) * poly
    value = np.where(near >= 0, 1 - tail, tail)
    with np.errstate(divide="ignore"):
        far = -(z**2) / 2 - np.log(np.maximum(-z, 5.0) * np.sqrt(2 * np.pi))
    return np.asarray(np.where(z < -5.0, far, np.log(np.maximum(value, 1e-12))))
