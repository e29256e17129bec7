"""Builds and boots single commits, and says by how much each differs from another one.

Two commits are compared I/O by I/O, by the gate's rule. What moved is a mean over all I/Os
(`iotoll.verdict.amount`), so that the steps of a range add up. What was measured is kept by the
kernel image, not by the commit: a commit that leaves the image as it was is not booted.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from iotoll.bisect import sandboxed_commits
from iotoll.bisect.log import Log
from iotoll.bisect.setting import WHOLE, WORK, Part, Setting, request_of
from iotoll.boards.board import VirtualBoard, load_virtual_board
from iotoll.boards.cells import parse_cell
from iotoll.boards.matrix import Matrix, load_matrix
from iotoll.boards.ramdisk import get_image
from iotoll.boots import base_boots
from iotoll.boots.local import BootPlan, boot_again
from iotoll.boots.schedule import Bench, plan_boot
from iotoll.core.digest import json_sha256
from iotoll.core.errors import BrokenError, InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow
from iotoll.kernels.build import KernelSpec, build_side
from iotoll.kernels.changed import differing_functions
from iotoll.kernels.compiled import SOURCES
from iotoll.kernels.kernel_job import KernelJob
from iotoll.kernels.source import base_of
from iotoll.kernels.symbols import read_functions
from iotoll.measure.collect import analyze
from iotoll.patch.candidate import CandidateChoice
from iotoll.records import results
from iotoll.records.models import (
    BootRecord,
    BuildRecord,
    CellRecord,
    Clock,
    Comparison,
    RunManifest,
    Section,
    SectionComparison,
    SourceRecord,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from iotoll.run.manifest import new_manifest
from iotoll.run.opening import open_run
from iotoll.verdict.amount import amount, element_part, mean_of
from iotoll.verdict.elements import compare_elements
from iotoll.verdict.instructions import pairing
from iotoll.verdict.instructions.decide import Asked, find
from iotoll.verdict.instructions.pairing import PairedIos
from iotoll.verdict.instructions.rule import compare, compare_counts, per_io
from iotoll.verdict.policy import CountRule, Policy, load_policy
from iotoll.verdict.work import compare_work

_CHANGED = "changed.json"
"""Beside the records of an image: its functions with other machine code than A's."""


ONE_BOOT = 1e-3
"""A gate has several boots for its own chance, and a search one: a cost in every 16th I/O of it."""


@dataclass(frozen=True)
class Value:
    """One section of one cell against another kernel: ``delta`` is the mean I/O's instructions.

    ``moved`` is by the gate's rule. ``steady``: the same rule finds it with a threshold of one
    instruction and the chance `ONE_BOOT`: enough where functions changed, and never without.
    ``some`` says which I/Os have it, where not all have.
    """

    delta: float
    moved: str
    share: float
    gated: bool
    threshold: float
    steady: bool = False
    some: str = ""

    @property
    def has_moved(self) -> bool:
        """Whether the gate's rule says that it grew or shrank."""
        return self.moved in ("grew", "shrank")


@dataclass
class Spent:
    """What a search cost; ``builds`` are those that compiled, ``cached`` those that need not."""

    builds: int = 0
    cached: int = 0
    boots: int = 0
    build_seconds: float = 0.0
    boot_seconds: float = 0.0
    skipped: int = 0


