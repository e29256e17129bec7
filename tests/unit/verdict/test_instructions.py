"""The gate on invented counts: what moved is found, in its section; what did not is a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from iotoll.core.errors import InfrastructureError
from iotoll.records.models import Clock, Outcome, Section, SideResult
from iotoll.verdict.instructions import rule as instructions
from iotoll.verdict.instructions.pairing import PairedIos
from iotoll.verdict.policy import Policy, load_policy
from tests.unit.runs import side_result
from tests.unit.verdict.gates import (
    EIGHT,
    NVME,
    PEAKS,
    UFS,
    C,
    Counts,
    R,
    S,
    V,
    boots,
    changed,
    chaotic,
    counts,
    grown,
    judge,
)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy("instructions")


@pytest.mark.parametrize("section", [V, S, C, R])
@pytest.mark.parametrize("cost", [5, 20, 50, 300, 20_000])
def test_planted_cost_is_found_in_its_section_alone(
    policy: Policy, section: Section, cost: int
) -> None:
    judged = judge(policy, {UFS: counts(1)}, {UFS: counts(1, {section: cost})})
    assert judged.outcome is Outcome.REGRESSION
    assert grown(judged) == {section: cost}
    assert judged.regressions[0].startswith(f"{UFS}: {section.value} +{cost} instructions")
    thing = "request" if section in (S, C) else "I/O"
    told = f"+{cost:,} instructions per UFS {thing} in {section.value}, in {UFS}"
    assert judged.sentence == f"The candidate is more expensive: {told}."


@pytest.mark.parametrize("cost", [400, 5000])
def test_cost_on_every_eighth_io_is_found_and_named(policy: Policy, cost: int) -> None:
    base = counts(1)
    slow = changed(base, S, lambda i: cost if i % 8 == 0 else 0)
    judged = judge(policy, {UFS: base}, {UFS: slow})
    assert judged.outcome is Outcome.REGRESSION
    (found,) = [s for s in judged.cells[0].sections if s.moved == "grew"]
    assert found.delta == cost / 8
    assert found.share == pytest.approx(1 / 8)
    assert found.paired is not None
    assert (found.paired.commonest, found.paired.exact) == (0, 0.875)
    assert [(c.delta, c.ios, c.opposite) for c in found.paired.clusters] == [(cost, 32, 0)]
    assert judged.regressions[0].endswith(f"on average: 12% of I/Os moved, mostly +{cost}")


def test_rare_cost_shows_over_the_cells_of_a_device(policy: Policy) -> None:
    cells = [f"ufs-{p}-t{t}-direct" for p in ("4k-randread", "4k-randwrite") for t in (1, 8)]
    cells += [cell.replace("direct", "sync") for cell in cells]
    base = {cell: counts(n) for n, cell in enumerate(cells)}
    slow = {
        cell: changed(values, S, lambda i: 5000 if i % 64 == 7 else 0)
        for cell, values in base.items()
    }
    judged = judge(policy, base, slow)
    assert {v.outcome for v in judged.cells} == {Outcome.PASS}, "4 of 256 I/Os tell nothing"
    assert judged.outcome is Outcome.REGRESSION
    pool = judged.pools[0]
    assert (pool.device, pool.section, pool.threads, pool.cells) == ("ufs", S, None, 8)
    assert (pool.paired.above, pool.paired.below) == (32, 0)
    assert judged.open == cells
    assert "1.6% of the I/Os of 8 cells together" in judged.sentence


def test_cost_with_eight_threads_alone_is_found(policy: Policy) -> None:
    base = {UFS: counts(1), EIGHT: counts(2)}
    judged = judge(policy, base, {UFS: counts(1), EIGHT: counts(2, {S: 60})})
    assert [v.outcome for v in judged.cells] == [Outcome.PASS, Outcome.REGRESSION]
    # The base's further boots are of whole devices, so that most candidates share them.
    assert judged.open == [UFS, EIGHT]


BURST = "emmc-4k-seqwrite-t1-direct-libaio-qd32"


@pytest.mark.parametrize(("bursts", "found"), [([5], False), (range(1, 24), True)])
def test_ios_of_one_burst_are_one_chance(
    policy: Policy, bursts: Sequence[int], found: bool
) -> None:
    """One burst of eight met something in one kernel alone: 32 I/Os grew, and a verdict blocked."""
    base = counts(n=768)
    cost = changed(base, S, lambda i: 6226 * (i // 32 in bursts))
    judged = judge(policy, {BURST: base}, {BURST: cost})
    assert bool(grown(judged)) is found
    # I/Os that follow each other share a state, also one at a time; those far apart do not.
    assert bool(grown(judge(policy, {UFS: base}, {UFS: cost}))) is found
    apart = changed(base, S, lambda i: 6226 * (i % 24 == 5))
    assert grown(judge(policy, {UFS: base}, {UFS: apart}))


def test_base_boots_that_take_two_courses_hide_the_same_of_a_candidate(policy: Policy) -> None:
    usual, other = counts(1), changed(counts(1), S, lambda i: 11_000 * (i % 3 == 0))
    boots = [side_result("base", {EIGHT: one}) for one in (usual, other, usual)]
    base = joined_boots(boots)
    candidate = joined_boots([side_result("candidate", {EIGHT: other})] * 3)
    assert instructions.judge_cells(base, candidate, policy, [EIGHT]).outcome is Outcome.PASS
    steady = joined_boots([side_result("base", {EIGHT: usual})] * 3)
    judged = instructions.judge_cells(steady, candidate, policy, [EIGHT])
    assert judged.outcome is Outcome.REGRESSION, "nothing hides it where the base is steady"


def joined_boots(sides: Sequence[SideResult]) -> SideResult:
    """The boots of several results as those of one side."""
    cells = {name: [side.cells[name][0] for side in sides] for name in sides[0].cells}
    boots = [side.boots[0] for side in sides]
    return sides[0].model_copy(update={"boots": boots, "cells": cells})


def test_so_few_ios_that_nothing_can_be_said_are_not_judged(policy: Policy) -> None:
    few = np.array([0] * 8, np.int64)
    paired = PairedIos(few, few, few, np.arange(8), unpaired=4)
    made = instructions.compare(paired, policy.rule(UFS, S), policy)
    assert made is not None and not made["gated"] and made["why"] == "fewer than 24 I/Os"
    many = instructions.compare(replace(paired, unpaired=40), policy.rule(UFS, S), policy)
    assert many is not None and many["gated"] and "no pair" in many["why"]


def lacking(counts: Counts, ios: int) -> Mapping[Section, Sequence[int | None]]:
    """The same without completion in the first ``ios`` I/Os."""
    left = [value if n >= ios else None for n, value in enumerate(counts[Section.COMPLETION])]
    return {**counts, Section.COMPLETION: left}


def test_two_of_few_ios_may_lack_a_twin(policy: Policy) -> None:
    few = counts(1, n=32)
    base = side_result("base", {UFS: few})
    for ios, outcome in ((2, Outcome.PASS), (3, Outcome.INCONCLUSIVE)):
        other = side_result("candidate", {UFS: lacking(few, ios)})
        assert instructions.judge_cells(base, other, policy, [UFS]).outcome is outcome


def test_lacking_twins_ask_for_boots_that_tell_whether_the_base_lacks_them_too(
    policy: Policy,
) -> None:
    full, lacks = counts(1), lacking(counts(1), 20)
    base, other = side_result("base", {UFS: full}), side_result("candidate", {UFS: lacks})
    judged = instructions.judge_cells(base, other, policy, [UFS])
    assert (judged.outcome, judged.open) == (Outcome.INCONCLUSIVE, [UFS])
    alike = joined_boots([base, side_result("base", {UFS: lacks}), base])
    judged = instructions.judge_cells(alike, other, policy, [UFS])
    assert (judged.outcome, judged.open) == (Outcome.PASS, []), "the base does so by itself"
    steady, thrice = joined_boots([base] * 3), joined_boots([other] * 3)
    judged = instructions.judge_cells(steady, thrice, policy, [UFS])
    assert (judged.outcome, judged.open) == (Outcome.INCONCLUSIVE, [])


def test_cost_that_no_section_has_shows_in_the_whole_io(policy: Policy) -> None:
    base, other = (side_result(side, {UFS: counts(1)}) for side in ("base", "candidate"))
    ios = other.cells[UFS][0].in_order
    assert ios is not None
    later = ios.model_copy(update={"whole": [value + 3000 for value in ios.whole]})
    record = other.cells[UFS][0].model_copy(update={"in_order": later})
    other = other.model_copy(update={"cells": {UFS: [record]}})
    judged = instructions.judge(base, other, policy, [UFS])
    assert judged.outcome is Outcome.REGRESSION
    assert grown(judged) == {}
    assert judged.headline[0].startswith("+3,000 instructions per UFS I/O in the whole I/O")


@pytest.mark.parametrize(("cost", "found"), [(32, False), (33, True), (400, True)])
def test_several_cpus_on_one_clock_have_a_threshold_of_their_own(
    policy: Policy, cost: int, found: bool
) -> None:
    """Innocent kernels had +8 and -29 in each I/O: other timers, and other CPUs' turns."""
    base = on_several_cpus(side_result("base", {UFS: counts(1)}))
    every = on_several_cpus(side_result("candidate", {UFS: counts(1, {S: cost})}))
    judged = instructions.judge(base, every, policy, [UFS])
    assert judged.outcome is (Outcome.REGRESSION if found else Outcome.PASS)
    assert judged.cells[0].sections[1].threshold == 32
    rare = changed(counts(1), S, lambda i: cost if i % 8 == 0 else 0)
    other = on_several_cpus(side_result("candidate", {UFS: rare}))
    judged = instructions.judge(base, other, policy, [UFS])
    assert judged.outcome is (Outcome.REGRESSION if cost == 400 else Outcome.PASS), "its mean"


