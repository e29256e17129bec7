"""The experiment on the rule: stored gates judged again, the null, and costs that are added."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from iotoll_lab.experiments.rule import (
    LACKS,
    SHIFTS,
    Again,
    Exchanged,
    again,
    exchanged,
    first,
    null,
    power,
    rule_command,
    with_shift,
)

from iotoll.records import results
from iotoll.records.models import CellRecord, Outcome, SideResult, VerdictRecord, WorkRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir
from iotoll.verdict.instructions.rule import judge_cells
from iotoll.verdict.policy import load_policy
from tests.unit.runs import EXAMPLES, make_run, side_result
from tests.unit.verdict.gates import UFS, Counts, S, boots, changed, chaotic, counts

POLICY = load_policy("instructions")


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A stored pass: three boots of one kernel on each side, with a little noise."""
    made = make_run(tmp_path / "run")
    numbers: dict[Side, tuple[int, ...]] = {"base": (1, 2, 3), "candidate": (4, 5, 6)}
    sides = {
        side: boots(*(side_result(side, {UFS: chaotic(counts(1), seed, 0.02)}) for seed in seeds))
        for side, seeds in numbers.items()
    }
    for side, found in sides.items():
        results.write(made.root / "sides" / side / "result.json", found)
    judged = judge_cells(sides["base"], sides["candidate"], POLICY, [UFS])
    example = results.read(EXAMPLES / "verdict.json", VerdictRecord)
    stored = example.model_copy(
        update={
            "outcome": judged.outcome,
            "exit_code": judged.outcome.exit_code,
            "cells": judged.cells,
            "regressions": [],
            "limits": [],
            "pools": [],
        }
    )
    assert judged.outcome is Outcome.PASS
    results.write(made.verdict, stored)
    return made


def test_a_gate_is_judged_again_beside_its_verdict(run: RunDir) -> None:
    found = again(run, POLICY)
    assert found == Again("run", 1, 5, "pass", "pass", 0, 0, 0, 0, [])
    stored = results.read(run.verdict, VerdictRecord)
    cell = stored.cells[0]
    grew = cell.sections[1].model_copy(update={"moved": "grew", "delta": 99.0})
    cell = cell.model_copy(
        update={"sections": [cell.sections[0], grew, *cell.sections[2:]], "outcome": "regression"}
    )
    more = {"cells": [cell], "outcome": Outcome.REGRESSION, "exit_code": 1}
    results.write(run.verdict, stored.model_copy(update=more))
    found = again(run, POLICY)
    assert (found.outcome_before, found.outcome) == ("regression", "pass")
    assert found.changed == [f"{UFS} submission: grew, now same"]


def test_first_boots_say_what_all_boots_say_or_leave_it_open(run: RunDir) -> None:
    sides = {s: results.read(run.side(s) / "result.json", SideResult) for s in SIDES}
    shift = next(one for one in SHIFTS if one.name == "+305 in each I/O")
    shifted = with_shift(sides["candidate"], S, shift, np.random.default_rng(1), [UFS])
    results.write(run.side("candidate") / "result.json", shifted)
    row = first(run, POLICY)
    assert (row.outcome, row.outcome_first, row.open) == ("regression", LACKS, 1), "no functions"

    def worked(record: CellRecord, more: int) -> CellRecord:
        work = WorkRecord(
            ios=1,
            kernel=1,
            recorder=0,
            user=0,
            idle=0,
            functions={"send": 1000 + more * len(counts(1)[S])},
        )
        requests = {**record.requests, "seen": len(counts(1)[S])}
        return record.model_copy(update={"work": work, "requests": requests})

    for one, more in ((sides["base"], 0), (shifted, 305)):
        cells = {UFS: [worked(record, more) for record in one.cells[UFS]]}
        update = {"cells": cells, "changed": ["send"]}
        results.write(run.side(one.side) / "result.json", one.model_copy(update=update))
    row = first(run, POLICY)
    assert (row.outcome_first, row.open, row.lost, row.new) == ("regression", 0, [], [])
    assert row.said == row.all == 2, "the section and the whole I/O"


def test_boots_of_one_base_do_not_differ(run: RunDir) -> None:
    assert null(run, POLICY).moved == []
    assert null(run, POLICY).comparisons == 3 * 5


def test_an_exact_cost_is_added_to_its_section_and_the_whole(run: RunDir) -> None:
    side = results.read(run.side("candidate") / "result.json", type(side_result("base", {})))
    shift = next(one for one in SHIFTS if one.name == "+305 in every 16th")
    other = with_shift(side, S, shift, np.random.default_rng(1), [UFS])
    for before, after in zip(side.cells[UFS], other.cells[UFS], strict=True):
        assert before.in_order is not None
        assert after.in_order is not None
        more = np.array(after.in_order.sections[S], int) - np.array(
            before.in_order.sections[S], int
        )
        assert (sorted(set(more.tolist())), int((more > 0).sum())) == ([0, 305], 16)
        assert np.subtract(after.in_order.whole, before.in_order.whole).tolist() == more.tolist()


def test_the_power_table_counts_cells(run: RunDir, tmp_path: Path) -> None:
    rows = [row for row in power(run, POLICY, 1) if row.section == "submission"]
    found = {row.shift: row.found for row in rows}
    assert set(found) == {shift.name for shift in SHIFTS}
    assert all(row.cells == 1 and row.elsewhere == 0 for row in rows)
    assert (found["+5 in each I/O"], found["+305 in every 16th"]) == (1, 1)
    out = tmp_path / "table.json"
    done = CliRunner().invoke(
        rule_command,
        [str(run.root), "--what", "shifts", "--out", str(out)],
        catch_exceptions=False,
    )
    assert done.exit_code == 0
    assert "1 of 1" in done.output
    assert len(json.loads(out.read_text())) == 4 * len(SHIFTS)


def test_a_cost_is_an_improvement_with_the_sides_exchanged(run: RunDir) -> None:
    slow = changed(counts(1), S, lambda _: 50)

    def judged(base: Counts, candidate: Counts) -> Exchanged:
        sides: dict[Side, Counts] = {"base": base, "candidate": candidate}
        for side, values in sides.items():
            found = boots(*[side_result(side, {UFS: values})] * 3)
            results.write(run.root / "sides" / side / "result.json", found)
        return exchanged(run, POLICY)

    assert judged(counts(1), slow).grew == []
    found = judged(slow, counts(1))
    assert found.outcome == "regression" and f"{UFS} submission" in found.grew
