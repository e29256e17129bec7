"""I/O by I/O: by how much did each one of the candidate's differ from its pair in the base?

On an exact board a boot is a function of its kernel, and paced I/Os begin at the same moments of
the board's clock in base and candidate. So I/O number i of a thread is the same work in both, and
their difference is the patch's, unless a timer or a free tag met one of them only.
`iotoll.verdict.instructions.decide` says which differences are no such noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from iotoll.records.models import CellRecord, OrderedIos, Section
from iotoll.records.models.analysis import ElementRecord
from iotoll.verdict.policy import MovedRule

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """One section of one thread's I/Os in order of start, shape (I/Os,) each.

    ``value`` is in the record's unit, and 0 where it is not ``known``; ``kind`` says which events
    bound the section; ``affected`` is what of the value the functions have that the candidate
    affects.
    """

    value: Ints
    known: NDArray[np.bool_]
    kind: NDArray[np.str_]
    affected: Ints

    def cut(self, start: int, end: int) -> Column:
        """The I/Os from number ``start`` to before number ``end``."""
        here = slice(start, end)
        return Column(self.value[here], self.known[here], self.kind[here], self.affected[here])


NONE = Column(
    np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0, np.str_), np.empty(0, np.int64)
)
"""Of a thread that a boot has not."""


class Ordered:
    """The I/Os of one boot's cell; columns are made once, when they are asked for."""

    def __init__(self, ios: OrderedIos, affected: ElementRecord | None = None) -> None:
        self.sections = list(ios.sections)
        self._ios = ios
        self._affected = affected
        self._columns: dict[Section | None, dict[int, Column]] = {}

    def columns(self, section: Section | None) -> dict[int, Column]:
        """Number of a thread → its I/Os; the section None is the whole I/O."""
        if section not in self._columns:
            self._columns[section] = _by_thread(self._ios, section, self._affected)
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


def _by_thread(
    ios: OrderedIos, section: Section | None, affected: ElementRecord | None
) -> dict[int, Column]:
    values: Sequence[int | None] = ios.whole if section is None else ios.sections.get(section, [])
    rows = len(values)
    thread = np.array(ios.thread[:rows], np.int64)
    known = np.array([value is not None for value in values], np.bool_)
    value = np.array([value or 0 for value in values], np.int64)
    kind = np.full(rows, "")
    if section is not None and ios.marks:
        names = np.array([kinds.get(section, "") for kinds in ios.mark_kinds])
        kind = names[np.array(ios.marks[:rows], np.int64)]
    of_some = np.zeros(rows, np.int64)
    if affected is not None:
        runs = affected.whole if section is None else affected.sections.get(section, [])
        some = [count or 0 for count, times in runs for _ in range(times)]
        of_some[: len(some)] = some
    found = {}
    for number in np.unique(thread):
        mine = thread == number
        found[int(number)] = Column(value[mine], known[mine], kind[mine], of_some[mine])
    return found


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


def pair(
    base: Sequence[CellRecord],
    candidate: Sequence[CellRecord],
    parts: Sequence[Section | None],
    burst: int,
    rule: MovedRule,
    affected: bool = False,
) -> dict[Section | None, PairedIos]:
    """Pair a cell's I/Os over all boots, for each of ``parts``; None is the whole I/O.

    The base may have more boots than the candidate: they show how much it differs from itself.
    ``burst`` I/Os of a thread are submitted together, and are of one round. ``affected``: of each
    difference only what the functions differ by, the same way, that the candidate affects.
    """
    bases, candidates = _ordered(base, affected), _ordered(candidate, affected)
    both = _lags(zip(bases[: len(candidates)], candidates, strict=True), rule.lag)
    own = [_lags([two], rule.lag) for two in combinations(bases, 2)]
    return {part: _with_own(both, own, part, (burst, rule.rounds), affected) for part in parts}


Boots = list[tuple[Ordered, Ordered, int] | None]
"""Two boots' I/Os and by how many the second is shifted; None where one has no I/Os in order."""


def _ordered(records: Sequence[CellRecord], affected: bool) -> list[Ordered | None]:
    pairs = ((record.in_order, record.affected if affected else None) for record in records)
    return [Ordered(ios, some) if ios is not None else None for ios, some in pairs]


def _lags(boots: Iterable[tuple[Ordered | None, Ordered | None]], lag: float) -> Boots:
    return [(a, b, phase(a, b, lag)) if a is not None and b is not None else None for a, b in boots]


def _with_own(
    both: Boots,
    own: Sequence[Boots],
    section: Section | None,
    rounds: tuple[int, int],
    affected: bool,
) -> PairedIos:
    bases = [_differences(two, section, rounds, affected) for two in own]
    return replace(
        _differences(both, section, rounds, affected),
        own=tuple(paired.differences for paired in bases),
        own_rounds=tuple(paired.round for paired in bases),
        own_unpaired=max(
            (t.unpaired / (len(t.differences) + t.unpaired) for t in bases if t.unpaired),
            default=0.0,
        ),
        own_foreign=max((t.foreign / t.ios for t in bases if t.foreign), default=0.0),
    )


def _differences(
    boots: Boots, section: Section | None, rounds_of: tuple[int, int], affected: bool
) -> PairedIos:
    burst, most = rounds_of
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
            difference = after.value[good] - was
            if affected:
                of_some = after.affected[good] - before.affected[good]
                difference = _common(difference, of_some)
            numbers = np.full(len(good), boot), good // burst
            rows.append(np.column_stack((difference, was, *numbers)))
    table = np.concatenate(rows)
    rounds = _rounds(table[:, 2], table[:, 3], most)
    return PairedIos(table[:, 0], table[:, 1], table[:, 2], rounds, unpaired, foreign, kinds)


def _common(one: Ints, other: Ints) -> Ints:
    """By how much both differ, where they do the same way; else 0."""
    same = np.where(np.sign(one) == np.sign(other), np.sign(one), 0)
    found: Ints = same * np.minimum(np.abs(one), np.abs(other))
    return found


def _rounds(boot: Ints, number: Ints, most: int) -> Ints:
    """The round of each pair, numbered over all boots: at most so many a boot, of equal length."""
    together = -(-(number.max(initial=0) + 1) // most)
    _, rounds = np.unique(boot * most + number // together, return_inverse=True)
    return rounds.reshape(-1).astype(np.int64)


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


def round_means(differences: Ints, rounds: Ints) -> tuple[Floats, Ints]:
    """The mean difference of each round that has any, and the row of each pair's round in it."""
    _, index = np.unique(rounds, return_inverse=True)
    index = index.reshape(-1)
    return np.bincount(index, differences) / np.bincount(index), index


def phase(base: Ordered, candidate: Ordered, least: float) -> int:
    """By how many I/Os the candidate is shifted: 0, or 1 either way where paths alternate.

    A path that every second I/O takes may begin with the first I/O in one kernel and with the
    second in the other. The lag is the one at which most I/Os have the same difference, whatever
    that is, so a cost does not decide it: by ``least`` more, as a share.
    """
    found = {0: _agreement(base, candidate, 0)}
    if found[0] + least > 1:
        return 0  # no other can have so many more
    found |= {lag: _agreement(base, candidate, lag) for lag in (1, -1)}
    best = max(found, key=lambda lag: found[lag])
    return best if found[best] >= found[0] + least else 0


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