def on_several_cpus(side: SideResult) -> SideResult:
    boot = side.boots[0]
    command = [*boot.command, "-smp", "4"]
    return side.model_copy(update={"boots": [boot.model_copy(update={"command": command})]})


@pytest.mark.parametrize("seed", range(20))
def test_symmetric_noise_is_no_cost(policy: Policy, seed: int) -> None:
    base = {UFS: counts(seed), EIGHT: counts(seed + 100)}
    other = [
        side_result(
            "candidate",
            # Each cell has noise of its own: the same one in both would count twice.
            {c: chaotic(v, seed + 200 * n + 1000 * i) for i, (c, v) in enumerate(base.items())},
        )
        for n in (1, 2, 3)
    ]
    same = boots(*[side_result("base", base)] * 3)
    judged = instructions.judge(same, boots(*other), policy, list(base))
    assert judged.outcome is Outcome.PASS, judged.regressions


def test_two_paths_out_of_phase_are_no_cost(policy: Policy) -> None:
    base = {UFS: {**counts(1), S: [5229 + 43 * (i % 2) for i in range(256)]}}
    other = {UFS: {**counts(1), S: [5272 - 43 * (i % 2) for i in range(256)]}}
    judged = judge(policy, base, other)
    assert judged.outcome is Outcome.PASS


