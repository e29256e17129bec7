"""The gate on invented counts: what moved is found, in its section; what did not is a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from iotoll.core.errors import InfrastructureError
from iotoll.records.models import Clock, Outcome, Section
from iotoll.verdict import instructions
from iotoll.verdict.policy import Policy, load_policy
from tests.unit.runs import side_result

V, S, C, R = Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION, Section.RETURN
UFS, NVME = "ufs-4k-randread-t1-direct", "nvme-4k-randread-t1-direct"
TEETH = {V: [3150, 3190, 3420], S: [5229, 5301, 5777], C: [2208, 2260, 2500], R: [5766, 5990]}

Counts = Mapping[Section, Sequence[int]]


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy("instructions")


def counts(seed: int = 0, moved: Mapping[Section, int] | None = None, n: int = 256) -> Counts:
    """Counts of a cell; the sections of ``moved`` cost so much more."""
    random = np.random.default_rng(seed)
    return {
        section: [int(v) + (moved or {}).get(section, 0) for v in random.choice(teeth, size=n)]
        for section, teeth in TEETH.items()
    }


def diffuse(seed: int, add: float = 0, n: int = 256) -> list[int]:
    """Counts that are no comb."""
    return [int(v + add) for v in np.random.default_rng(seed).normal(40_000, 9_000, n)]


def judge(
    policy: Policy, base: Mapping[str, Counts], other: Mapping[str, Counts]
) -> instructions.Judgement:
    cells = list(base)
    return instructions.judge(
        side_result("base", base), side_result("candidate", other), policy, cells
    )


@pytest.mark.parametrize("section", [V, S, C, R])
@pytest.mark.parametrize("cost", [20, 50, 100, 300])
def test_planted_cost_is_found_in_its_section_alone(
    policy: Policy, section: Section, cost: int
) -> None:
    judged = judge(policy, {UFS: counts(1)}, {UFS: counts(2, {section: cost})})
    assert judged.outcome is Outcome.REGRESSION
    (verdict,) = judged.cells
    grew = {s.section: s.delta for s in verdict.sections if s.moved == "grew"}
    assert list(grew) == [section]
    assert abs(grew[section] - cost) <= 1
    assert len(judged.regressions) == 1
    assert judged.regressions[0].startswith(f"{UFS}: {section.value} +")
    assert "1 of 1 cells more expensive" in judged.sentence


def test_cheaper_is_a_pass_and_is_named(policy: Policy) -> None:
    judged = judge(policy, {UFS: counts(1)}, {UFS: counts(2, {S: -60})})
    assert judged.outcome is Outcome.PASS
    assert judged.regressions == []
    assert judged.improvements[0].startswith(f"{UFS}: submission -")
    assert judged.sentence.endswith("; 1 became cheaper.")


@pytest.mark.parametrize("cost", [-12, -5, 0, 4, 12])
def test_within_the_threshold_nothing_moved(policy: Policy, cost: int) -> None:
    judged = judge(policy, {UFS: counts(1)}, {UFS: counts(2, {S: cost})})
    assert judged.outcome is Outcome.PASS
    assert {s.moved for s in judged.cells[0].sections} == {"same"}


def test_comb_with_other_weights_is_a_pass(policy: Policy) -> None:
    random = np.random.default_rng(5)
    base, other = dict(counts(1)), dict(counts(2))
    base[S] = [int(v) for v in random.choice([5229, 5600], size=256, p=[0.9, 0.1])]
    other[S] = [int(v) for v in random.choice([5229, 5600], size=256, p=[0.1, 0.9])]
    judged = judge(policy, {UFS: base}, {UFS: other})
    assert judged.outcome is Outcome.PASS, judged.regressions


def test_without_a_comb_the_quartile_that_grew_least_decides(policy: Policy) -> None:
    rule = policy.rule(UFS, S)
    base = diffuse(1)
    allowed = int(rule.quartile_floor + rule.quartile_share * float(np.median(base)))
    random = np.random.default_rng(3)
    far = [v + int(x) for v, x in zip(base, random.integers(allowed + 2, 4000, 256), strict=True)]
    near = [v + int(x) for v, x in zip(base, random.integers(0, allowed - 2, 256), strict=True)]
    over = instructions.compare(base, far, S, rule, policy, policy.comb.alarm)
    assert over.moved == "grew"
    assert allowed < over.delta < 4000
    assert over.confidence.startswith("every quartile moved")
    under = instructions.compare(base, near, S, rule, policy, policy.comb.alarm)
    assert under.moved == "same"
    half = [v + (5000 if i % 2 else 0) for i, v in enumerate(sorted(base))]
    partly = [*half[:64], *base[:64]]
    mixed = sorted(base)[:200] + partly
    assert instructions.compare(base, mixed, S, rule, policy, policy.comb.alarm).moved != "grew"


def test_cost_beyond_the_combs_reach_is_found_by_the_quartiles(policy: Policy) -> None:
    judged = judge(policy, {UFS: counts(1)}, {UFS: counts(2, {C: 20_000})})
    (found,) = [s for s in judged.cells[0].sections if s.moved == "grew"]
    assert found.section is C
    assert found.delta > 19_000


def test_ungated_section_is_shown_and_does_not_block(policy: Policy) -> None:
    cell = "ufs-128k-seqwrite-t8-sync"
    judged = judge(policy, {cell: counts(1)}, {cell: counts(2, {V: 500})})
    assert judged.outcome is Outcome.PASS
    (found,) = [s for s in judged.cells[0].sections if s.moved == "grew"]
    assert not found.gated
    assert "journal" in found.why
    assert judged.regressions == []


def test_few_ios_are_not_judged(policy: Policy) -> None:
    few = policy.min_ios - 1
    judged = judge(policy, {UFS: counts(1, n=few)}, {UFS: counts(2, {S: 300}, n=few)})
    assert judged.outcome is Outcome.INCONCLUSIVE
    assert all(s.why == f"fewer than {policy.min_ios} I/Os" for s in judged.cells[0].sections)
    assert judged.sentence == f"{UFS} cannot be judged: no section of this cell can be judged."


def test_cell_without_any_count_is_inconclusive(policy: Policy) -> None:
    assert judge(policy, {UFS: {}}, {UFS: {}}).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("side", ["base", "candidate"])
def test_missing_cell_never_passes(policy: Policy, side: str) -> None:
    full = {UFS: counts(1), NVME: counts(2)}
    part = {UFS: counts(1)}
    base, other = (part, full) if side == "base" else (full, part)
    judged = instructions.judge(
        side_result("base", base), side_result("candidate", other), policy, [UFS, NVME]
    )
    assert judged.outcome is Outcome.INFRASTRUCTURE
    assert judged.sentence == f"{NVME} has no usable values: no values of one side."


def test_invalid_cell_is_infrastructure_whatever_its_figures_say(policy: Policy) -> None:
    base = side_result("base", {UFS: counts(1)}, invalid={UFS: "fio reported error 5"})
    other = side_result("candidate", {UFS: counts(1)})
    judged = instructions.judge(base, other, policy, [UFS])
    assert judged.outcome is Outcome.INFRASTRUCTURE
    assert judged.cells[0].why == "fio reported error 5"
    assert judged.cells[0].sections == []


def test_regression_outranks_a_bad_cell(policy: Policy) -> None:
    base = side_result("base", {UFS: counts(1), NVME: counts(2)}, invalid={NVME: "x"})
    other = side_result("candidate", {UFS: counts(3, {S: 100}), NVME: counts(4)})
    assert instructions.judge(base, other, policy, [UFS, NVME]).outcome is Outcome.REGRESSION


def test_different_boards_or_jobs_are_not_compared(policy: Policy) -> None:
    base = side_result("base", {UFS: counts(1)}, board="a" * 64)
    other = side_result("candidate", {UFS: counts(1)}, board="b" * 64)
    with pytest.raises(InfrastructureError, match="different boards or jobs"):
        instructions.judge(base, other, policy, [UFS])


def test_time_is_not_judged(policy: Policy) -> None:
    base = side_result("base", {UFS: counts(1)}, clock=Clock.TIME)
    with pytest.raises(InfrastructureError, match="'instructions' only"):
        instructions.judge(base, base, policy, [UFS])


def test_confirmed_keeps_what_both_pairs_show(policy: Policy) -> None:
    first = judge(policy, {UFS: counts(1)}, {UFS: counts(2, {S: 100, C: 50})})
    second = judge(policy, {UFS: counts(3)}, {UFS: counts(4, {S: 100})})
    both = instructions.confirmed(first, second, policy)
    assert both.outcome is Outcome.REGRESSION
    assert [line.split()[1] for line in both.regressions] == ["submission"]


def test_what_grew_in_one_pair_alone_is_shown_as_such(policy: Policy) -> None:
    first = judge(policy, {UFS: counts(1)}, {UFS: counts(2, {S: 100})})
    second = judge(policy, {UFS: counts(3)}, {UFS: counts(4, {C: 100})})
    both = instructions.confirmed(first, second, policy)
    assert both.outcome is Outcome.PASS
    assert both.regressions == []
    whys = {s.section: s.why for s in both.cells[0].sections}
    assert whys[C] == "grew in one of two pairs of boots"


def test_pairs_that_disagree_on_the_size_confirm_nothing(policy: Policy) -> None:
    first = judge(policy, {UFS: counts(1)}, {UFS: counts(2, {S: 60})})
    second = judge(policy, {UFS: counts(3)}, {UFS: counts(4, {S: 300})})
    both = instructions.confirmed(first, second, policy)
    assert both.outcome is Outcome.PASS
    shrank = judge(policy, {UFS: counts(5)}, {UFS: counts(6, {S: -60})})
    assert instructions.confirmed(first, shrank, policy).improvements == []
    assert instructions.confirmed(shrank, shrank, policy).improvements != []


def test_confirming_takes_a_weaker_fit_than_an_alarm(policy: Policy) -> None:
    random = np.random.default_rng(7)
    # Half of the counts sit on teeth that only one side has.
    common = [int(v) for v in random.choice(TEETH[S], size=80)]
    base = [*common, *(int(v) for v in random.integers(9000, 13000, 176))]
    other = [*(v + 40 for v in common), *(int(v) for v in random.integers(9000, 13000, 176))]
    rule = policy.rule(UFS, S)
    loud, weak = (
        instructions.compare(base, other, S, rule, policy, fit)
        for fit in (policy.comb.alarm, policy.comb.confirm)
    )
    assert loud.moved == "same"
    assert (weak.moved, weak.delta) == ("grew", 40)


def test_confirming_never_hides_a_bad_cell(policy: Policy) -> None:
    first = judge(policy, {UFS: counts(1)}, {UFS: counts(2, {S: 100})})
    bad = side_result("base", {UFS: counts(3)}, invalid={UFS: "lost"})
    second = instructions.judge(bad, side_result("candidate", {UFS: counts(4)}), policy, [UFS])
    assert instructions.confirmed(first, second, policy).outcome is Outcome.INFRASTRUCTURE


def test_only_boot_takes_one_boot_of_several() -> None:
    one, two = (side_result("base", {UFS: counts(i)}) for i in (1, 2))
    both = one.model_copy(
        update={
            "boots": one.boots + two.boots,
            "cells": {UFS: one.cells[UFS] + two.cells[UFS]},
        }
    )
    assert instructions.only_boot(both, 1).cells[UFS] == two.cells[UFS]
    assert len(instructions.only_boot(both, 0).boots) == 1
    assert instructions.only_boot(both, 7).cells[UFS] == [], "a boot that is missing is no figure"
