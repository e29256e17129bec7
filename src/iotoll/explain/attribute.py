"""Instructions by function for each I/O and latency section of a recorded cell.

A section of an I/O is what ran between two events of its trace, which the record has marks of. The
analyser's own count for the I/O is the check: an I/O counts as *dissected* only if the
instructions of its section add up to that count exactly, either all that ran or, where other tasks
and interrupts ran as well, those of the I/O's own task. Others are counted, never used. Of a whole
I/O, from call to return, everything counts that ran meanwhile, whoever ran it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from iotoll.explain.pieces import Label, PieceCounter, Pieces
from iotoll.explain.record import Ints, Record
from iotoll.explain.touches import TouchCounter, TouchParts, stacked
from iotoll.explain.walk import Tree, Walk, Walker
from iotoll.measure.io_order import GATE_COLUMNS
from iotoll.measure.iotable import IoTable, present
from iotoll.records.models import Section

BOUNDS: Mapping[Section, tuple[str, str]] = {
    Section.VFS_FS: ("start", "at_bio_queue"),
    Section.SUBMISSION: ("at_bio_queue", "at_device"),
    Section.COMPLETION: ("at_irq", "at_rq_complete"),
    Section.RETURN: ("at_rq_complete", "end"),
}
"""The columns of the table between which the first request of an I/O is in a section."""


@dataclass(frozen=True)
class SectionParts:
    """What ran in one section of a cell's I/Os; in the whole of them where ``section`` is None.

    ``ios`` are the numbers of those dissected, ``counts`` their instructions with shape (I/Os,
    functions), ``calls`` the calls of each function likewise; ``nodes`` are instructions by node
    of the tree, and ``entries`` calls, over all these I/Os. ``missing`` I/Os could not be
    dissected. ``single`` are instructions by node of the one I/O that was asked for, if it was.
    ``inlined`` are instructions of the functions that ``labels`` names, shape (I/Os, labels);
    ``touches`` the cache lines, where caches were modelled.
    """

    section: Section | None
    functions: tuple[str, ...]
    ios: Ints
    counts: Ints
    calls: Ints
    nodes: Ints
    entries: Ints
    missing: int
    single: Ints | None = None
    labels: tuple[Label, ...] = ()
    inlined: Ints | None = None
    touches: TouchParts | None = None


@dataclass(frozen=True)
class CellParts:
    """All sections of a cell, with the tree that their nodes belong to; ``whole`` if asked for.

    ``calls`` are those of each function from the first I/O to the last, in all tasks;
    ``executions`` likewise those of each instruction of ``pieces``.
    """

    cell: str
    ios: int
    tree: Tree
    calls: Mapping[str, int]
    sections: Mapping[Section, SectionParts]
    pieces: Pieces | None = None
    executions: Ints | None = None
    whole: SectionParts | None = None


def dissect(
    cell: str,
    record: Record,
    walker: Walker,
    table: IoTable,
    single: int | None = None,
    counter: PieceCounter | None = None,
    *,
    with_whole: bool = False,
) -> CellParts:
    """Attribute every I/O of a cell's table to functions, section by section."""
    bounds = {s: _bounds(record, table, *columns) for s, columns in BOUNDS.items()}
    ends = _bounds(record, table, "start", "end")
    marks = np.concatenate([b[b[:, 0] >= 0].ravel() for b in (*bounds.values(), ends)])
    if not len(marks):
        return CellParts(cell, len(table), walker.tree, {}, {})
    runs = record.clock["run"].astype(np.int64)
    reach = int(runs[marks].min()), int(runs[marks].max())
    walk = walker.walk(*reach)
    steps = np.searchsorted(walk.run, runs)
    tasks = _tasks(walk, steps, bounds[Section.VFS_FS])
    cutter = _Cutter(walk, walker.tree, tasks, single, counter, record)
    sections = {}
    for section, both in bounds.items():
        wanted = table.get(GATE_COLUMNS[section])
        if wanted is not None:
            sections[section] = cutter.section(section, both, steps, np.ma.array(wanted))
    whole = cutter.section(None, ends, steps, _executed(record, ends)) if with_whole else None
    pieces = counter.pieces if counter else None
    ran = counter.count([reach]) if counter else None
    return CellParts(cell, len(table), walker.tree, _all_calls(walk), sections, pieces, ran, whole)


def _executed(record: Record, ends: Ints) -> npt.NDArray[np.int64]:
    """What the CPU executed from call to return, as it counted itself; shape (I/Os,), masked."""
    known = ends[:, 0] >= 0
    first, last = np.where(known[:, None], ends, 0).T
    return np.ma.array(record.executed(first, last), mask=~known)


def _all_calls(walk: Walk) -> dict[str, int]:
    found: dict[str, int] = {}
    nodes, numbers = np.unique(walk.node[walk.entered], return_counts=True)
    for node, number in zip(nodes.tolist(), numbers.tolist(), strict=True):
        name = walk.tree.function[node]
        found[name] = found.get(name, 0) + number
    return found


