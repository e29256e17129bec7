"""CPUs that share a clock: what affected functions differ by has the usual threshold."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from iotoll.cli import cli
from iotoll.measure.elements import runs_of
from iotoll.records import results
from iotoll.records.models import Outcome, SideResult
from iotoll.records.models.analysis import ElementRecord
from iotoll.records.models.run import Side
from iotoll.verdict.instructions import rule
from iotoll.verdict.instructions.lines import ten_lines
from iotoll.verdict.policy import CellException, Policy, load_policy
from tests.unit.runs import make_run, side_result
from tests.unit.verdict.gates import UFS, S, boots, changed, counts

IOS = 256
Cost = Callable[[int], int]


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy("instructions")


def side(name: Side, total: Cost, affected: Cost | None, cpus: int = 4) -> SideResult:
    """A boot with several CPUs: what I/O number i costs more, and in the affected functions."""
    one = side_result(name, {UFS: changed(counts(1), S, total)})
    record = one.cells[UFS][0]
    assert record.in_order is not None
    order = record.in_order.model_copy(update={"whole": [9_000 + total(i) for i in range(IOS)]})
    update: dict[str, object] = {"vector": {}, "in_order": order}
    if affected is not None:
        values = [100 + affected(i) for i in range(IOS)]
        runs = runs_of(values)
        update["affected"] = ElementRecord(
            sections={S: runs}, whole=runs, functions={"send": sum(values)}
        )
    command = ["qemu", "-smp", str(cpus)]
    boot = one.boots[0].model_copy(update={"command": command})
    cells = {UFS: [record.model_copy(update=update)]}
    return one.model_copy(update={"boots": [boot], "cells": cells})


def gated(
    policy: Policy, total: Cost, affected: Cost | None, base: Sequence[Cost] = (), cpus: int = 4
) -> tuple[rule.Judgement, float]:
    """Three boots of each side; ``base`` is what its boots have more. By how much S grew."""
    costs = [*base, *[lambda i: 0] * 3][:3]
    none = None if affected is None else lambda i: 0
    bases = [side("base", one, none, cpus) for one in costs]
    sides = boots(*bases), boots(*[side("candidate", total, affected, cpus)] * 3)
    found = rule.judge(*sides, policy, [UFS])
    (section,) = [one for one in found.cells[0].sections if one.section is S]
    return found, section.delta if section.has_moved else 0.0


@pytest.mark.parametrize("cost", [5, 8, 20, 31])
def test_a_small_cost_in_the_patchs_functions_is_found(policy: Policy, cost: int) -> None:
    found, delta = gated(policy, lambda i: cost, lambda i: cost)
    assert (found.outcome, delta) == (Outcome.REGRESSION, cost)
    (section,) = [one for one in found.cells[0].sections if one.section is S]
    assert section.threshold == 4
    assert f"by exactly {cost}. " in section.confidence
    assert section.confidence.endswith(rule.AFFECTED)


@pytest.mark.parametrize("cost", [4, 3, 0])
def test_up_to_the_usual_threshold_it_passes(policy: Policy, cost: int) -> None:
    assert gated(policy, lambda i: cost, lambda i: cost)[0].outcome is Outcome.PASS


@pytest.mark.parametrize("cost", [5, 8, 29, -29])
def test_the_same_in_other_functions_is_noise(policy: Policy, cost: int) -> None:
    found, delta = gated(policy, lambda i: cost, lambda i: 0)
    assert (found.outcome, delta) == (Outcome.PASS, 0.0)


def test_what_the_patchs_functions_save_elsewhere_is_no_cost(policy: Policy) -> None:
    """Six instructions more spare a call of a function that did not change."""
    assert gated(policy, lambda i: -20, lambda i: 6)[1] == 0.0
    assert gated(policy, lambda i: 0, lambda i: 25)[0].outcome is Outcome.PASS


def test_noise_elsewhere_does_not_hide_it(policy: Policy) -> None:
    found, delta = gated(policy, lambda i: 8 + 20 * (i % 3 == 0), lambda i: 8)
    assert (found.outcome, delta) == (Outcome.REGRESSION, 8)


def test_the_size_is_theirs_where_the_total_moved_by_about_as_much(policy: Policy) -> None:
    found, delta = gated(policy, lambda i: 40 + 25 * (i % 2), lambda i: 40)
    assert (found.outcome, delta) == (Outcome.REGRESSION, 40)


def test_a_large_cost_is_told_as_the_total(policy: Policy) -> None:
    found, delta = gated(policy, lambda i: 300, lambda i: 40)
    assert (found.outcome, delta) == (Outcome.REGRESSION, 300)


def test_what_two_boots_of_the_base_differ_by_is_no_cost(policy: Policy) -> None:
    found, _ = gated(policy, lambda i: 8 * (i % 8 == 0), lambda i: 8 * (i % 8 == 0))
    assert found.outcome is Outcome.REGRESSION
    busy = side("base", lambda i: 8 * (i % 8 == 1), lambda i: 8 * (i % 8 == 1))
    idle = side("base", lambda i: 0, lambda i: 0)
    other = side("candidate", lambda i: 8 * (i % 8 == 0), lambda i: 8 * (i % 8 == 0))
    judged = rule.judge(boots(idle, busy, idle), boots(*[other] * 3), policy, [UFS])
    assert judged.outcome is Outcome.PASS


def test_without_that_count_the_larger_threshold_holds(policy: Policy) -> None:
    assert gated(policy, lambda i: 20, None)[0].outcome is Outcome.PASS


def test_on_one_cpu_nothing_of_it_is_asked(policy: Policy) -> None:
    found, _ = gated(policy, lambda i: 8, None, cpus=1)
    counted, _ = gated(policy, lambda i: 8, lambda i: 0, cpus=1)
    assert found.cells == counted.cells
    assert rule.AFFECTED not in found.cells[0].sections[1].confidence


def test_an_exceptions_threshold_holds_for_all_functions(policy: Policy) -> None:
    exception = CellException(cells=["*"], sections=[S, "whole"], threshold=40, why="it waits")
    lenient = policy.model_copy(update={"exceptions": [exception]})
    assert gated(lenient, lambda i: 20, lambda i: 20)[0].outcome is Outcome.PASS


def test_the_lines_of_both_counts_are_printed(tmp_path: Path, policy: Policy) -> None:
    bases = boots(*[side("base", lambda i: 0, lambda i: 0)] * 3)
    other = boots(*[side("candidate", lambda i: 8, lambda i: 8)] * 3)
    found = ten_lines(bases, other, policy, UFS, S)
    assert found.lines[-1].endswith("or none: it did not move.")
    assert found.affected is not None and found.affected.affected is None
    assert found.affected.lines[-1] == "Growth of it is a regression."
    assert found.affected.lines[2].startswith("Size: 768 of 768 I/Os grew by more than 4 ")
    run = make_run(tmp_path / "run")
    for one in (bases, other):
        results.write(run.side(one.side) / "result.json", one)
    words = ["judge", str(run.root), "--explain", UFS, "submission"]
    text = CliRunner().invoke(cli, words).output
    assert text.count(" 1. Pairs: ") == 2
    told = f"{UFS}: submission, of functions that the candidate affects, in instructions"
    assert told in " ".join(text.split())
    stored = json.loads(CliRunner().invoke(cli, [*words, "--json"]).output)
    assert stored["affected"]["lines"][-1] == "Growth of it is a regression."
