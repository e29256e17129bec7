"""Explaining a verdict by itself: what the policy asks for, after the judgement.

The verdict stands before anything here runs, and nothing here can change it. What goes wrong is
said, and kept in ``explain.json`` for the report.
"""

from __future__ import annotations

from iotoll.core.errors import ResultError
from iotoll.records import results
from iotoll.records.models import (
    Clock,
    CoverageRecord,
    ExplainRecord,
    Outcome,
    VerdictRecord,
)
from iotoll.records.rundir import SIDES, RunDir, images
from iotoll.run.building import Building
from iotoll.run.setup import Setup
from iotoll.verdict.policy import Policy


def after_verdict(setup: Building) -> None:
    """Explain the run's regressions where its policy says so, and it can be done here."""
    record = setup.run.explained
    if setup.run.manifest.kind != "gate" or not setup.run.verdict.is_file():
        return
    # What they import takes half a second, which the gate has while make works.
    from iotoll.explain import gate_coverage
    from iotoll.explain.explainer import Explainer, write_pictures

    if not is_of(setup.run):
        record.unlink(missing_ok=True)
    verdict = results.read(setup.run.verdict, VerdictRecord)
    if setup.stored:
        return
    if is_current(setup.run):
        return
    if not wanted(setup, verdict):
        if gate_coverage.is_asked_for(setup) and not _covers(setup):
            gate_coverage.after_verdict(setup)
        return

    try:
        explainer = Explainer(setup.run, setup.progress)
        cells, left_out = explainer.largest(setup.instructions_policy.explain.cells)
        found, sides = explainer.explain(cells, left_out=left_out)
        write_pictures(explainer.folder, sides, found)
    except Exception as error:  # whatever it is, the verdict stands
        setup.progress.say(f"the verdict stands, but it is not explained: {error}")
        results.write(record, _failed(setup, verdict, str(error)))
    else:
        setup.progress.say(f"explained {len(found.cells)} cells: iotoll explain shows them")


def wanted(setup: Setup, verdict: VerdictRecord) -> bool:
    """Whether the policy asks for it, on an exact board that this machine boots itself."""
    manifest, policy = setup.run.manifest, setup.policy
    if manifest.clock is not Clock.INSTRUCTIONS or manifest.runner != "local":
        return False
    if not isinstance(policy, Policy) or not setup.is_exact:
        return False
    if not verdict.cells or verdict.failure is not None:
        return False
    when = policy.explain.when
    # Of limits alone no function tells anything.
    outcomes = {verdict.outcome, verdict.without_limits or verdict.outcome}
    return when == "always" or (when == "regression" and outcomes == {Outcome.REGRESSION})


def is_current(run: RunDir) -> bool:
    """Whether the record is of the kernels that the run has now, and dissects cells."""
    return is_of(run) and bool(results.read(run.explained, ExplainRecord).cells)


def _covers(setup: Building) -> bool:
    """Whether the record has what ran in all cells of the run's kernels."""
    if not is_of(setup.run):
        return False
    covered = results.read(setup.run.explained, ExplainRecord).coverage.cells
    return set(covered) == set(setup.cells)


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


def _failed(setup: Setup, verdict: VerdictRecord, why: str) -> ExplainRecord:
    nothing = CoverageRecord(cells=[], functions=[], gone=[], sentence="")
    return ExplainRecord(
        board=setup.run.manifest.board,
        outcome=verdict.outcome,
        cells=[],
        coverage=nothing,
        failure=why,
    )
