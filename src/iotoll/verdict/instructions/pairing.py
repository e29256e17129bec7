"""I/O by I/O: by how much did each one of the candidate's differ from its pair in the base?

On an exact board a boot is a function of its kernel, and paced I/Os begin at the same moments of
the board's clock in base and candidate. So I/O number i of a thread is the same work in both, and
their difference is the patch's, unless a timer or a free tag met one of them only. Such noise is as
likely to meet the one as the other: its differences are symmetric around 0, and a cost's are not.

The test is a sign test. Of all I/Os whose difference is larger than some size, noise makes about as
many larger as smaller. The threads of a cell begin their I/Os together, so a timer that meets one
of them also meets the others: the I/Os of one *round* (same boot, same number in their threads)
share one chance. With c the net number of a round's I/Os that grew, the sum of all c reaches
z * sqrt(sum of c^2) with a probability of at most 2 exp(-z^2 / 2), whatever the differences'
distribution (Hoeffding 1963). With one thread that is |A - B| against z * sqrt(A + B), A above and
B below. Of few rounds even all together do not reach that: eight threads with 64 I/Os have 24 in
three boots, and sqrt(24) is less than 5. So of at most 2 z^2 rounds of several I/Os it is also
enough if as many moved one way as a fair coin shows the same side with that probability at most (24
of 24: 1.2e-7).
Several sizes are tried, so that a rare large cost is seen among common small differences.

Noise need not be symmetric in three boots: readers that wait for each other's read-ahead take one
of two courses, and go on with it. What it does in a cell is seen in the base: its boots are of one
kernel, and differ only in the moment at which their cells begin. A net share must be several times
the largest that two of the base's boots show between them; twice is enough for most of all I/Os.
Where two of them differ in many I/Os, most of all I/Os must have moved one way: `shifts` has what
else may tell there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, comb, exp

import numpy as np
from numpy.typing import NDArray

from iotoll.records.models import CellRecord, Cluster, OrderedIos, Section, TwinRecord

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Column:
    """One section of one thread's I/Os in order of start, shape (I/Os,) each.

    ``value`` is in the record's unit, and 0 where it is not ``known``; ``kind`` says which events
    bound the section.
    """

    value: Ints
    known: NDArray[np.bool_]
    kind: NDArray[np.str_]

    def cut(self, start: int, end: int) -> Column:
        """The I/Os from number ``start`` to before number ``end``."""
        here = slice(start, end)
        return Column(self.value[here], self.known[here], self.kind[here])


NONE = Column(np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0, np.str_))
"""Of a thread that a boot has not."""


class Ordered:
    """The I/Os of one boot's cell; columns are made once, when they are asked for."""

    def __init__(self, ios: OrderedIos) -> None:
        self.sections = list(ios.sections)
        self._ios = ios
        self._columns: dict[Section | None, dict[int, Column]] = {}

    def columns(self, section: Section | None) -> dict[int, Column]:
        """Number of a thread → its I/Os; the section None is the whole I/O."""
        if section not in self._columns:
            self._columns[section] = _by_thread(self._ios, section)
        return self._columns[section]

    def along(
        self, other: Ordered, section: Section | None, lag: int
    ) -> Iterator[tuple[Column, Column, int]]:
        """Both sides of each thread, of one length, and how many I/Os only one side has.

        With a ``lag`` the first I/O of each thread is left out on one side, and the last on the
        other: none of them is counted as being on one side only.
        """
        one, two = self.columns(section), other.columns(section)
        for thread in sorted({*one, *two}):
            before, after = one.get(thread, NONE), two.get(thread, NONE)
            first, second = max(lag, 0), max(-lag, 0)
            lengths = len(before.value) - first, len(after.value) - second
            both = max(min(lengths), 0)
            yield (
                before.cut(first, first + both),
                after.cut(second, second + both),
                0 if lag else max(lengths) - both,
            )


def _by_thread(ios: OrderedIos, section: Section | None) -> dict[int, Column]:
    values: Sequence[int | None] = ios.whole if section is None else ios.sections.get(section, [])
    rows = len(values)
    thread = np.array(ios.thread[:rows], np.int64)
    known = np.array([value is not None for value in values], np.bool_)
    value = np.array([value or 0 for value in values], np.int64)
    kind = np.full(rows, "")
    if section is not None and ios.marks:
        names = np.array([kinds.get(section, "") for kinds in ios.mark_kinds])
        kind = names[np.array(ios.marks[:rows], np.int64)]
    found = {}
    for number in np.unique(thread):
        mine = thread == number
        found[int(number)] = Column(value[mine], known[mine], kind[mine])
    return found


