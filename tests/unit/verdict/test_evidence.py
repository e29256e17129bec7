"""Function evidence: when the first boot decides, and what it leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from iotoll.gate.conclude import trailers
from iotoll.records import results
from iotoll.records.models import Outcome, Section, SideResult, SourceRecord, WorkRecord
from iotoll.records.models.analysis import ElementRecord
from iotoll.records.models.run import Side
from iotoll.verdict.instructions import rule
from iotoll.verdict.instructions.lines import ten_lines
from iotoll.verdict.policy import Policy, load_policy
from tests.unit.runs import EXAMPLES, make_run, side_result
from tests.unit.verdict.gates import EIGHT, NVME, UFS, C, R, S, V, changed, counts

IOS = 256
Some = Mapping[Section, Sequence[int | None]]
SEND, TICK = "ufshcd_queuecommand", "scheduler_tick"


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy("instructions")


def side(name: Side, cells: Mapping[str, Some], send: Mapping[str, float]) -> SideResult:
    """One boot, in which SEND executes so much for an I/O of a cell; the candidate changed it."""
    one = side_result(name, cells)
    records = {}
    for cell, (record,) in one.cells.items():
        functions = {SEND: round(send.get(cell, 1000) * IOS), TICK: 500 * IOS}
        total = sum(functions.values())
        work = WorkRecord(ios=IOS, kernel=total, recorder=0, user=0, idle=0, functions=functions)
        seen = sum(value is not None for value in cells[cell][S])
        requests = {**record.requests, "seen": seen}
        records[cell] = [record.model_copy(update={"work": work, "requests": requests})]
    return one.model_copy(update={"cells": records, "changed": [SEND]})


def judged(
    policy: Policy,
    base: Mapping[str, Some],
    other: Mapping[str, Some],
    send: Mapping[str, float],
) -> rule.Judgement:
    before, after = side("base", base, {}), side("candidate", other, send)
    return rule.judge(before, after, policy, list(base), by_evidence=True)


@pytest.mark.parametrize(
    ("theirs", "is_decided"), [(330, True), (166, True), (160, False), (0, False)]
)
def test_growth_that_changed_functions_have_most_of_needs_one_boot(
    policy: Policy, theirs: float, is_decided: bool
) -> None:
    base = {UFS: counts(1)}
    found = judged(policy, base, {UFS: counts(1, {S: 330})}, {UFS: 1000 + theirs})
    assert found.outcome is Outcome.REGRESSION
    assert found.open == ([] if is_decided else [UFS])
    (part,) = [one for one in found.cells[0].sections if one.section is S]
    assert (part.moved, part.delta) == ("grew", 330)
    assert ("one boot is enough" in part.confidence) is is_decided


def test_ios_without_a_request_do_not_count(policy: Policy) -> None:
    base = counts(1)
    half: Some = {**base, S: [value if i % 2 else None for i, value in enumerate(base[S])]}
    grown: Some = {**half, S: [value and value + 330 for value in half[S]]}
    before, after = ({UFS: one} for one in (half, grown))
    assert judged(policy, before, after, {UFS: 1000 + 165}).open == []
    assert judged(policy, before, after, {UFS: 1000 + 80}).open == [UFS]


def test_without_being_asked_for_it_decides_nothing(policy: Policy) -> None:
    sides = (
        side("base", {UFS: counts(1)}, {}),
        side("candidate", {UFS: counts(1, {S: 330})}, {UFS: 1330}),
    )
    assert rule.judge(*sides, policy, [UFS]).open == [UFS]


def test_a_cost_in_some_ios_needs_further_boots(policy: Policy) -> None:
    base = counts(1)
    some = changed(base, S, lambda i: 400 * (i % 8 == 0))
    assert judged(policy, {UFS: base}, {UFS: some}, {UFS: 1050}).open == [UFS]


def test_what_shrank_decides_nothing_by_itself(policy: Policy) -> None:
    found = judged(policy, {UFS: counts(1, {S: 330})}, {UFS: counts(1)}, {UFS: 670})
    assert (found.outcome, found.open) == (Outcome.PASS, [UFS])


def test_in_a_decided_device_other_parts_are_not_known(policy: Policy) -> None:
    base = {UFS: counts(1), EIGHT: counts(2)}
    other = {UFS: counts(1, {S: 330, C: -90}), EIGHT: counts(2)}
    found = judged(policy, base, other, {UFS: 1330})
    assert (found.outcome, found.open) == (Outcome.REGRESSION, [])
    moved = {one.section: (one.moved, one.why) for one in found.cells[0].sections}
    assert moved[S] == ("grew", "")
    assert moved[C][0] == "unknown" and "--boots 3" in moved[C][1]
    told = f"+330 instructions per UFS request in submission, in 1 of 2 workloads ({UFS})"
    assert found.headline == [told]


def test_a_cell_that_moved_otherwise_needs_further_boots_of_its_device(policy: Policy) -> None:
    base = {UFS: counts(1), EIGHT: counts(2)}
    other = {UFS: counts(1, {S: 330}), EIGHT: counts(2, {V: 40})}
    found = judged(policy, base, other, {UFS: 1330})
    assert found.open == [UFS, EIGHT]
    assert judged(policy, base, other, {UFS: 1330, EIGHT: 1040}).open == []


def test_another_device_is_decided_by_itself(policy: Policy) -> None:
    base = {UFS: counts(1), NVME: counts(2)}
    other = {UFS: counts(1, {S: 330}), NVME: counts(2, {R: 40})}
    assert judged(policy, base, other, {UFS: 1330}).open == [NVME]


def test_a_cell_without_values_decides_nothing(policy: Policy) -> None:
    base, other = {UFS: counts(1), EIGHT: counts(2)}, {UFS: counts(1, {S: 330})}
    before, after = side("base", base, {}), side("candidate", other, {UFS: 1330})
    found = rule.judge(before, after, policy, list(base), by_evidence=True)
    assert [v.outcome for v in found.cells] == [Outcome.REGRESSION, Outcome.INFRASTRUCTURE]
    assert found.open == []


def test_a_whole_io_stands_with_its_section(policy: Policy) -> None:
    def with_whole(one: SideResult, more: int) -> SideResult:
        (record,) = one.cells[UFS]
        assert record.in_order is not None
        order = record.in_order.model_copy(update={"whole": [20_000 + more] * IOS})
        return one.model_copy(
            update={"cells": {UFS: [record.model_copy(update={"in_order": order})]}}
        )

    before = with_whole(side("base", {UFS: counts(1)}, {}), 0)
    for section, moved in ((S, "grew"), (None, "unknown")):
        cost = {section: 330} if section else {}
        # Eight threads wait for each other: the whole grew by what others execute as well.
        after = with_whole(side("candidate", {UFS: counts(1, cost)}, {UFS: 1330}), 2640)
        found = rule.judge(before, after, policy, [UFS], by_evidence=True)
        whole = found.cells[0].whole
        assert whole is not None
        assert (whole.moved == moved) is (section is not None)
        assert found.open == ([] if section else [UFS])


def test_elements_have_functions_as_well(policy: Policy) -> None:
    def with_reads(one: SideResult, reads: int, function: str) -> SideResult:
        (record,) = one.cells[UFS]
        runs = [(reads, IOS)]
        sections = {each: [(0, IOS)] for each in (V, C, R)} | {S: runs}
        element = ElementRecord(sections=sections, whole=runs, functions={function: reads * IOS})
        vector = {"register_reads.ufs": element}
        return one.model_copy(
            update={"cells": {UFS: [record.model_copy(update={"vector": vector})]}}
        )

    cells = {UFS: counts(1)}
    before = with_reads(side("base", cells, {}), 0, SEND)
    for function, still_open in ((SEND, []), (TICK, [UFS])):
        after = with_reads(side("candidate", cells, {}), 1, function)
        found = rule.judge(before, after, policy, [UFS], by_evidence=True)
        assert (found.outcome, found.open) == (Outcome.REGRESSION, still_open)
        assert [(e.section, e.delta) for e in found.cells[0].elements if e.section] == [(S, 1)]


@pytest.mark.parametrize(
    ("theirs", "said"), [(330, "by the first boot"), (0, "asks for further boots")]
)
def test_the_last_line_tells_its_numbers(policy: Policy, theirs: float, said: str) -> None:
    before = side("base", {UFS: counts(1)}, {})
    after = side("candidate", {UFS: counts(1, {S: 330})}, {UFS: 1000 + theirs})
    last = ten_lines(before, after, policy, UFS, S).lines[-1]
    assert said in last
    have = f"changed functions have {theirs * IOS:+,.0f} of +84,480 in the cell of a boot"
    assert f"net 100% of the I/Os, at least 90%, and {have}, at least 50%" in last


def test_trailers_ask_for_all_boots(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    source = results.read(EXAMPLES / "source.json", SourceRecord)
    for accepts, asked in ((None, False), ([], False), (["ufs-* submission +330 why"], True)):
        update = {"side": "candidate", "accepts": accepts}
        results.write(run.side("candidate") / "source.json", source.model_copy(update=update))
        assert bool(trailers(run)) is asked
