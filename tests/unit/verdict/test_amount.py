"""Means of what the I/Os share: exact, whatever a timer adds to some of them."""

from __future__ import annotations

import numpy as np
import pytest

from iotoll.verdict.amount import amount, rounded


def differences(nth: int, size: int, every: int = 0) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    line = np.full(256, every)
    line[::nth] += size
    return line


@pytest.mark.parametrize(
    ("nth", "size", "every", "mean"),
    [(1, 40, 0, 40.0), (16, 305, 4, 23.0625), (16, 305, 0, 19.0625), (8, -115, 0, -14.375)],
)
@pytest.mark.parametrize("hit", [0, 1, 8, 33])
def test_g3_1_a_timer_does_not_change_the_mean(
    nth: int, size: int, every: int, mean: float, hit: int
) -> None:
    """It meets I/O ``hit`` in one kernel and I/O 100 in the other."""
    line = differences(nth, size, every)
    line[hit] += 790
    line[100] -= 790
    assert amount(line, 4).mean == pytest.approx(mean)


def test_g3_1_what_some_ios_have_is_said() -> None:
    assert amount(differences(16, 305), 4).some == "+305 in 6% of the I/Os"
    assert amount(differences(16, 305, 4), 4).some == "+4 in 94%, +309 in 6% of the I/Os"
    assert amount(differences(1, 40), 4).some == ""


def test_sizes_that_no_two_ios_share_count_without_the_far_ones() -> None:
    line = np.zeros(256, np.int64)
    line[::16] = 300 + np.arange(16)
    line[5] = 30_000
    assert amount(line, 4).mean == pytest.approx(sum(range(300, 316)) / 256)


@pytest.mark.parametrize(
    ("value", "expected"), [(0.04, 0.04), (-0.013, -0.01), (0.06, 0.1), (0.0, 0.0), (12.34, 12.3)]
)
def test_a_cost_is_not_rounded_to_none(value: float, expected: float) -> None:
    """+0 register reads per request were told of a cost in every 25th."""
    assert rounded(value, 1) == expected
