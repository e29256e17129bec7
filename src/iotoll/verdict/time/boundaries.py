"""How sure a look must be: group-sequential boundaries by numerical integration.

A test that is looked at several times must ask for more each time than one that is looked at once.
Lan and DeMets (1983) let the error that may be spent by a look follow any non-decreasing function
of the information so far; the boundary of each look is then the one that spends just that much.
The probability of crossing at a look for the first time is a chain of one-dimensional integrals
over the part that has not crossed yet (Armitage, McPherson and Rowe 1969), here by Simpson's rule
as in Jennison and Turnbull, "Group Sequential Methods" (2000), chapter 19.

Variances are estimated, so the boundaries are used as nominal levels of a t distribution
(Jennison and Turnbull 2000, section 3.8), not as quantiles of the normal one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

Floats = NDArray[np.float64]

REACH = 9.0
"""Standard errors on either side that are integrated over; beyond lies less than 1e-18."""

POINTS = 401
"""Points of the grid: 0.045 standard errors apart: z values are then right to 1e-6."""


def obrien_fleming(alpha: float, fraction: float) -> float:
    """Error spent at an information fraction, much like O'Brien and Fleming (Lan, DeMets 1983)."""
    if fraction <= 0:
        return 0.0
    return float(2 * norm.sf(norm.isf(alpha / 2) / np.sqrt(min(fraction, 1.0))))


def pocock(alpha: float, fraction: float) -> float:
    """Error spent at an information fraction, much like Pocock (Lan and DeMets 1983)."""
    return float(alpha * np.log1p((np.e - 1) * min(max(fraction, 0.0), 1.0)))


def critical_values(
    information: Sequence[float], spent: Sequence[float], two_sided: bool = False
) -> list[float]:
    """The boundary of each look as a z value, of which a larger one crosses.

    ``information`` (any unit, increasing) and ``spent`` (error spent up to that look, shares of 1,
    not decreasing) have one entry a look. A look that spends nothing has the boundary infinity.
    Two-sided, ``spent`` counts both sides and the boundary is symmetric.
    """
    return list(_critical_values(tuple(information), tuple(spent), two_sided))


@cache
def _critical_values(
    information: tuple[float, ...], spent: tuple[float, ...], two_sided: bool
) -> tuple[float, ...]:
    found: list[float] = []
    walk = _Walk(two_sided)
    before = 0.0
    for at, total in zip(information, spent, strict=True):
        found.append(walk.step(at, total - before))
        before = total
    return tuple(found)


def crossing(
    information: Sequence[float],
    critical: Sequence[float],
    drift: float = 0.0,
    two_sided: bool = False,
) -> list[float]:
    """The probability that each look is the first to cross its boundary.

    ``drift`` is the true effect in standard deviations of one unit of information.
    """
    walk = _Walk(two_sided, drift)
    return [walk.cross(at, value) for at, value in zip(information, critical, strict=True)]


class _Walk:
    """The density of the score (z times the root of information) that has not crossed yet."""

    def __init__(self, two_sided: bool, drift: float = 0.0) -> None:
        self.two_sided = two_sided
        self.drift = drift
        self.information = 0.0
        self.grid: Floats = np.zeros(1)
        self.mass: Floats = np.ones(1)  # density times Simpson's weights

    def step(self, information: float, spend: float) -> float:
        """Go to a look and return the boundary that spends just ``spend`` there."""
        if spend <= 0:
            self._move(information, np.inf)
            return float("inf")
        width = np.sqrt(information)

        def excess(z: float) -> float:
            return self._beyond(information, z * width) - spend

        low = 0.0 if self.two_sided else -REACH
        z = float(brentq(excess, low, 40.0, xtol=1e-10, rtol=1e-12))
        self._move(information, z * width)
        return z

    def cross(self, information: float, z: float) -> float:
        """Go to a look with a known boundary and return the probability of crossing it there."""
        limit = z * np.sqrt(information)
        chance = self._beyond(information, limit)
        self._move(information, limit)
        return chance

    def _beyond(self, information: float, limit: float) -> float:
        gained = information - self.information
        centre, width = self.grid + self.drift * gained, np.sqrt(gained)
        chance = norm.sf((limit - centre) / width)
        if self.two_sided:
            chance = chance + norm.cdf((-limit - centre) / width)
        return float(self.mass @ chance)

    def _move(self, information: float, limit: float) -> None:
        gained, width = information - self.information, np.sqrt(information)
        middle = self.drift * information
        high = min(limit, middle + REACH * width)
        low = -high if self.two_sided else middle - REACH * width
        grid = np.linspace(low, high, POINTS)
        steps = (grid[:, None] - self.grid - self.drift * gained) / np.sqrt(gained)
        density = norm.pdf(steps) @ self.mass / np.sqrt(gained)
        self.grid, self.information = grid, information
        self.mass = density * _simpson(high - low)


def _simpson(length: float) -> Floats:
    weights = np.full(POINTS, 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    return weights * length / (3 * (POINTS - 1))
