"""Many verdicts over recorded pairs of real boots, by the gate's own code.

A verdict has pairs that follow each other, none twice, and some pairs before them as the board's
history. It has as many pairs as the policy's last look; one that asks for more is undecided here.
Which boot of a pair of one kernel is called the candidate is arbitrary: further *labellings* swap
whole blocks of two pairs (ABBA, BAAB), as another seed of the gate's would.
Verdicts that begin one pair later, or have other labels, share boots: they tell more about a rate,
and are no independent trials. So the disjoint ones of the first labelling are counted as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from iotoll.verdict.time.sequential import Judged, Known, Plan, State, judge
from iotoll.verdict.time.simulate import interval
from iotoll.verdict.time.variance import of_history

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Timed:
    """The pairs of one series, oldest first.

    ``base`` and ``other`` are log values of shape (pairs, figures), ``names`` (cell, figure);
    ``others`` the CPUs that other processes used meanwhile, ``seconds`` the time of both boots.
    """

    names: list[tuple[str, str]]
    base: Floats
    other: Floats
    others: Floats
    seconds: Floats

    @classmethod
    def of(cls, frame: pl.DataFrame, series: str, column: str = "value") -> Timed:
        """The series' pairs whose boots are both there; ``column`` is the statistic (ns)."""
        own = frame.filter(pl.col("series") == series)
        names = sorted({(c, f) for c, f in own.select("cell", "figure").iter_rows()})
        sides = [_side(own, side, names, column) for side in ("base", "candidate")]
        pairs = sorted(sides[0].keys() & sides[1].keys())
        width = len(names)
        base, other = (np.array([s[p][0] for p in pairs]).reshape(-1, width) for s in sides)
        both = np.array([[s[p][1:] for s in sides] for p in pairs]).reshape(-1, 2, 2)
        return cls(names, np.log(base), np.log(other), both[..., 0].mean(1), both[..., 1].sum(1))

    @property
    def ratios(self) -> Floats:
        """Log of candidate over base, shape (pairs, figures)."""
        return self.other - self.base

    def __len__(self) -> int:
        return len(self.base)

    def only(self, use: NDArray[np.bool_]) -> Timed:
        """Some of the pairs."""
        parts = (self.base, self.other, self.others, self.seconds)
        return Timed(self.names, *(part[use] for part in parts))

    def labelled(self, seed: int) -> Timed:
        """Another labelling of the boots; 0 is the one that was recorded."""
        if seed == 0:
            return self
        blocks = np.random.default_rng(seed).integers(0, 2, len(self) // 2 + 1)
        swapped = blocks.repeat(2)[: len(self), None] == 1
        base = np.where(swapped, self.other, self.base)
        other = np.where(swapped, self.base, self.other)
        return Timed(self.names, base, other, self.others, self.seconds)

    def grown(self, growth: Mapping[tuple[str, str], float]) -> Timed:
        """With a growth (a share) added to figures of the candidate."""
        added = np.array([np.log1p(growth.get(name, 0.0)) for name in self.names])
        return Timed(self.names, self.base, self.other + added, self.others, self.seconds)


def _side(
    frame: pl.DataFrame, side: str, names: list[tuple[str, str]], column: str
) -> dict[int, tuple[list[float], float, float]]:
    """By pair: the values in the order of ``names``, others' CPUs, and the boot's seconds."""
    found = {}
    for (pair,), rows in frame.filter(pl.col("side") == side).group_by("pair"):
        values = {(r["cell"], r["figure"]): r[column] for r in rows.iter_rows(named=True)}
        listed = [values.get(name) or np.nan for name in names]
        found[int(str(pair))] = (listed, rows["others"][0], rows["seconds"][0])
    return found


@dataclass
class Counts:
    """Verdicts by outcome; ``pairs`` is the sum of theirs, ``seconds`` the time of each."""

    verdicts: int = 0
    blocked: int = 0
    passed: int = 0
    undecided: int = 0
    pairs: int = 0
    seconds: list[float] = field(default_factory=list)

    def add(self, judged: Judged, rows: NDArray[np.int64], seconds: Floats) -> None:
        """Count these rows of a batch; ``seconds`` is of each window's pairs, (rows, pairs)."""
        state, used = judged.state[rows], judged.pairs[rows]
        self.verdicts += len(rows)
        self.blocked += int((state == State.REGRESSION).sum())
        self.passed += int((state == State.PASS).sum())
        self.undecided += int(((state == State.INCONCLUSIVE) | (state == State.OPEN)).sum())
        self.pairs += int(used.sum())
        for row, count in zip(rows, used, strict=True):
            self.seconds.append(float(seconds[row, :count].sum()))

    def share(self, name: str) -> str:
        """An outcome's share with its 95 % interval, as if the verdicts were independent."""
        hits = int(getattr(self, name))
        low, high = interval(hits, max(self.verdicts, 1))
        return f"{hits / max(self.verdicts, 1):.2%} ({low:.2%} to {high:.2%})"


def windows(
    timed: Timed, past: Timed, plan: Plan, starts: NDArray[np.int64], history: int
) -> tuple[Judged, Floats]:
    """Verdicts from each start on; their history are so many pairs that precede in ``past``.

    ``past`` has the same boots with the labels that the history knew. Returns also the seconds of
    each window's pairs.
    """
    use = starts[:, None] + np.arange(plan.looks[-1])
    before = [of_history(_whole(past.ratios[s - history : s])) for s in starts]
    figures = len(timed.names)
    known = np.full((len(starts), figures), history - 1.0)
    more = Known(
        np.zeros(use.shape, np.int64), timed.base[use], np.array([one.far for one in before])
    )
    variance = np.array([one.variance for one in before])[:, None]
    return judge(timed.ratios[use], variance, known, plan, more), timed.seconds[use]


def _whole(ratios: Floats) -> Floats:
    """Pairs of which every figure is there."""
    return ratios[~np.isnan(ratios).any(axis=1)]


def aa_verdicts(
    timed: Timed,
    plan: Plan,
    labellings: int,
    history: int,
    growth: Mapping[tuple[str, str], float] | None = None,
) -> tuple[Counts, Counts]:
    """Verdicts of all starts and labellings, and the disjoint ones of the first labelling."""
    every, disjoint = Counts(), Counts()
    starts = np.arange(history, len(timed) - plan.looks[-1] + 1)
    for seed in range(labellings if len(starts) else 0):
        one = timed.labelled(seed)
        judged, seconds = windows(one.grown(growth or {}), one, plan, starts, history)
        every.add(judged, np.arange(len(starts)), seconds)
        if seed == 0:
            disjoint.add(judged, _disjoint(judged), seconds)
    return every, disjoint


def _disjoint(judged: Judged) -> NDArray[np.int64]:
    """Rows of verdicts that share no pair, the first one first."""
    rows, at = [], 0
    while at < len(judged.pairs):
        rows.append(at)
        at += int(judged.pairs[at])
    return np.array(rows, np.int64)


def planted_verdict(timed: Timed, past: Timed, plan: Plan) -> tuple[Judged, Floats]:
    """The verdict over a planted kernel's pairs, with all pairs of ``past`` as history.

    Also the mean growth of each figure over all its pairs, as a log ratio, shape (figures,).
    """
    before = of_history(_whole(past.ratios))
    known = np.full((1, len(timed.names)), len(past) - 1.0)
    count = min(len(timed), plan.most_pairs)
    more = Known(np.zeros((1, count), np.int64), timed.base[None, :count], before.far[None])
    found = judge(timed.ratios[None, :count], before.variance[None, None], known, plan, more)
    return found, np.nanmean(timed.ratios, axis=0)
