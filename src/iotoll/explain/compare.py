"""Base beside candidate: the functions that account for a difference, I/O by I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from iotoll.explain.attribute import CellParts, SectionParts
from iotoll.explain.pieces import Label
from iotoll.explain.record import Ints
from iotoll.explain.walk import Tree
from iotoll.records.models import Section

_LEAST_MEAN = 0.5
"""Instructions per I/O below which a function that usually has no difference is not listed."""


@dataclass(frozen=True)
class Change:
    """The commonest difference over the paired I/Os, how many have it, and the mean.

    ``second`` is the second commonest one with its share: that of a cost under a condition.
    """

    common: int
    share: float
    mean: float
    second: tuple[int, float] | None = None

    @property
    def effect(self) -> float:
        """The commonest difference where most I/Os have it, else the mean: paths alternate then."""
        return float(self.common) if self.share > 0.5 else self.mean


@dataclass(frozen=True)
class InlinedChange:
    """One inlined function; medians of instructions per I/O of both sides."""

    label: Label
    base: float
    candidate: float
    change: Change


@dataclass(frozen=True)
class FunctionChange:
    """One function in one section: medians of instructions and calls per I/O of both sides."""

    name: str
    base: float
    candidate: float
    calls: tuple[float, float]
    change: Change
    callers: tuple[str, ...]
    inlined: tuple[InlinedChange, ...] = ()


@dataclass(frozen=True)
class SectionChange:
    """One section of one cell, or the whole I/O (None).

    ``ios`` are those of either side dissected, ``paired`` those of both.
    """

    cell: str
    section: Section | None
    ios: tuple[int, int]
    missing: tuple[int, int]
    paired: int
    base: float
    candidate: float
    change: Change
    functions: tuple[FunctionChange, ...]

    @property
    def explained(self) -> float:
        """Sum of the functions' effects."""
        return sum(f.change.effect for f in self.functions)


def compare_cell(base: CellParts, candidate: CellParts) -> list[SectionChange]:
    """Compare the sections that both sides have, in the order of the path."""
    both = [s for s in Section if s in base.sections and s in candidate.sections]
    trees = base.tree, candidate.tree
    return [
        _compare(base.cell, (base.sections[s], candidate.sections[s]), trees)
        for s in both
        if len(base.sections[s].ios) and len(candidate.sections[s].ios)
    ]


def compare_whole(base: CellParts, candidate: CellParts) -> SectionChange | None:
    """Compare the whole I/Os; None where they were not dissected on both sides."""
    if base.whole is None or candidate.whole is None:
        return None
    if not len(base.whole.ios) or not len(candidate.whole.ios):
        return None
    return _compare(base.cell, (base.whole, candidate.whole), (base.tree, candidate.tree))


def _compare(
    cell: str, sides: tuple[SectionParts, SectionParts], trees: tuple[Tree, Tree]
) -> SectionChange:
    names = sorted({*sides[0].functions, *sides[1].functions})
    ios = np.intersect1d(sides[0].ios, sides[1].ios)
    counts = [_columns(side, side.counts, names, ios) for side in sides]
    calls = [_columns(side, side.calls, names, ios) for side in sides]
    callers = [_callers(side, tree) for side, tree in zip(sides, trees, strict=True)]
    totals = [c.sum(axis=1) for c in counts]
    middle = [float(np.median(total)) if len(ios) else 0.0 for total in totals]
    inlined = _inlined(sides, ios)
    found = []
    for place, name in enumerate(names):
        pair = [c[:, place] for c in counts]
        if not (pair[0].any() or pair[1].any()):
            continue
        change = change_of(pair[1] - pair[0])
        if change.common or abs(change.mean) >= _LEAST_MEAN:
            medians = [float(np.median(c[:, place])) for c in (*counts, *calls)]
            of = callers[1].get(name) or callers[0].get(name, ())
            found.append(
                FunctionChange(
                    name,
                    medians[0],
                    medians[1],
                    (medians[2], medians[3]),
                    change,
                    of,
                    tuple(i for i in inlined if i.label.function == name),
                )
            )
    found.sort(key=lambda f: (-abs(f.change.effect), -abs(f.change.mean), f.name))
    return SectionChange(
        cell,
        sides[0].section,
        (len(sides[0].ios), len(sides[1].ios)),
        (sides[0].missing, sides[1].missing),
        len(ios),
        middle[0],
        middle[1],
        change_of(totals[1] - totals[0]),
        tuple(found),
    )


def _inlined(sides: tuple[SectionParts, SectionParts], ios: Ints) -> list[InlinedChange]:
    """The inlined functions that differ, the largest first."""
    labels = list(dict.fromkeys((*sides[0].labels, *sides[1].labels)))
    counts = []
    for side in sides:
        mine = np.zeros((len(ios), len(labels)), np.int64)
        if side.inlined is not None and side.labels:
            columns = [labels.index(label) for label in side.labels]
            mine[:, columns] = side.inlined[np.searchsorted(side.ios, ios)]
        counts.append(mine)
    found = []
    for place, label in enumerate(labels if len(ios) else ()):
        before, after = (count[:, place] for count in counts)
        change = change_of(after - before)
        if change.common or abs(change.mean) >= _LEAST_MEAN:
            middle = float(np.median(before)), float(np.median(after))
            found.append(InlinedChange(label, *middle, change))
    return sorted(found, key=lambda i: (-abs(i.change.effect), i.label.chain))


def change_of(differences: Ints) -> Change:
    """The commonest of paired differences (the smaller one of equals), its share, and the mean."""
    if not len(differences):
        return Change(0, 0.0, 0.0)
    values, numbers = np.unique(differences, return_counts=True)
    order = np.lexsort((np.abs(values), -numbers))
    shares = numbers[order] / len(differences)
    second = (int(values[order[1]]), float(shares[1])) if len(order) > 1 else None
    return Change(int(values[order[0]]), float(shares[0]), float(differences.mean()), second)


def _columns(side: SectionParts, matrix: Ints, names: list[str], ios: Ints) -> Ints:
    """A side's matrix with the rows of those I/Os and a column for each name."""
    found = np.zeros((len(ios), len(names)), np.int64)
    place = {name: i for i, name in enumerate(names)}
    columns = [place[name] for name in side.functions]
    found[:, columns] = matrix[np.searchsorted(side.ios, ios)]
    return found


def _callers(side: SectionParts, tree: Tree, most: int = 3) -> Mapping[str, tuple[str, ...]]:
    """Who called each function, the most frequent first."""
    sums: dict[str, dict[str, int]] = {}
    for node in np.nonzero(side.entries)[0].tolist():
        caller = tree.function[tree.parent[node]]
        if caller:
            mine = sums.setdefault(tree.function[node], {})
            mine[caller] = mine.get(caller, 0) + int(side.entries[node])
    return {
        name: tuple(sorted(mine, key=lambda c: (-mine[c], c))[:most]) for name, mine in sums.items()
    }
