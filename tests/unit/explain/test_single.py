"""The I/Os that ``--slowest`` and ``--differs`` choose."""

from __future__ import annotations

import numpy as np

from iotoll.explain.explainer import differing, slowest
from iotoll.measure.iotable import IoTable


def table(counts: list[int], ends: list[int] | None = None) -> IoTable:
    start = np.arange(len(counts), dtype=np.int64) * 1000
    columns = {
        "start": start,
        "elapsed_submission": np.array(ends or counts, np.int64),
        "first_submission": np.ma.array(np.array(counts, np.int64)),
    }
    return IoTable(columns, len(counts))


def test_the_slowest_io_is_the_longest_from_call_to_return() -> None:
    assert slowest(table([5, 5, 5, 5], [10, 90, 90, 20])) == 1


def test_the_commonest_unusual_difference_is_chosen() -> None:
    base = table([100] * 8)
    candidate = table([110, 431, 110, 110, 90, 431, 110, 110])
    assert differing(base, candidate) == 1, "+331 in two I/Os, -10 in one"
    assert differing(base, table([110] * 8)) is None
