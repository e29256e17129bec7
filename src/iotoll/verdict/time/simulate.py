"""Boards with stated noise, judged by the gate itself: what would it say, and at what cost?

A simulated board gives, for each boot and figure, the log of its value: what all figures of a boot
share, what is a figure's own, what the I/Os of a boot leave (within-boot noise), and a drift from
boot to boot in the order in which the gate boots. The pairs of many merge requests are made at
once, in batches that have their own seed, so that a run can be stopped and gone on with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from iotoll.boots.order import first_side
from iotoll.verdict.time.sequential import Judged, Plan, State, judge
from iotoll.verdict.time.variance import of_history

Floats = NDArray[np.float64]

BATCH = 250
"""Merge requests that are simulated at a time."""


@dataclass(frozen=True)
class BoardNoise:
    """How a board's boots scatter; shares, so 0.01 is 1 %.

    ``pair`` is the standard deviation of one pair's log ratio from boot to boot, of which the share
    ``shared`` (of variance) is common to all figures; ``within`` that of one I/O, of which a boot
    has ``ios``. ``tails`` are the degrees of freedom of a t distribution (scaled to the same
    deviation), 0 for a normal one. ``drift`` is what each boot adds to the one before, and ``walk``
    the standard deviation of a random walk on top of it. ``today`` multiplies the noise of the
    judged pairs, but not of the history: a board that is worse today. ``history`` counts the pairs
    of one kernel with itself that are known beforehand.
    """

    pair: float = 0.01
    shared: float = 0.0
    within: float = 0.0
    ios: int = 256
    tails: float = 0.0
    drift: float = 0.0
    walk: float = 0.0
    today: float = 1.0
    history: int = 60


KINDS: dict[str, dict[str, float]] = {
    "normal": {},
    "t3": {"tails": 3.0},
    "drift": {"drift": 0.5, "walk": 0.5},
}
"""Kinds of noise by name; drift and walk are shares of the pair noise, from boot to boot."""


def board_noise(kind: str, pair: float, **more: Any) -> BoardNoise:
    """A board of one of `KINDS` with a pair noise (a share)."""
    settings = KINDS[kind]
    return BoardNoise(
        pair=pair,
        tails=settings.get("tails", 0.0),
        drift=settings.get("drift", 0.0) * pair,
        walk=settings.get("walk", 0.0) * pair,
        **more,
    )


@dataclass(frozen=True)
class Planted:
    """Growth (a share) of some figures, by index."""

    growth: float = 0.0
    figures: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Batch:
    """Simulated merge requests and what the gate says of them.

    ``boots`` has shape (requests, pairs, 2, figures): log values of base and candidate.
    """

    boots: Floats
    judged: Judged


def batches(
    plan: Plan, noise: BoardNoise, planted: Planted, requests: int, seed: int, begin: int = 0
) -> Iterator[Batch]:
    """Simulate and judge merge requests, batch after batch from number ``begin`` on."""
    figures = len(plan.tolerated)
    known = np.full((BATCH, figures), max(noise.history - 1.0, 0.0))
    for number in range(begin, -(-requests // BATCH)):
        count = min(BATCH, requests - number * BATCH)
        rng = np.random.default_rng([seed, number])
        boots = _boots(rng, noise, count, plan.looks[-1], figures, noise.today)
        boots[:, :, 1, list(planted.figures)] += np.log1p(planted.growth)
        before = np.ones((count, 1, figures))
        if noise.history:
            past = _boots(rng, noise, count, noise.history, figures, 1.0)
            before = of_history(past[:, :, 1] - past[:, :, 0])[:, None]
        ratios = boots[:, :, 1] - boots[:, :, 0]
        yield Batch(boots, judge(ratios, before, known[:count], plan))


def _boots(
    rng: np.random.Generator, noise: BoardNoise, count: int, pairs: int, figures: int, scale: float
) -> Floats:
    shape = (count, pairs, 2, figures)
    own = np.sqrt(1 - noise.shared) * _draw(rng, noise.tails, shape)
    own += np.sqrt(noise.shared) * _draw(rng, noise.tails, (*shape[:3], 1))
    value: Floats = own * noise.pair * scale / np.sqrt(2)
    if noise.within:
        value += rng.normal(0, noise.within / np.sqrt(noise.ios), shape)
    if noise.drift or noise.walk:
        steps = rng.normal(noise.drift, noise.walk, (count, 2 * pairs)) * scale
        level = np.cumsum(steps, axis=1).reshape(count, pairs, 2)
        for row in range(count):
            seed = int(rng.integers(1 << 31))
            swapped = [first_side(seed, pair) != "base" for pair in range(1, pairs + 1)]
            level[row, swapped] = level[row, swapped, ::-1]
        value += level[..., None]
    return value


def _draw(rng: np.random.Generator, tails: float, shape: tuple[int, ...]) -> Floats:
    if not tails:
        return rng.normal(0, 1, shape)
    deviation = np.sqrt(tails / (tails - 2)) if tails > 2 else 1.0
    return np.asarray(rng.standard_t(tails, shape) / deviation)


@dataclass
class Tally:
    """Counts over simulated merge requests; adds up."""

    requests: int = 0
    blocked: int = 0
    passed: int = 0
    inconclusive: int = 0
    alarmed: int = 0
    right_figure: int = 0
    pairs: int = 0
    squares: int = 0

    def add(self, judged: Judged, planted: Planted) -> None:
        """Count a batch."""
        self.requests += len(judged.state)
        self.blocked += int((judged.state == State.REGRESSION).sum())
        self.passed += int((judged.state == State.PASS).sum())
        self.inconclusive += int((judged.state == State.INCONCLUSIVE).sum())
        self.alarmed += int(judged.alarmed.any(axis=1).sum())
        self.right_figure += int(judged.grew[:, list(planted.figures)].any(axis=1).sum())
        self.pairs += int(judged.pairs.sum())
        self.squares += int((judged.pairs**2).sum())

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return asdict(self)

    @property
    def mean_pairs(self) -> float:
        """Pairs that a merge request costs on average."""
        return self.pairs / max(self.requests, 1)

    @property
    def pairs_error(self) -> float:
        """Half of the 95 % confidence interval of `mean_pairs`."""
        count = max(self.requests, 2)
        variance = (self.squares - count * self.mean_pairs**2) / (count - 1)
        return float(1.96 * np.sqrt(max(variance, 0.0) / count))


def interval(hits: int, of: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share (Clopper and Pearson 1934)."""
    low = float(beta.ppf(0.025, hits, of - hits + 1)) if hits else 0.0
    high = float(beta.ppf(0.975, hits + 1, of - hits)) if hits < of else 1.0
    return low, high
