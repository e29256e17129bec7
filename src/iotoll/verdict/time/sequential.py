"""Interim analyses: does a value grow, does none, or are more pairs needed?

At each look (after 3, 4, 6, 8, 12 and 16 pairs of boots) two questions are asked of every figure
(a section, or the software overhead, of one cell):

- is "it grew by no more than ``tolerated``" rejected? Then there is an *alarm*;
- is "it grew by ``unacceptable`` or more" rejected? Then it is *within*.

All within, and no alarm: pass. An alarm goes on to the pairs that its exact confirmation
(`signflip`) needs, and is a regression when that confirms it. Neither after the last look:
inconclusive.

Errors are controlled over a whole merge request: alarms over all figures and looks by alpha
spending and Bonferroni, passes by beta spending (that one figure which grew ``unacceptable`` is
enough to stop a pass needs no correction: an intersection-union test, Berger 1982), and
confirmations over all figures and the looks that confirm.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student

from iotoll.verdict.policy import TimePolicy
from iotoll.verdict.time.boundaries import critical_values, obrien_fleming, pocock
from iotoll.verdict.time.levels import confirm_levels
from iotoll.verdict.time.signflip import confirm
from iotoll.verdict.time.variance import Moderated, moderate

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SPENDING = {"obrien-fleming": obrien_fleming, "pocock": pocock}


class State(IntEnum):
    """What a merge request's pairs say so far."""

    OPEN = 0
    PASS = 1
    REGRESSION = 2
    INCONCLUSIVE = 3


@dataclass(frozen=True)
class Plan:
    """The rules of a run, before it begins. Errors are probabilities, growths log ratios.

    ``tolerated`` and ``unacceptable`` have one value a figure. ``alarm_error`` is the chance of an
    alarm where nothing grew by more than ``tolerated``; ``block_error`` of a confirmed one where
    nothing changed; ``pass_error`` of a pass where a figure grew by ``unacceptable``.
    ``pass_spending`` is the share of it spent up to each look.
    """

    looks: tuple[int, ...]
    tolerated: Floats
    unacceptable: Floats
    alarm_error: float
    block_error: float
    pass_error: float
    pass_spending: tuple[float, ...]
    alarm_spending: Literal["obrien-fleming", "pocock"] = "obrien-fleming"

    @cached_property
    def alarm_levels(self) -> list[float]:
        """The nominal level of each look for one figure's alarm."""
        error = self.alarm_error / len(self.tolerated)
        last = self.looks[-1]
        spent = [SPENDING[self.alarm_spending](error, n / last) for n in self.looks]
        return [float(norm.sf(z)) for z in critical_values(self.looks, spent)]

    @cached_property
    def pass_levels(self) -> list[float]:
        """The nominal level of each look for one figure to be within."""
        spent = [self.pass_error * share for share in self.pass_spending]
        return [float(norm.sf(z)) for z in critical_values(self.looks, spent)]

    @cached_property
    def confirm_levels(self) -> dict[int, float]:
        """The looks that can confirm, with the p value that each must reach."""
        return confirm_levels(self.looks, self.block_error)


def plan_of(policy: TimePolicy, cells: int) -> Plan:
    """A policy's rules for that many cells; figures go cell by cell, in the policy's order."""
    rules = list(policy.figures.values()) * cells
    return Plan(
        looks=tuple(policy.looks),
        tolerated=np.log1p([rule.tolerated for rule in rules]),
        unacceptable=np.log1p([rule.unacceptable for rule in rules]),
        alarm_error=policy.alarm_error,
        block_error=policy.block_error,
        pass_error=policy.pass_error,
        pass_spending=tuple(policy.pass_spending),
        alarm_spending=policy.alarm_spending,
    )


@dataclass(frozen=True)
class Look:
    """One look at some merge requests; arrays of shape (requests, figures).

    ``low`` and ``high`` bound the growth: an alarm is a ``low`` above what is tolerated, within a
    ``high`` below what is unacceptable. ``improved`` is an alarm the other way round.
    """

    pairs: int
    estimate: Moderated
    low: Floats
    high: Floats
    alarm: Flags
    within: Flags
    improved: Flags


