"""The step *explain*: dissect the I/Os of both kernels of a judged run.

The gate's own boots have kept what they executed, where the board counts that (`stored`). Else both
kernels boot again, recorded: on an exact board such a boot executes the very instructions of the
gate's boot, so its trace is the same file; that is checked, and said. The record is kept only until
it has been analysed.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from iotoll.boards.board import VirtualBoard
from iotoll.boards.cells import parse_cell
from iotoll.boards.plugin import plugin_words
from iotoll.boots.local import BootPlan, boot
from iotoll.boots.schedule import PARALLEL, plan_boot, step_after
from iotoll.core.errors import UsageError
from iotoll.core.nearest import meant
from iotoll.core.progress import Progress
from iotoll.explain.compared import SideParts, compared
from iotoll.explain.dissect import Boot, Task, dissect_sides
from iotoll.explain.frames import cell_frames
from iotoll.explain.functions import Lines
from iotoll.explain.gate_coverage import of_gate
from iotoll.explain.pieces import Pieces, make_pieces
from iotoll.explain.record import Ints, probes
from iotoll.explain.stored import has_windows
from iotoll.explain.tables import io_tables
from iotoll.explain.viewers import firefox, flame_svg, perfetto, speedscope
from iotoll.kernels.changed import changed_functions
from iotoll.kernels.debuginfo import FunctionLines
from iotoll.kernels.symbols import Symbols, read_functions
from iotoll.measure.io_order import GATE_COLUMNS
from iotoll.measure.iotable import IoTable, present
from iotoll.records import results
from iotoll.records.models import (
    CacheModel,
    CellVerdict,
    Clock,
    Comparison,
    ExplainRecord,
    PoolRecord,
    VerdictRecord,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir
from iotoll.run.building import Building


def slowest(table: IoTable) -> int:
    """The number of the I/O that took longest from call to return; the first of equals."""
    return int(np.argmax(table.duration))


def differing(base: IoTable, candidate: IoTable) -> int | None:
    """The first I/O with the commonest of the unusual differences between the sides.

    The usual difference is the one that most pairs have; None where all pairs have it.
    """
    pairs = min(len(base), len(candidate))
    values, place, counts = np.unique(
        _instructions(candidate)[:pairs] - _instructions(base)[:pairs],
        return_inverse=True,
        return_counts=True,
    )
    if len(values) < 2:
        return None
    usual = int(np.argmax(counts))
    others = [n for n in range(len(values)) if n != usual]
    wanted = max(others, key=lambda n: (counts[n], -abs(values[n] - values[usual])))
    return int(np.flatnonzero(place == wanted)[0])


def _instructions(table: IoTable) -> Ints:
    """Instructions of each I/O in all sections that the gate judges; shape (I/Os,)."""
    total = np.zeros(len(table), np.int64)
    for name in GATE_COLUMNS.values():
        column = table.get(name)
        if column is not None:
            total += np.where(present(column), np.ma.getdata(column), 0).astype(np.int64)
    return total


def boot_recorded(plans: Sequence[BootPlan], progress: Progress, what: str) -> None:
    """Boot each plan once, one per host CPU and at most `PARALLEL` at a time.

    What an exact board executes does not depend on what runs beside it. Raises what the first boot
    that fails raises; the others are ended then.
    """
    total = sum(plan.runs for plan in plans)
    begun = dict.fromkeys(range(len(plans)), 0)
    cancelled = threading.Event()
    title = f"boot {plans[0].board.name} ({', '.join(plan.side for plan in plans)}; {what})"
    with progress.step(title, total) as step:

        def one(index: int, plan: BootPlan) -> None:
            def on_cell(count: int) -> None:
                begun[index] = count
                done = sum(begun.values())
                step.update(done, total, f"fio run {done} of {total}")

            boot(plan, on_cell, cancelled)

        pool = ThreadPoolExecutor(max(1, min(PARALLEL, os.cpu_count() or 1)))
        try:
            futures = [pool.submit(one, index, plan) for index, plan in enumerate(plans)]
            ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in (f for f in futures if f in ended):
                future.result()
        finally:
            # Ctrl-C, or a boot that failed: the other board need not go on.
            cancelled.set()
            pool.shutdown(wait=True, cancel_futures=True)


ACCOUNTED = 0.5
"""Share of a whole I/O's difference that its sections must have, or the whole is dissected."""


