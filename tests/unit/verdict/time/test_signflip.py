"""The exact test: against all data sets by hand, and against what it promises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from iotoll.verdict.time.levels import pairs_needed
from iotoll.verdict.time.signflip import confirm


def test_one_figure_by_hand() -> None:
    """Of 2^5 sign flips, those that reach the sum of 5, 4, 3, 2, -1 are two."""
    ratios = np.array([[5.0], [4.0], [3.0], [2.0], [-1.0]])
    found = confirm(ratios, np.ones((1, 1)), np.zeros(1))
    assert found[0] == 2 / 32


def test_as_slow_as_it_can_be_told() -> None:
    """The closed form against the definition, for several figures at once."""
    rng = np.random.default_rng(2)
    ratios = rng.normal(0.4, 1.0, (6, 4))
    found = confirm(ratios, np.ones((1, 4)), np.ones(4))
    size = np.sort(abs(ratios), axis=0)[3]
    drawn = np.clip(ratios, -2.5 * 1.4826 * size, 2.5 * 1.4826 * size)
    scale = np.median((drawn**2).mean(axis=0))

    def statistic(data: np.ndarray) -> np.ndarray:
        variance = (scale + data.var(axis=0, ddof=1)) / 2
        return np.asarray(data.mean(axis=0) / np.sqrt(variance / len(data)))

    flips = [
        statistic(drawn * np.array(s)[:, None]).max() for s in itertools.product((1, -1), repeat=6)
    ]
    expected = [(np.array(flips) >= value - 1e-6).mean() for value in statistic(drawn)]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["normal", "cauchy"])
def test_never_more_often_than_promised(kind: str) -> None:
    """Figures that hang together, of any distribution: the smallest p value is no smaller."""
    rng = np.random.default_rng(5)
    smallest = []
    for _ in range(600):
        draw = rng.normal if kind == "normal" else lambda a, b, s: rng.standard_cauchy(s)
        ratios = draw(0, 1, (7, 12)) + 2 * rng.normal(0, 1, (7, 1))
        smallest.append(confirm(ratios, np.ones((1, 12)), np.ones(12)).min())
    for level in (0.02, 0.1, 0.3):
        share = (np.array(smallest) <= level).mean()
        assert share <= level + 3 * np.sqrt(level / 600), (level, share)


def test_history_changes_what_is_compared_not_what_is_promised() -> None:
    rng = np.random.default_rng(6)
    scale = np.geomspace(0.01, 1, 8)
    ratios = rng.normal(0, 1, (10, 8)) * scale
    ratios[:, 0] += 0.025
    known = confirm(ratios, scale[None] ** 2, np.full(8, 30.0))
    assert known[0] == 1 / 1024
    assert (known[1:] > 0.01).all()


def test_missing_pairs_and_unasked_figures() -> None:
    ratios = np.array([[1.0, np.nan], [2.0, np.nan], [3.0, np.nan], [1.5, 1.0]])
    found = confirm(ratios, np.ones((1, 2)), np.zeros(2))
    assert found[0] == 1 / 16
    assert found[1] == 1.0
    assert np.isnan(confirm(ratios, np.ones((1, 2)), np.zeros(2), np.array([True, False]))[1])


def test_pairs_needed() -> None:
    assert [pairs_needed(p) for p in (0.5, 0.1, 0.01, 0.001, 0.0005)] == [1, 4, 7, 10, 11]


def test_too_many_pairs_is_refused() -> None:
    with pytest.raises(ValueError, match="too many sign flips"):
        confirm(np.zeros((21, 1)), np.ones((1, 1)), np.zeros(1))
