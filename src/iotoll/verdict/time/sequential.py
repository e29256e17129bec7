"""Interim analyses: does a value grow, does none, or are more pairs needed?

At each look (after 3, 4, 6, 8, 12 and 16 pairs of boots) two questions are asked of every figure
(a section, or the software overhead, of one cell):

- is "it grew by no more than ``tolerated``" rejected? Then there is an *alarm*;
- is "it grew by ``unacceptable`` or more" rejected? Then it is *within*.

A pair that is set aside (`screen`) does not count: another is run for it, up to as many again. A
figure whose candidate was far above its base more often than its history explains is not within.

All within, and no alarm: pass. An alarm goes on to the pairs that its exact confirmation
(`signflip`) needs, and is a regression when that confirms it. Neither after the last look:
inconclusive; as early, where the noise leaves no later look a chance.

Errors are controlled over a whole merge request: alarms over all figures and looks by alpha
spending and Bonferroni, passes by beta spending (that one figure which grew ``unacceptable`` is
enough to stop a pass needs no correction: an intersection-union test, Berger 1982), and
confirmations over all figures and the looks that confirm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm
from scipy.stats import t as student

from iotoll.verdict.policy import TimePolicy
from iotoll.verdict.time.boundaries import critical_values, obrien_fleming, pocock
from iotoll.verdict.time.levels import confirm_levels
from iotoll.verdict.time.limits import (
    FEWEST_FOR_LIMIT,
    HOPELESS,
    NOISY,
    SURE,
    TODAY,
    limits,
    ratio_for,
    today,
)
from iotoll.verdict.time.screen import Aside, screen
from iotoll.verdict.time.signflip import confirm
from iotoll.verdict.time.variance import FAR, Moderated, moderate

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
    ``pass_spending`` is the share of it spent up to each look. ``widest`` is the widest limit of a
    figure that cannot be judged at its own, and ``left_out`` the share of ``cells`` in which that
    may happen.
    """

    looks: tuple[int, ...]
    tolerated: Floats
    unacceptable: Floats
    alarm_error: float
    block_error: float
    pass_error: float
    pass_spending: tuple[float, ...]
    alarm_spending: Literal["obrien-fleming", "pocock"] = "obrien-fleming"
    widest: float = 0.0
    left_out: float = 0.0
    cells: int = 1

    @property
    def most_pairs(self) -> int:
        """The most pairs that are run, those that are set aside included."""
        return 2 * self.looks[-1]

    @cached_property
    def ratios(self) -> tuple[float, float]:
        """Limit over noise of a figure that cannot be judged, and of one that surely can."""
        levels = tuple(self.pass_levels)
        lowest, sure = (ratio_for(c, self.looks, levels) for c in (HOPELESS, SURE))
        return 1 / lowest, sure

    def limits(self, noise: Floats) -> Floats:
        """The growth to be ruled out of each figure by its noise, shape (requests, figures)."""
        width = len(self.tolerated) // self.cells
        cells = int(self.left_out * self.cells)
        lowest, sure = self.ratios
        raised = (noise > self.unacceptable * lowest).reshape(len(noise), self.cells, width)
        some = raised.any(axis=2).sum(axis=1) <= cells
        return limits(
            self.unacceptable, np.where(some[:, None], noise, 0.0), lowest, sure, self.widest
        )

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
        widest=float(np.log1p(policy.widest)),
        left_out=policy.left_out,
        cells=cells,
    )


@dataclass(frozen=True)
class Known:
    """What else is known of the pairs, each of which may be absent.

    ``boards`` (requests, pairs) number each pair's board, ``base`` (requests, pairs, figures) are
    the log values of the base, and ``far`` (requests, figures) is the share of a figure's history
    that was set aside.
    """

    boards: NDArray[np.int64]
    base: Floats
    far: Floats

    @classmethod
    def nothing(cls, ratios: Floats) -> Known:
        """One board, no values of the base, and a history of which nothing was set aside."""
        requests, pairs, figures = ratios.shape
        boards = np.zeros((requests, pairs), np.int64)
        return cls(boards, np.full(ratios.shape, np.nan), np.zeros((requests, figures)))

    def of(self, rows: NDArray[np.int64], pairs: int) -> Known:
        """The same of some requests and their first pairs."""
        return Known(self.boards[rows, :pairs], self.base[rows, :pairs], self.far[rows])


@dataclass(frozen=True)
class Look:
    """One look at some merge requests; arrays of shape (requests, figures).

    ``low`` and ``high`` bound the growth: an alarm is a ``low`` above what is tolerated, within a
    ``high`` below the ``limit``. ``improved`` is an alarm the other way round. ``slow`` counts
    the pairs in which the candidate was far above its base, and ``suspect`` marks where those are
    more than history explains. ``aside`` are the pairs that were set aside.
    """

    estimate: Moderated
    low: Floats
    high: Floats
    alarm: Flags
    within: Flags
    improved: Flags
    limit: Floats
    slow: NDArray[np.int64]
    suspect: Flags
    aside: Aside


