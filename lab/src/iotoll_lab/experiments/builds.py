"""Is a kernel that is built after another one the kernel that a clean build gives?

``iotoll experiment builds`` makes sources that differ in what make or ccache could miss
(`iotoll_lab.experiments.build_changes`) and walks from one to the next in an order of chance.
Each is built as a gate, a bisect or a nightly builds it, and its image must be the one of a build
in an empty O= folder without ccache. One that differs is a bug, never a result.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import click
from rich.console import Console
from rich.table import Table

from iotoll.core.digest import file_sha256, json_sha256
from iotoll.core.errors import BrokenError, InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.kernels import cache
from iotoll.kernels.build import KernelSpec, build_side
from iotoll.kernels.compiling import clean_build, compile_job
from iotoll.kernels.kernel_job import KernelJob
from iotoll.kernels.places import places
from iotoll.kernels.source import base_of, open_tree
from iotoll.kernels.tree import KernelTree
from iotoll.patch import candidate
from iotoll.records import results
from iotoll.records.models import Clock, RunManifest, SourceRecord
from iotoll.records.rundir import RunDir
from iotoll.run import sandboxed
from iotoll_lab.experiments.build_changes import KEPT, Edits, Link, State, base, states, whole

SMALL = "small"
WAYS = ("move", "checkout", "failed", "future", "sandbox")
"""How a source comes to be built after another one.

``move``: the work tree moves by the files that differ. ``checkout``: another configuration's build
has moved it meanwhile. ``failed``: after a source that does not compile. ``future``: all that make
has noted is an hour ahead of the clock. ``sandbox``: below an overlay, as a desk's candidate.
"""
_AHEAD = 3600.0


@dataclass(frozen=True)
class Row:
    """One build after another one: ``before`` and ``state`` are names, ``way`` one of `WAYS`."""

    before: str
    state: str
    what: str
    way: str
    folder: str
    sha256: str
    clean: str
    seconds: float

    @property
    def is_same(self) -> bool:
        """Whether the image is the clean build's."""
        return self.sha256 == self.clean


@click.command("builds")
@click.option("--changes", default=64, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--fragments",
    default=SMALL,
    show_default=True,
    metavar="LIST",
    help="Config fragments, comma-separated. With others than the small kernel's, the whole source"
    " is built, with the headers' changes alone.",
)
@click.option("--only", metavar="LIST", help="Only these states, comma-separated.")
@click.option("--out", default="runs/builds", show_default=True, type=click.Path(path_type=Path))
def builds_command(changes: int, seed: int, fragments: str, only: str | None, out: Path) -> None:
    """Build changed kernels one after another: each image must be that of a clean build."""
    progress = Progress()
    bench = _Bench(out, tuple(fragments.split(",")), only, progress)
    rows: list[Row] = []
    for before, state, way in _walk(bench.states, changes, seed):
        rows.append(bench.row(before, state, way))
        _store(bench, seed, rows)
        progress.say(f"{len(rows)} of {changes}: {rows[-1].state} after {before.name}: same image")
    print_table(rows, Console())
    click.echo(
        f"{len(rows)} builds, {len({row.state for row in rows})} sources: all images are the"
    )
    click.echo(f"clean builds'; written: {out / 'builds.json'}")


def _walk(known: list[State], changes: int, seed: int) -> Iterator[tuple[State, State, str]]:
    """Steps from state to state: each state in turn in an order of chance, then another order."""
    chance = random.Random(seed)
    before, left, ways = known[0], list[State](), list[str]()
    for _ in range(changes):
        if not left:
            left = chance.sample(known, len(known))
        if left[-1] is before:
            left.insert(0, left.pop())
        state = left.pop()
        ways = ways or chance.sample(WAYS, len(WAYS))
        way = ways.pop()
        yield before, state, way
        # What is built below an overlay leaves make's folder as it was.
        before = before if way == "sandbox" else state


