"""Commits of strangers: each builds and boots in a sandbox of its own, by the pipeline's rules.

A is trusted and fills the cache. Every other commit reads it, and only its kernel and its boot's
records leave the sandbox (docs/threat-model.md). So no commit can change what another one, or a
later search, is built from, and none sees a token or the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from iotoll.boards.ramdisk import get_image
from iotoll.boots.local import boot_again
from iotoll.boots.schedule import plan_boot
from iotoll.core.errors import BrokenError, BrokenStep, InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow
from iotoll.kernels import sandbox
from iotoll.kernels.source import open_tree
from iotoll.measure.collect import analyze
from iotoll.records import results
from iotoll.records.failure import failure_of
from iotoll.records.models import (
    BootRecord,
    BuildRecord,
    CellRecord,
    FailureRecord,
    Outcome,
    SourceRecord,
    VerdictRecord,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from iotoll.run import sandboxed
from iotoll.run.sandboxed import surroundings

RECORDS, FAILURE = "records", "measure-failure.json"


def build(flow: Flow, side: Side) -> BuildRecord:
    """Build one side of a commit's run; ``base`` is A, which is trusted.

    Raises BrokenError for a commit that does not build, or that carries what no kernel patch does.
    """
    flow.source()
    _refuse(flow)
    get_image(flow.board.arch, flow.progress)  # made from Debian's packages: needs the network
    _built(flow, "base", trusted=True)
    if side == "candidate":
        if not flow.build_job(side).is_done and sandboxed.warm(flow.run, flow.kernel_spec) != 0:
            raise InfrastructureError("A does not build in the sandbox: see its log")
        _built(flow, side, trusted=False)
    return results.read(flow.run.build(side) / "build.json", BuildRecord)


def boot(run: RunDir, side: Side, cells: Sequence[str], folder: Path) -> None:
    """Boot one side in the sandbox, once; its cells' records are copied to ``folder``.

    Raises BrokenError for a kernel that does not boot or survive the workload.
    """
    sandboxed.check_build(run, side)
    words = [*sandbox.INSIDE, "measure", str(run.root), side, ",".join(cells)]
    status = sandbox.run(words, run.root, None, around=surroundings(run.manifest))
    failed = run.root / FAILURE
    if failed.is_file():
        _raise(results.read(failed, FailureRecord))
    if status != 0:
        raise InfrastructureError(f"a boot in the sandbox ended with status {status} in silence")
    for cell in cells:
        # Read by its schema: what wrote it ran beside a kernel that is not ours.
        results.write(
            folder / f"{cell}.json", results.read(run.root / RECORDS / f"{cell}.json", CellRecord)
        )
    results.write_text(folder / "done", "")


def measure(run: RunDir, side: Side, cells: Sequence[str]) -> None:
    """What `boot` runs inside the sandbox; a failure is left in a file beside the records."""
    flow = Flow(run, Progress())
    try:
        bench = replace(flow.bench, cells=list(cells), calibrate=False)
        plan = plan_boot(run, bench, side, 1)
        boot_again(plan, lambda done: None, tell=flow.progress.say)
        record = results.read(plan.folder / "boot.json", BootRecord)
        for cell, values in analyze(plan.folder, record)[0].items():
            results.write(run.root / RECORDS / f"{cell}.json", values)
    except (BrokenError, InfrastructureError) as error:
        failure = failure_of(error, "boot")
        results.write(run.root / FAILURE, failure)
        raise SystemExit(failure.outcome.exit_code) from error


def gate(flow: Flow) -> VerdictRecord:
    """Build both sides of a run, neither of which is trusted, and judge them in the sandbox."""
    flow.source()
    get_image(flow.board.arch, flow.progress)
    path = flow.run.side("base") / "source.json"
    source = results.read(path, SourceRecord)
    # As a candidate, so that no image of another kernel lies in make's folder when it builds.
    results.write(path, source.model_copy(update={"side": "candidate"}))
    for side in flow.sides:
        _built(flow, side, trusted=False)
        sandboxed.check_build(flow.run, side)
    words = [*sandbox.INSIDE, "gate", str(flow.run.root)]
    sandbox.run(words, flow.run.root, None, around=surroundings(flow.run.manifest))
    if not flow.run.verdict.is_file():
        raise InfrastructureError(f"{flow.run.root}: the gate in the sandbox left no verdict")
    return results.read(flow.run.verdict, VerdictRecord)


def _refuse(flow: Flow) -> None:
    sources = {s: results.read(flow.run.side(s) / "source.json", SourceRecord) for s in flow.sides}
    tree = open_tree(str(flow.run.manifest.tree), flow.progress)
    ends = [str(sources[side].git_tree) for side in ("base", "candidate")]
    try:
        tree.check_change(ends[0], ends[1])
    except UsageError as error:
        raise BrokenError("apply", str(error)) from error


def _built(flow: Flow, side: Side, trusted: bool) -> None:
    run, spec = flow.run, flow.kernel_spec
    hidden = () if trusted else sandboxed.hidden_from_candidates(run)
    outcome = sandboxed.build(run, side, spec, flow.progress, hidden, trusted)
    if outcome is not Outcome.PASS:
        _raise(results.read(run.build_failure(side), FailureRecord))


def _raise(failure: FailureRecord) -> None:
    if failure.outcome is Outcome.BROKEN:
        raise BrokenError(cast(BrokenStep, failure.step), failure.message, failure.log_tail)
    raise InfrastructureError(failure.message, failure.log_tail)