def look_at(ratios: Floats, history: Floats, known: Floats, plan: Plan, index: int) -> Look:
    """Look for the ``index``-th time; shapes as in `judge`, with that look's pairs only."""
    found = moderate(ratios, history, known)
    freedom = np.maximum(found.freedom, 1.0)
    sure = np.where(found.pairs >= 2, found.error, np.inf)
    sure = np.where(np.isnan(found.mean), np.inf, sure)
    mean = np.nan_to_num(found.mean)
    reach = student.isf(plan.alarm_levels[index], freedom) * sure
    low, most = mean - reach, mean + reach
    high = mean + student.isf(plan.pass_levels[index], freedom) * sure
    return Look(
        plan.looks[index],
        found,
        low,
        high,
        low > plan.tolerated,
        high < plan.unacceptable,
        most < -plan.tolerated,
    )


@dataclass(frozen=True)
class Judged:
    """What `judge` says of each request: shape (requests,), or (requests, figures).

    ``pairs`` is how many were looked at, ``wanted`` how many the next look needs (0 when decided),
    ``alarmed`` which figures ever raised an alarm, ``grew`` which of them were confirmed.
    """

    state: NDArray[np.int64]
    pairs: NDArray[np.int64]
    wanted: NDArray[np.int64]
    alarmed: Flags
    grew: Flags
    exact: Floats


def judge(ratios: Floats, history: Floats, known: Floats, plan: Plan) -> Judged:
    """Judge merge requests by their pairs so far, at each interim analysis, up to the decision.

    ``ratios`` (requests, pairs, figures): log of candidate over base, NaN where one is not valid.
    ``history`` (requests, pairs or 1, figures) and ``known`` (requests, figures): the variance of a
    pair on its board beforehand, and its degrees of freedom. Later pairs than a decision needs are
    not looked at, so a run that is judged again says the same.
    """
    requests, have, figures = ratios.shape
    state = np.zeros(requests, np.int64)
    pairs, wanted = np.zeros(requests, np.int64), np.full(requests, plan.looks[0])
    alarmed, grew = np.zeros((2, requests, figures), np.bool_)
    exact = np.full((requests, figures), np.nan)
    for index, n in enumerate(plan.looks):
        if n > have:
            break
        rows = np.flatnonzero((state == State.OPEN) & (wanted == n))
        if not len(rows):
            continue
        part, before = ratios[rows, :n], history[rows, : n if history.shape[1] > 1 else 1]
        look = look_at(part, before, known[rows], plan, index)
        alarmed[rows] |= look.alarm
        alert: Flags = np.asarray(alarmed[rows].any(axis=1))
        last = n == plan.looks[-1]
        if n in plan.confirm_levels:
            for at in np.flatnonzero(alert):
                row = rows[at]
                exact[row] = confirm(part[at], before[at], known[row], alarmed[row])
                grew[row] = alarmed[row] & (exact[row] <= plan.confirm_levels[n])
        pairs[rows] = n
        passes = look.within.all(axis=1) & (~alert | last)
        state[rows[passes]] = State.PASS
        state[rows[grew[rows].any(axis=1)]] = State.REGRESSION
        if last:
            state[(state == State.OPEN) & (pairs == n)] = State.INCONCLUSIVE
        wanted[rows] = _next(plan, n, alert)
    wanted[state != State.OPEN] = 0
    return Judged(state, pairs, wanted, alarmed, grew, exact)


def _next(plan: Plan, pairs: int, alert: Flags) -> NDArray[np.int64]:
    """The pairs of the next look; after an alarm that of the next look which can confirm."""
    after = next((n for n in plan.looks if n > pairs), 0)
    confirming = next((n for n in plan.confirm_levels if n > pairs), after)
    return np.where(alert, confirming, after)
