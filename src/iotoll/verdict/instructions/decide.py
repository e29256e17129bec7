"""The rule: did an integer that is counted per I/O grow? In the order of docs/method.md.

It knows differences between paired I/Os and the policy's numbers, and nothing of what is counted:
instructions of a section, register reads or barriers are judged by the same function, each with
the name, unit and threshold that its policy gives. No number of it stands outside of the policy.

Noise moves a cost from one I/O to another, or meets one kernel's I/Os only: a timer, a fetch of
free pages, a tag that another thread took first. So it moves about as many I/Os up as down. I/Os
that begin together (with one number in their threads, or in one burst) or soon after each other
are a *round*, and share one chance: the coin is thrown for rounds. What one I/O of a round takes
from another one cancels in their sum, so where single I/Os show nothing, the rounds' means are
asked the same.

How far a cell moves by itself is seen in the base: its boots are of one kernel, and begin their
cells at other moments. A net share must be several times the largest that two of them show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import comb

import numpy as np

from iotoll.verdict.instructions.pairing import Floats, Ints, PairedIos, round_means
from iotoll.verdict.policy import CountRule, MovedRule


@dataclass(frozen=True)
class Trial:
    """What the I/Os (or with ``rounds`` the rounds' means) show at one size of difference.

    ``above`` of all ``total`` grew by more than ``size`` and ``below`` shrank by it. ``own`` is the
    largest net share at that size between two boots of the base. Of ``possible`` rounds, ``moved``
    have a net direction, and ``agree`` have that of all. ``typical`` is the median size of what
    moved so, and ``boots`` has the net share of each boot in that direction. ``base`` is the median
    of the base's counts.
    """

    rounds: bool
    size: int
    above: int
    below: int
    total: int
    own: float
    possible: int
    moved: int
    agree: int
    typical: float
    boots: tuple[float, ...]
    base: float = field(default=0.0, compare=False)

    @property
    def grew(self) -> bool:
        """Whether more grew than shrank."""
        return self.above > self.below

    @property
    def share(self) -> float:
        """The net share that moved."""
        return abs(self.above - self.below) / self.total

    @property
    def cost(self) -> float:
        """What it makes for the mean I/O: a few large differences of noise do not count."""
        return self.share * self.typical

    @cached_property
    def chance(self) -> float:
        """How likely as many rounds agree as a fair coin's throws: exact, two-sided."""
        tail = sum(comb(self.moved, heads) for heads in range(self.agree, self.moved + 1))
        return min(2 * tail / (1 << self.moved), 1.0)


LINES = ("share", "own", "chance", "mean", "boots", "")
"""What `Asked.lacks` returns, in the rule's order."""


@dataclass(frozen=True)
class Asked:
    """What is asked: the numbers of the rule and of the count, and the least net share.

    ``few``: not all boots that the policy asks for are there. What they show is no verdict, so all
    rounds that there are may be enough: eight can never be as clear as 24.
    """

    rule: MovedRule
    count: CountRule
    share: float
    few: bool = False

    def lacks(self, trial: Trial) -> str:
        """The first line of the rule that does not hold, by its name; empty where all hold."""
        every = self.few and trial.agree == trial.possible
        lines = {
            "share": trial.share >= self.share,
            "own": trial.share >= self.rule.own * trial.own,
            "chance": every or trial.chance <= self.rule.chance,
            "mean": trial.cost >= self.least(trial),
            "boots": min(trial.boots) >= self.rule.boot * trial.share,
        }
        return next((name for name, holds in lines.items() if not holds), "")

    def least(self, trial: Trial) -> float:
        """The least growth of the mean I/O that counts.

        Ticks of a timer meet I/Os in proportion to what these execute, and no two kernels have them
        at the same moments. Where fewer than half moved, a share of the base's I/O may be theirs.
        """
        few = self.count.few * trial.base if 2 * trial.share < 1 else 0.0
        return max(self.rule.mean * self.count.threshold, few)


def find(paired: PairedIos, asked: Asked) -> Trial | None:
    """What moved: the smallest size at which the I/Os, else the rounds, meet all lines."""
    return next((one for one in trials(paired, asked) if not asked.lacks(one)), None)


def nearest(paired: PairedIos, asked: Asked) -> Trial | None:
    """What `find` returns, else the trial that meets most lines, of these the largest share."""
    every = list(trials(paired, asked))
    return find(paired, asked) or max(
        every, key=lambda one: (LINES.index(asked.lacks(one)), one.share), default=None
    )


def trials(paired: PairedIos, asked: Asked) -> Iterator[Trial]:
    """All sizes of single I/Os, then of rounds, smallest first."""
    sizes = asked.rule.sizes_of(asked.count)
    base = float(np.median(paired.base)) if len(paired.base) else 0.0
    ios = _Units(paired.differences, paired.round, paired.boot, paired.own, base)
    yield from _sizes(ios, sizes, rounds=False)
    means, index = round_means(paired.differences, paired.round)
    if len(means) == len(paired.differences):
        return  # each I/O is a round
    boot = np.zeros(len(means), np.int64)
    boot[index] = paired.boot
    own = tuple(
        round_means(differences, rounds)[0]
        for differences, rounds in zip(paired.own, paired.own_rounds, strict=True)
    )
    yield from _sizes(_Units(means, np.arange(len(means)), boot, own, base), sizes, rounds=True)


@dataclass(frozen=True)
class _Units:
    """Differences of I/Os or of rounds, shape (units,), with the round and boot of each.

    ``base`` is the median of the base's counts.
    """

    differences: Ints | Floats
    round: Ints
    boot: Ints
    own: tuple[Ints, ...] | tuple[Floats, ...]
    base: float


def _sizes(units: _Units, sizes: list[int], rounds: bool) -> Iterator[Trial]:
    for size in sizes:
        way = net_share(units.differences, size)
        if way:
            yield _trial(units, size, 1 if way > 0 else -1, rounds)


def _trial(units: _Units, size: int, way: int, rounds: bool) -> Trial:
    far = np.abs(units.differences) > size
    signs = np.sign(units.differences[far]).astype(np.int64)
    together = np.sign(np.bincount(units.round[far], signs))
    moved = units.differences[far][signs == way]
    return Trial(
        rounds=rounds,
        size=size,
        above=int((signs > 0).sum()),
        below=int((signs < 0).sum()),
        total=len(units.differences),
        own=max((abs(net_share(own, size)) for own in units.own if len(own)), default=0.0),
        possible=len(np.unique(units.round)),
        moved=int(np.count_nonzero(together)),
        agree=int((together == way).sum()),
        typical=float(np.quantile(np.abs(moved), 0.5, method="lower")),
        boots=tuple(
            way * net_share(units.differences[units.boot == boot], size)
            for boot in np.unique(units.boot)
        ),
        base=units.base,
    )


def net_share(differences: Ints | Floats, size: int) -> float:
    """How many more grew by more than ``size`` than shrank by it, as a share; shape (units,)."""
    net = int((differences > size).sum()) - int((differences < -size).sum())
    return net / len(differences) if len(differences) else 0.0