@pytest.mark.parametrize("cost", [0, 5, 20])
def test_paths_out_of_phase_are_paired_with_their_like(policy: Policy, cost: int) -> None:
    """Every second I/O takes a longer path; it begins with another I/O in the candidate."""

    def paths(first: int, more: int) -> Counts:
        return {
            s: [5000 + 2143 * ((i + first) % 2) + (more if s is S else 0) for i in range(256)]
            for s in PEAKS
        }

    judged = judge(policy, {UFS: paths(0, 0)}, {UFS: paths(1, cost)})
    assert grown(judged) == ({S: cost} if cost else {})
    assert [s.paired.pairs for s in judged.cells[0].sections if s.paired] == [255] * 4


def test_cost_is_found_under_noise(policy: Policy) -> None:
    base = counts(1)
    judged = judge(policy, {EIGHT: base}, {EIGHT: chaotic(changed(base, S, lambda _: 50), 7)})
    assert abs(grown(judged)[S] - 50) <= 40


def test_mean_that_grew_alone_is_reported(policy: Policy) -> None:
    base = counts(1)
    judged = judge(policy, {UFS: base}, {UFS: changed(base, V, lambda i: (i % 3) * 100)})
    (found,) = [s for s in judged.cells[0].sections if s.moved == "grew"]
    assert found.paired is not None
    assert found.paired.commonest == 0
    assert found.delta == pytest.approx(100, abs=1)