SHOWN = 6
"""Clusters of a record; the others are in the traces."""

MAJORITY = 0.5
"""The share of I/Os that are most of them."""

RARE, RAREST = 0.01, 4
"""So large a share of I/Os, and so many, may have a cost of their own beside the others'."""

OPPOSITES = 4
"""And so many times as many as have as much the other way."""

UNSTEADY = 0.3
"""Two boots of the base that differ in more I/Os than this share take other paths by chance."""

FEW = 2.0
"""Rounds are few up to so many times z squared."""

CLEAR = 0.1
"""So much more must agree at another lag before it is taken."""


@dataclass(frozen=True)
class PairedIos:
    """Differences of all pairs of I/Os, shape (pairs,): candidate less base, over all boots.

    ``base`` holds the base's counts, ``boot`` the boot (from 0) and ``round`` the round (from 0,
    over all boots) of the same pairs. ``foreign`` pairs have other marks on either side and are
    left out. ``own`` has the differences between each two of the base's boots, shape (pairs,) each,
    ``own_rounds`` the rounds of these pairs, and ``own_unpaired`` the largest share of I/Os without
    a pair among them.
    """

    differences: Ints
    base: Ints
    boot: Ints
    round: Ints
    unpaired: int = 0
    foreign: int = 0
    kinds: tuple[str, str] = ("", "")
    own: tuple[Ints, ...] = ()
    own_rounds: tuple[Ints, ...] = ()
    own_unpaired: float = 0.0
    own_foreign: float = 0.0

    @property
    def boots(self) -> int:
        """How many boots of each side they are of."""
        return len(np.unique(self.boot))

    @property
    def ios(self) -> int:
        """All I/Os: those that are compared, and those that cannot be."""
        return len(self.differences) + self.foreign + self.unpaired

    def noise(self, size: int) -> float:
        """The largest net share of I/Os by which two of the base's boots differ past ``size``."""
        found = (np.sign(own[np.abs(own) > size]).sum() / len(own) for own in self.own if len(own))
        return max((abs(float(share)) for share in found), default=0.0)

    def unsteady(self, size: int) -> bool:
        """Whether two of the base's boots differ past ``size`` in too many I/Os to count signs."""
        found = (float((np.abs(own) > size).mean()) for own in self.own if len(own))
        return max(found, default=0.0) > UNSTEADY


@dataclass(frozen=True)
class Moved:
    """What was found: net ``share`` of I/Os (or of rounds) that moved by more than ``size``.

    What was not found by counting I/Os has its ``cost``, the mean over all I/Os, and ``what`` says
    how it was found.
    """

    size: int
    above: int
    below: int
    share: float
    cost: float | None = None
    what: str = ""

    @property
    def grew(self) -> bool:
        """Whether more I/Os grew than shrank."""
        return self.above > self.below


def pair(
    base: Sequence[CellRecord],
    candidate: Sequence[CellRecord],
    parts: Sequence[Section | None],
    burst: int = 1,
) -> dict[Section | None, PairedIos]:
    """Pair a cell's I/Os over all boots, for each of ``parts``; None is the whole I/O.

    The base may have more boots than the candidate: they show how much it differs from itself.
    ``burst`` I/Os of a thread are submitted together, and are of one round.
    """
    bases, candidates = _ordered(base), _ordered(candidate)
    both = _lags(zip(bases[: len(candidates)], candidates, strict=True))
    own = [_lags([two]) for two in combinations(bases, 2)]
    return {part: _with_own(both, own, part, burst) for part in parts}


Boots = list[tuple[Ordered, Ordered, int] | None]
"""Two boots' I/Os and by how many the second is shifted; None where one has no I/Os in order."""


def _ordered(records: Sequence[CellRecord]) -> list[Ordered | None]:
    orders = (record.in_order for record in records)
    return [Ordered(ios) if ios is not None else None for ios in orders]


def _lags(boots: Iterable[tuple[Ordered | None, Ordered | None]]) -> Boots:
    return [(a, b, phase(a, b)) if a is not None and b is not None else None for a, b in boots]


def _with_own(both: Boots, own: Sequence[Boots], section: Section | None, burst: int) -> PairedIos:
    bases = [_differences(two, section, burst) for two in own]
    return replace(
        _differences(both, section, burst),
        own=tuple(paired.differences for paired in bases),
        own_rounds=tuple(paired.round for paired in bases),
        own_unpaired=max(
            (t.unpaired / (len(t.differences) + t.unpaired) for t in bases if t.unpaired),
            default=0.0,
        ),
        own_foreign=max((t.foreign / t.ios for t in bases if t.foreign), default=0.0),
    )


