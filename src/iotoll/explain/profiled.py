"""`iotoll explain --profile`: both kernels built with function_graph's profiler, and booted once.

For boards whose instructions nobody can record: real ones above all, in the lab that booted them
before. These kernels are others than the gated ones, and what they say is approximate. So they have
a run directory of their own, in which nothing is judged, and which is none once they have booted.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from iotoll.boards.cells import parse_cell
from iotoll.boards.ramdisk import scripts_sha256
from iotoll.boots.local import BootPlan
from iotoll.boots.schedule import PARALLEL, Bench, plan_boot, run_plans
from iotoll.core.digest import files_sha256, json_sha256
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import data_dir
from iotoll.core.progress import Progress
from iotoll.explain.explainer import check_cells, moved_cells
from iotoll.explain.profile import Counts, compare_profiles, complete, read_profile
from iotoll.explain.unseen import Profiled, Traced, unseen_functions
from iotoll.kernels.changed import changed_functions
from iotoll.kernels.symbols import read_symbols
from iotoll.records import results
from iotoll.records.models import (
    CellChoice,
    Outcome,
    ProfiledCell,
    ProfileRecord,
    SelectionRecord,
    VerdictRecord,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir, images
from iotoll.run.building import Building

FRAGMENT = "function-profile"
MOST = 4
"""Cells that are profiled where the user names none."""

_MARK = "exec_prerun=sh /iotoll/dut/mark.sh "
_END = """
[mark-end]
stonewall
new_group
directory=/tmp
filename=iotoll-mark
iomem=malloc
ioengine=psync
rw=read
bs=4k
size=4k
exec_prerun=sh /iotoll/job/mark.sh
"""
"""Behind the last cell of a batch: its functions are kept before fio writes its results."""


class Profiler:
    """The profiled boots of one run; raises UsageError where there can be none."""

    def __init__(self, run: RunDir, progress: Progress) -> None:
        self._run = run
        self._progress = progress
        self._root = run.root / "explain" / "profile"
        if run.manifest.kind != "gate":
            raise UsageError(f"{run.root}: only a gate has two kernels to profile")
        if run.manifest.tree is None:
            raise UsageError(
                f"{run.root}: its kernels were given as images: --profile builds both again with"
                " function_graph's profiler, so gate a patch or revisions"
            )
        missing = [s for s in SIDES if not (run.build(s) / "build.json").is_file()]
        if missing:
            raise UsageError(f"{run.root}: has no kernel of the {missing[0]}: run the gate first")

    def choose(self, asked: Sequence[str]) -> list[str]:
        """The cells: those asked for, else those that moved or are a regression, else the first."""
        selected = results.read(self._run.selection, SelectionRecord)
        known = [choice.cell for choice in selected.cells]
        check_cells(asked, known)
        if not known:
            raise UsageError(f"{self._run.root}: no cell was measured, so there is none to profile")
        found: list[str] = []
        if self._run.verdict.is_file():
            verdict = results.read(self._run.verdict, VerdictRecord)
            grown = [c.cell for c in verdict.cells if c.outcome is Outcome.REGRESSION]
            found = grown or moved_cells(verdict)
        return [c for c in known if c in set(asked)] or found[:MOST] or known[:MOST]

    def measure(self, cells: Sequence[str]) -> ProfileRecord:
        """Build, boot and compare; leaves ``profile.json`` in the run directory."""
        inner = self._inner(cells)
        try:
            counts = self._counts(inner)
        finally:
            # No command may take it for a run that can be judged.
            (inner.root / "run.json").unlink(missing_ok=True)
        record = self._compared(cells, counts, inner)
        results.write(self._run.root / "profile.json", record)
        return record

    def _inner(self, cells: Sequence[str]) -> RunDir:
        """A run directory with the same sources, these cells, and one more config fragment."""
        manifest = self._run.manifest.model_copy(update={"boots": 1, "series": None})
        selected = results.read(self._run.selection, SelectionRecord)
        chosen = {
            "cells": [CellChoice(cell=cell, why="profiled") for cell in cells],
            "fragments": [*selected.fragments, FRAGMENT],
        }
        results.write(self._root / "run.json", manifest)
        inner = RunDir.open(self._root)
        results.write(inner.selection, selected.model_copy(update=chosen))
        for side in SIDES:
            inner.side(side).mkdir(parents=True, exist_ok=True)
            for name in ("source.json", "change.diff"):
                path = self._run.side(side) / name
                if path.is_file():
                    shutil.copyfile(path, inner.side(side) / name)
        return inner

    def _counts(self, inner: RunDir) -> dict[Side, dict[str, Counts]]:
        setup = Building(inner, self._progress, fresh=True)
        setup.preflight()
        setup.build()
        pace = setup.matrix.pace.model_copy(update={"round_us": 0})
        matrix = setup.matrix.model_copy(update={"pace": pace})
        bench = replace(setup.bench, matrix=matrix, calibrate=False)
        plans = [_plan(inner, bench, side) for side in SIDES]
        run_plans(inner, plans, self._progress, 1 if setup.judges_time else PARALLEL, setup.connect)
        return {plan.side: read_profile(plan.folder) for plan in plans}

    def _compared(
        self, cells: Sequence[str], counts: dict[Side, dict[str, Counts]], inner: RunDir
    ) -> ProfileRecord:
        setup = Building(self._run, self._progress)
        kernels = self._kernels(inner) if setup.board.arch == "arm64" else None
        found = []
        for cell in cells:
            base, candidate = (counts[side].get(cell) for side in SIDES)
            if base is None or candidate is None:
                raise InfrastructureError(f"{self._root}: the board sent no profile of {cell}")
            ios = setup.matrix.ios(parse_cell(cell))
            if kernels is None:
                found.append(compare_profiles(cell, ios, (base, candidate)))
            else:
                found.append(kernels.compare(cell, ios, (base, candidate)))
        return ProfileRecord(board=self._run.manifest.board, cells=found, images=images(self._run))

    def _kernels(self, inner: RunDir) -> _Kernels:
        gated, own = (
            tuple(read_symbols(run.build(side) / "Image") for side in SIDES)
            for run in (self._run, inner)
        )
        # The profiler's kernels inline others: a changed function may be in its caller there.
        changed = {
            name for base, candidate in (gated, own) for name in changed_functions(base, candidate)
        }
        base, candidate = (
            Profiled(one, Traced(other)) for one, other in zip(gated, own, strict=True)
        )
        return _Kernels(frozenset(changed), (base, candidate))


@dataclass(frozen=True)
class _Kernels:
    """What the images say: functions whose machine code differs, and both sides' kernels."""

    changed: frozenset[str]
    sides: tuple[Profiled, Profiled]

    def compare(self, cell: str, ios: int, counts: tuple[Counts, Counts]) -> ProfiledCell:
        """Both sides of a cell, with whole names, and why changed functions have no line."""
        names = [name for side in self.sides for name in side.traced.symbols.names]
        base, candidate = (complete(one, names) for one in counts)
        unseen = unseen_functions(self.changed, self.sides, (base.keys(), candidate.keys()))
        return compare_profiles(cell, ios, (base, candidate), self.changed, unseen)


def _plan(inner: RunDir, bench: Bench, side: Side) -> BootPlan:
    """A boot whose job profiles each cell: its own scripts mark the cells and hand over."""
    plan = plan_boot(inner, bench, side, 1)
    profile_job(plan.job, bench.settings.get("HANDOVER", "handover"))
    files = [path for path in plan.job.iterdir() if path.is_file()]
    digest = json_sha256([files_sha256(files, plan.job), scripts_sha256()])
    return replace(plan, job_sha256=digest)


def profile_job(job: Path, sender: str) -> None:
    """Change a rendered job so that its cells are profiled; ``sender`` hands over as before."""
    for name in ("mark.sh", "send.sh"):
        shutil.copyfile(data_dir("lava-jobs") / "profile" / name, job / name)
    for path in job.glob("*.fio"):
        text = path.read_text()
        assert _MARK in text, path
        path.write_text(text.replace(_MARK, _MARK.replace("/dut/", "/job/")) + _END)
    with (job / "job.env").open("a") as out:
        # Its path is relative to that of the board's own scripts (lava-jobs/dut/run.sh).
        out.write(f"HANDOVER=../job/send\nSENDER={sender}\n")
