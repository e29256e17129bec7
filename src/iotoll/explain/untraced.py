"""`iotoll explain --untraced`: both kernels boot without events, and functions cut their I/Os.

The job is the run's own but for its events: one that never happens is recorded in their place, so
that the cells are still marked in the trace. Only the chosen cells run, without calibration.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low

import numpy as np
import numpy.typing as npt

from iotoll.boards.plugin import plugin_words
from iotoll.boots.local import BootPlan
from iotoll.boots.schedule import plan_boot
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.explain.explainer import Explainer, boot_recorded
from iotoll.explain.record import Ints, Record, probes, read_record
from iotoll.explain.walk import ROOT, Tree, Walk, Walker
from iotoll.kernels.symbols import Symbols
from iotoll.measure.boot_trace import BootTraceFile
from iotoll.records import results
from iotoll.records.models import (
    CellRecord,
    Section,
    SideResult,
    UntracedCell,
    UntracedRecord,
    UntracedSection,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir, images

CALLS = ("__arm64_sys_pread64", "__arm64_sys_pwrite64")
QUEUED, STARTED, COMPLETED = (
    "submit_bio_noacct_nocheck",
    "blk_mq_start_request",
    "blk_update_request",
)
ONWARD = ("__submit_bio", "__submit_bio_noacct", "blk_mq_submit_bio")
"""What QUEUED calls behind its tracepoint. Before it, Linux with BLK_CGROUP calls what a cgroup
counts: some 90 instructions that belong to vfs_fs in the traced boot."""
INTERRUPT = "__handle_irq_event_percpu"
IDLE = ("do_idle", "cpuidle_idle_call", "default_idle_call", "cpu_do_idle")
"""Only an idle task runs one of these: what wakes an I/O's task and switches to it is the I/O's."""

BATCHED, BATCH_END = "nvme_complete_batch_req", "blk_mq_end_request_batch"
"""NVMe's interrupt collects requests by the first, and completes them all in the second (Linux 5.16
on). The tracepoint is there, behind a look at the clock and before the first bio's end; only the
first is told which request."""
BIO_END = "bio_endio"

START, COMPLETE, COLLECT = 3, 4, 5
"""Probes behind those of `record`: the request of STARTED, COMPLETED and BATCHED."""

_BEFORE = 64  # runs before the first call: the one that calls it is among them
_BEHIND = 100_000  # runs behind the last call that may belong to its I/O
_LONGEST = 1 << 17  # stretches of an I/O
_CHUNK = 1 << 22  # runs that are looked at at a time


@dataclass(frozen=True)
class CutIos:
    """Instructions of each I/O by section; ``not_cut`` I/Os had a request and no such way."""

    sections: dict[Section, Ints]
    not_cut: int

    @property
    def total(self) -> Ints:
        """All sections of each I/O."""
        total: Ints = np.sum(list(self.sections.values()), axis=0)
        return total


def untraced_probes(symbols: Symbols) -> str:
    """The plugin's probes; raises UsageError if the kernel lacks a function that cuts I/Os."""
    spans = {name: symbols.span(name) for name in (QUEUED, STARTED, COMPLETED, INTERRUPT, *CALLS)}
    if lacking := [name for name, span in spans.items() if span is None]:
        raise UsageError(f"the kernel has no function {lacking[0]}: its I/Os cannot be cut")
    places = (spans[STARTED], spans[COMPLETED], symbols.span(BATCHED))
    return "+".join((probes(symbols), *(f"{span[0]:#x}:0" for span in places if span)))


def cut_cell(
    record: Record,
    walker: Walker,
    symbols: Symbols,
    window: tuple[int, int],
    doorbells: Sequence[str],
) -> CutIos:
    """Cut the I/Os of a cell; ``window`` are runs, ``doorbells`` functions that hand over."""
    calls = _runs_of_calls(record, symbols, window)
    if not len(calls):
        return CutIos({section: np.zeros(0, np.int64) for section in _CUT}, 0)
    # What runs before the first I/O and after the last is larger than the cell.
    low = max(window[0], int(calls[0]) - _BEFORE)
    high = min(window[1], int(calls[-1]) + _BEHIND)
    walk = walker.walk(low, high)
    marks = record.marks[(record.marks["run"] >= low) & (record.marks["run"] < high)]
    requests = [
        (int(m["probe"]), int(m["run"]), int(m["value"]))
        for m in marks
        if int(m["probe"]) in (START, COMPLETE, COLLECT)
    ]
    return _Cutter(walk, requests, frozenset(doorbells)).cut()


