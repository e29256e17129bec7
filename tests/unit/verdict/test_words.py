"""What a verdict on the clock `instructions` says first of what moved, and in how many I/Os."""

from __future__ import annotations

import pytest

from iotoll.records.models import Finding, Section
from iotoll.verdict.findings import in_order
from iotoll.verdict.instructions import rule
from iotoll.verdict.policy import Policy, load_policy
from tests.unit.runs import side_result
from tests.unit.verdict.gates import UFS, S, changed, counts, judge


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy("instructions")


@pytest.mark.parametrize(("every", "share"), [(8, "12%"), (64, "2%")])
def test_what_some_ios_pay_beside_a_small_cost_of_all_is_named(
    policy: Policy, every: int, share: str
) -> None:
    """A counter in each I/O is +8; "+8" alone would hide the 5,000 of every 8th."""
    base = counts(1, n=1024)
    slow = changed(base, S, lambda i: 5008 if i % every == 0 else 8)
    judged = judge(policy, {UFS: base}, {UFS: slow})
    assert f"(+8 in most I/Os, +5,008 in {share} of them), in {UFS}" in judged.headline[0]
    assert "instructions per UFS request on average in submission" in judged.headline[0]
    assert judged.regressions[0].endswith(f", and +5,008 in {share} of I/Os")
    assert len(judged.headline) == 1, "the whole I/O has no more than that"
    cheaper = judge(policy, {UFS: slow}, {UFS: base})
    assert ", -5,008 in " in cheaper.headline[0]


def test_what_few_workloads_have_stands_behind_what_most_have() -> None:
    """An interrupt more in one workload of 23 stood before +330 instructions in all of them."""

    def one(element: str, cells: int, device: str = "UFS") -> Finding:
        names = [f"{device}-{i}" for i in range(cells)]
        return Finding(
            kind="regression", element=element, device=device, part="submission", size=1,
            cells=names, judged=23, sentence="",
        )  # fmt: skip

    found = [one("interrupts", 1), one("dmb", 12), one("dsb", 1, "NVMe"), one("instructions", 23)]
    names = [each.element for each in in_order(found)]
    assert names == ["dmb", "dsb", "instructions", "interrupts"]


def test_chaos_about_the_commonest_difference_is_no_cost_of_some(policy: Policy) -> None:
    base = counts(1)
    noise = {3: 321, 7: -321}
    slow = changed(base, S, lambda i: 8 + noise.get(i % 16, 0))
    (line,) = judge(policy, {UFS: base}, {UFS: slow}).headline
    assert line == f"+8 instructions per UFS request in submission, in {UFS}"


@pytest.mark.parametrize(("beyond", "named"), [(0, 1), (5, 1), (6, 2), (-3000, 2)])
def test_the_headline_names_a_whole_io_that_moved_by_more_than_its_sections(
    policy: Policy, beyond: int, named: int
) -> None:
    base = side_result("base", {UFS: counts(1)})
    other = side_result("candidate", {UFS: counts(1, {Section.SUBMISSION: 300})})
    ios = base.cells[UFS][0].in_order
    assert ios is not None
    whole = [value + 300 + beyond for value in ios.whole]
    record = other.cells[UFS][0]
    assert record.in_order is not None
    later = record.in_order.model_copy(update={"whole": whole})
    record = record.model_copy(update={"in_order": later})
    other = other.model_copy(update={"cells": {UFS: [record]}})
    judged = rule.judge(base, other, policy, [UFS])
    assert len(judged.headline) == named, judged.headline
    assert len([*judged.regressions, *judged.improvements]) == 2, "nothing is left out below"
