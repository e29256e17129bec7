"""`iotoll explain --untraced`: both kernels boot without events, and their code cuts the I/Os.

The job is the run's own but for its events: one that never happens is recorded in their place, so
that the cells are still marked in the trace. Only the chosen cells run. I/Os are cut where the
events would be: behind a tracepoint's branch, which is a `nop` there, behind the function that
rings the doorbell, and where a system call begins. So these counts, and the gate's, which are
without what records the trace, go from the same instruction to the same instruction.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import median_low

import numpy as np
import numpy.typing as npt

from iotoll.boards.cells import parse_cell
from iotoll.boards.matrix import Matrix
from iotoll.boards.plugin import plugin_words
from iotoll.boots.local import BootPlan
from iotoll.boots.schedule import plan_boot
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.explain.explainer import Explainer, boot_recorded
from iotoll.explain.record import Record, probes, read_record
from iotoll.kernels.symbols import Symbols
from iotoll.kernels.tracing import BRANCH, END, END_BEHIND, TracingCode, returns_of, tracing_code
from iotoll.kernels.x86 import LONGEST
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

CUT = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION)
"""The sections that such a boot tells."""

AT_ONCE = 4
"""Cells of a boot: each instruction of four cells is 1.3 GB of records."""

Cuts = Mapping[Section, Sequence[int]]
"""Instructions of each I/O that was cut, by section."""

_EVENTS = {
    "block_bio_queue": "bio",
    "irq_handler_entry": "irq",
    "irq_handler_exit": "out",
    "sched_switch": "switch",
    "block_rq_complete": "done",
}
_CALL = "invoke_syscall"
_CHUNK = 1 << 22  # runs that are looked at at a time


def cut(
    folder: Path, record: Record, symbols: Symbols, doorbells: set[str]
) -> dict[str, dict[Section, list[int]]]:
    """Cut the I/Os of a boot's cells, each that reaches the block layer by its first request.

    ``folder`` is the boot's, ``doorbells`` are the functions whose return is the hand-over.
    """
    points = _points(symbols, tracing_code(symbols), doorbells)
    inside = _inside(record, symbols, points)
    wanted = np.zeros(len(record.blocks), np.bool_)
    wanted[list(inside)] = True
    reached: list[tuple[int, int, str]] = []
    executed, clock = 0, _Clock()
    for low in range(0, len(record.runs), _CHUNK):
        blocks, counts = record.unpack(low, min(low + _CHUNK, len(record.runs)))
        done = np.cumsum(counts) - counts + executed
        for place in np.flatnonzero(wanted[blocks]).tolist():
            for offset, point in inside[int(blocks[place])]:
                if offset <= counts[place]:
                    time = clock.read(int(done[place]) + offset, point)
                    reached.append((low + place, time, point.what))
        executed = int(done[-1] + counts[-1])
    runs = np.array([run for run, _, _ in reached])
    found = {}
    for cell, (first, last) in _windows(folder, record).items():
        low, high = np.searchsorted(runs, [first, last]).tolist()
        found[cell] = _sections(reached[low:high])
    return found


@dataclass(frozen=True, order=True)
class _Point:
    """What is reached before the instruction at an address, or at a block's end behind the last."""

    address: int
    what: str
    at_end: bool = False
    group: int = 0


_BEGINS, _ENDS = "begins", "ends"
"""Of an event that is on nevertheless: trace-cmd notes the names of tasks at switches."""


def _points(symbols: Symbols, code: TracingCode, doorbells: set[str]) -> set[_Point]:
    points = {
        _Point(symbols.behind(site), what)
        for event, what in _EVENTS.items()
        for site in code.sites.get(event, ())
    }
    for edge in code.edges:
        address, kind, group = int(edge["address"]), int(edge["kind"]), int(edge["group"])
        if kind == BRANCH:
            behind = symbols.behind(address)
            points.add(_Point(behind, _BEGINS, at_end=True, group=group))
        elif kind in (END, END_BEHIND):
            is_behind = kind == END_BEHIND
            place = symbols.behind(address) if is_behind else address
            points.add(_Point(place, _ENDS, at_end=is_behind, group=group))
    for what, places in zip(("call", "back"), code.calls, strict=True):
        points |= {_Point(place, what) for place in places}
    for name in symbols.names:
        if name.partition(".")[0] == _CALL and (span := symbols.span(name)):
            points.add(_Point(span[0], "call"))
            points |= {_at_return(symbols, at, "back") for at in returns_of(symbols, name)}
    for name in doorbells:
        points |= {_at_return(symbols, at, "bell") for at in returns_of(symbols, name)}
    return points | _ends_of_switches(code)