def _runs_of_calls(record: Record, symbols: Symbols, window: tuple[int, int]) -> Ints:
    """Numbers of the runs that enter one of the system calls' functions."""
    starts = [np.uint64(span[0]) for name in CALLS if (span := symbols.span(name))]
    entries = np.isin(record.blocks["address"], starts)
    found = [
        low + np.flatnonzero(entries[record.unpack(low, min(low + _CHUNK, window[1]))[0]])
        for low in range(*window, _CHUNK)
    ]
    return np.concatenate([*found, np.zeros(0, np.int64)])


_CUT = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION, Section.RETURN)


class _Cutter:
    """Finds the moments of I/Os in a walk, as numbers of stretches."""

    def __init__(
        self, walk: Walk, requests: Sequence[tuple[int, int, int]], doorbells: frozenset[str]
    ) -> None:
        self._walk = walk
        self._tree = walk.tree
        names = np.array(walk.tree.function)[walk.node]
        self._interrupt = walk.tree.is_interrupt()[walk.node]
        self._called = np.flatnonzero(walk.entered & np.isin(names, CALLS) & ~self._interrupt)
        self._queued = np.flatnonzero(walk.entered & (names == QUEUED))
        self._onward = np.flatnonzero(walk.entered & np.isin(names, ONWARD))
        self._irqs = np.flatnonzero(walk.entered & (names == INTERRUPT))
        self._bells = np.flatnonzero(walk.entered & np.isin(names, list(doorbells)))
        places = np.searchsorted(walk.run, [at for _, at, _ in requests], side="right") - 1
        found = [(p, k, v) for p, (k, _, v) in zip(places.tolist(), requests, strict=True)]
        self._started = [(place, value) for place, kind, value in found if kind == START]
        ends = np.flatnonzero(walk.entered & (names == BATCH_END))
        bios = np.flatnonzero(walk.entered & (names == BIO_END))
        ends = np.array([self._last_own(int(end), bios) for end in ends], np.int64)
        self._completed = sorted(
            [(place, value) for place, kind, value in found if kind == COMPLETE]
            + [
                (int(ends[at]), value)
                for place, kind, value in found
                if kind == COLLECT and (at := int(np.searchsorted(ends, place))) < len(ends)
            ]
        )
        idle = np.unique(walk.task[np.isin(names, IDLE) & ~self._interrupt])
        self._idle = np.isin(walk.task, idle) & ~self._interrupt
        self._below: dict[int, npt.NDArray[np.bool_]] = {}

    def cut(self) -> CutIos:
        """All I/Os that start within the walk and end there."""
        rows, not_cut = [], 0
        for begin, end in self._calls():
            started = self._first_request(begin, end)
            if started is None:
                continue
            found = self._sections(begin, end, *started)
            if found is None:
                not_cut += 1
            else:
                rows.append(found)
        table = np.array(rows, np.int64).reshape(len(rows), len(_CUT))
        return CutIos({section: table[:, n] for n, section in enumerate(_CUT)}, not_cut)

    def _calls(self) -> Iterator[tuple[int, int]]:
        """First stretch of each call, and the first one of its task behind it."""
        for begin in self._called.tolist():
            end = self._behind(begin)
            if end is not None:
                yield begin, end

    def _behind(self, begin: int) -> int | None:
        """The first stretch of the task after the function that ``begin`` enters."""
        walk = self._walk
        near = slice(begin, begin + _LONGEST)
        mine = (walk.task[near] == walk.task[begin]) & ~self._interrupt[near]
        over = np.flatnonzero(mine & ~self._under(int(walk.node[begin]))[walk.node[near]])
        return begin + int(over[0]) if len(over) else None

    def _under(self, node: int) -> npt.NDArray[np.bool_]:
        """Which nodes are a node, or below it."""
        if node not in self._below:
            self._below[node] = _descendants(self._tree, node)
        return self._below[node]

    def _first_request(self, begin: int, end: int) -> tuple[int, int] | None:
        """Where the I/O's task starts a request first, and that request."""
        task = self._walk.task[begin]
        for place, request in self._started:
            if begin <= place < end and self._walk.task[place] == task:
                return place, request
        return None

    def _sections(self, begin: int, end: int, started: int, request: int) -> list[int] | None:
        queued = self._traced(self._of_task(self._queued, begin, begin, started), started)
        handed = self._handed_over(begin, end, started)
        done = next((p for p, v in self._completed if v == request and p > started), None)
        if queued is None or handed is None or done is None or not handed <= done < end:
            return None
        irqs = self._irqs[(self._irqs > started) & (self._irqs <= done)]
        if not len(irqs):
            return None
        count, walk = self._walk.count, self._walk
        own = (walk.task == walk.task[begin]) & ~self._interrupt
        # The completion's interrupt goes on for the I/O until it ends.
        tail = np.cumsum(~self._interrupt[done:end]) == 0
        return [
            int(count[begin:queued][own[begin:queued]].sum()),
            int(count[queued:handed][own[queued:handed]].sum()),
            int(count[int(irqs[-1]) : done].sum()),
            int(count[done:end][(own | self._idle)[done:end] | tail].sum()),
        ]

    def _traced(self, queued: int | None, started: int) -> int | None:
        """The stretch of QUEUED that holds its tracepoint: its last one before it goes on."""
        if queued is None:
            return None
        onward = self._of_task(self._onward, queued, queued, started)
        return queued if onward is None else self._last_own(queued, np.array([onward]))

    def _last_own(self, entry: int, onward: Ints) -> int:
        """The last stretch of the function that ``entry`` enters, before the next one onward."""
        at = int(np.searchsorted(onward, entry))
        end = int(onward[at]) if at < len(onward) else entry + 1
        own = np.flatnonzero(self._walk.node[entry:end] == self._walk.node[entry])
        return entry + int(own[-1])

    def _of_task(self, places: Ints, begin: int, low: int, high: int) -> int | None:
        """The first of some stretches that runs in an I/O's task, outside interrupts."""
        task = self._walk.task
        for place in places[(places >= low) & (places < high)].tolist():
            if task[place] == task[begin] and not self._interrupt[place]:
                return int(place)
        return None

    def _handed_over(self, begin: int, end: int, started: int) -> int | None:
        """Behind the function that rings the doorbell: the one that starts the request, or next."""
        around = self._of_task(self._bells, begin, begin, started + 1)
        if (
            around is not None
            and self._under(int(self._walk.node[around]))[self._walk.node[started]]
        ):
            return self._behind(around)
        after = self._of_task(self._bells, begin, started, end)
        return None if after is None else self._behind(after)


