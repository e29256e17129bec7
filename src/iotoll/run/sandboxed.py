"""Builds the kernels of a run in the sandbox, where a candidate sees no secret."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from iotoll.core.digest import file_sha256
from iotoll.core.errors import InfrastructureError, ResultError
from iotoll.core.paths import cache_dir
from iotoll.core.progress import Progress
from iotoll.kernels import buildid, compiled, sandbox
from iotoll.kernels.kernel_job import KernelJob
from iotoll.kernels.sandbox import Kept
from iotoll.kernels.source import open_tree
from iotoll.records import results
from iotoll.records.models import BuildRecord, FailureRecord, Outcome
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir

INSIDE = ("-P", "-m", "iotoll.ci.inside")  # -P: no module of the folder that a job stands in
BUILT = (
    "Image",
    "config",
    "build.log",
    "build.json",
    "failure.json",
    buildid.NAME,
    compiled.SOURCES,
)


def build(
    run: RunDir,
    side: Side,
    job: KernelJob,
    progress: Progress,
    hidden: Sequence[Path] = (),
    trusted: bool | None = None,
) -> Outcome:
    """Build one kernel in the sandbox; returns `Outcome.PASS` when it is there.

    The base is the project's own code and fills the cache; a candidate only reads it, and sees
    nothing of the ``hidden`` folders. With ``trusted`` False a base is no less a stranger's. Why a
    build failed is in ``failure.json`` beside its log.
    """
    done = job.is_done
    shutil.rmtree(run.build(side), ignore_errors=True)  # a runner may hold another one's
    names = (*BUILT, *(Path(name).name for name in job.dtbs))
    kept = (*(f"sides/{side}/build/{n}" for n in names), f".steps/build.{side}.json")
    trusted = side == "base" if trusted is None else trusted
    alone = not trusted and not done
    with ExitStack() as stack:
        if alone:  # nobody may move the tree below the overlay
            tree = open_tree(str(run.manifest.tree), progress)
            stack.enter_context(tree.locked(progress))
        words = [*INSIDE, "build", str(run.root), side, *(["--quiet"] if progress.quiet else [])]
        seen = [path for path in hidden if alone and path.is_dir()]
        status = sandbox.run(words, run.root, Kept(kept), trusted, seen)
    return _built(run, side, status)


def warm(run: RunDir) -> int:
    """Build the base where make's O= folder is empty; returns the exit code.

    In an empty O= folder below the overlay a candidate's build would make everything, and throw it
    away.
    """
    words = [*INSIDE, "build", str(run.root), "base", "--warm"]
    return sandbox.run(words, run.root, Kept(()), trusted=True)


def hidden_from_candidates(run: RunDir) -> tuple[Path, ...]:
    """Folders with what a candidate could give out as its own image."""
    return (cache_dir() / "images", run.build("base"))


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
