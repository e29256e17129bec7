"""The verdict of a whole pipeline: the worst of its runs', and what is missing never passes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from iotoll.ci.plan import run_folder
from iotoll.core.errors import BrokenError, BrokenStep, InfrastructureError, IotollError
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow, record_failure
from iotoll.records import results
from iotoll.records.models import (
    Clock,
    FailureRecord,
    Outcome,
    PipelineRun,
    PlanRecord,
    SummaryRecord,
    VerdictRecord,
)
from iotoll.records.models.ci import WORST
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir
from iotoll.reports.page.evidence import gather
from iotoll.reports.page.headline import verdict_sentence
from iotoll.reports.publish.markdown import text
from iotoll.verdict.policy import load_any_policy
from iotoll.verdict.time.clocks import reading, shown_alone

SUMMARY = "summary.json"
_SHOWN = 2000  # characters of a sentence; what a candidate's build says may be of any length


def summarize(root: Path, plan: PlanRecord) -> SummaryRecord:
    """Judge what is in a pipeline's folder, and write ``summary.json``."""
    runs = [_run(root, name, "local") for name in plan.boards]
    left_out = []
    if not runs or worst(runs) in (Outcome.PASS, Outcome.INCONCLUSIVE):
        runs += [_run(root, name, "lava") for name in plan.lava_boards]
    else:
        left_out = [_not_run(root, name) for name in plan.lava_boards]
    runs = [_shown_only(root, run, {r.clock for r in runs}) for run in runs]
    if plan.refused:
        outcome, sentence = Outcome.BROKEN, f"The change is refused: {plan.refused}"
        runs = left_out = []
    else:
        outcome = worst(runs)
        sentence = next(r.sentence for r in runs if r.outcome is outcome)
    summary = SummaryRecord(
        outcome=outcome,
        exit_code=outcome.exit_code,
        sentence=sentence,
        plan=plan,
        runs=[*runs, *left_out],
        reading=_reading(root, runs),
    )
    results.write(root / SUMMARY, summary)
    return summary


def worst(runs: list[PipelineRun]) -> Outcome:
    """The outcome that a pipeline with these runs has.

    What a board that only informs says decides nothing where another one judges.
    """
    judges = [run for run in runs if run.clock is not None]
    failed = [run for run in runs if run.outcome in (Outcome.BROKEN, Outcome.INFRASTRUCTURE)]
    outcomes = {run.outcome for run in ([*judges, *failed] if judges else runs)}
    return next(outcome for outcome in WORST if outcome in outcomes)


def _verdict(root: Path, run: PipelineRun) -> VerdictRecord:
    return results.read(RunDir(root / run.run).verdict, VerdictRecord)


def _shown_only(root: Path, run: PipelineRun, clocks: set[Clock | None]) -> PipelineRun:
    """A run whose policy does not block by its clock passes where the other clock also judges."""
    if run.outcome is not Outcome.REGRESSION or run.clock is None or not clocks - {run.clock, None}:
        return run
    if run.clock in load_any_policy(RunDir.open(root / run.run).manifest.policy).blocks:
        return run
    sentence = f"{run.sentence} {shown_alone(run.clock)}"[:_SHOWN]
    return run.model_copy(update={"outcome": Outcome.PASS, "sentence": sentence})


def _reading(root: Path, runs: list[PipelineRun]) -> str:
    """What the first board of each clock that judged says, together with the other's."""
    first = {run.clock: run for run in reversed(runs) if run.clock is not None}
    if len(first) < len(Clock):
        return ""
    one, two = (_verdict(root, first[clock]) for clock in Clock)
    return reading(one, two)


def _not_run(root: Path, board: str) -> PipelineRun:
    sentence = "Not run: the deterministic gate failed."
    return _record(root, board, "lava", Outcome.INCONCLUSIVE, sentence)


def _run(root: Path, board: str, runner: Literal["local", "lava"]) -> PipelineRun:
    run = RunDir(run_folder(root, board, runner))
    try:
        outcome, sentence, clock = _outcome(run)
    except IotollError as error:
        outcome, clock = Outcome.INFRASTRUCTURE, None
        sentence = f"Its results cannot be read: {error}."
    return _record(root, board, runner, outcome, sentence, clock)


def _outcome(run: RunDir) -> tuple[Outcome, str, Clock | None]:
    for side in SIDES:
        path = run.build_failure(side)
        if path.is_file():
            record_failure(Flow(run, Progress(quiet=True)), "build", _error(path, side))
            break
    if not run.verdict.is_file():
        return Outcome.INFRASTRUCTURE, "No verdict: a job before it did not end.", None
    verdict = results.read(run.verdict, VerdictRecord)
    sentence = verdict_sentence(gather(run))
    return verdict.outcome, sentence, verdict.clock if verdict.can_gate else None


def _error(path: Path, side: Side) -> BrokenError | InfrastructureError:
    """Why a side has no image; a candidate's build may say so itself, and can only harm itself."""
    failure = results.read(path, FailureRecord)
    steps: dict[str, BrokenStep] = {"apply": "apply", "config": "config", "build": "build"}
    if side == "candidate" and failure.outcome is Outcome.BROKEN and failure.step in steps:
        return BrokenError(steps[failure.step], failure.message, failure.log_tail)
    return InfrastructureError(f"the {side} has no image: {failure.message}", failure.log_tail)


def _record(
    root: Path,
    board: str,
    runner: Literal["local", "lava"],
    outcome: Outcome,
    sentence: str,
    clock: Clock | None = None,
) -> PipelineRun:
    return PipelineRun(
        run=str(run_folder(root, board, runner).relative_to(root)),
        board=board,
        runner=runner,
        outcome=outcome,
        sentence=sentence[:_SHOWN],
        clock=clock,
    )


WORDS = {
    Outcome.PASS: "pass",
    Outcome.REGRESSION: "REGRESSION",
    Outcome.INCONCLUSIVE: "INCONCLUSIVE: the data do not allow a decision; this is not a pass",
    Outcome.INFRASTRUCTURE: "infrastructure: it says nothing about the change",
    Outcome.BROKEN: "BROKEN",
}


def pipeline_note(summary: SummaryRecord, details: Iterable[str], link: str | None) -> str:
    """The whole note in Markdown: verdict, one line per board, then each run's own note."""
    notes = list(details)
    lines = []
    if len(summary.runs) != 1 or len(notes) != 1:  # the note of a single run says all of it
        lines += [f"### iotoll: {WORDS[summary.outcome]}", "", text(summary.sentence), ""]
    if len(summary.runs) > 1:
        lines += ["| board | outcome | |", "|---|---|---|"]
        for run in summary.runs:
            where = "LAVA" if run.runner == "lava" else "virtual"
            words = text(run.sentence)
            lines.append(f"| {text(run.board)} ({where}) | {run.outcome.value} | {words} |")
        lines.append("")
    if summary.reading:
        lines += [text(summary.reading), ""]
    for part in notes:
        lines += [part.rstrip(), ""]
    plan = summary.plan
    pins = f"candidate `{plan.candidate[:12]}`, merge base `{plan.base[:12]}`"
    lines.append(f"[Pipeline with all results]({link}), {pins}" if link else pins)
    return "\n".join(lines) + "\n"