def _descendants(tree: Tree, node: int) -> npt.NDArray[np.bool_]:
    """Which nodes are a node or below it; parents have lower numbers than children."""
    found = np.zeros(len(tree.parent), np.bool_)
    found[node] = True
    for other in range(max(node, ROOT) + 1, len(tree.parent)):
        found[other] = found[tree.parent[other]]
    return found


NEVER = "oom:oom_score_adj_update"
"""An event that every kernel has and no workload of ours meets: trace-cmd wants at least one."""

_MODES = ("direct", "sync")  # of cells whose I/Os are calls of pread and pwrite


class Untraced:
    """The boots of one run without events; raises UsageError where it cannot be explained."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer
        self._run = explainer.run
        self._folder = explainer.folder / "untraced"

    def measure(self, cells: Sequence[str]) -> UntracedRecord:
        """Boot both kernels; leaves ``untraced.json`` in the run directory."""
        for cell in cells:
            if not cell.endswith(_MODES):
                raise UsageError(f"{cell}: only cells of pread and pwrite are cut without events")
        devices = dict.fromkeys(cell.partition("-")[0] for cell in cells)
        # A record of all cells would fill a disk: one device's has about a gigabyte.
        found = [
            one
            for device in devices
            for one in self._sides([c for c in cells if c.partition("-")[0] == device])
        ]
        record = UntracedRecord(
            board=self._run.manifest.board, cells=found, images=images(self._run)
        )
        results.write(self._run.untraced, record)
        return record

    def _sides(self, cells: Sequence[str]) -> list[UntracedCell]:
        symbols = {side: self._explainer.symbols(side) for side in SIDES}
        records = {side: self._folder / f"{side}-record" for side in SIDES}
        try:
            plans = {side: self._plan(side, cells, symbols[side], records[side]) for side in SIDES}
            boot_recorded(list(plans.values()), self._explainer.progress, "untraced, recorded")
            return [
                one
                for side, plan in plans.items()
                for one in self._cut_side(plan, records[side], symbols[side], cells)
            ]
        finally:
            for folder in records.values():
                shutil.rmtree(folder, ignore_errors=True)

    def _cut_side(
        self, plan: BootPlan, recorded: Path, symbols: Symbols, cells: Sequence[str]
    ) -> list[UntracedCell]:
        cut = self._cut(plan, read_record(recorded / "record"), symbols, cells)
        known = results.read(self._run.side(plan.side) / "result.json", SideResult).cells
        return [_cell(plan.side, cell, cut[cell], known.get(cell, [])) for cell in cells]

    def _plan(self, side: Side, cells: Sequence[str], symbols: Symbols, recorded: Path) -> BootPlan:
        """The run's boot without events, recorded, in a folder of its own."""
        bench = self._explainer.setup.bench
        matrix = bench.matrix.model_copy(update={"events": {"common": [NEVER]}, "kprobes": {}})
        quiet = replace(bench, matrix=matrix, cells=list(cells), calibrate=False)
        plan = plan_boot(RunDir(self._folder), quiet, side, 1)
        shutil.rmtree(recorded, ignore_errors=True)
        recorded.mkdir(parents=True)
        words = plugin_words(recorded / "record", untraced_probes(symbols), None)
        kernel, folder = self._run.build(side) / "Image", self._folder / side
        return replace(plan, kernel=kernel, folder=folder, words=words)

    def _cut(
        self, plan: BootPlan, record: Record, symbols: Symbols, cells: Sequence[str]
    ) -> Mapping[str, CutIos]:
        windows = _windows(plan.folder, record)
        walker = Walker(record, symbols)
        found = {}
        for cell in cells:
            if cell not in windows:
                raise InfrastructureError(f"{plan.folder}: the board handed over no mark of {cell}")
            kprobes = self._explainer.setup.bench.matrix.kprobes.get(cell.partition("-")[0], [])
            # r:GROUP/EVENT FUNCTION: what the traced boot's doorbell is found by.
            functions = [probe.split()[-1] for probe in kprobes]
            found[cell] = cut_cell(record, walker, symbols, windows[cell], functions)
        return found