FUTILE = 5.0
"""Noise of a pair over the limit, from which 16 pairs cannot rule the limit out."""

FEWEST_FOR_GIVING_UP = 6
"""Pairs before which the noise is not known well enough to give up."""

NOWHERE = 2.0
"""Standard errors that no figure may be from 0 where the search is given up before its end."""

SURPRISE = 0.005
"""More pairs set aside than this likely by history, and a figure is not within."""

SURPRISE_ONCE = 0.1
"""The same of a single pair: a slow boot on a board that has had none asks for more pairs."""


def look_at(
    ratios: Floats, history: Floats, known: Floats, plan: Plan, index: int, more: Known
) -> Look:
    """Look for the ``index``-th time; shapes as in `judge`, with that look's pairs only."""
    aside = screen(ratios, history, known, more.boards, plan.cells)
    # Never more than the look's number: what is set aside may change when more pairs are known.
    surplus = (~aside.aside).cumsum(axis=1) > plan.looks[index]
    aside = replace(aside, aside=aside.aside | surplus)
    gone, cells = (found(ratios.shape[-1]) for found in (aside.figures, aside.moved))
    kept = np.where(gone, np.nan, ratios)
    own = today(np.where(gone, np.nan, more.base), more.boards)
    variance = 1 / (1 / np.broadcast_to(history, ratios.shape)).mean(axis=1)
    noisy = (known > 0) & (np.nan_to_num(own) > NOISY * variance)
    found = moderate(kept, history, known, noisy)
    freedom = np.maximum(found.freedom, 1.0)
    sure = np.where(found.pairs >= 2, found.error, np.inf)
    sure = np.where(np.isnan(found.mean), np.inf, sure)
    mean = np.nan_to_num(found.mean)
    reach = student.isf(plan.alarm_levels[index], freedom) * sure
    low, most = mean - reach, mean + reach
    high = mean + student.isf(plan.pass_levels[index], freedom) * sure
    enough = (~aside.aside).sum(axis=1, keepdims=True) >= FEWEST_FOR_LIMIT
    noise = np.where(noisy & enough, TODAY**2 * np.nan_to_num(own), variance)
    limit = plan.limits(np.where(known > 0, np.sqrt(noise), 0.0))
    # Pairs of one slow boot count where their figures stand out, those of a noisy board do not.
    gap = (ratios - mean[:, None]) / np.sqrt(history) > FAR * np.sqrt(found.inflation)[
        :, None, None
    ]
    slow = ((found.far > 0) | (gap & (aside.slow[..., None] | cells))).sum(axis=1)
    tried = (~np.isnan(ratios) & (~aside.aside | aside.slow)[..., None]).sum(axis=1)
    chance = (more.far * (known + 1) / 2 + 1) / (known + 3)
    bar = np.where(slow > 1, SURPRISE, SURPRISE_ONCE)
    suspect = (known > 0) & (slow > 0) & (binom.sf(slow - 1, tried, chance) < bar)
    return Look(
        found,
        low,
        high,
        low > plan.tolerated,
        (high < limit) & ~suspect,
        most < -plan.tolerated,
        limit,
        slow,
        suspect,
        aside,
    )


@dataclass(frozen=True)
class Judged:
    """What `judge` says of each request: shape (requests,), or (requests, figures).

    ``pairs`` is how many were looked at, ``look`` the number of that look (-1: none yet),
    ``wanted`` how many pairs the next look needs (0 when decided), ``alarmed`` which figures ever
    raised an alarm, ``grew`` which of them were confirmed.
    """

    state: NDArray[np.int64]
    pairs: NDArray[np.int64]
    look: NDArray[np.int64]
    wanted: NDArray[np.int64]
    alarmed: Flags
    grew: Flags
    exact: Floats


def judge(
    ratios: Floats, history: Floats, known: Floats, plan: Plan, more: Known | None = None
) -> Judged:
    """Judge merge requests by their pairs so far, at each interim analysis, up to the decision.

    ``ratios`` (requests, pairs, figures): log of candidate over base, NaN where one is not valid.
    ``history`` (requests, pairs or 1, figures) and ``known`` (requests, figures): the variance of a
    pair on its board beforehand, and its degrees of freedom. Later pairs than a decision needs are
    not looked at, so a run that is judged again says the same.
    """
    run = _Run(ratios, history, known, plan, more or Known.nothing(ratios))
    for pairs in range(plan.looks[0], min(ratios.shape[1], plan.most_pairs) + 1):
        run.go(pairs)
    found = run.found
    found.wanted[found.state != State.OPEN] = 0
    return found


