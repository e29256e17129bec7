"""Work outside I/Os: what is left of all that was executed, and when it is a regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from iotoll.records.models import Outcome, SideResult, WorkComparison, WorkRecord
from iotoll.records.models.run import Side
from iotoll.verdict.instructions import rule as instructions
from iotoll.verdict.policy import Policy, load_policy
from tests.unit.runs import side_result
from tests.unit.verdict.gates import UFS, Counts, S, counts

IOS = 256
USUAL = {"__schedule": 2000, "blk_mq_submit_bio": 500}


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy("instructions")


def worked(more: Mapping[str, float]) -> WorkRecord:
    """What a cell executed: the usual, and so many instructions per I/O more of some functions."""
    names = {name: USUAL.get(name, 0) + more.get(name, 0) for name in {*USUAL, *more}}
    functions = {name: round(count * IOS) for name, count in names.items()}
    total = sum(functions.values())
    return WorkRecord(ios=IOS, kernel=total, recorder=9, user=9, idle=9, functions=functions)


def side(
    name: Side,
    boots: Sequence[Mapping[str, float] | None],
    cell: Counts,
    changed: Sequence[str] = (),
) -> SideResult:
    """A side whose boots executed the usual and so much more; None: nothing counted it."""
    one = side_result(name, {UFS: cell})
    record = one.cells[UFS][0]
    works = [worked(more) if more is not None else None for more in boots]
    cells = {UFS: [record.model_copy(update={"work": work}) for work in works]}
    update = {"cells": cells, "boots": one.boots * len(boots), "changed": list(changed)}
    return one.model_copy(update=update)


def judged(
    policy: Policy,
    base: Sequence[Mapping[str, float] | None],
    candidate: Sequence[Mapping[str, float] | None],
    changed: Sequence[str] = (),
    cost: int = 0,
) -> tuple[instructions.Judgement, WorkComparison | None]:
    sides = (
        side("base", base, counts(1)),
        side("candidate", candidate, counts(1, {S: cost} if cost else {}), changed),
    )
    found = instructions.judge(*sides, policy, [UFS])
    return found, found.cells[0].work


def test_g1_2_work_that_no_io_waits_for_is_a_regression(policy: Policy) -> None:
    """Completion counted samples, and a delayed work spun for each: a pass with +4."""
    found, work = judged(policy, [{}] * 3, [{"fold_samples": 5000}] * 3, ["fold_samples"])
    assert found.outcome is Outcome.REGRESSION
    assert work is not None
    assert (work.moved, work.delta, work.total, work.inside) == ("grew", 5000, 7500, 0)
    assert [(f.name, f.candidate, f.changed) for f in work.functions] == [
        ("fold_samples", 5000, True)
    ]
    assert found.regressions == [f"{UFS}: work +5000 instructions (+200.0%)"]
    assert "+5,000 instructions of work outside I/Os per UFS I/O" in found.sentence


def test_g1_2_the_headline_leads_with_the_largest_difference(policy: Policy) -> None:
    """A little more of each section stood before 5,000 instructions that nobody waits for."""
    found, _ = judged(policy, [{}] * 3, [{"fold_samples": 5000}] * 3, ["fold_samples"], cost=60)
    assert found.headline[0].startswith("+4,9")
    section = "+60 instructions per UFS request in submission"
    assert any(line.startswith(section) for line in found.headline[1:])
    found, _ = judged(policy, [{}] * 3, [{"fold_samples": 100}] * 3, ["fold_samples"], cost=60)
    assert found.headline[0].startswith(section), "a section that grew by more"


def test_one_boot_that_shows_it_asks_for_further_ones(policy: Policy) -> None:
    found, _ = judged(policy, [{}], [{"worker": 5000}])
    assert found.open == [UFS]
    found, work = judged(policy, [{}] * 3, [{"worker": 5000}, {}, {"worker": 5000}])
    assert found.outcome is Outcome.PASS
    assert work is not None and work.moved == "same"


def test_g1_2_less_in_one_boot_asks_for_no_further_ones(policy: Policy) -> None:
    """The base's first boot read a bitmap in this cell: nearly each candidate was booted again."""
    found, work = judged(policy, [{"bitmap": 900}], [{}])
    assert found.open == [] and work is not None and work.moved == "same"