def _windows(folder: Path, record: Record) -> dict[str, tuple[int, int]]:
    """The runs of each cell: from its mark in the trace to the next one."""
    found = {}
    for path in sorted(folder.glob("*/trace.dat")):
        for window in BootTraceFile(path).windows:
            at = record.at(np.array([window.start, window.end]))
            if at[0] < 0:
                raise InfrastructureError(f"{path}: the mark of {window.name} is not in the record")
            runs = record.clock["run"].astype(np.int64)
            found[window.name] = (
                int(runs[at[0]]),
                int(runs[at[1]]) if at[1] >= 0 else len(record.runs),
            )
    return found


def _cell(side: Side, cell: str, cut: CutIos, known: Sequence[CellRecord]) -> UntracedCell:
    # Of several requests only the first one's way is cut: what follows it is not the return.
    single = all(_is_whole(known, section) for section in cut.sections)
    sections = [
        UntracedSection(
            section=section,
            traced=_traced(known, section),
            calibrated=known[0].sections[section].corrected_median if single else None,
            untraced=float(median_low(values.tolist())),
        )
        for section, values in cut.sections.items()
        if len(values) and (single or section is not Section.RETURN)
    ]
    ios = len(next(iter(cut.sections.values())))
    return UntracedCell(cell=cell, side=side, ios=ios, not_cut=cut.not_cut, sections=sections)


def _traced(known: Sequence[CellRecord], section: Section) -> float | None:
    """The median that the gate compares, of the first boot."""
    ordered = known[0].in_order if known else None
    if ordered is None:
        return None
    values = [v for v in ordered.sections.get(section, []) if v]
    return float(median_low(values)) if values else None


def _is_whole(known: Sequence[CellRecord], section: Section) -> bool:
    """Whether an I/O's first request is usually all of it: the gate's value is the section's."""
    part = known[0].sections.get(section) if known else None
    return part is not None and part.own.median == _traced(known, section)
