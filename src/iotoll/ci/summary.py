"""The verdict of a whole pipeline: the worst of its runs', and what is missing never passes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from iotoll import results
from iotoll.ci.plan import run_folder
from iotoll.errors import BrokenError, BrokenStep, InfrastructureError, IotollError
from iotoll.flow import Flow, record_failure
from iotoll.models import (
    FailureRecord,
    Outcome,
    PipelineRun,
    PlanRecord,
    SummaryRecord,
    VerdictRecord,
)
from iotoll.models.run import Side
from iotoll.progress import Progress
from iotoll.rundir import SIDES, RunDir

SUMMARY = "summary.json"
WORST = (
    Outcome.BROKEN,
    Outcome.REGRESSION,
    Outcome.INFRASTRUCTURE,
    Outcome.INCONCLUSIVE,
    Outcome.PASS,
)
_SHOWN = 2000  # characters of a sentence; what a candidate's build says may be of any length


def summarize(root: Path, plan: PlanRecord) -> SummaryRecord:
    """Judge what is in a pipeline's folder, and write ``summary.json``."""
    runs = [_run(root, name, "local") for name in plan.boards]
    go_on = not runs or worst(runs) in (Outcome.PASS, Outcome.INCONCLUSIVE)
    for name in plan.lava_boards:
        runs.append(_run(root, name, "lava") if go_on else _not_run(root, name))
    if plan.refused:
        outcome, sentence = Outcome.BROKEN, f"The change is refused: {plan.refused}"
        runs = []
    else:
        outcome = worst([r for r in runs if not _left_out(r)])
        sentence = next(r.sentence for r in runs if r.outcome is outcome)
    summary = SummaryRecord(
        outcome=outcome,
        exit_code=outcome.exit_code,
        sentence=sentence,
        plan=plan,
        runs=runs,
    )
    results.write(root / SUMMARY, summary)
    return summary


def worst(runs: list[PipelineRun]) -> Outcome:
    """The outcome that a pipeline with these runs has."""
    outcomes = {run.outcome for run in runs}
    return next(outcome for outcome in WORST if outcome in outcomes)


_NOT_RUN = "Not run: the deterministic gate failed."


def _left_out(run: PipelineRun) -> bool:
    return run.sentence == _NOT_RUN


def _not_run(root: Path, board: str) -> PipelineRun:
    return _record(root, board, "lava", Outcome.INCONCLUSIVE, _NOT_RUN)


def _run(root: Path, board: str, runner: Literal["local", "lava"]) -> PipelineRun:
    run = RunDir(run_folder(root, board, runner))
    try:
        outcome, sentence = _outcome(run)
    except IotollError as error:
        outcome, sentence = Outcome.INFRASTRUCTURE, f"Its results cannot be read: {error}."
    return _record(root, board, runner, outcome, sentence)


def _outcome(run: RunDir) -> tuple[Outcome, str]:
    for side in SIDES:
        path = run.build_failure(side)
        if path.is_file():
            record_failure(Flow(run, Progress(quiet=True)), "build", _error(path, side))
            break
    if not run.verdict.is_file():
        return Outcome.INFRASTRUCTURE, "There is no verdict: a job before it did not end."
    verdict = results.read(run.verdict, VerdictRecord)
    return verdict.outcome, verdict.sentence


def _error(path: Path, side: Side) -> BrokenError | InfrastructureError:
    """Why a side has no image; a candidate's build may say so itself, and can only harm itself."""
    failure = results.read(path, FailureRecord)
    steps: dict[str, BrokenStep] = {"apply": "apply", "config": "config", "build": "build"}
    if side == "candidate" and failure.outcome is Outcome.BROKEN and failure.step in steps:
        return BrokenError(steps[failure.step], failure.message, failure.log_tail)
    return InfrastructureError(f"the {side} has no image: {failure.message}", failure.log_tail)


def _record(
    root: Path, board: str, runner: Literal["local", "lava"], outcome: Outcome, sentence: str
) -> PipelineRun:
    return PipelineRun(
        run=str(run_folder(root, board, runner).relative_to(root)),
        board=board,
        runner=runner,
        outcome=outcome,
        sentence=sentence[:_SHOWN],
    )
