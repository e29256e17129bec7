"""Compiles one kernel: tuxmake and make in a tree's O= folder, then an entry of the image cache.

A candidate is built incrementally in an O= folder that only moves by the patch's files, where that
gives what a clean build gives (`iotoll.kernels.reuse`), and else in an empty one. Builds are
reproducible (fixed time, user, host, version and path names): same source, same image.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from iotoll.core.digest import file_sha256, json_sha256
from iotoll.core.errors import BrokenError, InfrastructureError, IotollError, UsageError, os_fix
from iotoll.core.proc import THROWN_AWAY
from iotoll.core.progress import Progress, Step
from iotoll.kernels import buildid, cache, compiled, kconfig, makerun
from iotoll.kernels.kernel_job import BUILT, PINNED, RECIPE, TARGETS, UNUSED_TOOLS, KernelJob
from iotoll.kernels.places import held_place
from iotoll.kernels.precompile import Precompiler
from iotoll.kernels.reuse import Folder, direct_key, is_from_future, read_by_kconfig
from iotoll.kernels.source import open_tree
from iotoll.kernels.tree import KernelTree, clean_env
from iotoll.records import results

READ_ONLY = {
    "CCACHE_READONLY": "1",
    "CCACHE_NOSTATS": "1",
    "CCACHE_TEMPDIR": "/tmp/ccache",
}
_COMPAT = [
    f"{p}-gcc"
    for p in ("arm-linux-gnueabihf", "arm-linux-gnueabi", "arm-linux-gnu", "arm-none-eabi")
]
"""Compilers of the 32-bit vDSO that an arm64 kernel may have; the first that is here is taken."""
TIMEOUT = 3600.0
"""Default limit of one build in seconds; a cold build takes minutes even on a slow machine."""


def compile_job(
    job: KernelJob,
    progress: Progress,
    folder: Path,
    timeout: float = TIMEOUT,
    warm: bool = False,
) -> None:
    """Build into the image cache; ``build.log`` is left in ``folder`` also after a failure.

    ``timeout`` is in seconds. With ``warm`` also when the cache has the image, but O= is empty
    or holds another build.
    Raises BrokenError for a candidate that does not configure or build, else InfrastructureError
    or UsageError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    log.write_text("")
    tree = open_tree(job.source.tree, progress)
    title = f"build {job.source.side} kernel {job.source.version} for {job.arch}"
    with held_place(tree, job, progress) as place:
        if job.is_done and (not warm or job.is_warm(place)):
            return  # another iotoll built it while we waited for the tree
        with progress.step(title) as step:
            try:
                limit = time.monotonic() + timeout
                _Workshop(place, job, job.out(place), log, step, limit).build()
            except OSError as error:
                raise InfrastructureError(
                    f"{title}: {error.strerror} ({error.filename}): {os_fix(error)}"
                ) from error


def clean_build(job: KernelJob, progress: Progress, folder: Path, timeout: float = TIMEOUT) -> None:
    """Build in a work tree of its own, in an empty O= folder and without ccache.

    What every other build must equal: leaves ``Image``, ``config`` and ``build.log`` in ``folder``.
    Errors are those of `compile_job`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    log.write_text("")
    tree = open_tree(job.source.tree, progress).at("clean")
    with tree.locked(progress), progress.step(f"build {folder.name} clean") as step:
        out = _emptied(tree, job)
        work = _Workshop(tree, job, out, log, step, time.monotonic() + timeout)
        work.more = {"CCACHE_DISABLE": "1"}
        failure = work.compile(lambda: None)
        if failure is not None:
            raise failure
        shutil.copyfile(out / TARGETS[job.arch].image, folder / "Image")
        shutil.copyfile(out / ".config", folder / "config")


@contextmanager
def kept_objects(
    job: KernelJob, progress: Progress, place: str, log: Path, timeout: float = TIMEOUT
) -> Iterator[tuple[Path, Callable[[str], None]]]:
    """Hold the kernel tree's work tree ``place``: its O= folder, and what makes a goal in it.

    Objects that were made of the same job are there again; else the folder is empty. What the
    caller changes in it is not seen: the place must be of its own. ``log`` is appended to. Errors
    are those of `compile_job`, of each goal anew; ``timeout`` in seconds is for all together.
    """
    tree = open_tree(job.source.tree, progress).at(place)
    with tree.locked(progress), progress.step(f"make in {place}") as step:
        noted = tree.work / "objects-of"
        out = job.out(tree)
        if not noted.is_file() or noted.read_text() != job.key:
            noted.unlink(missing_ok=True)
            out = _emptied(tree, job)
        work = _Workshop(tree, job, out, log, step, time.monotonic() + timeout)

        def make(goal: str) -> None:
            if failure := work.compile(lambda: None, goals=(goal,)):
                raise failure
            noted.write_text(job.key)

        yield out, make


def _emptied(tree: KernelTree, job: KernelJob) -> Path:
    """The job's source, checked out, and its O= folder, without a file."""
    out = job.out(tree)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tree.checkout(str(job.source.git_tree))
    return out


