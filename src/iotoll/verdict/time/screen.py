"""Which values are not part of the estimate: slow boots, and boards that are noisy today.

Some boots are slow as a whole, and a board of several may be bad for a day. Both show in all
figures of a pair at once, so a pair is measured by the *size* of its log ratios: the median over
its figures, in standard deviations of their history. A pair more than `ASIDE` times as large as
usual is set aside, and another one is run for it; of a board whose middle pair is, all are. A boot
may be slow in a single cell: its figures move together, and are set aside together.

Sizes have no sign. To swap the two boots of a pair changes none of them, so what is set aside is
the same in every data set of the exact test (`signflip`), which stays exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

ASIDE = 3.0
"""A pair this many times as large as the usual one is set aside."""

CELL = 3.0
"""So many standard deviations (of today) above its usual size, a cell of a pair is set aside."""

HALF_NORMAL = 0.6745
"""The median size of a standard normal variable."""


@dataclass(frozen=True)
class Aside:
    """What is set aside; arrays of shape (requests, pairs), ``cells`` (requests, pairs, cells).

    ``aside`` are all pairs that are, ``board`` those whose board is left out, and ``slow`` those of
    one slow boot: their figures moved together. ``cells`` are cells of other pairs. ``size`` is a
    pair's size over the usual one.
    """

    aside: Flags
    board: Flags
    slow: Flags
    cells: Flags
    size: Floats

    def figures(self, figures: int) -> Flags:
        """Which values are set aside, shape (requests, pairs, figures)."""
        return np.asarray(self.aside[..., None] | self.moved(figures))

    def moved(self, figures: int) -> Flags:
        """The same of cells alone."""
        return self.cells.repeat(figures // self.cells.shape[2], axis=2)


def screen(
    ratios: Floats, history: Floats, known: Floats, boards: NDArray[np.int64], cells: int
) -> Aside:
    """Find what to set aside; without any history there is nothing.

    ``ratios`` are log ratios, shape (requests, pairs, figures), NaN where one is not valid;
    ``history`` (requests, pairs or 1, figures) the variance of a pair beforehand, ``known``
    (requests, figures) its degrees of freedom, and ``boards`` (requests, pairs) each pair's board.
    """
    with np.errstate(invalid="ignore"):
        sizes = np.where((known > 0)[:, None], ratios / np.sqrt(history), np.nan)
    size, middle = _median(np.abs(sizes)), np.abs(_median(sizes))
    usual = np.full(len(size), np.inf)
    of_board = np.full((len(size), int(boards.max(initial=0)) + 1), np.nan)
    for board in range(of_board.shape[1]):
        of_board[:, board] = _median(np.where(boards == board, size, np.nan))
    there = (~np.isnan(of_board)).sum(axis=1)
    ordered = np.sort(of_board, axis=1)  # NaN last
    some = there > 0
    usual[some] = ordered[some, (there[some] - 1) // 2]
    relative = np.nan_to_num(size / np.maximum(usual, HALF_NORMAL)[:, None], nan=0.0)
    far = relative > ASIDE
    board_bad = np.zeros_like(far)
    for board in range(of_board.shape[1]):
        own = boards == board
        bad = of_board[:, board] > ASIDE * np.maximum(usual, HALF_NORMAL)
        board_bad |= own & (bad & (own.sum(axis=1) >= 2) & (there > 1))[:, None]
    slow = far & ~board_bad & (middle > size / 2)
    aside = far | board_bad
    sizes = np.where(aside[..., None], np.nan, sizes)
    return Aside(aside, board_bad, slow, _slow_cells(sizes, cells), relative)


def _slow_cells(sizes: Floats, cells: int) -> Flags:
    """Cells of a pair far larger than is usual for them, shape (requests, pairs, cells)."""
    requests, pairs, figures = sizes.shape
    size = _median(np.abs(sizes).reshape(requests, pairs, cells, figures // cells))
    usual = np.maximum(_median(size.swapaxes(1, 2)), HALF_NORMAL)
    level = np.maximum(_median(usual) / HALF_NORMAL, 1.0)
    far = size > (usual + CELL * np.nan_to_num(level, nan=1.0)[:, None])[:, None]
    return np.asarray(far & ~np.isnan(size))


def _median(values: Floats) -> Floats:
    """The median over the last axis of what is not NaN; NaN where nothing is."""
    count = (~np.isnan(values)).sum(axis=-1, keepdims=True)
    ordered = np.sort(values, axis=-1)
    low = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=-1)
    high = np.take_along_axis(ordered, np.minimum(count // 2, values.shape[-1] - 1), axis=-1)
    return np.asarray(((low + high) / 2)[..., 0])