def _bounds(record: Record, table: IoTable, first: str, last: str) -> Ints:
    """Numbers of the clock marks at a section's ends, shape (I/Os, 2); -1 where there is none."""
    columns = []
    for name in (first, last):
        column = table.end if name == "end" else table.get(name)
        if column is None:
            return np.full((len(table), 2), -1, np.int64)
        marks = record.at(np.ma.getdata(column).astype(np.int64))
        columns.append(np.where(present(column), marks, -1))
    both = np.stack(columns, axis=1)
    both[(both < 0).any(axis=1) | (both[:, 1] < both[:, 0])] = -1
    known = both[:, 0] >= 0
    # What began on one CPU and ended on another is not one stretch of the record.
    both[known] = np.where(record.on_one_cpu(*both[known].T)[:, None], both[known], -1)
    return both


def _tasks(walk: Walk, steps: Ints, submissions: Ints) -> npt.NDArray[np.uint64]:
    """The task of each I/O: the one that ran at its start; 0 where that is not known."""
    known = submissions[:, 0] >= 0
    tasks = np.zeros(len(submissions), np.uint64)
    tasks[known] = walk.task[steps[submissions[known, 0]]]
    return tasks


class _Cutter:
    """Sums the stretches of a walk over the sections of I/Os."""

    def __init__(
        self,
        walk: Walk,
        tree: Tree,
        tasks: npt.NDArray[np.uint64],
        single: int | None,
        counter: PieceCounter | None,
        record: Record,
    ) -> None:
        self._single = single
        self._counter = counter
        changed = counter.pieces.begins.keys() if counter else ()
        self._pieced = np.array([name in changed for name in tree.function])[walk.node]
        self._walk = walk
        self._tasks = tasks
        self._interrupt = tree.is_interrupt()[walk.node]
        names, self._function = np.unique(np.array(tree.function), return_inverse=True)
        self._names = tuple(str(name) for name in names)
        self._size = len(tree.parent)
        self._touches = None
        if record.lines is not None:
            of_stretch = self._function[walk.node]
            self._touches = TouchCounter(record, walk, of_stretch, len(names))

    def section(
        self, section: Section | None, marks: Ints, steps: Ints, wanted: npt.NDArray[np.int64]
    ) -> SectionParts:
        """Dissect a section, or with None the whole; ``wanted`` are the counts to add up to."""
        walk = self._walk
        found: dict[int, Ints] = {}
        for number in np.nonzero((marks[:, 0] >= 0) & present(wanted))[0].tolist():
            low, high = steps[marks[number]].tolist()
            chosen = self._own(number, low, high, int(wanted[number]))
            if chosen is not None:
                found[number] = chosen
        every = np.concatenate([np.zeros(0, np.int64), *found.values()])
        row = np.repeat(np.arange(len(found)), [len(chosen) for chosen in found.values()])
        enters = walk.entered[every]
        entered = every[enters]
        touches = (
            [self._touches.count(chosen) for chosen in found.values()] if self._touches else []
        )
        mine = found.get(-1 if self._single is None else self._single)
        labels = self._counter.pieces.labels if self._counter else ()
        inlined = [self._inlined(chosen) for chosen in found.values()]
        return SectionParts(
            section,
            self._names,
            np.array(list(found), np.int64),
            self._by_function(row, every, walk.count[every], len(found)),
            self._by_function(row[enters], entered, np.ones(len(entered)), len(found)),
            self._by_node(every, walk.count[every]),
            self._by_node(entered, np.ones(len(entered))),
            int(present(wanted).sum()) - len(found),
            None if mine is None else self._by_node(mine, walk.count[mine]),
            labels,
            np.array(inlined, np.int64).reshape(len(found), len(labels)),
            stacked(self._names, touches) if self._touches else None,
        )

    def _by_node(self, chosen: Ints, weights: npt.NDArray[Any]) -> Ints:
        """Sums of stretches by node of the tree, shape (nodes,)."""
        return np.bincount(self._walk.node[chosen], weights, self._size).astype(np.int64)

    def _by_function(self, row: Ints, chosen: Ints, weights: npt.NDArray[Any], rows: int) -> Ints:
        """Sums of stretches by I/O (its row) and function, shape (rows, functions)."""
        place = row * len(self._names) + self._function[self._walk.node[chosen]]
        sums = np.bincount(place, weights, rows * len(self._names))
        return sums.astype(np.int64).reshape(rows, len(self._names))

    def _inlined(self, chosen: Ints) -> Ints:
        """Instructions of inlined functions in these stretches, shape (labels,)."""
        if self._counter is None:
            return np.zeros(0, np.int64)
        run = self._walk.run
        here = chosen[self._pieced[chosen]].tolist()
        ends = [int(run[s + 1]) if s + 1 < len(run) else self._walk.end for s in here]
        spans = list(zip(run[here].tolist(), ends, strict=True))
        return self._counter.by_label(self._counter.count(spans))

    def _own(self, number: int, low: int, high: int, wanted: int) -> Ints | None:
        """The stretches that belong to an I/O, by number; None where they do not add up."""
        count = self._walk.count[low:high]
        here = np.arange(low, high)
        if int(count.sum()) == wanted:
            return here
        interrupt = self._interrupt[low:high]
        own = (self._walk.task[low:high] == self._tasks[number]) & ~interrupt
        # A completion's interrupt goes on for its I/O until the interrupt ends.
        tail = np.cumsum(~interrupt) == 0
        for mask in (own, own | tail):
            if int(count[mask].sum()) == wanted:
                chosen: Ints = here[mask]
                return chosen
        return None
