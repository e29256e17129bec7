"""Passes that were none (findings F1.1 to F1.3), and blocks that were none (F1.8, F7.4)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from iotoll.records.models import Outcome
from iotoll.records.models.run import Side
from iotoll.verdict.instructions import rule
from iotoll.verdict.policy import Policy, load_policy
from tests.unit.runs import side_result
from tests.unit.verdict.gates import (
    UFS,
    Counts,
    S,
    boots,
    changed,
    counts,
    grown,
    judge,
)

DRAWN = np.random.default_rng(13).random(256)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy("instructions")


def test_f1_1_boots_that_grew_by_different_sizes_are_no_pass(policy: Policy) -> None:
    """+142 in one pair and +200 in the other, both regressions, were called a pass."""
    base = [side_result("base", {UFS: counts(1)})] * 3
    grew = [side_result("candidate", {UFS: counts(1, {S: cost})}) for cost in (142, 200, 142)]
    judged = rule.judge(boots(*base), boots(*grew), policy, [UFS])
    assert judged.outcome is Outcome.REGRESSION
    assert list(grown(judged)) == [S]


def test_f1_2_growth_of_one_section_is_not_confirmed_by_that_of_another(policy: Policy) -> None:
    """An odd boot blocked when another one was odd elsewhere."""
    base = [side_result("base", {UFS: counts(1)})] * 3
    odd = [side_result("candidate", {UFS: counts(1, {s: 300})}) for s in list(counts())[:2]]
    same = side_result("candidate", {UFS: counts(1)})
    judged = rule.judge(boots(*base), boots(*odd, same), policy, [UFS])
    assert judged.outcome is not Outcome.REGRESSION
    assert grown(judged) == {}


PLANTED: dict[str, Callable[[int], int]] = {
    "+13 in every I/O": lambda _: 13,
    "+14 in every I/O": lambda _: 14,
    "+15 in every I/O": lambda _: 15,
    "+35 in every I/O": lambda _: 35,
    "+60 in every I/O": lambda _: 60,
    "+5000 in every 8th": lambda i: 5000 * (i % 8 == 0),
    "+1000 in every 2nd": lambda i: 1000 * (i % 2),
    "+60 in 70 %": lambda i: 60 * int(DRAWN[i] < 0.7),
    "0 to 400": lambda i: int(400 * DRAWN[i]),
    "+1000 in 80 %": lambda i: 1000 * int(DRAWN[i] < 0.8),
    "+1000 in 90 %": lambda i: 1000 * int(DRAWN[i] < 0.9),
}


@pytest.mark.parametrize("name", PLANTED)
def test_f1_3_costs_on_some_ios_only_are_found(policy: Policy, name: str) -> None:
    """The finding's own injections, of which most raised no alarm at all."""
    base = counts(3)
    judged = judge(policy, {UFS: base}, {UFS: changed(base, S, PLANTED[name])})
    assert judged.outcome is Outcome.REGRESSION
    costs = [PLANTED[name](i) for i in range(256)]
    commonest = max(set(costs), key=costs.count)
    assert grown(judged)[S] in (pytest.approx(np.mean(costs), rel=0.05), commonest, max(costs))


@pytest.mark.parametrize("seed", range(8))
def test_f1_8_f7_4_a_kernel_with_two_modes_is_not_blocked_by_itself(
    policy: Policy, seed: int
) -> None:
    """7,000 or 19,315 in 14 of 38 boots: 3 of 15 neutral gates alarmed."""
    modes = np.random.default_rng(seed).random((2, 3)) < 14 / 38

    def boot(slow: bool) -> dict[str, Counts]:
        return {UFS: {**counts(1), S: [19_315 if slow else 7_000] * 256}}

    names: tuple[Side, Side] = ("base", "candidate")
    sides = [
        boots(*(side_result(side, boot(bool(slow))) for slow in modes[at]))
        for at, side in enumerate(names)
    ]
    always = modes[1].all() and not modes[0].any()
    judged = rule.judge(sides[0], sides[1], policy, [UFS])
    assert always or judged.outcome is not Outcome.REGRESSION
