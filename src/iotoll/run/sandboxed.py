"""Builds the kernels of a run in the sandbox: in a pipeline, and where possible at a desk.

Inside, only fragments are read that the user named; board, matrix and policy were read before.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from iotoll.core.digest import file_sha256
from iotoll.core.errors import BrokenError, BrokenStep, InfrastructureError, ResultError
from iotoll.core.paths import cache_dir, data_dir
from iotoll.core.proc import SANDBOX_TREE
from iotoll.core.progress import Progress
from iotoll.core.toml import extended_files, load_extended, named_file
from iotoll.kernels import buildid, compiled, sandbox
from iotoll.kernels.build import KernelSpec
from iotoll.kernels.cache import new_entry
from iotoll.kernels.compiling import TIMEOUT
from iotoll.kernels.kconfig import fragment_path
from iotoll.kernels.kernel_job import TARGETS, KernelJob
from iotoll.kernels.overrun import OverrunError
from iotoll.kernels.places import held_place, places
from iotoll.kernels.sandbox import INSIDE, Kept, Surroundings, tools
from iotoll.kernels.source import locate, open_tree
from iotoll.kernels.tree import KernelTree
from iotoll.records import results
from iotoll.records.models import BuildRecord, FailureRecord, Outcome, RunManifest, SourceRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir

BUILT = (
    "Image",
    "config",
    "build.log",
    "build.json",
    "failure.json",
    buildid.NAME,
    compiled.SOURCES,
    compiled.HOST_SOURCES,
)


GRACE_SECONDS = 60.0
"""A build ends itself after `TIMEOUT`; this long after it, it is ended from outside."""
_UNCACHED = ("build.json", "failure.json")


def build(
    run: RunDir,
    side: Side,
    spec: KernelSpec,
    progress: Progress,
    hidden: Sequence[Path] = (),
    trusted: bool | None = None,
) -> Outcome:
    """Build one kernel in the sandbox; returns `Outcome.PASS` when it is there.

    The base is the project's own code and fills the cache; a candidate only reads it, and sees
    nothing of the ``hidden`` folders. With ``trusted`` False a base is no less a stranger's. Why a
    build failed is in ``failure.json`` beside its log.
    """
    job = job_of(run, side, spec)
    done = job.is_done
    shutil.rmtree(run.build(side), ignore_errors=True)  # a runner may hold another one's
    names = (*BUILT, *(Path(name).name for name in job.dtbs))
    kept = (*(f"sides/{side}/build/{n}" for n in names), f".steps/build.{side}.json")
    trusted = side == "base" if trusted is None else trusted
    alone = not trusted and not done
    with ExitStack() as stack:
        tree = places(open_tree(str(run.manifest.tree), progress), job)[0]
        if alone:  # nobody may move the work tree below the overlay
            base = job_of(run, "base", spec)
            tree = stack.enter_context(held_place(tree, base, progress, reads=True))
        seen = [path for path in hidden if alone and path.is_dir()]
        around = _around(run, job, tree, seen)
        if done:
            around = replace(around, cache=[*around.cache, job.cached])
        around = replace(around, seconds=TIMEOUT + GRACE_SECONDS, ended=stack.close)
        words = _words(run, side, spec, progress)
        try:
            status = sandbox.run(words, run.root, Kept(kept), trusted, around)
        except OverrunError as error:
            if trusted:
                raise
            failure = FailureRecord(
                outcome=Outcome.BROKEN, step="build", message=f"the build of the {side}: {error}"
            )
            results.write(run.build_failure(side), failure)
            return Outcome.BROKEN
    return _built(run, side, status)


def warm(run: RunDir, spec: KernelSpec) -> int:
    """Build the base where make's O= folder holds no build of it; returns the exit code.

    In an empty O= folder below the overlay, or in another kernel's, a candidate's build would make
    everything, and throw it away.
    """
    words = [*_words(run, "base", spec, Progress()), "--warm"]
    job = job_of(run, "base", spec)
    tree = places(open_tree(str(run.manifest.tree), Progress(quiet=True)), job)[0]
    around = _around(run, job, tree)
    return sandbox.run(words, run.root, Kept(()), trusted=True, around=around)


def at_desk(run: RunDir, spec: KernelSpec, progress: Progress) -> None:
    """Build the candidate in the sandbox, and keep its image in the cache under its own key.

    Raises what the build failed with.
    """
    outcome = build(run, "candidate", spec, progress, hidden_from_candidates(run))
    if outcome is not Outcome.PASS:
        record = results.read(run.build_failure("candidate"), FailureRecord)
        if outcome is Outcome.BROKEN:
            step: BrokenStep = "config" if record.step == "config" else "build"
            raise BrokenError(step, record.message, record.log_tail)
        raise InfrastructureError(record.message, record.log_tail)
    job = job_of(run, "candidate", spec)
    if not job.is_done:
        with new_entry(job.cached) as entry:
            for path in run.build("candidate").iterdir():
                if path.is_file() and path.name not in _UNCACHED:
                    shutil.copyfile(path, entry / path.name)


def why_not(run: RunDir, spec: KernelSpec) -> str:
    """Why a candidate cannot be built in the sandbox at this desk; empty if it can."""
    job = job_of(run, "candidate", spec)
    compiler = shutil.which(TARGETS[job.arch].compiler) or ""
    if not any(compiler.startswith(f"{folder}/") for folder in sandbox.SYSTEM):
        return f"the compiler {compiler} is not visible in it"
    tree = open_tree(str(run.manifest.tree), Progress(quiet=True))
    return sandbox.why_not(run.root, _around(run, job, places(tree, job)[0]))


def job_of(run: RunDir, side: Side, spec: KernelSpec) -> KernelJob:
    """What one side is built from."""
    source = results.read(run.side(side) / "source.json", SourceRecord)
    return KernelJob.make(source, spec.arch, spec.fragments, spec.dtbs)


def _words(run: RunDir, side: Side, spec: KernelSpec, progress: Progress) -> list[str]:
    quiet = ["--quiet"] if progress.quiet else []
    return [*INSIDE, "build", str(run.root), side, json.dumps(asdict(spec)), *quiet]


def _around(
    run: RunDir, job: KernelJob, tree: KernelTree, hidden: Sequence[Path] = ()
) -> Surroundings:
    """Fragments and objects of the user's own, and the tree, which in there has no other name.

    ``tree`` is at the place to build in; a build that is trusted chooses its place itself.
    """
    folders = [tree.work, tree.git_dir, tree.ccache]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    return Surroundings(
        cache=folders,
        hidden=hidden,
        shown=[*tree.borrowed(), *job.fragments],
        folder=Path.cwd(),
        variables={SANDBOX_TREE: str(tree.work)},
    )


def hidden_from_candidates(run: RunDir) -> tuple[Path, ...]:
    """Folders of the run with what a candidate could give out as its own image."""
    return (run.build("base"),)


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


def named_files(manifest: RunManifest) -> list[Path]:
    """All files that board, matrix and policy of a run are made of, each once.

    Also those that they name in turn: what they extend, the board's hardware and its fragments.
    Raises UsageError where one cannot be read.
    """
    jobs = data_dir("lava-jobs")
    boards, matrices = jobs / "boards", jobs / "matrices"
    board, matrix = named_file(boards, manifest.board), named_file(matrices, manifest.matrix)
    policy = named_file(data_dir("pipelines") / "policies", manifest.policy)
    found = [policy, *extended_files(matrices, matrix), *extended_files(boards, board)]
    data = load_extended(boards, board)
    if "hardware" in data:
        hardware = named_file(jobs / "hardware", str(data["hardware"]))
        found.append(hardware)
        data = load_extended(jobs / "hardware", hardware)
    found += [fragment_path(str(name)) for name in data.get("fragments", ())]
    return list(dict.fromkeys(found))


def surroundings(manifest: RunManifest) -> Surroundings:
    """A sandbox that shows a step the files that its run names, under the names that it knows.

    Of the cache it sees the run's own tree, which explains where code is from.
    """
    seen: list[Path] = []
    if manifest.tree is not None:
        located = locate(manifest.tree)
        named = located.repository.resolve() if located.repository else None
        within = named is not None and named.is_relative_to(cache_dir().resolve())
        seen = [path for path in (located.tree.root, named if within else None) if path]
        lent = [path for path in located.tree.borrowed() if path.is_relative_to(cache_dir())]
        seen += [path for path in lent if not any(path.is_relative_to(one) for one in seen)]
        seen = [path for path in seen if path.is_dir()]
    return Surroundings(cache=[*tools(), *seen], shown=named_files(manifest), folder=Path.cwd())
