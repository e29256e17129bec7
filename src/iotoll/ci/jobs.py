"""The jobs between the plan and the verdict: builds, the deterministic gate, boards in a lab."""

from __future__ import annotations

import shutil
from pathlib import Path

from iotoll.boards.ramdisk import get_image
from iotoll.ci.plan import run_folder
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow, execute
from iotoll.kernels import sandbox
from iotoll.labs.lava.runner import lava_folder, lava_runner
from iotoll.records.models import Outcome
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from iotoll.run import sandboxed
from iotoll.run.sandboxed import surroundings


def open_run(root: Path, board: str, runner: str) -> RunDir:
    """A board's run directory; raises UsageError when the pipeline has none."""
    folder = run_folder(root, board, runner)
    if not (folder / "run.json").is_file():
        raise UsageError(f"{root}: has no {runner} board {board}: run 'iotoll ci select' with it")
    return RunDir.open(folder)


def build(run: RunDir, side: Side, progress: Progress) -> Outcome:
    """Build one kernel in the sandbox; returns `Outcome.PASS` when it is there.

    The base is the project's own code and fills the cache; a candidate only reads it. Why a build
    failed is in ``failure.json`` beside its log.
    """
    flow = Flow(run, progress)
    spec = flow.kernel_spec
    if side == "candidate" and flow.is_unconfirmed:
        if sandboxed.warm(run, spec) != 0:
            raise InfrastructureError("the base kernel does not build: see its own job")
        flow.select_compiled([sandboxed.job_of(run, "base", spec).cached])
        spec = flow.kernel_spec
    if not flow.cells and not (side == "base" and flow.is_unconfirmed):
        progress.say("no cell is selected: nothing to build")
        return Outcome.PASS
    if side == "candidate" and not flow.build_job(side).is_done and sandboxed.warm(run, spec) != 0:
        raise InfrastructureError("the base kernel does not build: see its own job")
    outcome = sandboxed.build(run, side, spec, progress, sandboxed.hidden_from_candidates(run))
    if outcome is Outcome.PASS:
        flow.add_blob(side)
    return outcome


def gate(run: RunDir, progress: Progress) -> int:
    """Boot both kernels on the virtual board in the sandbox, and judge; returns the exit code."""
    flow = Flow(run, progress)
    flow.select_compiled([run.build(side) for side in flow.sides])
    if flow.cells:
        for side in flow.sides:
            sandboxed.check_build(run, side)
        get_image(flow.board.image_arch, progress)  # made from Debian's packages: needs the network
    around = surroundings(run.manifest)
    return sandbox.run([*sandbox.INSIDE, "gate", str(run.root)], run.root, None, around=around)


def lava(run: RunDir, progress: Progress) -> int:
    """Have a lab boot both kernels, and judge; returns the exit code.

    No code of the candidate's runs here, so this job may hold the lab's token.
    """
    flow = Flow(run, progress)
    flow.select_compiled([run.build(side) for side in flow.sides])
    if flow.cells:
        for side in flow.sides:
            sandboxed.check_build(run, side)
        flow.preflight()
    verdict = execute(flow, since="boot")
    assert verdict is not None
    return verdict.exit_code


def cancel(run: RunDir) -> list[int]:
    """Cancel the LAVA jobs of a run that have not ended; returns their numbers."""
    flow = Flow(run, Progress(quiet=True))
    if flow.lab is None or not lava_folder(run).is_dir():
        return []
    ended = lava_runner(run, flow.lab).cancel("its GitLab job has ended")
    return [attempt.number for attempt in ended if attempt.number is not None]


def fresh(root: Path) -> None:
    """Make room for a pipeline's folder: an older one of ours is removed, nothing else."""
    if root.exists() and any(root.iterdir()) and not (root / "plan.json").is_file():
        raise UsageError(f"{root} exists and is not a pipeline's folder: choose another --root")
    shutil.rmtree(root, ignore_errors=True)
