"""Documents that contradict themselves are nobody's result: somebody edited them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from iotoll.cli import cli
from iotoll.core.errors import ResultError
from iotoll.records import results
from iotoll.records.models import Outcome, PipelineRun, PlanRecord, SummaryRecord, VerdictRecord

DATA = Path(__file__).parents[2] / "golden/data/runs"
GREW = "regression"
TWINS = {
    "pairs": 768, "exact": 0.0, "commonest": 329, "commonest_share": 0.99, "mean": 329.0,
    "above": 768, "below": 0, "size": 12,
}  # fmt: skip
"""What today's verdicts have of each section; these runs are older."""


def edited(tmp_path: Path, edit: Callable[[dict[str, Any]], None], case: str = GREW) -> Path:
    run = tmp_path / "run"
    shutil.copytree(DATA / case, run)
    path = run / "verdict.json"
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))
    return run


def passed(data: dict[str, Any]) -> None:
    data |= {"outcome": "pass", "exit_code": 0}


def cells_passed(data: dict[str, Any]) -> None:
    passed(data)
    for cell in data["cells"]:
        cell["outcome"] = "pass"


def nothing_moved(data: dict[str, Any]) -> None:
    cells_passed(data)
    data |= {"regressions": [], "pools": [], "headline": []}
    for cell in data["cells"]:
        parts = [*cell["sections"], *([cell["whole"]] if cell.get("whole") else [])]
        for part in parts:
            if part["moved"] == "grew":
                part |= {"moved": "same", "paired": TWINS, "why": ""}


def undecided(data: dict[str, Any]) -> None:
    data |= {"outcome": "inconclusive", "exit_code": 3}


def one_cell(data: dict[str, Any]) -> None:
    passed(data)
    data["cells"] = [c for c in data["cells"] if c["outcome"] == "pass"]


def no_cells(data: dict[str, Any]) -> None:
    passed(data)
    data["cells"] = []


def not_gated(data: dict[str, Any]) -> None:
    nothing_moved(data)
    for cell in data["cells"]:
        for section in cell["sections"]:
            section["gated"] = False
        cell.pop("whole", None)


EDITS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "outcome": (passed, "growth blocks"),
    "outcome alone": (lambda d: d.update(outcome="pass"), "the exit code is 1"),
    "exit code": (lambda d: d.update(exit_code=0), "the exit code is 0"),
    "cells": (cells_passed, "growth of it blocks"),
    "figures": (nothing_moved, "it says that nothing moved"),
    "not gated": (not_gated, "not all that the policy gates was compared"),
    "inconclusive": (undecided, "growth blocks"),
    "cells left out": (one_cell, "regressions"),
    "no cells": (no_cells, "regressions"),
    "broken": (lambda d: d.update(outcome="broken", exit_code=5), "no failure says why"),
    "infrastructure": (lambda d: d.update(outcome="infrastructure", exit_code=4), "growth blocks"),
}


@pytest.mark.parametrize("name", EDITS)
def test_g1_9_an_edited_outcome_is_not_published(tmp_path: Path, name: str) -> None:
    edit, words = EDITS[name]
    run, out = edited(tmp_path, edit), tmp_path / "out"
    done = CliRunner().invoke(cli, ["publish", str(run), "--out", str(out), "--only", "note"])
    assert isinstance(done.exception, ResultError)
    assert "verdict.json: contradicts itself: " in str(done.exception)
    assert words in str(done.exception)
    assert not (out / "note.md").exists()


@pytest.mark.parametrize("command", ["report", "reproduce"])
def test_g1_9_every_reader_of_a_verdict_refuses_it(tmp_path: Path, command: str) -> None:
    run = edited(tmp_path, passed)
    done = CliRunner().invoke(cli, [command, str(run)])
    assert isinstance(done.exception, ResultError) and "contradicts itself" in str(done.exception)


def test_g1_9_a_failure_and_its_outcome_are_one(tmp_path: Path) -> None:
    run = edited(tmp_path, passed, "broken")
    with pytest.raises(ResultError, match="the outcome is pass, and its failure is broken"):
        results.read(run / "verdict.json", VerdictRecord)