def _differences(boots: Boots, section: Section | None, burst: int) -> PairedIos:
    rows: list[Ints] = [np.empty((0, 4), np.int64)]
    unpaired = foreign = 0
    kinds = ("", "")
    for boot, found in enumerate(boots):
        if found is None:
            continue
        one, other, lag = found
        for before, after, alone in one.along(other, section, lag):
            lacking = before.known != after.known
            strange = ~lacking & (before.kind != after.kind)
            unpaired += alone + int(lacking.sum())
            foreign += int(strange.sum())
            for row in np.flatnonzero(strange)[-1:]:
                kinds = (str(before.kind[row]), str(after.kind[row]))
            (good,) = np.nonzero(before.known & after.known & ~strange)
            was = before.value[good]
            numbers = np.full(len(good), boot), good // burst
            rows.append(np.column_stack((after.value[good] - was, was, *numbers)))
    table = np.concatenate(rows)
    _, rounds = np.unique(table[:, 2:], axis=0, return_inverse=True)
    return PairedIos(
        table[:, 0], table[:, 1], table[:, 2], rounds.reshape(-1), unpaired, foreign, kinds
    )


def joined(parts: Sequence[PairedIos]) -> PairedIos:
    """The paired I/Os of several cells as one; their rounds stay separate."""
    return PairedIos(
        np.concatenate([p.differences for p in parts]),
        np.concatenate([p.base for p in parts]),
        np.concatenate([p.boot for p in parts]),
        _apart([p.round for p in parts]),
        sum(p.unpaired for p in parts),
        sum(p.foreign for p in parts),
        own=tuple(np.concatenate(two) for two in zip(*(p.own for p in parts), strict=False)),
        own_rounds=tuple(map(_apart, zip(*(p.own_rounds for p in parts), strict=False))),
    )


def _apart(rounds: Sequence[Ints]) -> Ints:
    """Several cells' rounds, numbered on from one to the next."""
    ends = np.cumsum([0, *(int(one.max(initial=-1)) + 1 for one in rounds)])
    return np.concatenate([one + end for one, end in zip(rounds, ends[:-1], strict=True)])


def round_means(differences: Ints, rounds: Ints) -> tuple[NDArray[np.float64], Ints]:
    """The mean difference of each round that has any, and the row of each pair's round in it."""
    _, index = np.unique(rounds, return_inverse=True)
    index = index.reshape(-1)
    return np.bincount(index, differences) / np.bincount(index), index


def net(differences: Ints | NDArray[np.float64], size: int) -> int:
    """How many more I/Os grew by more than ``size`` than shrank by it; shape (pairs,)."""
    return int((differences > size).sum()) - int((differences < -size).sum())


def clearness(paired: PairedIos, size: int) -> float:
    """How many times its root the net number of I/Os that moved by more than ``size`` is; signed.

    The root is that of the sum of the rounds' squared net numbers. 0 where no I/O moved so far.
    """
    return _clearness(_by_round(paired, size))


def _clearness(together: Ints) -> float:
    root = float(np.square(together).sum()) ** 0.5
    return float(together.sum()) / root if root else 0.0


def _by_round(paired: PairedIos, size: int) -> Ints:
    """How many more I/Os of each round grew by more than ``size`` than shrank; shape (rounds,)."""
    far = np.abs(paired.differences) > size
    signs = np.sign(paired.differences[far])
    return np.bincount(paired.round[far], signs).astype(np.int64)


def is_no_chance(paired: PairedIos, size: int, z: float) -> bool:
    """Whether chance decides the rounds' signs so with a probability of 2 exp(-z^2 / 2) at most."""
    together = _by_round(paired, size)
    return abs(_clearness(together)) >= z or few_agree(together, z)


def few_agree(together: Ints, z: float) -> bool:
    """Whether as many of few rounds moved one way as chance lets with the same probability.

    ``together`` is each round's net number of I/Os that grew, shape (rounds,).
    """
    rounds, net = int(np.count_nonzero(together)), abs(int(np.sign(together).sum()))
    # Where each I/O is a round, or rounds are many, the bound by z is near enough, and those whose
    # I/Os are not independent (read-ahead) would only need further boots more often.
    if np.abs(together).max(initial=0) <= 1 or rounds > FEW * z * z:
        return False
    heads = (rounds + net) // 2
    tail = sum(comb(rounds, count) for count in range(heads, rounds + 1))
    return bool(tail * ceil(exp(z * z / 2)) <= 2**rounds)


