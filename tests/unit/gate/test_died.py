"""A crash that did not repeat stands first in the verdict, and no pass hides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.gate.conclude import with_coverage
from iotoll.records import results
from iotoll.records.models import BootRecord, Outcome, SelectionRecord
from iotoll.records.models.run import Side
from tests.unit.runs import EXAMPLES, make_run

WHY = "Kernel panic - not syncing [crash] (LAVA job 7 on b-01)"


@pytest.mark.parametrize(
    ("side", "before", "after"),
    [
        ("candidate", Outcome.PASS, Outcome.INCONCLUSIVE),
        ("candidate", Outcome.REGRESSION, Outcome.REGRESSION),
        ("base", Outcome.PASS, Outcome.PASS),
    ],
)
def test_g1_a_crash_that_did_not_repeat_is_in_the_first_line(
    tmp_path: Path, side: Side, before: Outcome, after: Outcome
) -> None:
    run = make_run(tmp_path / "run")
    record = results.read(EXAMPLES / "boot.json", BootRecord).model_copy(update={"died": [WHY]})
    results.write(run.boot(side, 1) / "boot.json", record)
    fields = with_coverage(run, "No section grew.", ["fio differs"], before)
    assert fields.get("outcome", before) is after
    first = f"Boot 1 of the {side} failed once ({WHY}), and ran when it was repeated."
    assert fields["sentence"].startswith(first) and "No section grew." in fields["sentence"]
    assert fields["warnings"][0] == first and fields["warnings"][-1] == "fio differs"


def test_g1_what_broke_or_was_the_labs_says_nothing_more(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    record = results.read(EXAMPLES / "boot.json", BootRecord).model_copy(update={"died": [WHY]})
    results.write(run.boot("base", 1) / "boot.json", record)
    assert with_coverage(run, "It broke.", [], Outcome.BROKEN)["sentence"].startswith("It broke.")


def test_a_family_that_the_board_does_not_run_is_in_the_verdict(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    selected = results.read(run.selection, SelectionRecord)
    left = selected.model_copy(update={"left_out": {"queues": "virt-arm64-smp4"}})
    results.write(run.selection, left)
    warnings = with_coverage(run, "No section grew.", [], Outcome.PASS)["warnings"]
    told = "family queues was not run: --board virt-arm64-smp4 --cells queues runs it"
    assert told in warnings
