"""The jobs between the plan and the verdict: builds, the deterministic gate, boards in a lab."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from iotoll.boards.ramdisk import get_image
from iotoll.ci import sandbox
from iotoll.ci.plan import run_folder
from iotoll.ci.sandbox import Kept
from iotoll.core.digest import file_sha256
from iotoll.core.errors import InfrastructureError, ResultError, UsageError
from iotoll.core.paths import cache_dir
from iotoll.core.progress import Progress
from iotoll.kernels import buildid, coverage
from iotoll.kernels.source import open_tree
from iotoll.labs.lava.runner import lava_folder, lava_runner
from iotoll.records import results
from iotoll.records.models import BuildRecord, FailureRecord, Outcome
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from iotoll.run.flow import Flow, execute

INSIDE = ("-P", "-m", "iotoll.ci.inside")  # -P: no module of the folder that a job stands in
BUILT = (
    "Image",
    "config",
    "build.log",
    "build.json",
    "failure.json",
    buildid.NAME,
    coverage.SOURCES,
)


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
    if not flow.cells:
        progress.say("no cell is selected: nothing to build")
        return Outcome.PASS
    done = flow.build_job(side).is_done
    if side == "candidate" and not done:
        # In an empty O= folder below the overlay everything would be built, and thrown away.
        status = _sandboxed(run, "base", trusted=True, warm=True, kept=())
        if status != 0:
            raise InfrastructureError("the base kernel does not build: see its own job")
    shutil.rmtree(run.build(side), ignore_errors=True)  # a runner may hold another one's
    names = (*BUILT, *(Path(name).name for name in flow.dtbs))
    kept = (*(f"sides/{side}/build/{n}" for n in names), f".steps/build.{side}.json")
    with ExitStack() as stack:
        if side == "candidate" and not done:  # nobody may move the tree below the overlay
            stack.enter_context(open_tree(str(run.manifest.tree), progress).locked(progress))
        # Not what a candidate could give out as its own image.
        hidden = (cache_dir() / "images", run.build("base"))
        status = _sandboxed(
            run,
            side,
            trusted=side == "base",
            warm=False,
            kept=kept,
            hidden=[path for path in hidden if side == "candidate" and not done and path.is_dir()],
        )
    return _built(run, side, status)


def _sandboxed(
    run: RunDir,
    side: Side,
    *,
    trusted: bool,
    warm: bool,
    kept: tuple[str, ...],
    hidden: Sequence[Path] = (),
) -> int:
    words = [*INSIDE, "build", str(run.root), side, *(["--warm"] if warm else [])]
    return sandbox.run(words, run.root, Kept(kept), trusted, hidden)


def _built(run: RunDir, side: Side, status: int) -> Outcome:
    """What a build left, checked against its own record."""
    failed = run.build_failure(side)
    if failed.is_file():
        record = results.read(failed, FailureRecord)
        allowed = (Outcome.BROKEN, Outcome.INFRASTRUCTURE)
        return record.outcome if record.outcome in allowed else Outcome.INFRASTRUCTURE
    if status != 0:
        raise InfrastructureError(f"the build of the {side} ended with status {status} in silence")
    check_build(run, side)
    return Outcome.PASS


def check_build(run: RunDir, side: Side) -> None:
    """Raise ResultError when an image is not the one that its build noted, or no plain file."""
    folder = run.build(side)
    record = results.read(folder / "build.json", BuildRecord)
    path = folder / "Image"
    if record.side != side or path.is_symlink() or not path.is_file():
        raise ResultError(f"{folder}: holds no image of the {side}: build it again")
    if file_sha256(path) != record.image_sha256:
        raise ResultError(f"{path}: is not what build.json says: build it again")


def gate(run: RunDir, progress: Progress) -> int:
    """Boot both kernels on the virtual board in the sandbox, and judge; returns the exit code."""
    flow = Flow(run, progress)
    if flow.cells:
        for side in flow.sides:
            check_build(run, side)
        get_image(flow.board.arch, progress)  # made from Debian's packages: needs the network
    return sandbox.run([*INSIDE, "gate", str(run.root)], run.root, None)


def lava(run: RunDir, progress: Progress) -> int:
    """Have a lab boot both kernels, and judge; returns the exit code.

    No code of the candidate's runs here, so this job may hold the lab's token.
    """
    flow = Flow(run, progress)
    if flow.cells:
        for side in flow.sides:
            check_build(run, side)
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