def test_cheaper_is_a_pass_and_is_named(policy: Policy) -> None:
    judged = judge(policy, {UFS: counts(1)}, {UFS: counts(1, {S: -60})})
    assert judged.outcome is Outcome.PASS
    assert judged.regressions == []
    assert judged.improvements[0].startswith(f"{UFS}: submission -60")
    assert judged.headline[0].startswith("-60 instructions per UFS request in submission")
    assert judged.open == [UFS], "what shrank must show in further boots also"


def test_what_the_base_does_by_itself_asks_for_no_boot_of_the_candidate(policy: Policy) -> None:
    """Readers take one of two courses: a third of the base's I/Os in one boot, more in the next."""
    plain = counts(1)
    courses = [
        {**plain, S: [v + (900 if i % 3 < third else 0) for i, v in enumerate(plain[S])]}
        for third in range(3)
    ]
    other = side_result("candidate", {UFS: courses[1]})
    once = side_result("base", {UFS: courses[0]})
    assert instructions.judge(once, other, policy, [UFS]).open == [UFS]
    records = [side_result("base", {UFS: course}).cells[UFS][0] for course in courses]
    base = once.model_copy(update={"cells": {UFS: records}})
    judged = instructions.judge(base, other, policy, [UFS])
    assert judged.outcome is Outcome.PASS
    assert judged.open == []
    planted = side_result("candidate", {UFS: changed(courses[1], S, lambda i: 6000)})
    assert instructions.judge(base, planted, policy, [UFS]).open == [UFS]


@pytest.mark.parametrize("cost", [-4, 0, 4])
def test_within_the_threshold_nothing_moved(policy: Policy, cost: int) -> None:
    judged = judge(policy, {UFS: counts(1)}, {UFS: counts(1, {S: cost})})
    assert judged.outcome is Outcome.PASS
    assert {s.moved for s in judged.cells[0].sections} == {"same"}


def test_cost_that_moved_between_sections_is_the_policys(policy: Policy) -> None:
    base = {UFS: counts(1)}
    other = {UFS: counts(1, {S: 300, V: -300})}
    assert judge(policy, base, other).outcome is Outcome.REGRESSION
    tolerant = policy.model_copy(update={"moved_between": "allow"})
    judged = judge(tolerant, base, other)
    assert judged.outcome is Outcome.PASS
    assert [s.why for s in judged.cells[0].sections if s.section is S] == [
        "moved between sections: +300"
    ]
    assert judge(tolerant, base, {UFS: counts(1, {S: 300, V: -200})}).outcome is Outcome.REGRESSION


def test_what_only_one_of_three_boots_shows_is_no_cost(policy: Policy) -> None:
    base = [side_result("base", {UFS: counts(n)}) for n in range(3)]
    grew = [side_result("candidate", {UFS: counts(n, {S: 80})}) for n in range(3)]
    same = [side_result("candidate", {UFS: counts(n)}) for n in range(3)]
    judged = instructions.judge(boots(*base), boots(grew[0], *same[1:]), policy, [UFS])
    assert judged.outcome is Outcome.PASS
    judged = instructions.judge(boots(*base), boots(*grew), policy, [UFS])
    assert judged.outcome is Outcome.REGRESSION
    assert judged.open == [], "three boots are what the policy asks for"


@pytest.mark.parametrize("alone", [True, False])
def test_what_one_cell_shows_alone_is_no_cost_of_several(policy: Policy, alone: bool) -> None:
    cells = [f"ufs-{p}-t{t}-direct" for p in ("4k-randread", "4k-randwrite") for t in (1, 8)]
    same = {cell: counts(n) for n, cell in enumerate(cells)}

    def costlier(every: int, some: list[str]) -> dict[str, Counts]:
        more = {c: changed(same[c], S, lambda i: 5000 * (i % every == 7)) for c in some}
        return {**same, **more}

    # The second and third boot of one cell take another course; a few I/Os of others meet a timer.
    first = costlier(128, cells[:3])
    later = (
        costlier(8, cells[:1])
        if alone
        else costlier(64, cells) | {cells[0]: costlier(8, cells[:1])[cells[0]]}
    )
    base = [side_result("base", same) for _ in range(3)]
    candidate = [side_result("candidate", one) for one in (first, later, later)]
    judged = instructions.judge(boots(*base), boots(*candidate), policy, cells)
    assert bool(judged.pools) == (not alone)
    assert (judged.outcome is Outcome.PASS) == alone


