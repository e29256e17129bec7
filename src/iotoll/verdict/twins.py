"""I/O by I/O: by how much did each one of the candidate's differ from its twin in the base?

On an exact board a boot is a function of its kernel, and paced I/Os begin at the same moments of
the board's clock in base and candidate. So I/O number i of a thread is the same work in both, and
their difference is the patch's, unless a timer or a free tag met one of them only. Such chaos is as
likely to meet the one as the other: its differences are symmetric around 0, and a cost's are not.

The test is a sign test. Of all I/Os whose difference is larger than some size, chaos makes about as
many larger as smaller. With A above and B below, |A - B| reaches z * sqrt(A + B) with a probability
of at most 2 exp(-z^2 / 2), whatever the differences' distribution (Hoeffding 1963). Several sizes
are tried, so that a rare large cost is seen among common small differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iotoll.records.models import CellRecord, Cluster, OrderedIos, Section, TwinRecord

SHOWN = 6
"""Clusters of a record; the others are in the traces."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Twins:
    """Differences of all pairs of I/Os, shape (pairs,): candidate less base, over all boots.

    ``base`` holds the base's counts and ``boot`` the boot (from 0) of the same pairs.
    ``foreign`` pairs have other marks on either side and are left out.
    """

    differences: Ints
    base: Ints
    boot: Ints
    unpaired: int = 0
    foreign: int = 0
    kinds: tuple[str, str] = ("", "")

    @property
    def foreign_share(self) -> float:
        """Share of pairs that cannot be compared, since other marks bound the section."""
        total = self.foreign + len(self.differences)
        return self.foreign / total if total else 0.0


@dataclass(frozen=True)
class Moved:
    """What the sign test found: net ``share`` of I/Os that moved by more than ``size``."""

    size: int
    above: int
    below: int
    share: float

    @property
    def grew(self) -> bool:
        """Whether more I/Os grew than shrank."""
        return self.above > self.below


def pair(
    base: Sequence[CellRecord], candidate: Sequence[CellRecord], section: Section | None
) -> Twins:
    """Pair a cell's I/Os over all boots; ``section`` None takes the whole I/O."""
    rows: list[tuple[int, int, int]] = []
    unpaired = foreign = 0
    kinds = ("", "")
    for boot, (one, other) in enumerate(zip(base, candidate, strict=True)):
        if one.in_order is None or other.in_order is None:
            continue
        for before, after in _zipped(one.in_order, other.in_order, section):
            if before is None or after is None or (before.value is None) != (after.value is None):
                unpaired += 1
            elif before.kind != after.kind:
                foreign, kinds = foreign + 1, (before.kind, after.kind)
            elif before.value is not None and after.value is not None:
                rows.append((after.value - before.value, before.value, boot))
    found = np.array(rows, np.int64).reshape(-1, 3)
    return Twins(found[:, 0], found[:, 1], found[:, 2], unpaired, foreign, kinds)


def joined(parts: Sequence[Twins]) -> Twins:
    """The twins of several cells as one."""
    return Twins(
        np.concatenate([p.differences for p in parts]),
        np.concatenate([p.base for p in parts]),
        np.concatenate([p.boot for p in parts]),
        sum(p.unpaired for p in parts),
        sum(p.foreign for p in parts),
    )


def find(twins: Twins, sizes: Sequence[int], z: float, share: float, mean: float) -> Moved | None:
    """What moved, at the smallest of ``sizes`` (instructions) at which the sign test tells.

    The net share of I/Os must reach ``share``, their differences ``mean`` instructions an I/O, and
    every boot must show at least half of that share the same way.
    """
    total = len(twins.differences)
    for size in sizes:
        far = np.abs(twins.differences) > size
        signs = np.sign(twins.differences[far])
        above, below = int((signs > 0).sum()), int((signs < 0).sum())
        net = above - below
        if total == 0 or abs(net) / total < share or abs(net) < z * (above + below) ** 0.5:
            continue
        cost = float(twins.differences[far].sum()) / total * np.sign(net)
        if cost >= mean and _in_every_boot(twins, size, int(np.sign(net)), share / 2):
            return Moved(size, above, below, abs(net) / total)
    return None


def record(twins: Twins, moved: Moved | None, size: int) -> TwinRecord:
    """The distribution of differences, as the verdict stores it; there must be at least one.

    ``size`` is the smallest one that was asked for, for counts where nothing moved.
    """
    counts = Counter(twins.differences.tolist())
    total = len(twins.differences)
    # Of equally common differences the smallest one, so that the record is a function of the data.
    ranked = sorted(counts.items(), key=lambda item: (-item[1], abs(item[0]), item[0]))
    size = moved.size if moved else size
    return TwinRecord(
        pairs=total,
        exact=round(counts[0] / total, 4),
        commonest=ranked[0][0],
        commonest_share=round(ranked[0][1] / total, 4),
        mean=round(float(twins.differences.mean()), 2),
        above=int((twins.differences > size).sum()),
        below=int((twins.differences < -size).sum()),
        size=size,
        clusters=[
            Cluster(delta=d, ios=n, opposite=counts.get(-d, 0), share=round(n / total, 4))
            for d, n in [item for item in ranked if item[0] != 0][:SHOWN]
        ],
        unpaired=twins.unpaired,
    )


def _in_every_boot(twins: Twins, size: int, sign: int, share: float) -> bool:
    for boot in np.unique(twins.boot):
        here = twins.differences[twins.boot == boot] * sign
        net = int((here > size).sum()) - int((here < -size).sum())
        if net < share * len(here):
            return False
    return True


@dataclass(frozen=True)
class _Io:
    value: int | None
    kind: str


def _zipped(
    base: OrderedIos, candidate: OrderedIos, section: Section | None
) -> Iterator[tuple[_Io | None, _Io | None]]:
    """The I/Os of both sides, by thread and number; None where one side has no such I/O."""
    one, other = _by_thread(base, section), _by_thread(candidate, section)
    for thread in sorted({*one, *other}):
        before, after = one.get(thread, []), other.get(thread, [])
        for number in range(max(len(before), len(after))):
            yield (
                before[number] if number < len(before) else None,
                after[number] if number < len(after) else None,
            )


def _by_thread(ios: OrderedIos, section: Section | None) -> dict[int, list[_Io]]:
    values: Sequence[int | None] = ios.whole if section is None else ios.sections.get(section, [])
    found: dict[int, list[_Io]] = {}
    for row, value in enumerate(values):
        kind = ""
        if section is not None and ios.marks:
            kind = ios.mark_kinds[ios.marks[row]].get(section, "")
        found.setdefault(ios.thread[row], []).append(_Io(value, kind))
    return found