def _at_return(symbols: Symbols, place: int, what: str) -> _Point:
    return _Point(symbols.behind(place), what, at_end=True)


def _ends_of_switches(code: TracingCode) -> set[_Point]:
    """Where a switch that is traced goes on: its branch is not a `nop`."""
    sites = code.sites.get("sched_switch", ())
    begun = np.isin(code.edges["address"], sites) & (code.edges["kind"] == BRANCH)
    ended = np.isin(code.edges["group"], code.edges["group"][begun]) & (code.edges["kind"] == END)
    return {_Point(int(address), "switch") for address in code.edges["address"][ended]}


def _inside(
    record: Record, symbols: Symbols, points: set[_Point]
) -> dict[int, list[tuple[int, _Point]]]:
    """The points in each block, in instructions from its beginning."""
    first = record.blocks["address"].astype(np.uint64)
    size = record.blocks["instructions"].astype(np.uint64)
    order = np.argsort(first, kind="stable")
    longest = int(size.max(initial=0)) * LONGEST
    found: dict[int, list[tuple[int, _Point]]] = {}
    for point in sorted(points):
        around = np.array([max(point.address - longest, 0), point.address + 1], np.uint64)
        low, high = np.searchsorted(first, around, sorter=order).tolist()
        places = _places(symbols, point.address)
        own, *others = np.searchsorted(
            places, np.array([point.address, *first[order[low:high]]], np.uint64)
        ).tolist()
        for block, other in zip(order[low:high].tolist(), others, strict=True):
            offset = own - other
            is_of_code = int(first[block]) >= int(places[0])
            if is_of_code and (offset == size[block] if point.at_end else offset < size[block]):
                found.setdefault(block, []).append((offset, point))
    return found


def _places(symbols: Symbols, address: int) -> npt.NDArray[np.uint64]:
    """The instructions of the function before the end of which an address is."""
    before, at = symbols.index(np.array([address - 1, address], np.uint64)).tolist()
    number = before if before >= 0 else at
    ends = [*symbols.starts[number + 1 : number + 2].tolist(), symbols.base + len(symbols.image)]
    return _of_function(symbols, int(symbols.starts[number]), ends[0])


@lru_cache(maxsize=1024)
def _of_function(symbols: Symbols, begin: int, end: int) -> npt.NDArray[np.uint64]:
    return symbols.instructions_in(begin, end)


class _Clock:
    """Instructions without those of events that are on nevertheless."""

    def __init__(self) -> None:
        self._left_out = 0
        self._begun: tuple[int, int] | None = None

    def read(self, executed: int, point: _Point) -> int:
        """The time at a point; it stands still between the ends of an event's code."""
        if point.what == _BEGINS and self._begun is None:
            self._begun = (point.group, executed)
        elif point.what == _ENDS and self._begun and self._begun[0] == point.group:
            self._left_out += executed - self._begun[1]
            self._begun = None
        return (self._begun[1] if self._begun else executed) - self._left_out


def _sections(reached: Sequence[tuple[int, int, str]]) -> dict[Section, list[int]]:
    """The first request's way of each call that reaches the block layer.

    Where a worker completes the request, what runs between the interrupt and its switch to the
    worker is nobody's, as in the gate's own counts.
    """
    found: dict[Section, list[int]] = {section: [] for section in CUT}
    known: dict[str, int] = {}
    for _, executed, what in reached:
        if what == "call":
            known = {what: executed}
        elif "bell" in known and "done" not in known and what in _DEVICE:
            known = _completing(known, what, executed)
        elif what in _BEFORE and what not in known and known.keys() >= _BEFORE[what]:
            known[what] = executed
        if what == "back":
            pairs = (("call", "bio"), ("bio", "bell"), ("irq", "done"))
            for section, (begin, end) in zip(CUT, pairs, strict=True):
                if end in known:
                    found[section].append(known[end] - known[begin])
            known = {}
    return found


_DEVICE = ("irq", "out", "switch")
"""What a task reaches at any time; it is looked at while a request is at the device."""


def _completing(known: Mapping[str, int], what: str, executed: int) -> dict[str, int]:
    if what == "switch":
        # Of several switches behind the interrupt the last one leads to the worker.
        skipped = executed - known["out"] if "out" in known else 0
        more = {"out": executed, "irq": known["irq"] + skipped} if "irq" in known else {}
        return {**known, **more}
    if what == "irq":
        return {**{name: at for name, at in known.items() if name != "out"}, what: executed}
    return {**known, what: executed}


