"""Builds the kernels of a run, or takes them from the cache of finished images, or from the user.

An image is keyed by all that can change its bytes (`iotoll.kernels.kernel_job`), so the base is
built once for all patches; `iotoll.kernels.compiling` compiles what is not there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iotoll.core.digest import file_sha256
from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.kernels import buildid, cache, places
from iotoll.kernels.compiling import TIMEOUT, compile_job
from iotoll.kernels.kernel_job import Arch, KernelJob
from iotoll.kernels.source import open_tree
from iotoll.records import results
from iotoll.records.models import BuildRecord, RunManifest, SourceRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir


@dataclass(frozen=True)
class KernelSpec:
    """A board's kernel: names of config fragments, and of device trees as make has them."""

    arch: Arch
    fragments: Sequence[str]
    dtbs: Sequence[str] = ()


def build_side(
    run: RunDir,
    side: Side,
    spec: KernelSpec,
    progress: Progress,
    *,
    timeout: float = TIMEOUT,
    warm: bool = False,
) -> BuildRecord:
    """Build (or take from the cache, or from the user) one kernel of the run.

    Leaves ``Image``, ``config``, ``build.log``, ``build.json`` and the device trees in
    ``run.build(side)``. Build the base first: what fails for it is a UsageError or
    InfrastructureError, never the patch's fault. A candidate raises BrokenError("config" or
    "build"). ``timeout`` is in seconds. With ``warm`` make's O= folder is also brought to
    this build where it is empty or holds another one: a cached image alone leaves it as it is.
    """
    started = time.monotonic()
    folder = run.build(side)
    if run.manifest.tree is None:
        record = _ready_made(run, side, spec.arch, run.manifest)
        results.write(folder / "build.json", record)
        return record
    source = results.read(run.side(side) / "source.json", SourceRecord)
    job = KernelJob.make(source, spec.arch, spec.fragments, spec.dtbs)
    inputs = {"image": job.key, "side": side}
    # A warm build wants make's folder as well as the image; else a finished side is left alone.
    is_cold = warm and not places.is_warm(open_tree(source.tree, progress), job)
    # A sandbox begins with an empty folder, also of a build that was done and has left the cache.
    was_left = (folder / "build.json").is_file()
    if not is_cold and was_left and run.is_done(f"build/{side}", inputs):
        known = results.read(folder / "build.json", BuildRecord)
        if is_intact(folder, known):
            return known
        progress.say(f"{folder}: a file is not what was built (build.json): it is made again")
    if is_cold or not job.is_done:
        compile_job(job, progress, folder, timeout, warm)
    cache.copy_tree(job.cached, folder)
    record = _record(run, side, job, spec, time.monotonic() - started)
    results.write(folder / "build.json", record)
    run.mark_done(f"build/{side}", inputs)
    return record


def _record(
    run: RunDir, side: Side, job: KernelJob, spec: KernelSpec, seconds: float
) -> BuildRecord:
    folder = run.build(side)
    return BuildRecord(
        side=side,
        arch=spec.arch,
        image=str((folder / "Image").relative_to(run.root)),
        image_sha256=file_sha256(folder / "Image"),
        config_sha256=file_sha256(folder / "config"),
        fragments=list(spec.fragments),
        toolchain=job.toolchain,
        seconds=round(seconds, 3),
        dtbs={Path(name).name: file_sha256(folder / Path(name).name) for name in spec.dtbs},
        build_ids=buildid.noted(folder),
    )


def is_intact(folder: Path, record: BuildRecord) -> bool:
    """Whether image, config and device trees are those that the build noted."""
    known = {"Image": record.image_sha256, "config": record.config_sha256, **record.dtbs}
    paths = {folder / name: sha256 for name, sha256 in known.items()}
    return all(path.is_file() and file_sha256(path) == sha for path, sha in paths.items())


def _ready_made(run: RunDir, side: Side, arch: Arch, manifest: RunManifest) -> BuildRecord:
    named = manifest.base if side == "base" else manifest.candidate
    if named is None:
        raise UsageError(f"run {run.root}: names no image for the {side} side")
    folder = run.build(side)
    folder.mkdir(parents=True, exist_ok=True)
    cache.take(Path(named), arch, folder)
    return BuildRecord(
        side=side,
        arch=arch,
        image=str((folder / "Image").relative_to(run.root)),
        image_sha256=file_sha256(folder / "Image"),
        config_sha256=file_sha256(folder / "config"),
        fragments=[],
        toolchain="unknown (ready-made image)",
        seconds=0.0,
        ready_made=True,
        build_ids=buildid.build_ids(folder / "Image"),
    )