class _Run:
    """Merge requests on their way from look to look."""

    def __init__(
        self, ratios: Floats, history: Floats, known: Floats, plan: Plan, more: Known
    ) -> None:
        requests, _, figures = ratios.shape
        self.ratios, self.history, self.known = ratios, history, known
        self.plan, self.more = plan, more
        self.next = np.full(requests, plan.looks[0])
        self.found = Judged(
            state=np.zeros(requests, np.int64),
            pairs=np.zeros(requests, np.int64),
            look=np.full(requests, -1),
            wanted=np.full(requests, plan.looks[0]),
            alarmed=np.zeros((requests, figures), np.bool_),
            grew=np.zeros((requests, figures), np.bool_),
            exact=np.full((requests, figures), np.nan),
        )

    def _first(self, rows: NDArray[np.int64], pairs: int) -> tuple[Floats, Floats, Floats, Known]:
        """The first pairs of requests: ratios, history, its freedom, and what else is known."""
        before = self.history[rows, : pairs if self.history.shape[1] > 1 else 1]
        return self.ratios[rows, :pairs], before, self.known[rows], self.more.of(rows, pairs)

    def go(self, pairs: int) -> None:
        """Look at each request that waits for just this many pairs, or ask for more of them."""
        found, plan = self.found, self.plan
        rows = np.flatnonzero((found.state == State.OPEN) & (found.wanted == pairs))
        if not len(rows):
            return
        part, before, known, more = self._first(rows, pairs)
        kept = (~screen(part, before, known, more.boards, plan.cells).aside).sum(axis=1)
        lacking = self.next[rows] - kept
        found.wanted[rows] = np.minimum(pairs + np.maximum(lacking, 0), plan.most_pairs)
        over = (lacking > 0) & (pairs == plan.most_pairs)
        found.state[rows[over]] = State.INCONCLUSIVE
        found.pairs[rows[over]] = pairs
        due = self.next[rows]
        for index, n in enumerate(plan.looks):
            some = rows[(lacking <= 0) & (due == n)]
            if len(some):
                self._look(some, pairs, index)

    def _look(self, rows: NDArray[np.int64], pairs: int, index: int) -> None:
        found, plan = self.found, self.plan
        n, last = plan.looks[index], index == len(plan.looks) - 1
        part, before, known, more = self._first(rows, pairs)
        look = look_at(part, before, known, plan, index, more)
        found.alarmed[rows] |= look.alarm
        alarmed = found.alarmed[rows]
        alert: Flags = np.asarray(alarmed.any(axis=1))
        if n in plan.confirm_levels:
            for at in np.flatnonzero(alert):
                use = ~look.aside.aside[at]
                past = before[at][use] if before.shape[1] > 1 else before[at]
                kept = np.where(look.aside.moved(part.shape[2])[at], np.nan, part[at])[use]
                exact = confirm(kept, past, known[at], alarmed[at])
                found.exact[rows[at]] = exact
                found.grew[rows[at]] = alarmed[at] & (exact <= plan.confirm_levels[n])
        found.pairs[rows], found.look[rows] = pairs, index
        # What still raises an alarm is judged at its own limit, whatever its noise.
        strict = look.within & (~look.alarm | (look.high < plan.unacceptable))
        passes = strict.all(axis=1) & (~alert | last)
        found.state[rows[passes]] = State.PASS
        found.state[rows[found.grew[rows].any(axis=1)]] = State.REGRESSION
        given_up = _futile(look, plan, n) & ~alert & (found.state[rows] == State.OPEN)
        found.state[rows[given_up]] = State.INCONCLUSIVE
        if last:
            found.state[rows[found.state[rows] == State.OPEN]] = State.INCONCLUSIVE
            return
        self.next[rows] = _next(plan, n, alert)
        found.wanted[rows] = np.minimum(pairs + self.next[rows] - n, plan.most_pairs)


def _futile(look: Look, plan: Plan, pairs: int) -> Flags:
    """Requests of which no later look can be a pass, and none is on its way to an alarm.

    A board beside other work has noise of tens of per cent: without this, twice as many pairs as
    the last look has would be booted for nothing. It only ever turns a decision into none, so no
    error grows.
    """
    if pairs < FEWEST_FOR_GIVING_UP:
        return np.zeros(len(look.low), np.bool_)
    noisy = (look.estimate.deviation > FUTILE * plan.unacceptable) & ~look.within
    cells = noisy.reshape(len(noisy), plan.cells, -1).any(axis=2).sum(axis=1)
    mean = np.nan_to_num(look.estimate.mean)
    nowhere = (np.abs(mean) < NOWHERE * look.estimate.error).all(axis=1)
    return np.asarray((cells > int(plan.left_out * plan.cells)) & nowhere)


def _next(plan: Plan, pairs: int, alert: Flags) -> NDArray[np.int64]:
    """The pairs of the next look; after an alarm that of the next look which can confirm."""
    after = next((n for n in plan.looks if n > pairs), 0)
    confirming = next((n for n in plan.confirm_levels if n > pairs), after)
    return np.where(alert, confirming, after)
