"""Cache lines that I/Os touch, and what they miss in the plugin's model of caches.

The model is tools/plugin/cache.h's. A line counts once for an I/O, and once for each function that
touches it; a miss counts each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotoll.explain.record import Ints, Record
from iotoll.explain.walk import Walk

DATA_LINES, CODE_LINES, L1D_MISSES, L1I_MISSES, L2_MISSES = range(5)
"""Columns of counts."""
COUNTS = 5

_CODE, _MISS_L1, _MISS_L2 = (np.uint64(1 << bit) for bit in range(3))
_CHUNK = 1 << 24  # runs that are summed at a time


@dataclass(frozen=True)
class TouchParts:
    """Counts of the I/Os of a section: ``total`` has shape (I/Os, COUNTS), ``by_function`` (I/Os,
    functions, COUNTS) with the functions of ``functions``."""

    functions: tuple[str, ...]
    total: Ints
    by_function: npt.NDArray[np.int32]


class TouchCounter:
    """Counts the touched lines of stretches of a walk; only of a record that has lines.

    ``function`` is the number of each stretch's function, below ``functions``.
    """

    def __init__(self, record: Record, walk: Walk, function: Ints, functions: int) -> None:
        assert record.lines is not None and record.touches is not None
        self._lines = record.lines
        self._function = function
        self._functions = functions
        first = int(walk.run[0]) if len(walk.run) else walk.end
        before = sum(
            int(record.touches[low : min(low + _CHUNK, first)].sum(dtype=np.int64))
            for low in range(0, first, _CHUNK)
        )
        own = np.cumsum(record.touches[first : walk.end], dtype=np.int64)
        places = np.concatenate([[0], own]) + before
        self._place = places[np.append(walk.run, walk.end) - first]

    def count(self, chosen: Ints) -> tuple[Ints, npt.NDArray[np.int32]]:
        """Counts of these stretches together, shape (COUNTS,), and by function."""
        begin, end = self._place[chosen], self._place[chosen + 1]
        sizes = end - begin
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        words = self._lines[np.repeat(begin, sizes) + within]
        function = np.repeat(self._function[chosen], sizes)
        lines, which = np.unique(words & ~(_MISS_L1 | _MISS_L2), return_inverse=True)
        total = np.zeros(COUNTS, np.int64)
        found = np.zeros((self._functions, COUNTS), np.int32)
        is_code = (lines & _CODE) != 0
        total[DATA_LINES], total[CODE_LINES] = int((~is_code).sum()), int(is_code.sum())
        pairs = np.unique(function * max(len(lines), 1) + which)
        owner, line = pairs // max(len(lines), 1), pairs % max(len(lines), 1)
        for column, mask in ((DATA_LINES, ~is_code), (CODE_LINES, is_code)):
            found[:, column] = np.bincount(owner[mask[line]], minlength=self._functions)
        code, missed = (words & _CODE) != 0, (words & _MISS_L1) != 0
        for column, mask in (
            (L1D_MISSES, missed & ~code),
            (L1I_MISSES, missed & code),
            (L2_MISSES, (words & _MISS_L2) != 0),
        ):
            found[:, column] = np.bincount(function[mask], minlength=self._functions)
            total[column] = int(mask.sum())
        return total, found


def stacked(
    names: Sequence[str], counts: Sequence[tuple[Ints, npt.NDArray[np.int32]]]
) -> TouchParts:
    """The counts of I/Os as one table, without the functions that touch nothing in any of them."""
    if not counts:
        nothing = np.zeros((0, 0, COUNTS), np.int32)
        return TouchParts((), np.zeros((0, COUNTS), np.int64), nothing)
    by_function = np.stack([found for _, found in counts])
    used = np.flatnonzero(by_function.any(axis=(0, 2)))
    return TouchParts(
        tuple(names[n] for n in used.tolist()),
        np.stack([total for total, _ in counts]),
        by_function[:, used],
    )
