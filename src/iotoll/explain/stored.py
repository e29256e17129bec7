"""What a gated boot executed in some cells, as `explain` dissects it, from the boot's own windows.

The windows have everything but what recorded the trace, so the record is one of a kernel without
trace events, with the marks of a boot that has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from iotoll.boards.plugin import WINDOWS
from iotoll.core.errors import InfrastructureError
from iotoll.explain.record import BLOCK, CLOCK, MARK, PREVIOUS, RUN_BITS, Record
from iotoll.explain.record import SWITCH as SWITCHES
from iotoll.measure import windows as stored
from iotoll.measure.iotable import IoTable
from iotoll.measure.windows import Ints, Windows, read_windows
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir

_LONGEST = (1 << RUN_BITS) - 1


def stored_record(folder: Path, tables: Iterable[IoTable]) -> Record:
    """The record of a boot's folder, from the first I/O of each table to its last.

    Raises InfrastructureError where the boot kept no windows.
    """
    windows = read_windows(folder)
    if windows is None:
        raise InfrastructureError(f"{folder}: has no {WINDOWS}: what it executed was not kept")
    spans: list[tuple[int, int]] = []
    behind = [low for low, _ in windows.of_cpu]
    # Cell by cell, and CPU by CPU in each: a cell is a stretch of the record.
    for table in sorted((t for t in tables if len(t)), key=lambda t: int(t["start"].min())):
        reach = windows.reach(int(table["start"].min()), int(table.end.max()))
        for cpu, (low, high) in enumerate(reach):
            # The mark that the first I/O begins with is the end of a window: that one comes before.
            first = max(low - 1, behind[cpu])
            spans.append((first, max(high, first)))
            behind[cpu] = spans[-1][1]
    return _record(windows, spans)


def has_windows(run: RunDir, side: Side) -> bool:
    """Whether the first boots of a side, of all its cells, have windows."""
    folders = run.first_folders(side)
    return bool(folders) and all((folder / WINDOWS).is_file() for folder in folders)


def _record(windows: Windows, spans: Sequence[tuple[int, int]]) -> Record:
    """The marks from number ``low`` to before ``high`` of each span, with what precedes each.

    Spans are of one CPU each, and have no mark in common.
    """
    wanted = np.concatenate([np.zeros(0, np.int64), *(np.arange(*span) for span in spans)])
    marks = windows.marks[wanted]
    runs, ends = _runs(windows, marks)
    known = marks["window"] != stored.NO_WINDOW
    number = np.where(known, marks["window"], 0).astype(np.int64)
    length = np.where(known, windows.windows["instructions"][number].astype(np.int64), 0)
    executed = np.cumsum(length + marks["user"].astype(np.int64))
    every, of_cpu = _marks(windows, wanted, ends, executed)
    if len(windows.of_cpu) == 1:
        return Record(_blocks(windows), runs, every)
    sizes = np.cumsum([0, *(high - low for low, high in spans)])
    begins = np.concatenate([[0], ends])[sizes[:-1]]
    first = [_first_task(windows, *span) for span in spans]
    return _of_cpus(Record(_blocks(windows), runs, every, cpus=of_cpu), begins, first)


def _first_task(windows: Windows, low: int, high: int) -> int:
    """The task that runs at the beginning of a span: the first one that is left; 0: none is."""
    switches = np.flatnonzero(windows.marks["kind"] == stored.SWITCH)
    place = int(np.searchsorted(switches, low))
    return int(windows.switches["from"][place]) if (switches[place : place + 1] < high).any() else 0


def _of_cpus(record: Record, begins: Ints, tasks: Sequence[int]) -> Record:
    """With a switch where a span begins: what ran before it is another CPU's."""
    switched = np.zeros(len(begins), MARK)
    switched["run"], switched["probe"], switched["value"] = begins, SWITCHES, tasks
    every = np.concatenate([switched, record.marks])
    assert record.cpus is not None
    cpus = np.concatenate([np.full(len(begins), -1), record.cpus])
    order = np.argsort(every["run"], kind="stable")
    return replace(record, marks=every[order], cpus=cpus[order])


def _blocks(windows: Windows) -> np.ndarray:
    """The blocks; the same as parts of longer ones, which neither call nor return; user space."""
    address, size = windows.blocks["address"], windows.blocks["instructions"].astype(np.int64)
    blocks = np.zeros(2 * len(size) + 1, BLOCK)
    blocks["address"][:-1] = np.concatenate([address, address])
    blocks["instructions"] = np.concatenate([size, size + 1, [_LONGEST]])
    return blocks


def _runs(windows: Windows, marks: np.ndarray) -> tuple[np.ndarray, Ints]:
    """All runs as packed words, and how many of them there are up to each mark."""
    user = 2 * len(windows.blocks)
    length = windows.blocks["instructions"].astype(np.uint32)
    window, entry, often = windows.entries
    block = entry < stored.ACCESS
    window, entry, often = window[block], entry[block], often[block]
    # What has no order shows no call.
    number = entry + np.where(windows.windows["is_ordered"][window], 0, len(windows.blocks))
    words = np.repeat((number.astype(np.uint32) << RUN_BITS) | length[entry], often)
    sizes = np.bincount(window, often, len(windows.windows)).astype(np.int64)
    begins = np.concatenate([[0], np.cumsum(sizes)])
    parts: list[np.ndarray] = [np.zeros(0, np.uint32)]
    ends = np.zeros(len(marks), np.int64)
    total = 0
    for row, (number, _, instructions) in enumerate(marks.tolist()):
        if number != stored.NO_WINDOW:
            parts.append(words[begins[number] : begins[number + 1]])
            total += len(parts[-1])
        if instructions:
            whole, rest = divmod(instructions, _LONGEST)
            counts = np.array([_LONGEST] * whole + [rest] * bool(rest), np.uint32)
            parts.append(np.uint32(user << RUN_BITS) | counts)
            total += len(counts)
        ends[row] = total
    return np.concatenate(parts), ends


def _marks(windows: Windows, wanted: Ints, ends: Ints, executed: Ints) -> tuple[np.ndarray, Ints]:
    """The marks as a record has them, in the order in which their windows end, and their CPUs."""
    kinds = windows.marks["kind"]
    row_of = np.full(len(kinds) + 1, -1)
    row_of[wanted] = np.arange(len(wanted))
    rows = row_of[windows.places - 1]
    there = rows >= 0
    rows = rows[there]
    found = np.zeros(len(rows), MARK)
    found["run"], found["executed"] = ends[rows], executed[rows]
    found["probe"], found["value"] = CLOCK, windows.times[there]
    rows = row_of[np.flatnonzero(kinds == stored.SWITCH)]
    inside = rows >= 0
    rows = rows[inside]
    parts = [found]
    for probe, field in ((SWITCHES, "to"), (PREVIOUS, "from")):
        switched = np.zeros(len(rows), MARK)
        switched["run"], switched["executed"] = ends[rows], executed[rows]
        switched["probe"], switched["value"] = probe, windows.switches[field][inside]
        parts.append(switched)
    every = np.concatenate(parts)
    order = np.argsort(every["run"], kind="stable")
    cpus = np.concatenate([windows.cpu[there], np.full(2 * len(rows), -1)])
    return every[order], cpus[order]