class _Workshop:
    """One build in an O= folder of a work tree, which is held throughout."""

    def __init__(
        self, tree: KernelTree, job: KernelJob, out: Path, log: Path, step: Step, deadline: float
    ) -> None:
        self.tree = tree
        self.job = job
        self.out = out
        self.log = log
        self.step = step
        self.deadline = deadline
        self.folder = Folder(out, job)
        self.is_empty = True
        """Whether make began in an empty folder."""
        self.more: dict[str, str] = {}
        """Further variables of the compilers."""

    def build(self) -> None:
        """Check the source out, configure, make, and put the result into the image cache."""
        source = self.job.source.git_tree
        assert source is not None
        self._discard_if_torn()
        self.out.mkdir(parents=True, exist_ok=True)
        notes = compiled.Notes(self.out)
        with ThreadPoolExecutor(1) as pool:
            failure = self._made(source, notes, pool)
        if failure is None and is_from_future(notes.times()):
            self._begin_empty(source, "make's notes are from the future: the clock went back")
            notes = compiled.Notes(self.out)
            failure = self.compile(lambda: None)
        if failure is not None:
            raise failure
        with cache.new_entry(self.job.cached) as entry:
            shutil.copyfile(self.out / TARGETS[self.job.arch].image, entry / "Image")
            for name in self.job.dtbs:
                folder = self.out / "arch" / self.job.arch / "boot/dts"
                shutil.copyfile(folder / name, entry / Path(name).name)
            shutil.copyfile(self.out / ".config", entry / "config")
            notes.write_sources(self.tree.src, entry)
            for name in (compiled.SOURCES, compiled.HOST_SOURCES):
                shutil.copyfile(entry / name, self.out / name)
            ids = buildid.build_ids(self.out / "vmlinux")
            (entry / buildid.NAME).write_text("".join(f"{one}\n" for one in ids))
            shutil.copyfile(self.log, entry / "build.log")
        self.folder.end(source)
        (self.out / BUILT).write_text(self.job.key)

    def _made(
        self, source: str, notes: compiled.Notes, pool: ThreadPoolExecutor
    ) -> IotollError | None:
        """Bring src/ to the source, and make it; returns what failed."""
        # Each once, when make needs one processor only.
        gather = functools.cache(lambda: pool.submit(notes.gather))
        look = functools.cache(lambda: pool.submit(self.tree.is_as_noted))
        self.step.update(note="check out")
        known = self.job.last_built(self.tree)
        built = self.out / BUILT
        before = built.read_text() if built.is_file() else ""
        built.unlink(missing_ok=True)
        paths = self.tree.move(known, source)
        if paths is None:
            self.tree.checkout(source)
        if why := self.folder.why_empty(self.tree, source):
            self._begin_empty(source, why)
        else:
            self.is_empty = not any(self.out.iterdir())
            self.folder.begin(source)
        if paths is None:
            return self.compile(gather)
        # What is precompiled is stored for make, also where make stores nothing.
        stores = {k: v for k, v in self._env().items() if k != "CCACHE_READONLY"}
        with Precompiler(self.out, stores, self.tree.kept_open) as precompiler:
            if not self.is_empty:
                self.more = precompiler.start(self.tree.src, paths, before)
            failure = self.compile(lambda: (look(), gather()))
            self.more = {}
            is_as_noted = look().result()
        if is_as_noted:
            return failure
        # Somebody was at work in the cache.
        self.tree.checkout(source)
        self._begin_empty(source, "files of the work tree were changed in the cache")
        self.more = {"CCACHE_RECACHE": "1"}  # what was compiled of them was stored
        self.log.write_text("")
        return self.compile(gather)

    def _begin_empty(self, source: str, why: str) -> None:
        """Empty make's folder; the log says why."""
        shutil.rmtree(self.out)
        self.out.mkdir()
        self.is_empty = True
        self.folder.begin(source)
        with self.log.open("a") as stream:
            stream.write(f"iotoll: built in an empty folder: {why}\n")

    def compile(
        self, on_link: Callable[[], object], goals: Sequence[str] = ()
    ) -> IotollError | None:
        """Configure and make the image and the device trees, or ``goals``; returns what failed."""
        target = TARGETS[self.job.arch]
        if self.job.source.side == "candidate":
            # The base's: a candidate's makefile could give it out as its own.
            for path in (self.out / target.image, self.out / "vmlinux"):
                path.unlink(missing_ok=True)
        try:
            self._configure()
            goals = goals or (target.make_target, *self.job.dtbs)
            return self._failure() if self._make(goals, on_link) else None
        except IotollError as error:
            return error

    def _make(self, goals: Sequence[str], on_link: Callable[[], object]) -> int:
        """Run make itself: tuxmake configures, but asks two dozen tools' versions at each build."""
        prefix = TARGETS[self.job.arch].compiler.removesuffix("gcc")
        command = ["make", "-C", str(self.tree.src), f"--jobs={_jobs()}", f"O={self.out}"]
        # The same words as tuxmake's, or kbuild would configure anew.
        command += [f"ARCH={self.job.arch}", f"CROSS_COMPILE={prefix}"]
        command += [f"CC=ccache {prefix}gcc", "HOSTCC=ccache gcc", *UNUSED_TOOLS]
        compat = next((c for c in _COMPAT if self.job.arch == "arm64" and shutil.which(c)), "")
        command += [f"CROSS_COMPILE_COMPAT={compat.removesuffix('gcc')}"] if compat else []
        return self._run([*command, *goals], self._variables(), on_link)

    def _variables(self) -> dict[str, str]:
        """What both tuxmake and make have in their environment."""
        # ccache gives the compiler the source's path from make's folder, in place of the whole one.
        prefixes = (*self._source_prefixes(), f"{self.out}/")
        flags = [f"-ffile-prefix-map={prefix}=" for prefix in prefixes]
        flags += kconfig.compiler_options(self.job.fragments)
        return {**PINNED, "KCFLAGS": " ".join(flags)}

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
        old = config.read_bytes() if config.is_file() else b""
        before = config.rename(self.out / ".config.before") if old else None
        self._make_config()
        if before and old == config.read_bytes():
            before.replace(config)  # keeps the time stamp, so make has nothing to redo
        elif before:
            source = str(self.job.source.git_tree)
            self._begin_empty(source, "the kernel's configuration is another one")
            self._make_config()
        self._check_config(config)
        results.write_text(
            stamp, json.dumps({"inputs": digest, "config": file_sha256(config)}) + "\n"
        )

    def _make_config(self) -> None:
        added = [word for path in self.job.fragments for word in ("-K", str(path))]
        if self._tuxmake("-k", "allnoconfig", *added, "config"):
            raise self._failure()

    def _config_inputs(self) -> str:
        """Digest of all that kconfig may read: any file but a compiler's, fragments, compiler."""
        tree = str(self.job.source.git_tree)
        listing = self.tree.git("ls-tree", "-r", tree).stdout.decode("utf-8", "replace")
        lines = listing.splitlines()
        read = [line for line in lines if read_by_kconfig(line.partition("\t")[2])]
        fragments = [file_sha256(path) for path in self.job.fragments]
        return json_sha256([read, fragments, self.job.toolchain, RECIPE])

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
        command += ["-o", str(self.tree.work / "tuxmake"), "-a", self.job.arch, "-t", "gcc"]
        command += ["-w", "ccache", "-r", "null", "-c", "never", "-F", "-j", str(_jobs())]
        for name, value in self._variables().items():
            command += ["-e", f"{name}={value}"]
        # All positional words last, in one piece: argparse refuses those behind further options.
        return self._run([*command, *args, *UNUSED_TOOLS])

    def _env(self, variables: Mapping[str, str] | None = None) -> dict[str, str]:
        is_below = THROWN_AWAY in os.environ
        return clean_env(
            {
                "CCACHE_DIR": str(self.tree.ccache),
                "CCACHE_BASEDIR": str(self.tree.work),
                "CCACHE_MAXSIZE": "5G",
                **direct_key(self.job),
                **self.more,
                # A hit that is noted in the cache would be a file of the overlay, to be removed.
                **(READ_ONLY if is_below else {}),
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                **(variables or {}),
            }
        )

    def _run(
        self,
        command: list[str],
        variables: Mapping[str, str] | None = None,
        on_link: Callable[[], object] = lambda: None,
    ) -> int:
        return makerun.run(
            command,
            env=self._env(variables),
            log=self.log,
            step=self.step,
            timeout=max(1.0, self.deadline - time.monotonic()),
            running=self._torn,
            keep_open=self.tree.kept_open,
            on_link=on_link,
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


def _jobs() -> int:
    return os.cpu_count() or 1
