"""Limits and throughput that differ: named first, no plain pass, accepted by a trailer alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from iotoll.records.models import CellVerdict, Outcome, Section, SideResult, VerdictRecord
from iotoll.records.models.run import FactRecord, Side
from iotoll.verdict import limits
from iotoll.verdict.accept import apply, proposed
from iotoll.verdict.policy import (
    AcceptRule,
    LimitsRule,
    Policy,
    TimePolicy,
    load_any_policy,
    load_policy,
)
from tests.unit.runs import side_result
from tests.unit.verdict.test_accept import verdict

DEEP = "ufs-1024k-randread-t1-direct-libaio-qd32"
BASE = {"ufs.queue.max_sectors_kb": "1024", "ufs.host.can_queue": "31", "nvme.queue.x": "1"}
COUNTS = {Section.SUBMISSION: [5000] * 30}


def side(name: Side, *boots: Mapping[str, str], span: int | None = None) -> SideResult:
    found = side_result(name, {DEEP: COUNTS})
    record = found.cells[DEEP][0]
    record = record.model_copy(
        update={"span": span, "ios": {**record.ios, "seen": 100}, "invalid": None}
    )
    made = [
        found.boots[0].model_copy(update={"facts": FactRecord(limits=dict(facts))})
        for facts in boots
    ]
    return found.model_copy(update={"boots": made, "cells": {DEEP: [record] * len(made)}})


def passed() -> VerdictRecord:
    return verdict(ufs_a={Section.SUBMISSION: 0}).model_copy(
        update={"sentence": "No section of 1 cells grew past its threshold."}
    )


def policy(name: str = "instructions", differ: str = "regression") -> Policy | TimePolicy:
    loaded = load_any_policy(name)
    rules = {
        "accept": AcceptRule(who="author"),
        "limits": LimitsRule.model_validate({"differ": differ}),
    }
    return loaded.model_copy(update=rules)


LOWER = {**BASE, "ufs.queue.max_sectors_kb": "128"}


@pytest.mark.parametrize("clock", ["instructions", "time"])
def test_g1_3_a_lower_limit_is_no_plain_pass_and_stands_first(clock: str) -> None:
    found = limits.state(passed(), side("base", BASE), side("candidate", LOWER), policy(clock))
    assert (found.outcome, found.exit_code) == (Outcome.REGRESSION, 1)
    assert found.sentence.startswith("Limits differ: UFS max_sectors_kb 1024 -> 128. No section")
    assert found.regressions == ["limit ufs.queue.max_sectors_kb: 1024 -> 128"]
    assert found.without_limits is Outcome.PASS


def test_g1_3_a_higher_limit_needs_a_word_too_and_a_trailer_gives_it() -> None:
    higher = {**BASE, "ufs.queue.max_sectors_kb": "2048"}
    rules = policy()
    found = limits.state(passed(), side("base", BASE), side("candidate", higher), rules)
    assert proposed(found) == ["ufs.queue.max_sectors_kb 1024 -> 2048"]
    trailer = f"{proposed(found)[0]} the controller can"
    done = apply(found, [trailer], rules, None)
    assert (done.outcome, done.exit_code, done.regressions) == (Outcome.PASS, 0, [])
    assert done.limits[0].accepted == "the controller can"
    assert done.sentence == "No limit blocks: 1 limit that differs is accepted: the controller can."
    assert done.accepted is not None
    assert done.accepted[0].moves == ["limit ufs.queue.max_sectors_kb"]


@pytest.mark.parametrize(
    "trailer",
    [
        "ufs.queue.max_sectors_kb 1024 -> 64 other value",
        "ufs.queue.max_sectors_kb 512->2048 other value",
        "nvme.* 1024 -> 2048 other disk",
        "ufs.queue.max_sectors_kb 1024 -> 2048",
        "ufs.queue.max_sectors_kb reason",
    ],
)
def test_g1_3_a_trailer_that_names_something_else_accepts_nothing(trailer: str) -> None:
    higher = {**BASE, "ufs.queue.max_sectors_kb": "2048"}
    found = limits.state(passed(), side("base", BASE), side("candidate", higher), policy())
    done = apply(found, [trailer], policy(), None)
    assert done.outcome is Outcome.REGRESSION
    assert done.accepted is not None and done.accepted[0].why and not done.accepted[0].moves


def test_one_trailer_accepts_the_same_on_several_disks() -> None:
    names = ("ufs.queue.read_ahead_kb", "nvme.queue.read_ahead_kb")
    base, candidate = ({n: value for n in names} for value in ("128", "64"))
    found = limits.state(passed(), side("base", base), side("candidate", candidate), policy())
    assert proposed(found) == ["*.queue.read_ahead_kb 128 -> 64"]
    done = apply(found, ["*.queue.read_ahead_kb 128->64 less memory"], policy(), None)
    assert done.outcome is Outcome.PASS and "2 limits that differ are accepted" in done.sentence


def test_an_approver_must_agree_where_the_policy_says_so() -> None:
    rules = policy().model_copy(update={"accept": AcceptRule(who="approver")})
    found = limits.state(passed(), side("base", BASE), side("candidate", LOWER), rules)
    trailer = "ufs.queue.* 1024 -> 128 erratum"
    assert apply(found, [trailer], rules, None).outcome is Outcome.REGRESSION
    assert apply(found, [trailer], rules, "Maintainer").outcome is Outcome.PASS


def test_a_limit_that_is_accepted_does_not_carry_growth_along() -> None:
    grown = verdict(ufs_a={Section.SUBMISSION: 329})
    found = limits.state(grown, side("base", BASE), side("candidate", LOWER), policy())
    assert found.outcome is Outcome.REGRESSION
    limit, growth = "ufs.queue.max_sectors_kb 1024 -> 128 ok", "ufs-a submission +330 ok"
    assert apply(found, [limit], policy(), None).outcome is Outcome.REGRESSION
    assert apply(found, [growth], policy(), None).outcome is Outcome.REGRESSION
    assert apply(found, [limit, growth], policy(), None).outcome is Outcome.PASS


def test_the_policy_may_leave_it_undecided_until_it_is_accepted() -> None:
    rules = policy(differ="inconclusive")
    found = limits.state(passed(), side("base", BASE), side("candidate", LOWER), rules)
    assert (found.outcome, found.exit_code) == (Outcome.INCONCLUSIVE, 3)
    done = apply(found, ["ufs.* 1024 -> 128 erratum"], rules, None)
    assert done.outcome is Outcome.PASS


def test_what_said_nothing_of_the_patch_before_says_no_more_when_it_is_accepted() -> None:
    unmeasured = passed().model_copy(update={"outcome": Outcome.INCONCLUSIVE, "exit_code": 3})
    found = limits.state(unmeasured, side("base", BASE), side("candidate", LOWER), policy())
    assert found.outcome is Outcome.REGRESSION
    done = apply(found, ["ufs.* 1024 -> 128 erratum"], policy(), None)
    assert done.outcome is Outcome.INCONCLUSIVE


def test_a_limit_that_is_gone_blocks_and_a_new_one_is_named() -> None:
    gone = {name: value for name, value in BASE.items() if name != "ufs.host.can_queue"}
    found = limits.changed(side("base", BASE), side("candidate", gone), LimitsRule())
    assert [(one.name, one.candidate, one.gated) for one in found] == [
        ("ufs.host.can_queue", limits.ABSENT, True)
    ]
    more = {**BASE, "ufs.queue.new": "1"}
    state = limits.state(passed(), side("base", BASE), side("candidate", more), policy())
    assert state.outcome is Outcome.PASS
    assert [(one.base, one.gated) for one in state.limits] == [(limits.ABSENT, False)]


def test_a_candidate_that_tells_no_limit_is_no_pass() -> None:
    found = limits.state(passed(), side("base", BASE), side("candidate", {}), policy())
    assert found.outcome is Outcome.REGRESSION and len(found.limits) == len(BASE)


def test_records_without_limits_are_judged_as_before() -> None:
    before = passed()
    found = limits.state(before, side("base", {}), side("candidate", {}), policy())
    assert (found.outcome, found.limits) == (Outcome.PASS, [])


def test_boots_on_several_boards_differ_where_the_base_has_no_such_value() -> None:
    boards = [{"ufs.queue.x": "1"}, {"ufs.queue.x": "2"}]
    base = side("base", *boards)
    assert limits.changed(base, side("candidate", *boards), LimitsRule()) == []
    other = side("candidate", boards[0], {"ufs.queue.x": "3"})
    assert limits.changed(base, other, LimitsRule())[0].candidate == "1|3"


def test_names_that_the_policy_ignores_say_nothing() -> None:
    rule = LimitsRule(ignore=["ufs.queue.*"])
    assert limits.changed(side("base", BASE), side("candidate", LOWER), rule) == []


def test_a_smoke_test_names_limits_and_decides_nothing() -> None:
    smoke = passed().model_copy(update={"can_gate": False, "outcome": Outcome.INCONCLUSIVE})
    found = limits.state(smoke, side("base", BASE), side("candidate", LOWER), policy())
    assert found.outcome is Outcome.INCONCLUSIVE and found.limits and "Limits" in found.sentence
    assert apply(found, ["ufs.* 1024 -> 128 x"], policy(), None).outcome is Outcome.INCONCLUSIVE


def deep(base: int | None, candidate: int | None) -> VerdictRecord:
    before = passed().model_copy(
        update={"cells": [CellVerdict(cell=DEEP, outcome=Outcome.PASS, sections=[])]}
    )
    sides = side("base", BASE, span=base), side("candidate", BASE, span=candidate)
    return limits.state(before, *sides, policy())


def test_g1_3_fewer_ios_a_second_on_the_modelled_device_are_a_regression() -> None:
    found = deep(5_000_000, 8_000_000)
    assert found.outcome is found.cells[0].outcome is Outcome.REGRESSION
    assert found.sentence.startswith(
        f"{DEEP}: throughput on the modelled device 20,000 to 12,500 IOPS (+60.0% time per I/O)."
    )
    assert proposed(found) == [f"{DEEP} throughput +60.0%"]
    rules = policy().model_copy(update={"accept": AcceptRule(who="author", at_most=0.7)})
    done = apply(found, [f"{DEEP} throughput +60.0% fewer slots"], rules, None)
    assert done.outcome is done.cells[0].outcome is Outcome.PASS
    assert apply(found, [f"{DEEP} throughput +50% x"], rules, None).outcome is Outcome.REGRESSION


def test_throughput_may_change_as_much_as_the_policy_says() -> None:
    assert deep(5_000_000, 5_090_000).outcome is Outcome.PASS
    assert deep(5_000_000, 5_110_000).outcome is Outcome.REGRESSION
    assert deep(5_000_000, 4_000_000).throughput[0].moved == "shrank"


def test_throughput_that_nobody_measured_is_said_not_to_be_judged() -> None:
    found = deep(None, None)
    assert found.throughput[0].moved == "unknown"
    assert any("not judged" in text for text in found.warnings)


def test_every_policy_has_rules_for_limits(tmp_path: Path) -> None:
    assert load_policy("instructions").throughput.cells
    path = tmp_path / "old.toml"
    text = (Path(__file__).parents[3] / "pipelines/policies/time.toml").read_text()
    path.write_text(text.replace('[limits]\ndiffer = "regression"\nignore = []\n', ""))
    assert load_any_policy(str(path)).limits == LimitsRule()
