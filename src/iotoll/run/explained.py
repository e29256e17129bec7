"""Explaining a verdict by itself: what the policy asks for, after the judgement.

The verdict stands before anything here runs, and nothing here can change it. What goes wrong is
said, and kept in ``explain.json`` for the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iotoll.core.errors import ResultError
from iotoll.records import results
from iotoll.records.models import (
    BuildRecord,
    Clock,
    CoverageRecord,
    ExplainRecord,
    Outcome,
    VerdictRecord,
)
from iotoll.records.rundir import SIDES, RunDir
from iotoll.verdict.policy import Policy

if TYPE_CHECKING:
    from iotoll.run.flow import Flow


def after_verdict(flow: Flow) -> None:
    """Explain the run's regressions where its policy says so, and it can be done here."""
    record = flow.run.explained
    if flow.run.manifest.kind != "gate" or not flow.run.verdict.is_file():
        return
    # They need this module, or its own caller.
    from iotoll.run import ran
    from iotoll.run.explain import Explainer, write_pictures

    if not is_of(flow.run):
        record.unlink(missing_ok=True)
    verdict = results.read(flow.run.verdict, VerdictRecord)
    if flow.stored:
        return
    ran.after_verdict(flow)
    if not wanted(flow, verdict) or is_current(flow.run):
        return

    try:
        explainer = Explainer(flow.run, flow.progress)
        cells, left_out = explainer.largest(flow.instructions_policy.explain.cells)
        found, sides = explainer.explain(cells, left_out=left_out)
        write_pictures(explainer.folder, sides)
    except Exception as error:  # whatever it is, the verdict stands
        flow.progress.say(f"the verdict stands, but it is not explained: {error}")
        results.write(record, _failed(flow, verdict, str(error)))
    else:
        flow.progress.say(f"explained {len(found.cells)} cells: iotoll explain shows them")


def wanted(flow: Flow, verdict: VerdictRecord) -> bool:
    """Whether the policy asks for it, on an exact board that this machine boots itself."""
    manifest, policy = flow.run.manifest, flow.policy
    if manifest.clock is not Clock.INSTRUCTIONS or manifest.runner != "local":
        return False
    if not isinstance(policy, Policy) or not flow.is_exact or flow.board.arch != "arm64":
        return False
    if not verdict.cells or verdict.failure is not None:
        return False
    when = policy.explain.when
    # Of limits alone no function tells anything.
    outcomes = {verdict.outcome, verdict.without_limits or verdict.outcome}
    return when == "always" or (when == "regression" and outcomes == {Outcome.REGRESSION})


def is_current(run: RunDir) -> bool:
    """Whether the record is of the kernels that the run has now, and takes cells apart."""
    return is_of(run) and bool(results.read(run.explained, ExplainRecord).cells)


def is_of(run: RunDir) -> bool:
    """Whether the record is of the kernels that the run has now, and says something."""
    path = run.explained
    if not path.is_file() or not all((run.build(s) / "build.json").is_file() for s in SIDES):
        return False
    try:
        found = results.read(path, ExplainRecord)
    except ResultError:
        return False
    return found.failure is None and found.images == images(run)


def images(run: RunDir) -> list[str]:
    """What tells whether a record is of the run's kernels as they are now."""
    return [
        results.read(run.build(side) / "build.json", BuildRecord).image_sha256 for side in SIDES
    ]


def _failed(flow: Flow, verdict: VerdictRecord, why: str) -> ExplainRecord:
    nothing = CoverageRecord(cells=[], functions=[], gone=[], sentence="")
    return ExplainRecord(
        board=flow.run.manifest.board,
        outcome=verdict.outcome,
        cells=[],
        coverage=nothing,
        failure=why,
    )