def marked(side: SideResult, others: int) -> SideResult:
    """The side where the first ``others`` I/Os complete at another event than the rest."""
    ios = side.cells[UFS][0].in_order
    assert ios is not None
    kinds = {
        "marks": [int(n < others) for n in range(256)],
        "mark_kinds": [{C: "irq_handler_entry"}, {C: "ufshcd_command"}],
    }
    record = side.cells[UFS][0].model_copy(update={"in_order": ios.model_copy(update=kinds)})
    return side.model_copy(update={"cells": {UFS: [record]}})


@pytest.mark.parametrize("others", [16, 256])
def test_other_marks_are_never_compared(policy: Policy, others: int) -> None:
    sides = [side_result(side, {UFS: counts(1)}) for side in ("base", "candidate")]
    base, candidate = marked(sides[0], 0), marked(sides[1], others)
    judged = instructions.judge(base, candidate, policy, [UFS])
    assert judged.outcome is Outcome.INCONCLUSIVE
    (found,) = [s for s in judged.cells[0].sections if s.moved == "unknown"]
    assert found.section is C
    assert "marks differ (irq_handler_entry in base, ufshcd_command in candidate)" in found.why
    assert found.why in judged.sentence
    assert judged.open == [UFS], "the base's further boots tell whether it does so by itself"
    both = boots(base, base, base), boots(candidate, candidate, candidate)
    judged = instructions.judge(*both, policy, [UFS])
    assert (judged.outcome, judged.open) == (Outcome.INCONCLUSIVE, [])
    assert instructions.judge(both[0], candidate, policy, [UFS]).open == [], "it does not"


@pytest.mark.parametrize(
    ("others", "outcome"), [(16, Outcome.PASS), (21, Outcome.PASS), (256, Outcome.INCONCLUSIVE)]
)
def test_other_marks_of_a_few_ios_are_chance_where_the_base_has_them(
    policy: Policy, others: int, outcome: Outcome
) -> None:
    """Of two CPUs now one is first, now the other: an innocent kernel was not comparable."""
    sides = [side_result(side, {UFS: counts(1)}) for side in ("base", "candidate")]
    plain, candidate = marked(sides[0], 0), marked(sides[1], others)
    base = boots(plain, marked(sides[0], 10), plain)
    judged = instructions.judge(base, boots(candidate, candidate, candidate), policy, [UFS])
    assert judged.outcome is outcome


def test_ios_without_a_twin_are_not_passed_over(policy: Policy) -> None:
    judged = judge(policy, {UFS: counts(1)}, {UFS: {s: v[:200] for s, v in counts(1).items()}})
    assert judged.outcome is Outcome.INCONCLUSIVE
    assert "56 of 256 I/Os have no pair" in judged.sentence


def test_ungated_section_is_shown_and_does_not_block(policy: Policy) -> None:
    rules = {
        **policy.sections,
        V: policy.sections[V].model_copy(update={"gated": False, "why": "w"}),
    }
    rules_of_whole = policy.whole.model_copy(update={"gated": False, "why": "w"})
    shown = policy.model_copy(update={"sections": rules, "whole": rules_of_whole})
    judged = judge(shown, {UFS: counts(1)}, {UFS: counts(1, {V: 500})})
    assert judged.outcome is Outcome.PASS
    assert grown(judged) == {V: 500}
    assert judged.regressions == []


def test_few_ios_are_not_judged(policy: Policy) -> None:
    few = policy.min_ios - 1
    judged = judge(policy, {UFS: counts(1, n=few)}, {UFS: counts(1, {S: 300}, n=few)})
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


def test_invalid_cell_never_passes(policy: Policy) -> None:
    base = side_result("base", {UFS: counts(1)}, invalid={UFS: "events were lost"})
    judged = instructions.judge(base, side_result("candidate", {UFS: counts(1)}), policy, [UFS])
    assert judged.outcome is Outcome.INFRASTRUCTURE
    assert "events were lost" in judged.sentence


def test_sides_of_other_boards_or_clocks_are_not_compared(policy: Policy) -> None:
    base = side_result("base", {UFS: counts(1)})
    other = side_result("candidate", {UFS: counts(1)}, board="0" * 64)
    with pytest.raises(InfrastructureError, match="different boards or jobs"):
        instructions.judge(base, other, policy, [UFS])
    with pytest.raises(InfrastructureError, match="clock 'instructions' only"):
        instructions.judge(
            side_result("base", {UFS: counts(1)}, clock=Clock.TIME), base, policy, [UFS]
        )


