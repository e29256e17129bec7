"""Cache lines and misses of base beside candidate, I/O by I/O, as the record has them."""

from __future__ import annotations

import numpy as np

from iotoll.explain.attribute import CellParts, SectionParts
from iotoll.explain.compare import change_of
from iotoll.explain.record import Ints
from iotoll.explain.touches import (
    CODE_LINES,
    COUNTS,
    DATA_LINES,
    L1D_MISSES,
    L1I_MISSES,
    L2_MISSES,
    TouchParts,
)
from iotoll.records.models import CacheFunction, CacheSection, Difference, Section

_LEAST_MEAN = 0.05
"""Lines or misses per I/O below which a function that usually has no difference is not listed."""

_COLUMNS = {
    "data_lines": DATA_LINES,
    "code_lines": CODE_LINES,
    "l1d_misses": L1D_MISSES,
    "l1i_misses": L1I_MISSES,
    "l2_misses": L2_MISSES,
}


def compare_touches(base: CellParts, candidate: CellParts) -> list[CacheSection]:
    """The sections that both sides have, in the order of the path."""
    found = []
    for section in Section:
        sides = [parts.sections.get(section) for parts in (base, candidate)]
        if sides[0] is not None and sides[1] is not None:
            change = _compare(base.cell, (sides[0], sides[1]))
            found += [change] if change else []
    return found


def _compare(cell: str, sides: tuple[SectionParts, SectionParts]) -> CacheSection | None:
    ios = np.intersect1d(sides[0].ios, sides[1].ios)
    if not len(ios) or sides[0].touches is None or sides[1].touches is None:
        return None
    rows = [np.searchsorted(side.ios, ios) for side in sides]
    touches = sides[0].touches, sides[1].touches
    names = sorted({*touches[0].functions, *touches[1].functions})
    pairs = [_rows(parts, row, names) for parts, row in zip(touches, rows, strict=True)]
    functions = []
    for place, name in enumerate(names):
        counts = _counts(*(pair[:, place] for pair in pairs))
        if any(one.delta or abs(one.mean) >= _LEAST_MEAN for one in counts.values()):
            functions.append(CacheFunction(name=name, **counts))
    functions.sort(key=lambda f: (-_size(f), f.name))
    total = _counts(*(parts.total[row] for parts, row in zip(touches, rows, strict=True)))
    return CacheSection(
        cell=cell, section=sides[0].section, paired=len(ios), functions=functions, **total
    )


def _rows(parts: TouchParts, rows: Ints, names: list[str]) -> Ints:
    """Counts by function, shape (I/Os, names, COUNTS), with a place for each of the names."""
    found = np.zeros((len(rows), len(names), COUNTS), np.int64)
    place = {name: n for n, name in enumerate(names)}
    found[:, [place[name] for name in parts.functions]] = parts.by_function[rows]
    return found


def _counts(base: Ints, candidate: Ints) -> dict[str, Difference]:
    """The differences of counts with shape (I/Os, COUNTS)."""
    return {name: _difference(base[:, n], candidate[:, n]) for name, n in _COLUMNS.items()}


def _difference(base: Ints, candidate: Ints) -> Difference:
    change = change_of(candidate - base)
    return Difference(
        base=float(np.median(base)),
        candidate=float(np.median(candidate)),
        delta=change.common,
        share=round(change.share, 4),
        mean=round(change.mean, 3),
    )


def _size(function: CacheFunction) -> float:
    """How much a function differs: lines and misses of all kinds."""
    return sum((abs(getattr(function, name).effect) for name in _COLUMNS), 0.0)
