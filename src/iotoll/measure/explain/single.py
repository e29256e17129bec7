"""Which single I/O of a cell is worth taking apart alone."""

from __future__ import annotations

import numpy as np

from iotoll.measure.explain.record import Ints
from iotoll.measure.io_order import GATE_COLUMNS
from iotoll.measure.iotable import IoTable, present


def slowest(table: IoTable) -> int:
    """The number of the I/O that took longest from call to return; the first of equals."""
    return int(np.argmax(table.duration))


def differing(base: IoTable, candidate: IoTable) -> int | None:
    """The first I/O with the commonest of the unusual differences between the sides.

    The usual difference is the one that most pairs have; None where all pairs have it.
    """
    pairs = min(len(base), len(candidate))
    values, place, counts = np.unique(
        _instructions(candidate)[:pairs] - _instructions(base)[:pairs],
        return_inverse=True,
        return_counts=True,
    )
    if len(values) < 2:
        return None
    usual = int(np.argmax(counts))
    others = [n for n in range(len(values)) if n != usual]
    wanted = max(others, key=lambda n: (counts[n], -abs(values[n] - values[usual])))
    return int(np.flatnonzero(place == wanted)[0])


def _instructions(table: IoTable) -> Ints:
    """Instructions of each I/O in all sections that the gate judges; shape (I/Os,)."""
    total = np.zeros(len(table), np.int64)
    for name in GATE_COLUMNS.values():
        column = table.get(name)
        if column is not None:
            total += np.where(present(column), np.ma.getdata(column), 0).astype(np.int64)
    return total
