"""Sections of I/Os in a boot that records no trace events, by the functions that ran.

Without events there is no table of I/Os. An I/O is what runs from the entry of a system call's
function to its return, in one task; its first request is followed by its address, from
``blk_mq_start_request`` to ``blk_update_request``. What counts is what its task runs, its
completion's interrupt, and behind that the idle task, which switches to it. Sections begin and end
at the functions that hold the tracepoints of the traced boot. Only the first request of an I/O is
looked at, as the gate does in vfs_fs, submission and completion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotoll.core.errors import UsageError
from iotoll.kernels.symbols import Symbols
from iotoll.measure.explain.record import Ints, Record, probes
from iotoll.measure.explain.walk import ROOT, Tree, Walk, Walker
from iotoll.records.models import Section

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