SYNC = "ufs-4k-randwrite-t1-sync"


def of_five_requests(side: SideResult, more: int) -> SideResult:
    """The side as O_SYNC writes of five requests, whose whole I/Os cost ``more``."""
    record = side.cells[SYNC][0]
    assert record.in_order is not None
    path = record.paths[0].model_copy(update={"path": "WS4+hWSM8+2xhFF+hWSM4", "ios": 256})
    assert path.requests == 5
    whole = [value + more for value in record.in_order.whole]
    ios = record.in_order.model_copy(update={"whole": whole})
    record = record.model_copy(update={"in_order": ios, "paths": [path]})
    return side.model_copy(update={"cells": {SYNC: [record]}})


@pytest.mark.parametrize(("each", "outcome"), [(5, Outcome.PASS), (6, Outcome.REGRESSION)])
def test_g2_5_the_threshold_of_a_whole_io_is_for_each_request(
    policy: Policy, each: int, outcome: Outcome
) -> None:
    """+5 for each request passed in each section, and blocked as +25 in O_SYNC writes."""
    sides = [side_result(side, {SYNC: counts(1)}) for side in ("base", "candidate")]
    base, other = of_five_requests(sides[0], 0), of_five_requests(sides[1], 5 * each)
    judged = instructions.judge_cells(base, other, policy, [SYNC])
    assert judged.outcome is outcome
    whole = judged.cells[0].whole
    assert whole is not None
    assert whole.threshold == 25
    if outcome is Outcome.REGRESSION:
        assert judged.headline[0].startswith("+30 instructions per UFS I/O")


def test_g2_5_growth_is_never_a_share_of_nothing(policy: Policy) -> None:
    base = side_result("base", {UFS: {V: [900_000] * 256}})
    other = side_result("candidate", {UFS: {V: [900_025] * 256}})
    judged = instructions.judge_cells(base, other, policy, [UFS])
    assert judged.headline[0].startswith("+25 instructions per UFS I/O in vfs_fs")


def test_pooled_whole_ios_have_the_largest_threshold_of_their_cells(policy: Policy) -> None:
    """What passes in each cell by its requests is not found in all of them together."""
    cells = [SYNC, SYNC.replace("t1", "t8"), SYNC.replace("4k", "128k")]
    base = of_five_requests(side_result("base", {SYNC: counts(1)}), 0)
    other = of_five_requests(side_result("candidate", {SYNC: counts(1)}), 25)
    base, other = (
        one.model_copy(update={"cells": dict.fromkeys(cells, one.cells[SYNC])})
        for one in (base, other)
    )
    judged = instructions.judge_cells(base, other, policy, cells)
    assert (judged.outcome, judged.pools) == (Outcome.PASS, [])


def of_eight_threads(side: SideResult, cell: str) -> SideResult:
    """The side's I/Os as those of eight threads, eight each: a boot has eight rounds."""
    record = side.cells[cell][0]
    assert record.in_order is not None
    ios = record.in_order.model_copy(update={"thread": [n // 8 for n in range(64)]})
    record = record.model_copy(update={"in_order": ios})
    return side.model_copy(update={"cells": {cell: [record]}})


@pytest.mark.parametrize(("cheaper", "moved"), [(0, True), (1, False)])
def test_eight_rounds_that_agree_ask_for_further_boots(
    policy: Policy, cheaper: int, moved: bool
) -> None:
    """One boot of 64 I/Os of eight threads cannot be as clear as a verdict: +50 in all passed."""
    cell = "emmc-128k-seqread-t8-direct"
    base = of_eight_threads(side_result("base", {cell: counts(1, n=64)}), cell)
    slow = changed(counts(1, n=64), S, lambda i: -50 if i % 8 < cheaper else 50)
    other = of_eight_threads(side_result("candidate", {cell: slow}), cell)
    judged = instructions.judge_cells(base, other, policy, [cell])
    assert (judged.open == [cell]) is moved
    judged = instructions.judge_cells(boots(*[base] * 3), boots(*[other] * 3), policy, [cell])
    assert (judged.outcome is Outcome.REGRESSION) is moved