_CELLS = 4
"""Cells of a run that an error names."""


def check_cells(asked: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageError for a cell that a run has not, with those that are named most alike."""
    for cell in asked:
        if cell not in known:
            near = meant(cell, known) or f": it has {', '.join(known[:_CELLS])}"
            raise UsageError(f"--cell {cell}: the run has no such cell{near}")


def moved_cells(verdict: VerdictRecord) -> list[str]:
    """The cells that moved, the largest differences first.

    Those where nothing but the whole I/O moved follow those with a section that did. Where no cell
    moved alone, the cells of a device whose cells moved together.
    """
    keys: dict[str, tuple[bool, float]] = {}
    for cell in verdict.cells:
        sections = [abs(s.delta or 0.0) for s in cell.sections if _has_moved(s)]
        sections += [0.0 for element in cell.elements if _has_moved(element)]
        if sections:
            keys[cell.cell] = False, -max(sections)
        elif cell.whole is not None and _has_moved(cell.whole):
            keys[cell.cell] = True, -abs(cell.whole.delta or 0.0)
    if keys:
        return sorted(keys, key=lambda name: keys[name])
    names = [cell.cell for cell in verdict.cells]
    return [name for name in names if any(_is_of(name, pool) for pool in verdict.pools)]


def whole_cells(verdict: VerdictRecord) -> frozenset[str]:
    """The cells whose whole I/Os moved by more than their sections account for."""
    return frozenset(cell.cell for cell in verdict.cells if _is_left(cell))


def _is_left(cell: CellVerdict) -> bool:
    if cell.whole is None or not _has_moved(cell.whole):
        return False
    sections = sum(s.delta or 0.0 for s in cell.sections if s.gated)
    whole = cell.whole.delta or 0.0
    return sections * whole <= 0 or abs(sections) < ACCOUNTED * abs(whole)


def _has_moved(part: Comparison) -> bool:
    return part.gated and part.has_moved


def _is_of(name: str, pool: PoolRecord) -> bool:
    cell = parse_cell(name)
    return cell.device == pool.device and pool.threads in (None, cell.threads)


PROFILES = {"speedscope": speedscope, "firefox": firefox, "perfetto": perfetto}
"""Programs whose files are written beside the flame graph, as CELL.NAME.json."""


class Explainer:
    """One run that is explained; raises UsageError where it cannot be.

    ``single`` is the number of the I/O of each cell that is also dissected alone, ``caches`` a
    model of caches for the lines that the I/Os touch. ``again``: both kernels boot once more,
    though their boots have kept what they executed.
    """

    def __init__(
        self,
        run: RunDir,
        progress: Progress,
        single: int | None = None,
        caches: CacheModel | None = None,
        again: bool = False,
    ) -> None:
        self.again = again
        self.single = single
        self.caches = caches
        self.run = run
        self.progress = progress
        self.setup = Building(run, progress)
        self.lines = Lines(self.setup)
        self.folder = run.root / "explain"
        manifest = run.manifest
        if manifest.kind != "gate":
            raise UsageError(f"{run.root}: only a gate is explained: a measurement has one kernel")
        if manifest.clock is not Clock.INSTRUCTIONS:
            raise UsageError(
                f"{run.root}: only a gate on the clock instructions is explained;"
                " --profile works on any clock, approximately"
            )
        if manifest.runner != "local":
            raise UsageError(
                f"{run.root}: a lab booted it: only local boards can be recorded;"
                " --profile asks the lab's boards, approximately"
            )
        board = self.setup.board
        if not isinstance(board, VirtualBoard) or (board.arch != "arm64" and not board.is_exact):
            raise UsageError(
                f"{run.root}: only virtual arm64 boards and exact ones can be recorded;"
                " --profile works on any board, approximately"
            )
        if caches is not None and board.arch != "arm64":
            raise UsageError(f"{run.root}: --cache is for arm64 boards: gate with --lines instead")
        if board.qemu.cpus > 1 and not self.is_stored:
            raise UsageError(
                f"{run.root}: of a board with several CPUs only what the gate's own boots kept is"
                " explained: without --again, --cache and --untraced"
            )

    @cached_property
    def verdict(self) -> VerdictRecord:
        """The verdict; raises UsageError where there is none with comparisons."""
        if not self.run.verdict.is_file():
            raise UsageError(f"{self.run.root}: has no verdict to explain")
        verdict = results.read(self.run.verdict, VerdictRecord)
        if verdict.failure is not None:
            raise UsageError(f"{self.run.root}: ended at its step {verdict.failure.step}")
        if not verdict.cells:
            raise UsageError(f"{self.run.root}: no cell was compared: {verdict.sentence}")
        return verdict

    def choose(self, asked: Sequence[str], everything: bool = False) -> list[str]:
        """The cells to explain: those asked for, else those that moved, else all."""
        known = [c.cell for c in self.verdict.cells]
        check_cells(asked, known)
        if everything:
            return known
        wanted = set(asked or moved_cells(self.verdict) or known)
        return [c for c in known if c in wanted]

    def pick(self, cell: str, how: str) -> None:
        """Choose the I/O to dissect alone: ``slowest`` of the candidate, or ``differs``."""
        if not self.setup.is_exact:
            raise UsageError(f"--{how} needs an exact board: name the I/O with --io N")
        both = [self._table(side, cell) for side in SIDES]
        self.single = slowest(both[1]) if how == "slowest" else differing(both[0], both[1])
        if self.single is None:
            raise UsageError(f"--differs: all I/Os of {cell} differ by the same: use --io N")

    def check_single(self, cell: str) -> None:
        """Raise UsageError where the cell has no I/O of the number that was asked for."""
        count = min(len(self._table(side, cell)) for side in SIDES)
        if self.single is not None and self.single >= count:
            raise UsageError(f"--io {self.single}: {cell} has the I/Os 0 to {count - 1}")

    def _table(self, side: Side, cell: str) -> IoTable:
        folder = self._boots(side, [cell])[0].gate
        tables = io_tables(folder, [cell])
        if cell not in tables or not len(tables[cell]):
            raise UsageError(f"{folder}: has no trace of {cell}: gate the patch again")
        return tables[cell]

    def largest(self, most: int) -> tuple[list[str], int]:
        """The cells whose sections grew most, and how many moved besides."""
        order = moved_cells(self.verdict)
        return order[:most] or self.choose(())[:most], max(len(order) - most, 0)

    def explain(
        self, cells: Sequence[str], left_out: int = 0
    ) -> tuple[ExplainRecord, Mapping[Side, SideParts]]:
        """Dissect and compare, with further boots if needed; leaves the run's ``explain.json``."""
        symbols = {side: self.symbols(side) for side in SIDES}
        changed = changed_functions(symbols["base"], symbols["candidate"])
        pieces = {side: self._pieces(side, symbols[side], changed) for side in SIDES}
        sides = self._sides(cells, symbols, changed, pieces)
        record = compared(self.run, self.verdict, self.lines, sides, changed, self.caches)
        if has_windows(self.run, "candidate"):
            covered = of_gate(self.setup, self.lines, pieces["candidate"])
            record = record.model_copy(update={"coverage": covered})
        record = record.model_copy(update={"left_out": left_out})
        results.write(self.run.explained, record)
        return record, sides

    def symbols(self, side: Side) -> Symbols:
        """The functions of a side's kernel image."""
        return read_functions(self.run.build(side) / "Image")

    def _pieces(self, side: Side, symbols: Symbols, changed: Sequence[str]) -> Pieces:
        known = [name for name in changed if symbols.span(name)]
        found: Mapping[str, FunctionLines] = {}
        if side == "candidate":
            found = self.lines.read_changed(symbols, known)
            # A changed header is part of more files than are compiled beside the base's build.
            headers = any(path.endswith(".h") for path in self.lines.changed_paths())
            known = [name for name in known if name not in found] if headers else []
        more = self.lines.read(side, symbols, known) if known else {}
        return make_pieces(symbols, {**found, **more})

    # ------------------------------------------------------------ boots

    def _sides(
        self,
        cells: Sequence[str],
        symbols: Mapping[Side, Symbols],
        changed: Sequence[str],
        pieces: Mapping[Side, Pieces],
    ) -> dict[Side, SideParts]:
        """Dissect the I/Os of both sides: of the gate's boots, or of further ones, recorded."""

        def task(side: Side, boots: Sequence[Boot]) -> Task:
            return Task(
                side,
                tuple(boots),
                symbols[side],
                pieces[side],
                tuple(cells),
                tuple(changed),
                self.single,
                whole_cells(self.verdict),
            )

        boots = {side: self._boots(side, cells) for side in SIDES}
        if self.is_stored:
            return dissect_sides(tuple(task(*pair) for pair in boots.items()), self.progress)
        records = self.folder / "records"
        shutil.rmtree(records, ignore_errors=True)
        try:
            plans, tasks = [], []
            for side in SIDES:
                again = []
                for one in boots[side]:
                    recorded = records / f"{side}-{one.gate.name}"
                    plans.append(self._plan(side, one, symbols[side], recorded))
                    folder = plans[-1].folder
                    again.append(replace(one, record=recorded / "record", folder=folder))
                tasks.append(task(side, again))
            boot_recorded(plans, self.progress, "recorded")
            return dissect_sides(tuple(tasks), self.progress)
        finally:
            shutil.rmtree(records, ignore_errors=True)

    @property
    def is_stored(self) -> bool:
        """Whether the gate's own boots have what they executed, and that is enough."""
        kept = all(has_windows(self.run, side) for side in SIDES)
        return kept and not self.again and self.caches is None

    def _boots(self, side: Side, cells: Sequence[str]) -> list[Boot]:
        """The gate's first boots that have any of the cells; what none has is looked for in one."""
        where = {c: number for number, own in self.run.first_boots(side).items() for c in own}
        found = []
        for number in sorted({where.get(cell, 1) for cell in cells}):
            folder = self.run.boot(side, number)
            wanted = tuple(cell for cell in cells if where.get(cell, 1) == number)
            found.append(Boot(None, folder, folder, wanted))
        return found

    def _plan(self, side: Side, boot: Boot, symbols: Symbols, recorded: Path) -> BootPlan:
        """A first boot of the gate once more, recorded, up to the last of the cells."""
        number = int(boot.gate.name)
        bench = self.setup.bench.of(number)
        plan = plan_boot(self.run, bench, side, number)
        recorded.mkdir(parents=True)
        spans = self._spans(plan, boot.cells, recorded / "spans")
        words = plugin_words(recorded / "record", probes(symbols), spans, self.caches)
        until = step_after(bench, number, boot.cells)
        folder = self.folder / side / str(number)
        return replace(plan, folder=folder, words=words, until=until)

    def _spans(self, plan: BootPlan, cells: Sequence[str], path: Path) -> Path | None:
        """Where the gate's boot had the cells' I/Os: on an exact board the recorded one also has.

        None on other boards, where everything must be recorded: times differ between boots.
        """
        if not plan.virtual.qemu.patched:
            return None
        tables = io_tables(plan.folder, cells)
        if set(tables) != set(cells):
            raise UsageError(f"{plan.folder}: has no trace of all cells: gate the patch again")
        pairs = [(int(t["start"].min()), int(t.end.max())) for t in tables.values() if len(t)]
        np.array(pairs, "<u8").tofile(path)
        return path


def write_pictures(folder: Path, sides: Mapping[Side, SideParts], record: ExplainRecord) -> None:
    """Write flame graph and profiles of every cell into a folder, with the record's totals."""
    told = {cell.cell: cell for cell in record.cells}
    for cell, parts in sides["base"].cells.items():
        root = cell_frames(parts, sides["candidate"].cells[cell])
        results.write_text(folder / f"{cell}.svg", flame_svg(root, told.get(cell)))
        for name, make in PROFILES.items():
            results.write_text(folder / f"{cell}.{name}.json", json.dumps(make(root)) + "\n")