def test_a_cost_inside_ios_is_not_told_twice(policy: Policy) -> None:
    found, work = judged(policy, [{}] * 3, [{"queue": 330}] * 3, ["queue"], cost=330)
    assert found.outcome is Outcome.REGRESSION, "of the section"
    assert work is not None
    assert (work.moved, work.delta, work.inside, work.total) == ("same", 0, 330, 2830)


def test_a_cost_of_requests_is_taken_off_for_those_that_no_io_waits_for(policy: Policy) -> None:
    """The journal writes three more requests for each I/O: +995 of 2,640 was told as work."""
    base = side("base", [{}] * 3, counts(1))
    grew = side("candidate", [{"queue": 4 * 330}] * 3, counts(1, {S: 330}), ["queue"])
    for one in (base, grew):
        for boot in one.cells[UFS]:
            boot.requests["seen"] = 4 * boot.ios["seen"]
    (cell,) = instructions.judge(base, grew, policy, [UFS]).cells
    assert cell.work is not None
    assert (cell.work.moved, cell.work.changed, cell.work.inside) == ("same", 0, 4 * 330)


def test_g1_2_what_two_boots_of_the_base_differ_by_is_noise(policy: Policy) -> None:
    """And so is a small share of the total: fio is woken a few times more or less."""
    _, work = judged(policy, [{}, {"__schedule": 900}, {}], [{"__schedule": 1800}] * 3)
    assert work is not None and (work.moved, work.threshold) == ("same", 900)
    _, work = judged(policy, [{"fio": 100_000}] * 3, [{"fio": 102_900}] * 3)
    assert work is not None and work.moved == "same"
    _, work = judged(policy, [{"fio": 100_000}] * 3, [{"fio": 104_000}] * 3)
    assert work is not None and work.moved == "grew"


def test_what_moves_into_a_worker_and_grows_there_is_told(policy: Policy) -> None:
    """The same work, later: the total is as it was. More of it: the difference is outside."""
    same, work = judged(policy, [{}] * 3, [{}] * 3, cost=-400)
    assert same.outcome is Outcome.PASS
    assert work is not None and (work.moved, work.delta) == ("same", 0)
    _, work = judged(policy, [{}] * 3, [{"worker": 900}] * 3, cost=-400)
    assert work is not None and (work.moved, work.delta) == ("grew", 900)


@pytest.mark.parametrize(
    ("more", "changed", "moved"),
    [
        ({"__schedule": 499}, [], "same"),
        ({"__schedule": 501}, [], "grew"),
        ({"worker": 16}, ["worker"], "same"),
        ({"worker": 17}, ["worker"], "grew"),
        ({"worker": 17, "__schedule": -60}, ["worker"], "grew"),
        ({"worker": 17}, [], "same"),
        ({"__schedule": -501}, [], "shrank"),
    ],
)
def test_changed_functions_have_a_smaller_threshold(
    policy: Policy, more: Mapping[str, float], changed: Sequence[str], moved: str
) -> None:
    _, work = judged(policy, [{}] * 3, [more] * 3, changed)
    assert work is not None and work.moved == moved


def test_where_nobody_counted_there_is_no_figure(policy: Policy) -> None:
    for base, candidate in (([None], [{}]), ([{}], [None]), ([None], [None])):
        found, work = judged(policy, base, candidate)
        assert work is None
        assert found.outcome is Outcome.PASS


def test_the_policy_may_show_it_alone(policy: Policy) -> None:
    rule = policy.work.model_copy(update={"gated": False, "why": "shown only"})
    shown = policy.model_copy(update={"work": rule})
    found, work = judged(shown, [{}] * 3, [{"worker": 5000}] * 3)
    assert found.outcome is Outcome.PASS
    assert work is not None and (work.moved, work.gated) == ("grew", False)


def test_growth_of_changed_functions_is_not_told_as_what_others_shrank_by(policy: Policy) -> None:
    """Of +51 in a changed function, other functions' noise made -137."""
    more = {"fold_samples": 51, "__schedule": -188}
    _, work = judged(policy, [{}] * 3, [more] * 3, ["fold_samples"])
    assert work is not None
    assert (work.moved, work.delta, work.changed) == ("grew", 51, 51)