@dataclass
class Meter:
    """Measures commits of one tree against commit ``first`` (A), and remembers all of it."""

    root: Path
    setting: Setting
    first: str
    log: Log
    progress: Progress
    _records: dict[tuple[str, str], dict[str, CellRecord]] = field(default_factory=dict)
    _warned: bool = False

    @cached_property
    def board(self) -> VirtualBoard:
        """The exact board."""
        board = load_virtual_board(self.setting.board)
        if not board.qemu.patched:
            raise UsageError(f"--board {board.name}: is not exact: choose one, such as virt-arm64")
        return board

    @cached_property
    def matrix(self) -> Matrix:
        """The workload matrix."""
        return load_matrix(self.setting.matrix)

    @cached_property
    def policy(self) -> Policy:
        """The gate's policy, as it judges this board."""
        policy = load_policy(self.setting.policy)
        if policy.clock is not Clock.INSTRUCTIONS:
            raise UsageError(f"--policy {self.setting.policy}: is not of the clock instructions")
        return policy.on_shared_clock() if self.board.qemu.cpus > 1 else policy

    # ------------------------------------------------------------ one commit

    def values(self, commit: str, cells: Sequence[str]) -> dict[Part, Value] | None:
        """The commit against A, per cell and section; None when it does not build or boot.

        Raises InfrastructureError when A itself does not, or when the machine fails.
        """
        ours = self.records(self.first, cells)
        if ours is None:
            raise InfrastructureError(
                f"{self.first[:12]} {self.why(self.first)}: nothing can be compared with it: name"
                " another --good"
            )
        return self.between(self.first, commit, cells)

    def between(self, one: str, other: str, cells: Sequence[str]) -> dict[Part, Value] | None:
        """Commit ``other`` against ``one``, as `values`; None when one does not build or boot."""
        ours, theirs = self.records(one, cells), self.records(other, cells)
        if ours is None or theirs is None:
            return None
        changed = self.changed(one, cells) | self.changed(other, cells)
        return {
            (cell, part): value
            for cell in cells
            for part, value in parts(self.policy, (ours[cell], theirs[cell]), changed).items()
        }

    def records(self, commit: str, cells: Sequence[str]) -> dict[str, CellRecord] | None:
        """The records of a commit's cells; None when it does not build or boot."""
        if self.why(commit):
            return None
        key = _key(cells)
        if (commit, key) not in self._records:
            try:
                self._records[commit, key] = self._measured(commit, cells)
            except BrokenError as error:
                self.log.add("skipped", commit=commit, step=error.step, why=str(error))
                self.progress.say(f"{commit[:12]} is skipped: {self.why(commit)}")
                return None
            finally:
                shutil.rmtree(self._folder(commit), ignore_errors=True)
        return self._records[commit, key]

    def why(self, commit: str) -> str:
        """Why a commit is skipped; empty when it is not."""
        for row in self.log.of("skipped"):
            if row["commit"] == commit:
                what = {"boot": "does not boot", "workload": "does not survive the workload"}
                return f"{what.get(row['step'], 'does not build')}: {row['why']}"
        return ""

    @property
    def skipped(self) -> list[str]:
        """All commits that do not build or boot."""
        return [row["commit"] for row in self.log.of("skipped")]

    def image(self, commit: str) -> str | None:
        """SHA-256 of a commit's kernel; None when it has not been built here."""
        found = [row["image"] for row in self.log.of("built") if row["commit"] == commit]
        return str(found[-1]) if found else None

    def sources(self, commit: str) -> set[str]:
        """Source files that a measured commit's kernel was made of."""
        path = self.root / "sources" / commit
        return set(path.read_text().splitlines()) if path.is_file() else set()

    @property
    def spent(self) -> Spent:
        """What the search has cost so far, killed attempts left out."""
        built, booted = self.log.of("built"), self.log.of("booted")
        fresh = [row for row in built if not row["cached"]]
        broken = [row for row in self.log.of("skipped") if row["step"] in ("build", "config")]
        return Spent(
            builds=len(fresh) + len(broken),
            cached=len(built) - len(fresh),
            boots=len([row for row in booted if not row["stored"]]),
            build_seconds=round(sum(row["seconds"] for row in fresh), 1),
            boot_seconds=round(sum(row["seconds"] for row in booted), 1),
            skipped=len(self.log.of("skipped")),
        )

    # ------------------------------------------------------------ how

    def _measured(self, commit: str, cells: Sequence[str]) -> dict[str, CellRecord]:
        image = self.image(commit)
        run = None
        if image is None:
            run, image = self._build(commit, cells)
        folder = self._stored(image, cells)
        if not (folder / "done").is_file():
            if run is None:
                run, _ = self._build(commit, cells)
            self._boot(run, commit, image, cells, folder)
        found = {c: results.read(folder / f"{c}.json", CellRecord) for c in cells}
        for cell, record in found.items():
            if record.invalid or record.in_order is None:
                why = record.invalid or "it has no I/Os in order"
                raise BrokenError("workload", f"{cell}: {why}")
        return found

    def _stored(self, image: str, cells: Sequence[str]) -> Path:
        return self.root / "records" / f"{image[:32]}-{_key(cells)}"

    def changed(self, commit: str, cells: Sequence[str]) -> frozenset[str]:
        """Functions of a measured commit with other code than A's; none where nobody noted them."""
        path = self._stored(self.image(commit) or "", cells) / _CHANGED
        return frozenset(json.loads(path.read_text())) if path.is_file() else frozenset()

    def _note_changed(self, run: RunDir, commit: str, folder: Path) -> None:
        """Keep A's image; of another commit, note the functions with other code than A's."""
        image, first = run.build("candidate") / "Image", self.root / "first" / "Image"
        try:
            if commit == self.first:
                first.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(image, first)
            elif first.is_file():
                found = differing_functions(read_functions(first), read_functions(image))
                results.write_text(folder / _CHANGED, json.dumps(found) + "\n")
        except UsageError:
            return  # an image without symbols, which nothing counts either

    def _folder(self, commit: str) -> Path:
        return self.root / "work" / f"{commit[:12]}-{os.getpid()}"

    def _build(self, commit: str, cells: Sequence[str]) -> tuple[RunDir, str]:
        if self.setting.sandbox:
            return self._build_in_sandbox(commit, cells)
        if commit != self.first and not self._warned:
            self._warned = True
            self.progress.say(
                "the commits' makefiles run as you, with your files and network: --sandbox runs"
                " them apart (docs/threat-model.md)"
            )
        run = self._run(commit)
        source = results.read(run.side("candidate") / "source.json", SourceRecord)
        cached = KernelJob.make(source, self.board.arch, self.board.fragments).is_done
        started = time.monotonic()
        record = build_side(
            run, "candidate", KernelSpec(self.board.arch, self.board.fragments), self.progress
        )
        self._note_build(commit, run.build("candidate"), record, cached, started)
        return run, record.sha256

    def _build_in_sandbox(self, commit: str, cells: Sequence[str]) -> tuple[RunDir, str]:
        """In the sandbox, as a run of A against the commit; of A itself only the base is used."""
        choice = CandidateChoice("revision", self.setting.tree, self.first, commit)
        manifest = new_manifest(request_of(self.setting, choice, cells))
        run = open_run(self._folder(commit), manifest)
        started = time.monotonic()
        flow, side = Flow(run, self.progress), self._side(commit)
        flow.source()
        cached = flow.build_job(side).is_done
        record = sandboxed_commits.build(flow, side)
        self._note_build(commit, run.build(side), record, cached, started)
        return run, record.sha256

    def _side(self, commit: str) -> Side:
        """Which side of its own run a commit is."""
        return "base" if self.setting.sandbox and commit == self.first else "candidate"

    def _note_build(
        self, commit: str, folder: Path, record: BuildRecord, cached: bool, started: float
    ) -> None:
        listed = folder / SOURCES
        if listed.is_file():
            results.write_text(self.root / "sources" / commit, listed.read_text())
        if self.image(commit) is None:
            seconds = round(time.monotonic() - started, 1)
            self.log.add(
                "built", commit=commit, image=record.sha256, cached=cached, seconds=seconds
            )

    def _run(self, commit: str) -> RunDir:
        """A run directory of this commit alone; it is removed when the commit is measured."""
        source = base_of(self.setting.tree, commit, self.progress)
        manifest = RunManifest(
            command=["iotoll", "bisect"],
            created="",
            kind="measure",
            board=self.setting.board,
            clock=Clock.INSTRUCTIONS,
            matrix=self.setting.matrix,
            policy=self.setting.policy,
            tree=self.setting.tree,
            base=commit,
            candidate_kind="none",
        )
        run = RunDir(self._folder(commit))
        results.write(run.root / "run.json", manifest)
        path = run.side("candidate") / "source.json"
        # As a candidate: what does not build is skipped, and is no failure of this machine.
        results.write(path, source.model_copy(update={"side": "candidate"}))
        return run

    @cached_property
    def _bench(self) -> Bench:
        image = get_image(self.board.arch, self.progress)
        return Bench(self.board, self.matrix, image, [], Clock.INSTRUCTIONS, "tcg", calibrate=False)

    def _boot(
        self, run: RunDir, commit: str, image: str, cells: Sequence[str], folder: Path
    ) -> None:
        if self.setting.sandbox:
            started = time.monotonic()
            with self.progress.step(f"boot {commit[:12]} on {self.board.name}, in the sandbox"):
                sandboxed_commits.boot(run, self._side(commit), cells, folder)
            self._note_boot(commit, image, cells, False, started)
            return  # nothing outside of the sandbox takes a stranger's image to pieces
        self._note_changed(run, commit, folder)
        bench = replace(self._bench, cells=list(cells))
        plan = plan_boot(run, bench, "candidate", 1)
        # Under the base's name, so that the store of boots keeps it for other searches.
        plan = replace(plan, side="base")
        started = time.monotonic()
        with self.progress.step(f"boot {commit[:12]} on {self.board.name}", plan.runs) as step:
            stored = base_boots.take(plan)
            if not stored:
                boot_again(
                    plan,
                    lambda done: step.update(done, plan.runs, f"{done} of {plan.runs}"),
                    tell=self.progress.say,
                )
                base_boots.keep(plan)
        _store(plan, folder)
        self._note_boot(commit, image, cells, stored, started)

    def _note_boot(
        self, commit: str, image: str, cells: Sequence[str], stored: bool, started: float
    ) -> None:
        seconds = round(time.monotonic() - started, 1)
        self.log.add(
            "booted", commit=commit, image=image, cells=len(cells), stored=stored, seconds=seconds
        )


