"""A verdict that is explained by itself stays as it is, whatever comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.errors import InfrastructureError
from iotoll.core.progress import Progress
from iotoll.explain import automatic, explainer
from iotoll.gate.flow import Flow
from iotoll.records import results
from iotoll.records.models import CellVerdict, ExplainRecord, Outcome, VerdictRecord
from iotoll.records.rundir import RunDir
from tests.unit.runs import EXAMPLES, agreeing, make_run


def judged(run: RunDir, outcome: Outcome) -> bytes:
    example = results.read(EXAMPLES / "verdict.json", VerdictRecord)
    part = (
        example.cells[0]
        .sections[0]
        .model_copy(
            update={"gated": True, "moved": "grew" if outcome is Outcome.REGRESSION else "same"}
        )
    )
    cells = [
        CellVerdict(
            cell=name,
            outcome=outcome,
            sections=[part.model_copy(update={"delta": size})],
        )
        for name, size in (("a", 10.0), ("b", 300.0), ("c", -20.0))
    ]
    results.write(run.verdict, agreeing(example.model_copy(update={"cells": cells}), outcome))
    return run.verdict.read_bytes()


def test_a_failing_explanation_is_said_and_changes_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, board="virt-arm64")
    before = judged(run, Outcome.REGRESSION)

    def fail(*_: object, **__: object) -> None:
        raise InfrastructureError("the plugin was not built")

    monkeypatch.setattr(explainer.Explainer, "explain", fail)
    automatic.after_verdict(Flow(run, Progress(quiet=True)))
    assert run.verdict.read_bytes() == before
    record = results.read(run.explained, ExplainRecord)
    assert record.failure == "the plugin was not built" and record.cells == []


@pytest.mark.parametrize(
    ("board", "outcome", "stored"),
    [
        ("virt-arm64", Outcome.PASS, False),
        ("virt-arm64-stock", Outcome.REGRESSION, False),
        ("virt-arm64", Outcome.REGRESSION, True),
    ],
)
def test_only_regressions_on_exact_boards_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, board: str, outcome: Outcome, stored: bool
) -> None:
    run = make_run(tmp_path, board=board)
    judged(run, outcome)
    called: list[object] = []
    monkeypatch.setattr(explainer.Explainer, "explain", lambda *a, **k: called.append(a))
    automatic.after_verdict(Flow(run, Progress(quiet=True), stored=stored))
    assert not called and not (run.explained).exists()


def test_the_cells_that_grew_most_come_first(tmp_path: Path) -> None:
    run = make_run(tmp_path, board="virt-arm64")
    judged(run, Outcome.REGRESSION)
    found = explainer.Explainer(run, Progress(quiet=True)).largest(2)
    assert found == (["b", "c"], 1)
