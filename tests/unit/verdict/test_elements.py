"""Costs that are no instructions: each is judged by the rule, gated by its own threshold, named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from iotoll.records.models import Clock, Outcome, Section, SideResult, VerdictRecord
from iotoll.records.models.analysis import ElementRecord
from iotoll.verdict import accept
from iotoll.verdict.instructions import rule
from iotoll.verdict.instructions.lines import ten_lines
from iotoll.verdict.policy import Policy, load_policy
from tests.unit.runs import side_result
from tests.unit.verdict.gates import NVME, UFS, C, R, S, V, counts

BURST = "ufs-1024k-randread-t1-direct-libaio-qd32"
READS, BARRIERS, COPIES = "register_reads.UFS", "dsb", "copies"
Elements = Mapping[str, Mapping[Section, Sequence[int]]]


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy("instructions")


def packed(values: Sequence[int]) -> list[tuple[int | None, int]]:
    return [(value, 1) for value in values]


def with_elements(side: SideResult, elements: Mapping[str, Elements]) -> SideResult:
    """The side, whose cells have these elements; ``send`` has what is in submission."""
    cells = {}
    for cell, (record,) in side.cells.items():
        assert record.in_order is not None
        ios = len(record.in_order.thread)
        vector = {}
        for name, sections in elements.get(cell, {}).items():
            every = {s: list(sections.get(s, [0] * ios)) for s in (V, S, C, R)}
            whole = [sum(values) for values in zip(*every.values(), strict=True)]
            vector[name] = ElementRecord(
                sections={s: packed(values) for s, values in every.items()},
                whole=packed(whole),
                functions={"send": sum(every[S]), "interrupt": sum(every[C])},
            )
        order = record.in_order.model_copy(update={"whole": [10_000] * ios})
        cells[cell] = [record.model_copy(update={"vector": vector, "in_order": order})]
    return side.model_copy(update={"cells": cells})


def judged(
    policy: Policy,
    base: Elements,
    candidate: Elements,
    cell: str = UFS,
    changed: Sequence[str] = (),
) -> rule.Judgement:
    values = {cell: counts(1)}
    before = with_elements(side_result("base", values), {cell: base})
    after = with_elements(side_result("candidate", values), {cell: candidate})
    after = after.model_copy(update={"changed": list(changed)})
    return rule.judge(before, after, policy, [cell])


def last_line(
    policy: Policy, more: Elements, section: Section | None, changed: Sequence[str]
) -> str:
    """What `judge --explain` says at last of an element of a burst."""
    base, candidate = (side_result(s, {BURST: counts(1)}) for s in ("base", "candidate"))
    after = with_elements(candidate, {BURST: more}).model_copy(update={"changed": list(changed)})
    before = with_elements(base, {BURST: {READS: {}}})
    return ten_lines(before, after, policy, BURST, section, READS).lines[-1]


def test_where_ios_are_in_flight_at_once_a_changed_function_must_have_it(policy: Policy) -> None:
    """Fewer instructions in each I/O moved interrupts of a burst: all that is counted in them."""
    some = [int(i % 16 == 0) for i in range(256)]
    more = {READS: {S: some}}
    found = judged(policy, {}, more, BURST, ["interrupt"])
    assert found.outcome is Outcome.PASS
    assert [(e.section, e.gated, e.moved) for e in found.cells[0].elements] == [(S, False, "grew")]
    assert "in flight at once" in found.cells[0].elements[0].why
    assert last_line(policy, more, S, ["interrupt"]).startswith("The policy does not gate it")
    assert last_line(policy, more, S, ["send"]).startswith("It asks for further boots")
    assert "not compared: I/Os are in flight at once" in last_line(policy, more, None, ["send"])
    found = judged(policy, {}, more, BURST, ["send"])
    assert found.outcome is Outcome.REGRESSION
    # An I/O of a burst has the others' work: from call to return nothing is compared.
    only = policy.model_copy(update={"sections": {C: policy.sections[C]}})
    assert judged(only, {}, more, BURST, ["send"]).cells[0].elements == []
    assert judged(only, {}, more, UFS).outcome is Outcome.REGRESSION


def test_what_no_function_of_the_image_has_is_not_named(policy: Policy) -> None:
    before = with_elements(side_result("base", {UFS: counts(1)}), {UFS: {}})
    after = with_elements(
        side_result("candidate", {UFS: counts(1)}), {UFS: {READS: {S: [1] * 256}}}
    )
    record = after.cells[UFS][0]
    assert record.vector is not None
    vector = {READS: record.vector[READS].model_copy(update={"functions": {"[unknown]": 256}})}
    after = after.model_copy(
        update={"cells": {UFS: [record.model_copy(update={"vector": vector})]}}
    )
    found = rule.judge(before, after, policy, [UFS])
    assert found.headline == [f"+1 register read of UFS per UFS request in submission, in {UFS}"]


def test_one_register_read_more_for_each_io_blocks_and_is_named(policy: Policy) -> None:
    found = judged(policy, {READS: {C: [3] * 256}}, {READS: {S: [1] * 256, C: [3] * 256}})
    assert found.outcome is Outcome.REGRESSION
    line = f"+1 register read of UFS per UFS request in submission, in send, in {UFS}"
    assert found.headline == [line] and line in found.sentence
    wanted = "register_reads +1 register read of UFS for an I/O, submission in send()"
    assert found.regressions == [f"{UFS}: {wanted}"]
    (one,) = found.cells[0].elements
    assert (one.element, one.section, one.delta, one.gated) == (READS, S, 1, True)
    assert [(f.name, f.base, f.candidate) for f in one.functions] == [("send", 0, 1)]
    assert found.open == [UFS]


def test_an_element_that_the_base_has_not_counts_from_zero(policy: Policy) -> None:
    found = judged(policy, {}, {BARRIERS: {S: [1] * 256}})
    assert found.outcome is Outcome.REGRESSION
    assert found.headline[0].startswith("+1 dsb barrier per UFS request in submission")


def test_a_barrier_in_some_ios_is_a_cost_and_in_one_is_none(policy: Policy) -> None:
    some = [int(i % 16 == 0) for i in range(256)]
    found = judged(policy, {BARRIERS: {S: [1] * 256}}, {BARRIERS: {S: [1 + n for n in some]}})
    assert found.outcome is Outcome.REGRESSION
    assert found.cells[0].elements[0].delta == pytest.approx(1 / 16, abs=0.05)
    once = [2, *[1] * 255]
    same = judged(policy, {BARRIERS: {S: [1] * 256}}, {BARRIERS: {S: once}})
    assert same.outcome is Outcome.PASS and not same.cells[0].elements


def test_what_moves_both_ways_is_no_cost(policy: Policy) -> None:
    one = [i % 2 for i in range(256)]
    found = judged(policy, {"interrupts": {V: one}}, {"interrupts": {V: [1 - n for n in one]}})
    assert found.outcome is Outcome.PASS and not found.cells[0].elements


@pytest.mark.parametrize(("more", "outcome"), [(4, Outcome.PASS), (5, Outcome.REGRESSION)])
def test_each_element_has_its_own_threshold(policy: Policy, more: int, outcome: Outcome) -> None:
    found = judged(policy, {"dmb_one_way": {S: [9] * 256}}, {"dmb_one_way": {S: [9 + more] * 256}})
    assert found.outcome is outcome


def test_an_element_without_a_threshold_is_shown_and_blocks_nothing(policy: Policy) -> None:
    found = judged(policy, {COPIES: {V: [1] * 256}}, {COPIES: {V: [3] * 256}})
    assert found.outcome is Outcome.PASS and not found.headline
    (one,) = found.cells[0].elements
    assert (one.element, one.moved, one.gated, one.delta) == (COPIES, "grew", False, 2)
    words = "+2 calls that copy to or from user space per UFS I/O in vfs_fs"
    assert found.sentence.endswith(f". Also {words}, in {UFS}, shown only.")


def test_up_to_its_threshold_an_element_is_shown(policy: Policy) -> None:
    found = judged(policy, {"isb": {S: [9] * 256}}, {"isb": {S: [10] * 256}})
    assert found.outcome is Outcome.PASS
    (one,) = found.cells[0].elements
    assert (one.gated, one.delta, one.why) == (False, 1, "shown only: up to 2 more are allowed")


@pytest.mark.parametrize(
    ("more", "shown", "outcome"),
    [(3, False, Outcome.PASS), (8, True, Outcome.PASS), (17, True, Outcome.REGRESSION)],
)
def test_lines_are_shown_and_block_from_a_stated_size_on(
    policy: Policy, more: int, shown: bool, outcome: Outcome
) -> None:
    found = judged(policy, {"data_lines": {S: [90] * 256}}, {"data_lines": {S: [90 + more] * 256}})
    assert found.outcome is outcome
    assert [one.delta for one in found.cells[0].elements] == [more] * shown


def test_a_changed_function_is_named_before_what_a_timer_did(policy: Policy) -> None:
    values = {UFS: counts(1)}
    before = with_elements(side_result("base", values), {UFS: {"atomics": {S: [1] * 256}}})
    more = {UFS: {"atomics": {S: [2] * 256}}}
    after = with_elements(side_result("candidate", values), more)
    vector = after.cells[UFS][0].vector or {}
    noisy = vector["atomics"].functions | {"refresh_cpu_vm_stats": 9999}
    one = vector["atomics"].model_copy(update={"functions": noisy})
    record = after.cells[UFS][0].model_copy(update={"vector": {"atomics": one}})
    after = after.model_copy(update={"cells": {UFS: [record]}})
    for changed, named in (([], "refresh_cpu_vm_stats"), (["send"], "send")):
        side = after.model_copy(update={"changed": changed})
        (found,) = rule.judge(before, side, policy, [UFS]).cells[0].elements
        assert found.functions[0].name == named


def test_lines_are_named_before_what_misses_because_of_them(policy: Policy) -> None:
    before = {"data_lines": {S: [90] * 256}, "l1d_misses": {S: [40] * 256}}
    after = {"data_lines": {S: [96] * 256}, "l1d_misses": {S: [44] * 256}}
    found = judged(policy, before, after)
    assert found.outcome is Outcome.PASS
    assert found.sentence.index("+6 lines of data") < found.sentence.index("+4 misses of data")


def test_a_side_that_counted_no_lines_is_not_compared_in_them(policy: Policy) -> None:
    lines = {"data_lines": {S: [90] * 256}, "l1d_misses": {S: [40] * 256}}
    assert judged(policy, {READS: {S: [1] * 256}}, lines).cells[0].elements[0].element == READS
    assert len(judged(policy, {READS: {S: [1] * 256}}, lines).cells[0].elements) == 1


def test_instructions_that_grew_name_what_else_grew_with_them(policy: Policy) -> None:
    values = {UFS: counts(1)}
    before = with_elements(side_result("base", values), {UFS: {"atomics": {S: [1] * 256}}})
    more = {UFS: counts(1, {S: 20})}
    after = with_elements(side_result("candidate", more), {UFS: {"atomics": {S: [2] * 256}}})
    found = rule.judge(before, after, policy, [UFS])
    assert found.outcome is Outcome.REGRESSION
    words = "+1 atomic per UFS request in submission, in send"
    assert found.sentence.endswith(f". Also {words}, in {UFS}, shown only.")


def test_fewer_are_no_regression(policy: Policy) -> None:
    found = judged(policy, {READS: {S: [2] * 256}}, {READS: {S: [1] * 256}})
    assert found.outcome is Outcome.PASS
    assert found.improvements == [
        f"{UFS}: register_reads -1 register read of UFS for an I/O, submission in send()"
    ]


def test_a_whole_io_is_told_where_its_sections_do_not_have_it(policy: Policy) -> None:
    base = {READS: {S: [1] * 256}}
    values = {UFS: counts(1)}
    before = with_elements(side_result("base", values), {UFS: base})
    after = with_elements(side_result("candidate", values), {UFS: base})
    record = after.cells[UFS][0]
    assert record.vector is not None
    more = record.vector[READS].model_copy(update={"whole": packed([4] * 256)})
    cells = {UFS: [record.model_copy(update={"vector": {READS: more}})]}
    found = rule.judge(before, after.model_copy(update={"cells": cells}), policy, [UFS])
    (one,) = found.cells[0].elements
    assert (one.section, one.delta) == (None, 3)
    assert "+3 register reads of UFS per UFS I/O in the whole I/O" in found.headline[0]


def test_a_whole_io_that_blocks_is_told_where_a_section_of_it_is_shown_only(policy: Policy) -> None:
    """+6 isb barriers blocked an I/O, asked for a trailer, and were in no finding."""
    values = {UFS: counts(1)}
    before = with_elements(side_result("base", values), {UFS: {"isb": {S: [1] * 256}}})
    after = with_elements(side_result("candidate", values), {UFS: {"isb": {S: [3] * 256}}})
    record = after.cells[UFS][0]
    assert record.vector is not None
    more = record.vector["isb"].model_copy(update={"whole": packed([7] * 256)})
    cells = {UFS: [record.model_copy(update={"vector": {"isb": more}})]}
    found = rule.judge(before, after.model_copy(update={"cells": cells}), policy, [UFS])
    assert found.headline == [f"+6 isb barriers per UFS I/O in the whole I/O, in send, in {UFS}"]
    assert "+2 isb barriers per UFS request in submission, in send, in" in found.sentence


def test_a_side_that_counted_none_is_not_compared(policy: Policy) -> None:
    values = {UFS: counts(1)}
    base = side_result("base", values)
    candidate = with_elements(side_result("candidate", values), {UFS: {READS: {S: [1] * 256}}})
    assert rule.judge(base, candidate, policy, [UFS]).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("trailer", "outcome"),
    [
        (f"{UFS} register_reads +1 the erratum needs it", Outcome.PASS),
        ("ufs-* register_reads +2 the erratum needs it", Outcome.PASS),
        (f"{UFS} register_reads +10% the erratum needs it", Outcome.REGRESSION),
        (f"{NVME} register_reads +1 the erratum needs it", Outcome.REGRESSION),
        (f"{UFS} submission +1 the erratum needs it", Outcome.REGRESSION),
    ],
)
def test_growth_of_an_element_is_accepted_by_its_name(
    policy: Policy, trailer: str, outcome: Outcome
) -> None:
    found = judged(policy, {}, {READS: {S: [1] * 256}})
    verdict = VerdictRecord(
        outcome=found.outcome,
        exit_code=found.outcome.exit_code,
        sentence=found.sentence,
        clock=Clock.INSTRUCTIONS,
        unit=Clock.INSTRUCTIONS.unit,
        board="virt-arm64",
        matrix="default",
        policy="instructions",
        policy_sha256="0" * 64,
        can_gate=True,
        cells=found.cells,
        regressions=found.regressions,
        headline=found.headline,
    )
    assert verdict.contradiction() == ""
    after = accept.apply(verdict, [trailer], policy, "maintainer")
    assert after.outcome is outcome and after.contradiction() == ""
    if outcome is Outcome.PASS:
        assert after.regressions == [] and after.cells[0].elements[0].accepted
        assert accept.proposed(verdict) == [f"{UFS} register_reads +1"]