def _store(plan: BootPlan, folder: Path) -> None:
    record = results.read(plan.folder / "boot.json", BootRecord)
    for cell, values in analyze(plan.folder, record)[0].items():
        results.write(folder / f"{cell}.json", values)
    results.write_text(folder / "done", "")


def parts(
    policy: Policy, sides: tuple[CellRecord, CellRecord], changed: frozenset[str] = frozenset()
) -> dict[str, Value]:
    """One cell of a commit against another's: its sections, the whole I/O and work outside I/Os.

    ``changed`` are the functions with other machine code (`iotoll.verdict.work`).
    """
    cell = sides[0].cell
    names: list[Section | None] = [*policy.sections, None]
    paired = pairing.pair([sides[0]], [sides[1]], names, parse_cell(cell).depth, policy.moved)
    found, sections, whole = {}, [], None
    for name in names:
        count = per_io(policy.rule(cell, name), [sides[0]])
        fields = compare(paired[name], count, policy)
        if fields is None:
            continue
        one = Comparison(**fields)
        found[WHOLE if name is None else name.value] = _value(one, paired[name], count, policy)
        if name is None:
            whole = one
        else:
            sections.append(SectionComparison(section=name, **fields))
    work = _work(policy, sides, (sections, whole), changed)
    return {
        **found,
        **({} if work is None else {WORK: work}),
        **_elements(policy, sides, changed),
    }


