"""The boundaries against published tables: Jennison and Turnbull (2000), Lan and DeMets (1983)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from iotoll.verdict.time.boundaries import critical_values, crossing, obrien_fleming, pocock

POCOCK = {  # Jennison and Turnbull 2000, table 2.1: C_P(K, alpha)
    (2, 0.05): 2.178,
    (3, 0.05): 2.289,
    (5, 0.05): 2.413,
    (10, 0.05): 2.555,
    (5, 0.01): 2.986,
    (5, 0.10): 2.122,
}
OBRIEN_FLEMING = {  # the same, table 2.3: C_B(K, alpha)
    (2, 0.05): 1.977,
    (3, 0.05): 2.004,
    (5, 0.05): 2.040,
    (10, 0.05): 2.087,
    (5, 0.01): 2.621,
    (5, 0.10): 1.751,
}


def constant(shape: Callable[[float], Sequence[float]], looks: int, alpha: float) -> float:
    """The constant with which two-sided boundaries of a shape spend alpha in all."""

    def excess(value: float) -> float:
        return sum(crossing(range(1, looks + 1), shape(value), two_sided=True)) - alpha

    return float(brentq(excess, 1.0, 5.0, xtol=1e-7))


@pytest.mark.parametrize(("looks", "alpha"), POCOCK)
def test_pocock_constants(looks: int, alpha: float) -> None:
    found = constant(lambda c: [c] * looks, looks, alpha)
    assert found == pytest.approx(POCOCK[looks, alpha], abs=6e-4)


@pytest.mark.parametrize(("looks", "alpha"), OBRIEN_FLEMING)
def test_obrien_fleming_constants(looks: int, alpha: float) -> None:
    found = constant(
        lambda c: [c * float(np.sqrt(looks / k)) for k in range(1, looks + 1)], looks, alpha
    )
    assert found == pytest.approx(OBRIEN_FLEMING[looks, alpha], abs=6e-4)


def test_lan_demets_spending() -> None:
    """Five equal looks, 0.05 two-sided, as the program of Reboussin et al. (2000) prints them."""
    fractions = [0.2, 0.4, 0.6, 0.8, 1.0]
    spent = [2 * obrien_fleming(0.025, t) for t in fractions]
    found = critical_values(fractions, spent, two_sided=True)
    assert found == pytest.approx([4.8769, 3.3569, 2.6803, 2.2898, 2.0310], abs=2e-3)
    found = critical_values(fractions, [pocock(0.05, t) for t in fractions], two_sided=True)
    assert found == pytest.approx([2.4380, 2.4268, 2.4101, 2.3966, 2.3859], abs=2e-3)


def test_boundaries_spend_what_they_are_told() -> None:
    looks = [3, 4, 6, 8, 12, 16]
    spent = [1e-6 * share for share in (0.0, 0.1, 0.2, 0.5, 0.7, 1.0)]
    found = critical_values(looks, spent)
    assert found[0] == np.inf
    chances = crossing(looks, found)
    assert np.cumsum(chances) == pytest.approx(spent, rel=1e-6, abs=1e-15)


def test_one_look_is_an_ordinary_test() -> None:
    (found,) = critical_values([7], [0.01])
    assert found == pytest.approx(norm.isf(0.01), abs=1e-8)


def test_against_simulated_walks() -> None:
    looks, drift = np.array([3, 4, 6, 8, 12, 16]), 0.5
    critical = critical_values(list(looks), [0.05 * n / 16 for n in looks])
    steps = np.random.default_rng(7).normal(drift, 1, (200_000, 16))
    z = np.cumsum(steps, axis=1)[:, looks - 1] / np.sqrt(looks)
    over = z > critical
    first = np.where(over.any(axis=1), over.argmax(axis=1), -1)
    seen = [float((first == k).mean()) for k in range(len(looks))]
    assert crossing(list(looks), critical, drift) == pytest.approx(seen, abs=4e-3)