def test_g1_9_a_pass_made_a_regression_is_noticed_too(tmp_path: Path) -> None:
    run = edited(tmp_path, lambda d: d.update(outcome="regression", exit_code=1), "pass")
    with pytest.raises(ResultError, match="nothing that grew blocks"):
        results.read(run / "verdict.json", VerdictRecord)


def test_g1_9_what_contradicts_itself_is_not_written_either(tmp_path: Path) -> None:
    verdict = results.read(DATA / GREW / "verdict.json", VerdictRecord)
    wrong = verdict.model_copy(update={"outcome": Outcome.PASS, "exit_code": 0})
    with pytest.raises(ResultError, match="growth blocks"):
        results.write(tmp_path / "verdict.json", wrong)
    assert not list(tmp_path.iterdir())


def test_g1_9_a_pipelines_summary_is_the_worst_of_its_runs(tmp_path: Path) -> None:
    plan = results.read(Path("results-schema/valid/plan.json"), PlanRecord)
    one = PipelineRun(
        run="virtual/virt-arm64", board="virt-arm64", runner="local", outcome="regression",
        sentence="It grew.",
    )  # fmt: skip
    path = tmp_path / "summary.json"
    summary = SummaryRecord(
        outcome=Outcome.REGRESSION, exit_code=1, sentence="It grew.", plan=plan, runs=[one]
    )
    results.write(path, summary)
    for changes, words in (
        ({"outcome": "pass", "exit_code": 0}, "the worst run is regression"),
        ({"exit_code": 0}, "the exit code is 0"),
        ({"outcome": "pass", "exit_code": 0, "runs": []}, "the worst run is none"),
    ):
        path.write_text(json.dumps(json.loads(summary.model_dump_json()) | changes))
        with pytest.raises(ResultError, match=words):
            results.read(path, SummaryRecord)


def alone(tmp_path: Path, outcome: str, **changes: Any) -> VerdictRecord:
    """A verdict of a pass, with something in its first cell (`work`) or in the whole of it."""

    def change(data: dict[str, Any]) -> None:
        work = changes.pop("work", None)
        data |= {"outcome": outcome, "exit_code": Outcome(outcome).exit_code, **changes}
        if work:
            data["cells"][0] |= {"work": work, "outcome": outcome}

    return results.read(edited(tmp_path, change, "pass") / "verdict.json", VerdictRecord)


WORK = {
    "base": 80000.0, "candidate": 100000.0, "delta": 20000.0, "relative": 0.25, "threshold": 100.0,
    "gated": True, "moved": "grew", "confidence": "sure", "total": 100000.0, "inside": 0.0,
}  # fmt: skip
RATE = {
    "cell": "ufs-1024k-randread", "base": 1.0, "candidate": 2.0, "relative": 1.0,
    "threshold": 0.02, "moved": "grew",
}  # fmt: skip
LIMIT = {"name": "ufs.queue.max_sectors_kb", "base": "1024", "candidate": "128", "gated": True}


@pytest.mark.parametrize(
    ("grown", "words"),
    [
        ({"work": WORK}, "growth of it blocks"),
        ({"throughput": [RATE]}, "throughput fell that nobody accepted"),
        ({"limits": [LIMIT]}, "limits differ that nobody accepted"),
    ],
)
def test_g1_9_what_is_no_section_blocks_alone(
    tmp_path: Path, grown: dict[str, Any], words: str
) -> None:
    assert alone(tmp_path / "a", "regression", **grown).outcome is Outcome.REGRESSION
    with pytest.raises(ResultError, match=words):
        alone(tmp_path / "b", "pass", **grown)
    ((name, value),) = grown.items()
    (first,) = value if isinstance(value, list) else (value,)
    agreed = {**first, "accepted": "an erratum"}
    taken = {name: [agreed] if isinstance(value, list) else agreed}
    assert alone(tmp_path / "c", "pass", **taken).outcome is Outcome.PASS
    with pytest.raises(ResultError, match=r"nothing .*(blocks|not accepted)"):
        alone(tmp_path / "d", "regression", **taken)