def find(
    paired: PairedIos, sizes: Sequence[int], z: float, share: float, mean: float, noise: float
) -> Moved | None:
    """What moved, at the smallest of ``sizes`` (instructions) at which the sign test tells.

    The net share of I/Os must reach ``share``, and ``noise`` times what two boots of the base show,
    or most of the I/Os and twice that; most of them where the base is unsteady. Their differences
    must reach ``mean`` instructions an I/O, and every boot must show at least half of that share
    the same way.
    """
    total = len(paired.differences)
    for size in sizes:
        far = np.abs(paired.differences) > size
        signs = np.sign(paired.differences[far])
        above, below = int((signs > 0).sum()), int((signs < 0).sum())
        own = paired.noise(size)
        least = max(share, min(noise * own, max(MAJORITY, 2 * own)))
        most = MAJORITY if paired.unsteady(size) else 0.0
        if total == 0 or abs(above - below) / total < max(least, most):
            continue
        if not is_no_chance(paired, size, z):
            continue
        cost = float(paired.differences[far].sum()) / total * np.sign(above - below)
        if cost >= mean and _in_every_boot(paired, size, int(np.sign(above - below)), least / 2):
            return Moved(size, above, below, abs(above - below) / total)
    return None


def record(paired: PairedIos, moved: Moved | None, size: int) -> TwinRecord:
    """The distribution of differences, as the verdict stores it; there must be at least one.

    ``size`` is the smallest one that was asked for: for counts where nothing moved, and less than
    the mean of what some I/Os pay beside the others.
    """
    counts = Counter(paired.differences.tolist())
    total = len(paired.differences)
    # Of equally common differences the smallest one, so that the record is a function of the data.
    ranked = sorted(counts.items(), key=lambda item: (-item[1], abs(item[0]), item[0]))
    decided = moved.size if moved else size
    return TwinRecord(
        pairs=total,
        exact=round(counts[0] / total, 4),
        commonest=ranked[0][0],
        commonest_share=round(ranked[0][1] / total, 4),
        mean=round(float(paired.differences.mean()), 2),
        above=int((paired.differences > decided).sum()),
        below=int((paired.differences < -decided).sum()),
        size=decided,
        chaos=round(paired.noise(decided), 4) if paired.own else None,
        clusters=[
            Cluster(delta=d, ios=n, opposite=counts.get(-d, 0), share=round(n / total, 4))
            for d, n in [item for item in ranked if item[0] != 0][:SHOWN]
        ],
        rare=_rare(counts, ranked[0][0], moved, size) if moved else None,
        unpaired=paired.unpaired,
    )


def _rare(counts: Counter[int], commonest: int, moved: Moved, least: float) -> Cluster | None:
    """What some I/Os pay beside what most of them do: +5,000 in every 8th, where all have +8.

    Its mean must be above ``least``. Noise has opposites, as far from the commonest difference.
    """
    total, way = counts.total(), 1 if moved.grew else -1
    found = [
        (way * (delta - commonest) * ios, delta, ios)
        for delta, ios in counts.items()
        if ios >= max(RARE * total, RAREST)
        and ios >= OPPOSITES * counts.get(2 * commonest - delta, 0)
    ]
    weight, delta, ios = max(found, default=(0, 0, 0))
    if weight <= least * total:
        return None
    return Cluster(
        delta=delta, ios=ios, opposite=counts.get(-delta, 0), share=round(ios / total, 4)
    )


def _in_every_boot(paired: PairedIos, size: int, sign: int, share: float) -> bool:
    for boot in np.unique(paired.boot):
        here = paired.differences[paired.boot == boot] * sign
        if net(here, size) < share * len(here):
            return False
    return True


def phase(base: Ordered, candidate: Ordered) -> int:
    """By how many I/Os the candidate is shifted: 0, or 1 either way where paths alternate.

    A path that every second I/O takes may begin with the first I/O in one kernel and with the
    second in the other. The lag is the one at which most I/Os have the same difference, whatever
    that is, so a cost does not decide it.
    """
    found = {lag: _agreement(base, candidate, lag) for lag in (0, 1, -1)}
    best = max(found, key=lambda lag: found[lag])
    return best if found[best] >= found[0] + CLEAR else 0


def _agreement(base: Ordered, candidate: Ordered, lag: int) -> float:
    """The share of I/Os that have their section's commonest difference, as a mean of sections."""
    shares = []
    for section in base.sections:
        both = [
            (after.value - before.value)[before.known & after.known]
            for before, after, _ in base.along(candidate, section, lag)
        ]
        differences = np.concatenate(both) if both else np.empty(0, np.int64)
        if len(differences):
            _, counts = np.unique(differences, return_counts=True)
            shares.append(int(counts.max()) / len(differences))
    return sum(shares) / len(shares) if shares else 0.0
