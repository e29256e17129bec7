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
from scipy.stats import binomtest

from iotoll.boots.pair_order import first_side
from iotoll.verdict.time.sequential import Judged, Known, Plan, State, judge
from iotoll.verdict.time.variance import Beforehand, of_history

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

    A mixture: of all boots the share ``slow`` is slower by ``slow_by`` (a share), as a whole, or
    cell by cell (``slow_cells``); of the candidate's alone, where ``slow_candidate`` is not 0, that
    share instead, in the judged pairs. The ``noisy`` first figures, from the second cell on, have
    ``noisy_by`` times the noise, today and in the history or (``noisy_today``) only today. Pairs
    run on one of ``boards`` by chance; the last of several is ``bad_board`` times as noisy today.
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
    slow: float = 0.0
    slow_by: float = 0.08
    slow_cells: bool = False
    slow_candidate: float = 0.0
    noisy: int = 0
    noisy_by: float = 4.0
    noisy_today: bool = False
    boards: int = 1
    bad_board: float = 1.0


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
class Trials:
    """Simulated merge requests and what the gate says of them.

    ``boots`` has shape (requests, pairs, 2, figures): log values of base and candidate.
    """

    boots: Floats
    judged: Judged


def batches(
    plan: Plan, noise: BoardNoise, planted: Planted, requests: int, seed: int, begin: int = 0
) -> Iterator[Trials]:
    """Simulate and judge merge requests, batch after batch from number ``begin`` on."""
    figures = len(plan.tolerated)
    known = np.full((BATCH, figures), max(noise.history - 1.0, 0.0))
    for number in range(begin, -(-requests // BATCH)):
        count = min(BATCH, requests - number * BATCH)
        rng = np.random.default_rng([seed, number])
        boots = _Board(rng, noise, plan, count).boots(plan.most_pairs, today=True)
        boots.values[:, :, 1, list(planted.figures)] += np.log1p(planted.growth)
        before = Beforehand(np.ones((count, figures)), np.zeros((count, figures)))
        if noise.history:
            past = _Board(rng, noise, plan, count).boots(noise.history, today=False).values
            before = of_history(past[:, :, 1] - past[:, :, 0])
        base = boots.values[:, :, 0]
        more = Known(boots.boards, base, before.far)
        ratios = boots.values[:, :, 1] - base
        judged = judge(ratios, before.variance[:, None], known[:count], plan, more)
        yield Trials(boots.values, judged)


@dataclass(frozen=True)
class _Boots:
    """Log values (requests, pairs, 2, figures), and the board of each pair (requests, pairs)."""

    values: Floats
    boards: NDArray[np.int64]


@dataclass(frozen=True)
class _Board:
    """Draws the boots of ``count`` merge requests."""

    rng: np.random.Generator
    noise: BoardNoise
    plan: Plan
    count: int

    def boots(self, pairs: int, today: bool) -> _Boots:
        """Draw pairs: those that are judged ``today``, or those of the history."""
        noise, rng, figures = self.noise, self.rng, len(self.plan.tolerated)
        shape = (self.count, pairs, 2, figures)
        scale = noise.today if today else 1.0
        own = np.sqrt(1 - noise.shared) * _draw(rng, noise.tails, shape)
        own += np.sqrt(noise.shared) * _draw(rng, noise.tails, (*shape[:3], 1))
        width = figures // self.plan.cells
        if noise.noisy and (today or not noise.noisy_today):
            own[..., width : width + noise.noisy] *= noise.noisy_by
        boards = np.zeros((self.count, pairs), np.int64)
        if noise.boards > 1 and today:
            boards = rng.integers(noise.boards, size=(self.count, pairs))
            own[boards == noise.boards - 1] *= noise.bad_board
        value: Floats = own * noise.pair * scale / np.sqrt(2)
        if noise.within:
            value += rng.normal(0, noise.within / np.sqrt(noise.ios), shape)
        if noise.drift or noise.walk:
            value += self._drift(pairs, scale)
        if noise.slow or (noise.slow_candidate and today):
            value += np.log1p(noise.slow_by) * self._slow(pairs, today)
        return _Boots(value, boards)

    def _slow(self, pairs: int, today: bool) -> NDArray[np.bool_]:
        """Which boots are slow, shape (requests, pairs, 2, figures or 1)."""
        cells, figures = self.plan.cells, len(self.plan.tolerated)
        chance = np.full((2, 1), self.noise.slow)
        if self.noise.slow_candidate and today:
            chance[1] = self.noise.slow_candidate
        by_cell = cells if self.noise.slow_cells else 1
        drawn = self.rng.random((self.count, pairs, 2, by_cell)) < chance
        return drawn.repeat(figures // cells, axis=3) if self.noise.slow_cells else drawn

    def _drift(self, pairs: int, scale: float) -> Floats:
        """What all figures share: a walk over the boots in the order in which they run."""
        noise, rng, count = self.noise, self.rng, self.count
        steps = rng.normal(noise.drift, noise.walk, (count, 2 * pairs)) * scale
        level = np.cumsum(steps, axis=1).reshape(count, pairs, 2)
        for row in range(count):
            seed = int(rng.integers(1 << 31))
            swapped = [first_side(seed, pair) != "base" for pair in range(1, pairs + 1)]
            level[row, swapped] = level[row, swapped, ::-1]
        return np.asarray(level[..., None])


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
    found = binomtest(hits, of).proportion_ci(0.95, method="exact")
    return float(found.low), float(found.high)
