"""The tables of ``iotoll experiment time``: noise, verdicts, planted kernels, from a pool alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from iotoll.verdict.time.sequential import Plan, State
from iotoll.verdict.time.simulate import BoardNoise, Planted, Tally, batches
from iotoll.verdict.time.variance import FAR
from iotoll_lab.experiments.timed_boots import AA, FIGURES
from iotoll_lab.experiments.timed_patches import DELAYS
from iotoll_lab.experiments.timed_verdicts import (
    Counts,
    Timed,
    aa_verdicts,
    planted_verdict,
)

Floats = NDArray[np.float64]
STATISTICS = ("value", "own", "mean", "low", "median")
"""Columns of the pool of which the table of noise says how much each scatters."""
ADDED = (0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)
"""Growths of one cell's overhead that are added to real boots, as shares."""
_MAD = 1.4826


@dataclass(frozen=True)
class Noise:
    """Of a series' figures together. Of a pair: ``deviation`` and ``robust`` (median absolute
    deviation), medians over the figures, as log ratios; ``far``: the share of values beyond `FAR`
    robust deviations; ``shared``: the mean correlation of two figures. Of the base's boots in
    order: ``follows``, the correlation of a value with the one before.
    """

    pairs: int
    deviation: float
    robust: float
    far: float
    shared: float
    follows: float

    @classmethod
    def of(cls, timed: Timed) -> Noise:
        """Measure it."""
        ratios, base = timed.ratios, timed.base
        middle = np.median(ratios, axis=0)
        robust = _MAD * np.median(np.abs(ratios - middle), axis=0)
        links = np.atleast_2d(np.corrcoef(ratios.T))
        above = links[np.triu_indices(len(links), 1)]
        follows = [np.corrcoef(one[:-1], one[1:])[0, 1] for one in base.T]
        return cls(
            len(timed),
            float(np.median(ratios.std(axis=0, ddof=1))),
            float(np.median(robust)),
            float((np.abs(ratios - middle) > FAR * robust).mean()),
            float(above.mean()),
            float(np.median(follows)),
        )

    def simulated(self, history: int) -> BoardNoise:
        """The same board for `iotoll simulate`: independent pairs of this deviation."""
        shared = float(np.clip(self.shared, 0, 1))
        return BoardNoise(pair=self.deviation, shared=shared, history=history)


def noise_table(frame: pl.DataFrame) -> list[str]:
    """How much each statistic of a boot scatters, and how it depends on what else ran."""
    lines = ["| statistic | pairs | sd of a pair | robust sd | far | shared | follows |",
             "|---|--:|--:|--:|--:|--:|--:|"]  # fmt: skip
    rows = [(name, Timed.of(frame, AA, name)) for name in STATISTICS]
    value = rows[0][1]
    calm = value.others <= np.median(value.others)
    rows += [
        (f"value, others used {value.others[use].min():.2f} to {value.others[use].max():.2f} CPUs",
         value.only(use))
        for use in (calm, ~calm)
    ]  # fmt: skip
    for figure in FIGURES:
        rows.append((f"value of {figure}", _of_figure(value, figure)))
    for name, timed in rows:
        n = Noise.of(timed)
        lines.append(
            f"| {name} | {n.pairs} | {n.deviation:.1%} | {n.robust:.1%} | {n.far:.1%}"
            f" | {n.shared:.2f} | {n.follows:.2f} |"
        )
    return lines


def _of_figure(timed: Timed, figure: str) -> Timed:
    at = [n for n, (_, name) in enumerate(timed.names) if name == figure]
    names = [timed.names[n] for n in at]
    return Timed(names, timed.base[:, at], timed.other[:, at], timed.others, timed.seconds)


@dataclass(frozen=True)
class Asked:
    """How much is drawn from a pool: labellings of its boots, pairs that are a verdict's history,
    and simulated verdicts of a line."""

    labellings: int
    history: int
    requests: int


def verdict_table(frame: pl.DataFrame, plan: Plan, asked: Asked) -> list[str]:
    """Verdicts over the base with itself, with and without a growth, beside simulation."""
    timed = Timed.of(frame, AA)
    noise = Noise.of(timed)
    lines = ["| pairs | verdicts | blocked | passed | undecided | pairs each | minutes (p90) |",
             "|---|--:|--:|--:|--:|--:|--:|"]  # fmt: skip
    first = next(name for name in timed.names if name[1] == FIGURES[0])
    labellings, history = asked.labellings, asked.history
    every, disjoint = aa_verdicts(timed, plan, labellings, history)
    lines.append(_line("real, unchanged, disjoint verdicts", disjoint))
    lines.append(_line(f"real, unchanged, all starts, {labellings} labellings", every))
    for growth in ADDED:
        every, _ = aa_verdicts(timed, plan, labellings, history, {first: growth})
        lines.append(_line(f"real boots, {growth:+.1%} added to one overhead", every))
    for growth in (0.0, *ADDED[2:]):
        tally = Tally()
        planted = Planted(growth)
        for batch in batches(plan, noise.simulated(history), planted, asked.requests, 20_261):
            tally.add(batch.judged, planted)
        lines.append(_simulated(f"simulated, sd {noise.deviation:.0%}, {growth:+.1%}", tally))
    return lines


def _line(name: str, counts: Counts) -> str:
    each = counts.pairs / max(counts.verdicts, 1)
    slow = float(np.quantile(counts.seconds, 0.9)) / 60 if counts.seconds else 0.0
    shares = " | ".join(counts.share(one) for one in ("blocked", "passed", "undecided"))
    return f"| {name} | {counts.verdicts:,} | {shares} | {each:.1f} | {slow:.1f} |"


def _simulated(name: str, tally: Tally) -> str:
    counts = Counts(tally.requests, tally.blocked, tally.passed, tally.inconclusive, tally.pairs)
    return _line(name, counts)


def planted_table(frame: pl.DataFrame, plan: Plan) -> list[str]:
    """The kernels with a delay that were booted: what was measured, and the verdict."""
    past = Timed.of(frame, AA)
    booted = set(frame["series"].unique())
    lines = ["| planted | pairs | its section, measured | verdict | after pairs |",
             "|---|--:|--:|---|--:|"]  # fmt: skip
    for delay in DELAYS:
        if delay.name not in booted or len(timed := Timed.of(frame, delay.name)) < 2:
            continue
        found, _ = planted_verdict(timed, past, plan)
        threads = "t8" if delay.when == "threads8" else ""
        own = [
            n for n, (cell, figure) in enumerate(timed.names)
            if figure == delay.section and f"-{threads}" in cell
        ]  # fmt: skip
        each = np.nanmean(timed.ratios[:, own], axis=1)
        error = each.std(ddof=1) / len(each) ** 0.5
        state = State(int(found.state[0])).name.lower()
        lines.append(
            f"| {delay.name} | {len(timed)} | {np.expm1(each.mean()):+.1%} ± {error:.1%}"
            f" | {state} | {int(found.pairs[0])} |"
        )
    return lines


def tables(frame: pl.DataFrame, plan: Plan, asked: Asked) -> Sequence[str]:
    """All of them, as Markdown."""
    return [
        *noise_table(frame), "",
        *verdict_table(frame, plan, asked), "",
        *planted_table(frame, plan),
    ]  # fmt: skip