class _Bench:
    """The experiment's folder, its tree in the cache and its sources."""

    def __init__(
        self, out: Path, fragments: tuple[str, ...], only: str | None, progress: Progress
    ) -> None:
        self.out, self.progress = out, progress
        self.spec = KernelSpec("arm64", fragments)
        self.source = base_of("debian", None, progress)
        self.tree = open_tree("debian", progress)
        root = str(self.source.git_tree)
        is_small = fragments == (SMALL,)
        self.base = self._edited(self._cut(root), base(self._reader(root))) if is_small else root
        read = self._reader(self.base)
        known = states(read) if is_small else whole(read)
        names = only.split(",") if only else [state.name for state in known]
        if unknown := sorted(set(names) - {state.name for state in known}):
            raise UsageError(f"--only {unknown[0]}: choose from {', '.join(s.name for s in known)}")
        self.states = [state for state in known if state.name in {"none", *names}]
        self.trees = {state.name: self._edited(self.base, state.edits) for state in self.states}
        results.write_text(out / "trees.json", json.dumps(self.trees, indent=1) + "\n")

    def row(self, before: State, state: State, way: str) -> Row:
        """Build ``state`` after ``before``, or read what an earlier command left of it."""
        clean = self._clean(state)
        if (state.same or state.name == "none") != (clean == self._clean(self.states[0])):
            raise InfrastructureError(f"{state.name}: the change does not do what it is made for")
        name = json_sha256([before.name, state.name, way, self.trees[state.name]])[:16]
        known = self.out / "rows" / f"{name}.json"
        if known.is_file():
            row = Row(**json.loads(known.read_text()))
            if row.clean == clean:
                return row
        started = time.monotonic()
        folder = self.out / "built" / name
        shutil.rmtree(folder, ignore_errors=True)
        _WAYS[way](self, before, state, folder)
        seconds = round(time.monotonic() - started, 1)
        sha = _digest(folder)
        text = (folder / "build.log").read_text()
        emptied = "empty" if "iotoll: built in an empty folder" in text else "same"
        row = Row(before.name, state.name, state.what, way, emptied, sha, clean, seconds)
        if not row.is_same:
            raise InfrastructureError(
                f"{state.name} after {before.name} ({way}): the image is not the clean build's: a"
                f" bug of iotoll's; both are kept: {folder}, {self.out / 'clean' / state.name}"
            )
        shutil.rmtree(folder, ignore_errors=True)  # a sandbox may still remove its own
        results.write_text(known, json.dumps(asdict(row)) + "\n")
        return row

    def job(self, name: str, fragments: tuple[str, ...] = ()) -> KernelJob:
        """The build of one state."""
        return self._job(self.trees[name], fragments)

    def _job(self, tree: str, fragments: tuple[str, ...] = ()) -> KernelJob:
        return KernelJob.make(self._record(tree), "arm64", fragments or self.spec.fragments)

    def _record(self, tree: str) -> SourceRecord:
        return self.source.model_copy(update={"git_tree": tree, "side": "candidate"})

    def build(self, job: KernelJob, folder: Path) -> None:
        """Build as a run does, also where the cache has the image."""
        compile_job(job, self.progress, folder, warm=True)
        cache.copy_tree(job.cached, folder)

    def come_from(self, before: State) -> None:
        """Have make's folder hold the build of a state."""
        self.build(self.job(before.name), self.out / "before")

    def place(self) -> KernelTree:
        """The work tree that the builds are made in."""
        return places(self.tree, self.job("none"))[0]

    def broken(self, state: State) -> KernelJob:
        """The build of a source near a state that does not compile."""
        path = "block/blk-core.c"
        text = self._reader(self.trees[state.name])(path)
        edits = {path: f"{text}\n#error of the experiment's\n"}
        return self._job(self._edited(self.trees[state.name], edits))

    def run_of(self, before: State, state: State, folder: Path) -> RunDir:
        """A run directory with a base and a candidate."""
        choice = candidate.classify(None)
        manifest = RunManifest(
            command=["iotoll", "experiment", "builds"],
            created="",
            kind="gate",
            board="virt-arm64",
            clock=Clock.INSTRUCTIONS,
            matrix="default",
            policy="instructions",
            tree=choice.tree,
            base=choice.base,
            candidate=choice.candidate,
            candidate_kind=choice.kind,
        )
        results.write(folder / "run.json", manifest)
        run = RunDir.open(folder)
        for side, one in (("base", before), ("candidate", state)):
            record = self._record(self.trees[one.name]).model_copy(update={"side": side})
            results.write(run.side(cast(Any, side)) / "source.json", record)
        return run

    def _clean(self, state: State) -> str:
        """The digest of a state's clean build, which is made once."""
        folder = self.out / "clean" / state.name
        note = folder / "digest"
        job = self.job(state.name)
        if note.is_file() and note.read_text().split()[0] == job.key:
            return note.read_text().split()[1]
        clean_build(job, self.progress, folder)
        results.write_text(note, f"{job.key} {_digest(folder)}\n")
        return _digest(folder)

    def _reader(self, tree: str) -> Callable[[str], str]:
        return lambda path: self.tree.git("cat-file", "blob", f"{tree}:{path}").stdout.decode()

    def _cut(self, tree: str) -> str:
        """A git tree of the files that the small kernel needs."""
        index = {"GIT_INDEX_FILE": str(self.tree.root / f"experiment-{os.getpid()}")}
        lines = self.tree.git("ls-tree", "-r", "-z", tree).stdout.split(b"\0")
        kept = [line for line in lines if KEPT.search(line.partition(b"\t")[2].decode())]
        self.tree.git(
            "update-index", "-z", "--index-info", stdin=b"\0".join([*kept, b""]), env=index
        )
        found = self.tree.git("write-tree", env=index).stdout.decode().strip()
        Path(index["GIT_INDEX_FILE"]).unlink()
        return found

    def _edited(self, tree: str, edits: Edits) -> str:
        """A git tree with edits; the same one again for the same edits."""
        index = {"GIT_INDEX_FILE": str(self.tree.root / f"experiment-{os.getpid()}")}
        self.tree.git("read-tree", tree, env=index)
        for path, text in edits.items():
            if text is None:
                self.tree.git("update-index", "--force-remove", path, env=index)
                continue
            mode = "120000" if isinstance(text, Link) else "100644"
            mode = "100755" if path.endswith(".sh") else mode
            data = text.target if isinstance(text, Link) else text
            made = self.tree.git("hash-object", "-w", "--stdin", stdin=data.encode())
            entry = f"{mode},{made.stdout.decode().strip()},{path}"
            self.tree.git("update-index", "--add", "--cacheinfo", entry, env=index)
        found = self.tree.git("write-tree", env=index).stdout.decode().strip()
        Path(index["GIT_INDEX_FILE"]).unlink()
        return found


