"""``iotoll gate --confirm time``: how much time is it on this machine's CPU?

After the exact board's verdict the same base and candidate are built for a native board
(host-uml) and boot there in pairs, in a run of its own in the run's folder. What it found is shown
beside the verdict, whose outcome stays as it is.
"""

from __future__ import annotations

import platform

from iotoll.boards.board import load_board
from iotoll.core.errors import IotollError, UsageError
from iotoll.gate.flow import Flow, execute_alone
from iotoll.patch.candidate import CandidateChoice
from iotoll.records import results
from iotoll.records.models import Clock, Outcome, RunManifest, VerdictRecord
from iotoll.records.rundir import RunDir
from iotoll.run.manifest import RunRequest, new_manifest
from iotoll.run.opening import locked, open_run
from iotoll.verdict.policy import Policy
from iotoll.verdict.time.clocks import CONFIRMED, DECIDED, confirmed


def check(manifest: RunManifest) -> None:
    """Raise UsageError where ``--confirm`` would show what the run itself, or another one, does."""
    if manifest.clock is Clock.TIME:
        raise UsageError("--confirm time: the run itself is on that clock")
    if manifest.beside is not None:
        raise UsageError("--confirm and --beside both show another clock: choose one")
    if manifest.candidate_kind == "images":
        raise UsageError("--confirm needs sources, which the native board's kernel is built from")


def _may(flow: Flow, asked: bool) -> bool:
    """Whether a verdict of this run may be confirmed: else all steps follow each other."""
    policy = flow.policy
    return isinstance(policy, Policy) and (asked or policy.confirm.when != "never")


def is_wanted(flow: Flow, verdict: VerdictRecord, asked: bool) -> bool:
    """Whether the command (``asked``) or the policy wants it, and there is a verdict to confirm."""
    policy, manifest = flow.policy, flow.run.manifest
    if not isinstance(policy, Policy) or not verdict.cells or verdict.outcome not in DECIDED:
        return False
    if manifest.beside is not None or manifest.candidate_kind == "images":
        return False
    grew = verdict.outcome is Outcome.REGRESSION
    return asked or policy.confirm.when == "always" or (grew and policy.confirm.when != "never")


def execute(flow: Flow, until: str, asked: bool) -> VerdictRecord | None:
    """As `iotoll.gate.flow.execute_alone`, with the native board before the report."""
    if until != "report" or flow.run.manifest.kind != "gate" or not _may(flow, asked):
        return execute_alone(flow, until)
    verdict = execute_alone(flow, "judge")
    if verdict is None or verdict.failure is not None:
        return verdict
    if is_wanted(flow, verdict, asked):
        verdict = _confirm(flow, verdict)
    with locked(flow.run):
        flow.report()
    return verdict


def _confirm(flow: Flow, verdict: VerdictRecord) -> VerdictRecord:
    """Ask the native board; the verdict then has what it found."""
    assert isinstance(flow.policy, Policy)
    if (machine := platform.machine()) != "x86_64":
        flow.progress.say(f"not confirmed: {flow.policy.confirm.board} needs x86-64, not {machine}")
        return verdict
    try:
        native = _native(flow.run, flow.policy)
        execute_alone(Flow(native, flow.progress), until="judge")
        found = confirmed(flow.run, verdict)
    except IotollError as error:
        flow.progress.say(f"not confirmed: {error}")
        return verdict
    results.write(flow.run.verdict, found)
    return found


def _native(run: RunDir, policy: Policy) -> RunDir:
    """The native board's run of the same base and candidate."""
    asked = run.manifest
    choice = CandidateChoice(asked.candidate_kind, asked.tree, asked.base, asked.candidate)
    manifest = new_manifest(
        RunRequest(
            command=(*asked.command,),
            kind="gate",
            choice=choice,
            board=policy.confirm.board,
            matrix=load_board(policy.confirm.board).matrix,
            boots=policy.confirm.pairs,
        )
    )
    return open_run(run.root / CONFIRMED, manifest)
