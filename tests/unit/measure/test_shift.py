"""The statistic of the gate: a spectrum moved by N is found as N, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotoll.measure.shift import REACH, measure_shift

TOLERANCE = 12
WANDER = 4  # peaks wander by about so much between boots


def draw(peaks: Sequence[int], weights: Sequence[float], seed: int, count: int = 256) -> list[int]:
    """Counts of ``count`` I/Os that hit the peaks as often as the weights say."""
    chances = np.asarray(weights) / sum(weights)
    return list(np.random.default_rng(seed).choice(peaks, size=count, p=chances))


@st.composite
def spectra(draw_from: st.DrawFn) -> tuple[list[int], list[float]]:
    """Peaks at irregular distances, so that no peak can be taken for another, and weights."""
    gaps = draw_from(st.lists(st.integers(40, 500), min_size=2, max_size=8, unique=True))
    start = draw_from(st.integers(1500, 9000))
    peaks = [start, *(start + int(gap) for gap in np.cumsum(gaps))]
    weights = [draw_from(st.floats(0.2, 1.0)) for _ in peaks]
    return peaks, weights


beyond = st.integers(TOLERANCE + WANDER + 1, REACH - WANDER) | st.integers(
    -REACH + WANDER, -TOLERANCE - WANDER - 1
)


@given(spectra(), beyond, st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_same_io_moved_is_found_exactly(
    shape: tuple[list[int], list[float]], moved: int, seed: int
) -> None:
    base = draw(*shape, seed)
    shift = measure_shift(base, [count + moved for count in base], TOLERANCE)
    assert shift.delta == moved
    assert shift.overlap > 0.98


@given(spectra(), beyond, st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_another_draw_moved_is_found(
    shape: tuple[list[int], list[float]], moved: int, seed: int
) -> None:
    base, other = draw(*shape, seed), draw(*shape, seed + 1)
    shift = measure_shift(base, [count + moved for count in other], TOLERANCE)
    assert abs(shift.delta - moved) <= 1


@given(spectra(), st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_another_draw_is_not_a_move(shape: tuple[list[int], list[float]], seed: int) -> None:
    shift = measure_shift(draw(*shape, seed), draw(*shape, seed + 1), TOLERANCE)
    assert abs(shift.delta) <= 1
    assert shift.overlap_still > 0.9


def test_weights_the_other_way_round_do_not_move_the_comb() -> None:
    peaks = [5000, 5070, 5310, 5333]
    before = draw(peaks, [8, 1, 1, 4], 1)
    after = draw(peaks, [1, 6, 6, 1], 2)
    assert abs(np.mean(after) - np.mean(before)) > 40
    shift = measure_shift(before, after, TOLERANCE)
    assert abs(shift.delta) <= TOLERANCE
    assert shift.overlap_still == pytest.approx(shift.overlap, abs=0.05)


@given(st.lists(st.integers(0, 20000), min_size=1, max_size=300))
@settings(deadline=None, max_examples=50)
def test_identical_counts_have_not_moved(counts: list[int]) -> None:
    shift = measure_shift(counts, counts, TOLERANCE)
    assert shift.delta == 0
    assert shift.overlap == shift.overlap_still


@given(st.lists(st.integers(0, 9000), min_size=1), st.lists(st.integers(0, 9000), min_size=1))
@settings(deadline=None, max_examples=50)
def test_overlaps_are_shares_and_the_best_is_the_best(base: list[int], other: list[int]) -> None:
    shift = measure_shift(base, other, TOLERANCE)
    assert 0 <= shift.overlap_still <= shift.overlap <= 1
    assert -REACH <= shift.delta <= REACH


def test_outliers_do_not_matter() -> None:
    base = draw([4000, 4180, 4777], [5, 3, 2], 3)
    other = [count + 50 for count in base]
    other[::20] = [10**7] * len(other[::20])
    assert measure_shift(base, other, TOLERANCE).delta == 50