def _move(bench: _Bench, before: State, state: State, folder: Path) -> None:
    bench.come_from(before)
    bench.build(bench.job(state.name), folder)


def _checkout(bench: _Bench, before: State, state: State, folder: Path) -> None:
    bench.come_from(before)
    place = bench.place()
    with place.locked(bench.progress):
        place.checkout(bench.trees["none"])
    bench.build(bench.job(state.name), folder)


def _failed(bench: _Bench, before: State, state: State, folder: Path) -> None:
    bench.come_from(before)
    try:
        bench.build(bench.broken(before), bench.out / "before")
    except BrokenError:
        bench.build(bench.job(state.name), folder)
    else:
        raise InfrastructureError("a source that must not compile does")


def _future(bench: _Bench, before: State, state: State, folder: Path) -> None:
    bench.come_from(before)
    ahead = time.time() + _AHEAD
    out = bench.job(state.name).out(bench.place())
    for path in out.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (ahead, ahead))
    bench.build(bench.job(state.name), folder)


def _sandbox(bench: _Bench, before: State, state: State, folder: Path) -> None:
    bench.come_from(before)
    run = bench.run_of(before, state, folder / "run")
    build_side(run, "base", bench.spec, bench.progress, warm=True)
    cached = bench.job(state.name).cached
    shutil.rmtree(cached, ignore_errors=True)
    sandboxed.at_desk(run, bench.spec, bench.progress)
    for name in ("Image", "config", "build.log"):
        shutil.copyfile(run.build("candidate") / name, folder / name)


_WAYS: dict[str, Callable[[_Bench, State, State, Path], None]] = {
    "move": _move,
    "checkout": _checkout,
    "failed": _failed,
    "future": _future,
    "sandbox": _sandbox,
}


def _digest(folder: Path) -> str:
    return json_sha256([file_sha256(folder / name) for name in ("Image", "config")])


def _store(bench: _Bench, seed: int, rows: list[Row]) -> None:
    data = {
        "seed": seed,
        "fragments": list(bench.spec.fragments),
        "source": bench.source.version,
        "builds": len(rows),
        "sources": len({row.state for row in rows}),
        "same": sum(row.is_same for row in rows),
        "rows": [asdict(row) for row in rows],
    }
    results.write_text(bench.out / "builds.json", json.dumps(data, indent=1) + "\n")


def print_table(rows: list[Row], console: Console) -> None:
    """One line for each state: how often it was built, how, and in which folder."""
    table = Table(box=None, pad_edge=False)
    for title in ("change", "what", "builds", "after", "ways", "in an empty folder", "same image"):
        table.add_column(title)
    for name in dict.fromkeys(row.state for row in rows):
        own = [row for row in rows if row.state == name]
        after = ", ".join(dict.fromkeys(row.before for row in own))
        ways = ", ".join(f"{way}" for way in Counter(row.way for row in own))
        emptied = sum(row.folder == "empty" for row in own)
        same = sum(row.is_same for row in own)
        table.add_row(
            name, own[0].what, str(len(own)), after, ways, str(emptied), f"{same} of {len(own)}"
        )
    console.print(table)
