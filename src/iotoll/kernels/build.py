"""Builds the kernels of a run: tuxmake, config fragments, ccache, and a cache of finished images.

An image is keyed by all that can change its bytes: the git tree object of the source, the
fragments, the compiler and the recipe below. So the base is built once for all patches, and a
candidate is built incrementally in an O= folder that only moves by the patch's files. Builds are
reproducible (fixed time, user, host, version and path names): same source, same image.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from iotoll.core.digest import file_sha256, json_sha256
from iotoll.core.errors import BrokenError, InfrastructureError, IotollError, UsageError
from iotoll.core.paths import cache_dir
from iotoll.core.progress import Progress, Step
from iotoll.kernels import buildid, cache, coverage, kconfig, makerun
from iotoll.kernels.source import open_tree
from iotoll.kernels.tree import KernelTree, clean_env, run_tool
from iotoll.records import results
from iotoll.records.models import BuildRecord, RunManifest, SourceRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir

Arch = Literal["arm", "arm64", "x86_64"]

TIMEOUT = 3600.0
"""Default limit of one build in seconds; a cold build takes minutes even on a slow machine."""

_RECIPE = 3  # raise when a change below changes image bytes: cached images are then not used
_PINNED = {
    # Names as Debian's kernels have them: a makefile that knows iotoll's build could be fast there.
    "KBUILD_BUILD_TIMESTAMP": "Mon Jan  5 10:00:00 UTC 2026",
    "KBUILD_BUILD_USER": "debian-kernel",
    "KBUILD_BUILD_HOST": "lists.debian.org",
    "KBUILD_BUILD_VERSION": "1",
    "LOCALVERSION": "",  # set but empty: no "+" for a patched git tree
}
# Kconfig asks these for their versions wherever they happen to be installed, and writes the answer
# into .config; no fragment needs them. Only a variable of make's own overrides the top Makefile.
_UNUSED_TOOLS = ("RUSTC=none", "PAHOLE=none")


@dataclass(frozen=True)
class Target:
    """What an architecture builds, and with what."""

    make_target: str
    image: str
    compiler: str
    packages: dict[str, str]


_COMMON = {t: t for t in ("make", "flex", "bison", "bc", "perl", "ccache", "gcc")}
TARGETS: dict[Arch, Target] = {
    "arm64": Target(
        "Image",
        "arch/arm64/boot/Image",
        "aarch64-linux-gnu-gcc",
        {**_COMMON, "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu"},
    ),
    "arm": Target(
        "zImage",
        "arch/arm/boot/zImage",
        "arm-linux-gnueabihf-gcc",
        {**_COMMON, "arm-linux-gnueabihf-gcc": "gcc-arm-linux-gnueabihf"},
    ),
    "x86_64": Target(
        "bzImage",
        "arch/x86/boot/bzImage",
        "x86_64-linux-gnu-gcc",
        {**_COMMON, "x86_64-linux-gnu-gcc": "gcc-x86-64-linux-gnu"},
    ),
}


def build_side(
    run: RunDir,
    side: Side,
    arch: Arch,
    fragments: Sequence[str],
    progress: Progress,
    timeout: float = TIMEOUT,
    dtbs: Sequence[str] = (),
    warm: bool = False,
) -> BuildRecord:
    """Build (or take from the cache, or from the user) one kernel of the run.

    Leaves ``Image``, ``config``, ``build.log``, ``build.json`` and the device trees ``dtbs`` (as
    make names them) in ``run.build(side)``. Build the
    base first: what fails for it is a UsageError or InfrastructureError, never the patch's fault.
    A candidate raises BrokenError("config" or "build"). ``timeout`` is in seconds. With ``warm``
    make's O= folder is also filled where it is empty: a cached image alone leaves it so.
    """
    started = time.monotonic()
    folder = run.build(side)
    manifest = run.manifest
    if manifest.tree is None:
        record = _ready_made(run, side, arch, manifest)
        results.write(folder / "build.json", record)
        return record
    source = results.read(run.side(side) / "source.json", SourceRecord)
    job = Job.make(source, arch, fragments, dtbs)
    inputs = {"image": job.key, "side": side}
    cold = warm and not job.is_warm(open_tree(source.tree, progress))
    if not cold and run.is_done(f"build/{side}", inputs):
        known = results.read(folder / "build.json", BuildRecord)
        if is_intact(folder, known):
            return known
        progress.say(f"{folder}: a file is not what was built (build.json): it is made again")
    if cold or not job.is_done:
        job.build(progress, folder, timeout, warm)
    cache.copy_tree(job.cached, folder)
    record = BuildRecord(
        side=side,
        arch=arch,
        image=str((folder / "Image").relative_to(run.root)),
        image_sha256=file_sha256(folder / "Image"),
        config_sha256=file_sha256(folder / "config"),
        fragments=list(fragments),
        toolchain=job.toolchain,
        seconds=round(time.monotonic() - started, 3),
        dtbs={Path(name).name: file_sha256(folder / Path(name).name) for name in dtbs},
        build_ids=buildid.noted(folder),
    )
    results.write(folder / "build.json", record)
    run.mark_done(f"build/{side}", inputs)
    return record


def is_intact(folder: Path, record: BuildRecord) -> bool:
    """Whether image, config and device trees are those that the build noted."""
    known = {"Image": record.image_sha256, "config": record.config_sha256, **record.dtbs}
    paths = {folder / name: sha256 for name, sha256 in known.items()}
    return all(path.is_file() and file_sha256(path) == sha for path, sha in paths.items())


@dataclass(frozen=True)
class Job:
    """One kernel to build: source state, architecture, fragments, toolchain, device trees."""

    source: SourceRecord
    arch: Arch
    fragments: tuple[Path, ...]
    toolchain: str
    key: str
    dtbs: tuple[str, ...] = ()

    @classmethod
    def make(
        cls, source: SourceRecord, arch: Arch, fragments: Sequence[str], dtbs: Sequence[str] = ()
    ) -> Job:
        """Resolve names to files and check the tools; raises Usage- or InfrastructureError.

        ``dtbs`` are device trees as make names them (``hisilicon/hi3660-hikey960.dtb``).
        """
        if arch not in TARGETS:
            raise UsageError(f"architecture {arch}: choose from {', '.join(TARGETS)}")
        paths = tuple(kconfig.fragment_path(name) for name in fragments)
        toolchain = _toolchain(arch)
        parts = {
            "recipe": _RECIPE,
            "git_tree": source.git_tree,
            "arch": arch,
            "fragments": [file_sha256(path) for path in paths],
            "toolchain": toolchain,
        }
        if dtbs:
            parts["dtbs"] = list(dtbs)
        return cls(source, arch, paths, toolchain, json_sha256(parts), tuple(dtbs))

    @property
    def cached(self) -> Path:
        """Where the finished image is kept."""
        return cache_dir() / "images" / self.key

    @property
    def is_done(self) -> bool:
        """Whether the finished image is in the cache, and is what was put there."""
        return cache.is_whole(self.cached)

    def is_warm(self, tree: KernelTree) -> bool:
        """Whether make's O= folder holds a whole build, of this source or of another."""
        return (self.out(tree) / TARGETS[self.arch].image).is_file()

    def out(self, tree: KernelTree) -> Path:
        """make's O= folder."""
        names = json_sha256([path.stem for path in self.fragments])[:8]
        return tree.root / "out" / f"{self.arch}-{names}"

    def build(self, progress: Progress, folder: Path, timeout: float, warm: bool = False) -> None:
        """Build into the image cache; ``build.log`` is left in ``folder`` also after a failure.

        With ``warm`` also when the cache has the image, but O= is empty.
        """
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "build.log"
        log.write_text("")
        tree = open_tree(self.source.tree, progress)
        title = f"build {self.source.side} kernel {self.source.version} for {self.arch}"
        with tree.locked(progress):
            if self.is_done and (not warm or self.is_warm(tree)):
                return  # another iotoll built it while we waited for the tree
            with progress.step(title) as step:
                try:
                    limit = time.monotonic() + timeout
                    _Workshop(tree, self, self.out(tree), log, step, limit).build()
                except OSError as error:
                    raise InfrastructureError(
                        f"{title}: {error.strerror} ({error.filename}): free some disk space"
                    ) from error