def _elements(
    policy: Policy, sides: tuple[CellRecord, CellRecord], changed: frozenset[str]
) -> dict[str, Value]:
    """Other counts than instructions that moved, such as register reads, each under its name."""
    judged = partial(compare_counts, policy, sides[0].cell)
    return {
        element_part(one): Value(mean_of(one)[0], one.moved, one.share, one.gated, one.threshold)
        for one in compare_elements([sides[0]], [sides[1]], policy, judged, changed)
    }


def _value(one: Comparison, paired: PairedIos, count: CountRule, policy: Policy) -> Value:
    # What cannot be compared says nothing of any share of the I/Os.
    if one.moved == "unknown" or one.paired is None:
        return Value(0.0, one.moved, 0.0, one.gated, one.threshold)
    single = count.model_copy(update={"threshold": 1})
    rule = policy.moved.model_copy(update={"chance": max(ONE_BOOT, policy.moved.chance)})
    steady = find(paired, Asked(rule, single, rule.share)) is not None
    if not (one.has_moved or steady):
        return Value(0.0, one.moved, one.share, one.gated, one.threshold)
    size = one.paired.size if one.has_moved else 1
    made = amount(paired.differences, size)
    return Value(made.mean, one.moved, one.share, one.gated, one.threshold, steady, made.some)


C = TypeVar("C", bound=Comparison)


def _turned(part: C) -> C:
    """The comparison of the same two sides the other way round, as far as work needs it."""
    paired = part.paired and part.paired.model_copy(update={"mean": -part.paired.mean})
    return part.model_copy(update={"delta": -part.delta, "paired": paired})


def _work(
    policy: Policy,
    sides: tuple[CellRecord, CellRecord],
    inside: tuple[list[SectionComparison], Comparison | None],
    changed: frozenset[str],
) -> Value | None:
    """Work outside I/Os. One boot of each side shows growth alone: less is asked the other way."""
    one, other = sides
    ahead = compare_work([one], [other], inside, policy.work, changed)
    if ahead is None:
        return None
    sections, whole = inside
    turned = [_turned(part) for part in sections], whole and _turned(whole)
    back = compare_work([other], [one], turned, policy.work, changed)
    moved: str = ahead.moved
    if moved == "same" and back is not None and back.moved == "grew":
        moved = "shrank"
    # Up to its threshold the sum is noise, and what changed functions execute is not.
    few = abs(ahead.delta) <= ahead.threshold
    delta = ahead.changed if few else ahead.delta
    return Value(delta if moved != "same" else 0.0, moved, 1.0, ahead.gated, ahead.threshold)


def _key(cells: Sequence[str]) -> str:
    return json_sha256(list(cells))[:16]


def usage(folder: Path) -> dict[str, Any]:
    """Bytes below a search's folder and what limits the caches, for the report."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"folder": size, "boots_limit": base_boots.LIMIT}
