"""``iotoll experiment search``: simulated ranges on boards' time, this search and other rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from iotoll.bisect.bayes import (
    AGAIN,
    PROMISE,
    SURE,
    Beliefs,
    Costs,
    Floats,
    beliefs,
    best_step,
    learned,
)
from iotoll.core.cli_support import FiniteRange
from iotoll.records import results
from iotoll_lab.experiments import search_rivals

MOST = 3000
"""Boots after which a search gives up and names its best."""


@dataclass(frozen=True)
class Outcome:
    """One rule at one noise over all ranges; ``claimed`` is what it said of itself, as a mean."""

    rule: str
    s: float
    misjudged: float
    ranges: int
    right: float
    builds: float
    boots: float
    claimed: float | None


class Board:
    """Boots of one simulated range: a step of 1 at commit ``culprit``, normal noise."""

    def __init__(self, size: int, culprit: int, noise: float, chance: np.random.Generator) -> None:
        self.culprit = culprit
        self.noise = noise
        self.chance = chance
        self.boots = 0
        self.built: set[int] = {0, size}

    def boot(self, place: int) -> float:
        """One value of a commit; A and B are built, every other commit's first boot builds it."""
        self.boots += 1
        self.built.add(place)
        return float(place >= self.culprit) + self.noise * float(self.chance.standard_normal())

    @property
    def builds(self) -> int:
        """Kernels built, without A and B."""
        return len(self.built) - 2


def bayes(
    size: int, culprits: NDArray[np.int64], noise: float, said: float, seed: int
) -> tuple[NDArray[np.int64], Floats, Floats, Floats]:
    """This project's search in all ranges side by side, each until it is sure.

    ``noise`` is what boots have, ``said`` what the history says of it. Returns, by range, the place
    that is named, how sure it is, and how many kernels and boots it took.
    """
    ranges = len(culprits)
    costs, prior = Costs(), np.zeros(size)
    chance = np.random.default_rng([seed, round(said / noise * 100)])
    count, total, square = np.zeros((3, ranges, size + 1))

    def boot(rows: NDArray[np.int64], places: NDArray[np.int64], boots: NDArray[np.int64]) -> None:
        mean = (places >= culprits[rows]).astype(float)
        drawn = chance.standard_normal(len(rows))
        count[rows, places] += boots
        sums = boots * mean + np.sqrt(boots) * noise * drawn
        total[rows, places] += sums
        # About their own mean, so many values have squares of this distribution.
        spread = np.where(boots > 1, chance.chisquare(np.maximum(boots - 1, 1)), 0.0)
        square[rows, places] += sums**2 / boots + noise**2 * spread

    every = np.arange(ranges)
    for place in (0, size):
        boot(every, np.full(ranges, place), np.full(ranges, 2))
    live = every
    banned = np.zeros((ranges, size + 1), bool)
    last = np.zeros((ranges, size))
    while len(live):
        values = count[live], total[live], square[live]
        sigma, held = learned(said, *values), beliefs(*values, said, prior)
        last[live] = held.chance
        sure = held.chance.max(axis=-1) >= SURE
        lacking = sure[:, None] & (count[live] < AGAIN) & _decisive(held.chance)
        open_ = (~sure | lacking.any(axis=-1)) & (count[live].sum(axis=-1) < MOST)
        live, sure, lacking = live[open_], sure[open_], lacking[open_]
        held = Beliefs(*(getattr(held, one.name)[open_] for one in fields(held)))
        place, boots, _ = best_step(held, count[live], sigma[open_], costs, banned[live])
        boot(live, np.where(sure, lacking.argmax(axis=-1), place), np.where(sure, 1, boots))
    builds = (count > 0).sum(axis=-1) - 2.0
    return last.argmax(axis=-1) + 1, last.max(axis=-1), builds, count.sum(axis=-1)


def _decisive(chance: Floats) -> NDArray[np.bool_]:
    """By range, of places 0..n: the likeliest commit, and the one before it."""
    best = chance.argmax(axis=-1)[:, None]
    places = np.arange(chance.shape[-1] + 1)
    return np.asarray((places == best) | (places == best + 1))


RULES: dict[str, Callable[[int, search_rivals.Boot], int]] = {
    "git bisect": search_rivals.git_bisect,
    "git_bayesect's rule": search_rivals.bayesect,
    "Pinpoint's rule": search_rivals.pinpoint,
}


def simulate(rule: str, s: float, misjudged: float, ranges: int, size: int, seed: int) -> Outcome:
    """All ranges of one rule; every rule meets the same culprits."""
    culprits = np.random.default_rng(seed).integers(1, size + 1, ranges)
    sure = None
    if rule == "iotoll":
        named, claims, builds, boots = bayes(size, culprits, 1 / s, misjudged / s, seed)
        sure = round(float(np.minimum(claims, PROMISE).mean()), 4)
    else:
        boards = [
            Board(size, int(culprit), 1 / s, np.random.default_rng([seed, number]))
            for number, culprit in enumerate(culprits)
        ]
        named = np.array([RULES[rule](size, board.boot) for board in boards])
        builds = np.array([float(board.builds) for board in boards])
        boots = np.array([float(board.boots) for board in boards])
    return Outcome(
        rule,
        s,
        misjudged,
        ranges,
        round(float((named == culprits).mean()), 4),
        round(float(builds.mean()), 1),
        round(float(boots.mean()), 1),
        sure,
    )


@click.command("search")
@click.option("--ranges", default=500, show_default=True, type=click.IntRange(1))
@click.option("--commits", default=100, show_default=True, type=click.IntRange(2))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option(
    "--change", "changes", multiple=True, type=FiniteRange(0.01), default=(0.67, 1.0, 2.0, 4.0),
    show_default=True, help="Change over the noise of one value; repeatable.",
)  # fmt: skip
@click.option("--rivals/--no-rivals", "others", default=True, help="Also the other rules.")
@click.option("--out", default="runs/search", show_default=True, type=click.Path(path_type=Path))
def search_command(
    ranges: int, commits: int, seed: int, changes: tuple[float, ...], others: bool, out: Path
) -> None:
    """Simulate searches on a noisy clock: how often right, after how many builds and boots."""
    run = partial(simulate, ranges=ranges, size=commits, seed=seed)
    rows: list[Outcome] = []
    for s in changes:
        todo = [("iotoll", 1.0), ("iotoll", 0.75), ("iotoll", 1.25)]
        todo += [(name, 1.0) for name in RULES] if others else []
        for rule, misjudged in todo:
            row = run(rule, s, misjudged)
            rows.append(row)
            note = "" if misjudged == 1.0 else f", noise taken for {misjudged:g} of what it is"
            claim = f" (claims {row.claimed:.1%})" if row.claimed is not None else ""
            click.echo(
                f"s = {s:g}: {rule}{note}: {row.right:.1%} right{claim}, {row.builds:g} builds,"
                f" {row.boots:g} boots"
            )
            text = json.dumps([asdict(one) for one in rows], indent=1)
            results.write_text(out / "search.json", text + "\n")
    click.echo(f"written: {out / 'search.json'}")