class _Workshop:
    """One build in a tree's O= folder; the tree's lock is held throughout."""

    def __init__(
        self, tree: KernelTree, job: Job, out: Path, log: Path, step: Step, deadline: float
    ) -> None:
        self.tree = tree
        self.job = job
        self.out = out
        self.log = log
        self.step = step
        self.deadline = deadline

    def build(self) -> None:
        """Check the source out, configure, make, and put the result into the image cache."""
        assert self.job.source.git_tree is not None
        self.step.update(note="check out")
        self.tree.checkout(self.job.source.git_tree)
        self._discard_if_torn()
        self.out.mkdir(parents=True, exist_ok=True)
        target = TARGETS[self.job.arch]
        if self.job.source.side == "candidate":
            # The base's: a candidate's makefile could give it out as its own.
            for path in (self.out / target.image, self.out / "vmlinux"):
                path.unlink(missing_ok=True)
        self._configure()
        if self._tuxmake("-v", "-M", target.make_target, "config"):
            raise self._failure()
        if self.job.dtbs:
            self._make_dtbs()
        with cache.new_entry(self.job.cached) as entry:
            shutil.copyfile(self.out / target.image, entry / "Image")
            for name in self.job.dtbs:
                folder = self.out / "arch" / self.job.arch / "boot/dts"
                shutil.copyfile(folder / name, entry / Path(name).name)
            shutil.copyfile(self.out / ".config", entry / "config")
            coverage.write_sources(self.out, self.tree.src, entry)
            ids = buildid.build_ids(self.out / "vmlinux")
            (entry / buildid.NAME).write_text("".join(f"{one}\n" for one in ids))
            shutil.copyfile(self.log, entry / "build.log")

    def _make_dtbs(self) -> None:
        """Build single device trees; tuxmake has a target for all of them only."""
        prefix = TARGETS[self.job.arch].compiler.removesuffix("gcc")
        command = ["make", "-C", str(self.tree.src), f"O={self.out}", f"ARCH={self.job.arch}"]
        # The same compiler as tuxmake's, or kbuild would configure anew.
        command += [f"CROSS_COMPILE={prefix}", f"CC=ccache {prefix}gcc", "HOSTCC=ccache gcc"]
        pinned = [f"{name}={value}" for name, value in _PINNED.items()]
        if self._run([*command, *pinned, *_UNUSED_TOOLS, *self.job.dtbs]):
            raise self._failure()

    def _discard_if_torn(self) -> None:
        """Start afresh where make was killed too hard to remove a half-written object.

        make would take such an object for finished. What was finished comes back from ccache.
        """
        if self._torn.exists():
            shutil.rmtree(self.out)

    @property
    def _torn(self) -> Path:
        return self.out / ".iotoll-running"

    def _configure(self) -> None:
        """Make .config from the fragments, unless everything it depends on is unchanged."""
        stamp = self.out / ".iotoll-config"
        config = self.out / ".config"
        digest = self._config_inputs()
        if stamp.is_file() and config.is_file():
            known = json.loads(stamp.read_text())
            if known == {"inputs": digest, "config": file_sha256(config)}:
                return
        self.step.update(note="configure")
        stamp.unlink(missing_ok=True)
        old = config.rename(self.out / ".config.before") if config.is_file() else None
        added = [word for path in self.job.fragments for word in ("-K", str(path))]
        if self._tuxmake("-k", "allnoconfig", *added, "config"):
            raise self._failure()
        if old and old.read_bytes() == config.read_bytes():
            old.replace(config)  # keeps the time stamp, so make has nothing to redo
        self._check_config(config)
        results.write_text(
            stamp, json.dumps({"inputs": digest, "config": file_sha256(config)}) + "\n"
        )

    def _config_inputs(self) -> str:
        """Digest of what kconfig reads: Kconfig files, scripts, makefiles, fragments, compiler."""
        tree = str(self.job.source.git_tree)
        listing = self.tree.git("ls-tree", "-r", tree).stdout.decode("utf-8", "replace")
        read = [
            line
            for line in listing.splitlines()
            if "Kconfig" in line or "\tscripts/" in line or line.endswith("\tMakefile")
        ]
        fragments = [file_sha256(path) for path in self.job.fragments]
        return json_sha256([read, fragments, self.job.toolchain, _RECIPE])

    def _check_config(self, config: Path) -> None:
        lost = kconfig.lost(self.job.fragments, config)
        if not lost:
            return
        words = "; ".join(str(item) for item in lost)
        if self.job.source.side == "candidate":
            raise BrokenError("config", words, words)
        raise UsageError(f"Linux {self.job.source.version}: {words}: fix the fragment or the tree")

    def _tuxmake(self, *args: str) -> int:
        command = [sys.executable, "-m", "tuxmake", "-C", str(self.tree.src), "-b", str(self.out)]
        command += ["-o", str(self.tree.root / "tuxmake"), "-a", self.job.arch, "-t", "gcc"]
        command += [
            "-w",
            "ccache",
            "-r",
            "null",
            "-c",
            "never",
            "-F",
            "-j",
            str(os.cpu_count() or 1),
        ]
        maps = " ".join(f"-ffile-prefix-map={path}/=" for path in (self.tree.src, self.out))
        for name, value in {**_PINNED, "KCFLAGS": maps}.items():
            command += ["-e", f"{name}={value}"]
        # All positional words last, in one piece: argparse refuses those behind further options.
        return self._run([*command, *args, *_UNUSED_TOOLS])

    def _run(self, command: list[str]) -> int:
        env = clean_env(
            {
                "CCACHE_DIR": str(cache_dir() / "ccache"),
                "CCACHE_BASEDIR": str(self.tree.root),
                "CCACHE_MAXSIZE": "5G",
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            }
        )
        lock = self.tree.lock_stream
        return makerun.run(
            command,
            env=env,
            log=self.log,
            step=self.step,
            timeout=max(1.0, self.deadline - time.monotonic()),
            running=self._torn,
            keep_open=[lock.fileno()] if lock else [],
        )

    def _failure(self) -> IotollError:
        """Say whose fault a failed build is: the machine's, the tree's or the candidate's."""
        summary, lines = makerun.cause(self.log, hide=self._source_prefixes())
        mend = makerun.not_the_source(self.log)
        if mend:
            return InfrastructureError(f"the kernel build failed: {mend}", lines)
        source = self.job.source
        if source.side == "candidate":
            return BrokenError("build", summary, lines)
        return InfrastructureError(
            f"the base kernel {source.version} of {source.tree} does not build, so nothing can be"
            f" compared: {summary}: name another --base, or see {self.log}",
            lines,
        )

    def _source_prefixes(self) -> tuple[str, str]:
        """How the compiler spells the source folder; a developer knows files without it."""
        return f"{self.tree.src}/", os.path.relpath(self.tree.src, self.out) + "/"


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


def _toolchain(arch: Arch) -> str:
    """Return the compiler's and linker's version lines; a missing tool names its package."""
    if importlib.util.find_spec("tuxmake") is None:
        raise InfrastructureError("tuxmake is not installed: make setup, or pip install tuxmake")
    target = TARGETS[arch]
    for tool, package in target.packages.items():
        if shutil.which(tool) is None:
            raise InfrastructureError(f"{tool} is not installed: apt-get install {package}")
    if arch == "x86_64" and not Path("/usr/include/gelf.h").is_file():
        raise InfrastructureError("objtool needs libelf's headers: apt-get install libelf-dev")
    linker = target.compiler.removesuffix("gcc") + "ld"
    lines = []
    for tool in (target.compiler, linker):
        done = run_tool([tool, "--version"], cwd=Path("/"), stdin=None, env=clean_env())
        lines.append(done.stdout.decode("utf-8", "replace").splitlines()[0])
    return "; ".join(lines)
