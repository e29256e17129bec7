"""Moderated variances: what history may add, and when it may not."""

from __future__ import annotations

import numpy as np
import pytest

from iotoll.verdict.time.variance import moderate

RNG = np.random.default_rng(11)


def pairs(sigma: float | np.ndarray, n: int = 4, figures: int = 60) -> np.ndarray:
    return np.asarray(RNG.normal(0, 1, (n, figures)) * sigma)


def test_without_history_it_is_student() -> None:
    ratios = pairs(0.01, n=6)
    found = moderate(ratios, np.ones((1, 60)), np.zeros(60))
    assert found.mean == pytest.approx(ratios.mean(axis=0))
    assert found.error == pytest.approx(ratios.std(axis=0, ddof=1) / np.sqrt(6))
    assert (found.freedom == 5).all()


def test_a_history_that_holds_is_worth_its_pairs() -> None:
    found = moderate(pairs(0.01, figures=4000), np.full((1, 4000), 1e-4), np.full(4000, 30.0))
    near = found.freedom[~found.alone]
    assert (near > 20).all() and (near <= 33).all()
    assert found.alone.mean() < 0.005, "chance alone sets 1 in 1000 apart"
    assert found.deviation.mean() == pytest.approx(0.01, rel=0.05)
    assert float(found.deviation.std()) < 0.002, "three pairs alone would scatter by 0.004"


def test_a_noisy_day_inflates_history() -> None:
    found = moderate(pairs(0.03), np.full((1, 60), 1e-4), np.full(60, 30.0))
    assert found.inflation == pytest.approx(9, rel=0.5)
    assert found.deviation.mean() == pytest.approx(0.03, rel=0.2)


def test_a_quiet_day_is_not_believed() -> None:
    found = moderate(pairs(0.003), np.full((1, 60), 1e-4), np.full(60, 30.0))
    assert found.inflation == 1.0
    assert found.deviation.mean() > 0.008


def test_a_single_noisy_figure_stands_alone() -> None:
    sigma = np.full(60, 0.01)
    sigma[7] = 0.2
    found = moderate(pairs(sigma, n=8), np.full((1, 60), 1e-4), np.full(60, 30.0))
    assert found.alone[7]
    assert found.freedom[7] == 7
    assert found.alone.sum() == 1


def test_an_outlier_is_drawn_in_alike_on_both_sides() -> None:
    calm = pairs(0.01, n=6)
    calm[2, 5] = 0.5
    history, known = np.full((1, 60), 1e-4), np.full(60, 30.0)
    up, down = moderate(calm, history, known), moderate(-calm, history, known)
    assert up.mean[5] < 0.02, "the mean of the pairs is above 0.08"
    assert up.mean == pytest.approx(-down.mean)
    assert up.error == pytest.approx(down.error)


def test_pairs_of_a_noisier_board_weigh_less() -> None:
    ratios = np.array([[0.00], [0.00], [0.10], [0.10]])
    history = np.array([[1.0], [1.0], [9.0], [9.0]])
    found = moderate(ratios, history, np.zeros(1))
    assert found.mean[0] == pytest.approx(0.01)


def test_values_that_are_not_there() -> None:
    ratios = np.array([[1.0, np.nan, np.nan], [2.0, 5.0, np.nan], [3.0, np.nan, np.nan]])
    found = moderate(ratios, np.ones((1, 3)), np.zeros(3))
    assert found.pairs.tolist() == [3, 1, 0]
    assert found.mean[0] == 2.0 and np.isnan(found.mean[2])
    assert np.isinf(found.error[1:]).all()


def test_many_requests_are_judged_as_one_by_one() -> None:
    ratios = RNG.normal(0, 0.01, (5, 4, 20))
    history, known = np.full((5, 1, 20), 1e-4), np.full((5, 20), 20.0)
    together = moderate(ratios, history, known)
    for k in range(5):
        single = moderate(ratios[k], history[k], known[k])
        assert together.error[k] == pytest.approx(single.error)
        assert together.freedom[k] == pytest.approx(single.freedom)