_BEFORE = {
    "bio": {"call"},
    "bell": {"bio"},
    "done": {"irq"},
    "back": {"call"},
}
"""What an I/O has reached before."""


def _windows(folder: Path, record: Record) -> dict[str, tuple[int, int]]:
    """The runs of each cell: from its mark to the next one, of whichever trace."""
    windows = [w for path in folder.glob("*/trace.dat") for w in BootTraceFile(path).windows]
    windows.sort(key=lambda window: window.start)
    marks = record.at(np.array([window.start for window in windows], np.int64))
    if (marks < 0).any():
        raise InfrastructureError(f"{folder}: a cell's mark is not in the record")
    runs = [*record.clock["run"].astype(np.int64)[marks].tolist(), len(record.runs)]
    return {w.name: (runs[n], runs[n + 1]) for n, w in enumerate(windows)}


# ---------------------------------------------------------------- the boots

_NEVER = "oom:oom_score_adj_update"
"""An event that every kernel has and no workload of ours meets: trace-cmd wants at least one."""


def can_be_cut(cell: str) -> bool:
    """Whether the I/Os of a cell are calls of pread and pwrite, one after the other."""
    found = parse_cell(cell)
    plain = not found.engine and found.op in ("read", "write") and not found.sync_every
    return plain and found.io_mode in ("direct", "sync")


def without_events(matrix: Matrix) -> Matrix:
    """The matrix whose boots mark their cells in a trace, and record nothing else."""
    return matrix.model_copy(update={"events": {"common": [_NEVER]}, "kprobes": {}})


def doorbells(matrix: Matrix) -> set[str]:
    """The functions whose return is the hand-over: ``r:GROUP/EVENT FUNCTION``."""
    return {probe.split()[-1] for several in matrix.kprobes.values() for probe in several}


class Untraced:
    """The boots of one run without events; raises UsageError where it cannot be explained."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer
        self._run = explainer.run
        self._folder = explainer.folder / "untraced"

    def measure(self, cells: Sequence[str]) -> UntracedRecord:
        """Boot both kernels; leaves ``untraced.json`` in the run directory."""
        for cell in cells:
            if not can_be_cut(cell):
                raise UsageError(f"{cell}: only cells of pread and pwrite are cut without events")
        found = [
            one
            for first in range(0, len(cells), AT_ONCE)
            for one in self._sides(cells[first : first + AT_ONCE])
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
        bells = doorbells(self._explainer.setup.bench.matrix)
        found = cut(plan.folder, read_record(recorded / "record"), symbols, bells)
        known = results.read(self._run.side(plan.side) / "result.json", SideResult).cells
        if lacking := [cell for cell in cells if cell not in found]:
            raise InfrastructureError(f"{plan.folder}: the board marked no cell {lacking[0]}")
        return [compare(plan.side, cell, found[cell], known.get(cell, [])) for cell in cells]

    def _plan(self, side: Side, cells: Sequence[str], symbols: Symbols, recorded: Path) -> BootPlan:
        """The run's boot without events, recorded, in a folder of its own."""
        bench = self._explainer.setup.bench
        matrix = without_events(bench.matrix)
        quiet = replace(bench, matrix=matrix, cells=list(cells), calibrate=False)
        plan = plan_boot(RunDir(self._folder), quiet, side, 1)
        shutil.rmtree(recorded, ignore_errors=True)
        recorded.mkdir(parents=True)
        words = plugin_words(recorded / "record", probes(symbols), None)
        kernel, folder = self._run.build(side) / "Image", self._folder / side
        return replace(plan, kernel=kernel, folder=folder, words=words)


def compare(side: Side, cell: str, cuts: Cuts, known: Sequence[CellRecord]) -> UntracedCell:
    """Medians of an untraced boot of a cell beside those of the gate's first boot."""
    sections = [
        UntracedSection(
            section=section,
            ios=len(values),
            counted=_counted(known, section),
            untraced=float(median_low(values)),
        )
        for section, values in cuts.items()
        if values
    ]
    return UntracedCell(cell=cell, side=side, sections=sections)


def _counted(known: Sequence[CellRecord], section: Section) -> float | None:
    """The median of what the gate compares; None where it has what records the trace."""
    if not known or known[0].tracing is None or known[0].in_order is None:
        return None
    values = [v for v in known[0].in_order.sections.get(section, []) if v]
    return float(median_low(values)) if values else None
