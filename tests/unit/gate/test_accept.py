"""A trailer from a commit message to the verdict file: sources, manifest, flow."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from iotoll.core.progress import Progress
from iotoll.gate import command
from iotoll.gate import flow as flow_module
from iotoll.gate.flow import Flow
from iotoll.records import results
from iotoll.records.models import Outcome, RunManifest, VerdictRecord
from iotoll.records.rundir import RunDir
from iotoll.run.opening import open_run
from tests.golden.runs import real


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    ("by", "outcome"), [("Maintainer", Outcome.PASS), (None, Outcome.REGRESSION)]
)
def test_the_flow_holds_the_trailers_against_the_verdict(
    by: str | None, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(shutil.copytree(real("regression").root, tmp_path / "run"))
    change(root / "run.json", approved_by=by)
    run = RunDir.open(root)
    change(run.side("candidate") / "source.json", accepts=["ufs-* submission +350 checks"])
    judged = results.read(run.verdict, VerdictRecord)
    monkeypatch.setattr(flow_module, "conclude", lambda _: judged)
    Flow(run, Progress(quiet=True), stored=True).judge()
    found = results.read(run.verdict, VerdictRecord)
    assert found.outcome is outcome
    assert found.accepted is not None and bool(found.accepted[0].moves) == (by is not None)


def test_an_approval_is_given_after_the_boots(tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(real("regression").root, root)
    known = results.read(root / "run.json", RunManifest)
    given = known.model_copy(update={"approved_by": "Maintainer", "created": "later"})
    run = open_run(root, given)
    assert run.manifest.approved_by == "Maintainer"
    assert run.manifest.created == known.created
    assert command._identity(given) == command._identity(known)
    assert open_run(root, known).manifest.approved_by is None
