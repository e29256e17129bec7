"""What a gated boot executed between its marks, as QEMU's plugin wrote it (tools/plugin/windows.h).

A *mark* is a reading of the trace clock, a switch of tasks or an exception; a *window* is what a
CPU executed between two of its marks, without tracing: blocks of instructions in their order, and
accesses to devices. Windows repeat, so each is stored once, and a boot is a list of their numbers
for each CPU.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from iotoll import _native
from iotoll.boards.plugin import TRACING, WINDOWS
from iotoll.boots.counts import (
    BLOCK,
    FUNCTIONS,
    PACKED,
    PART,
    TOUCH,
    TOUCH_COLUMNS,
    WINDOWS_LAST,
    WINDOWS_MAGIC,
    touches_of,
)
from iotoll.core.errors import InfrastructureError
from iotoll.kernels.symbols import ARM64, Symbols

CLOCK, SWITCH, EXCEPTION, ENTRY = range(4)
"""Kinds of marks: exceptions are those of tracing, entries those of user space."""

NO_WINDOW = 0xFFFFFFFF
"""The window of a mark outside of what was measured."""

ACCESS = 1 << 31
"""Flag of an entry of a window that is no block, but an access to a device."""

Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]

_VALUE = np.dtype([("mark", "<u4"), ("place", "<u4"), ("which", "<u4"), ("amount", "<u4")])
_KINDS: dict[int, tuple[str, np.dtype[Any]]] = {
    1: ("blocks", BLOCK),
    2: ("special", np.dtype([("place", "<u4"), ("word", "<u4")])),
    3: ("devices", np.dtype("S64")),
    4: ("accesses", np.dtype([("address", "<u8"), ("device", "<u4"), ("is_store", "<u4")])),
    5: ("contents", np.dtype("<u4")),
    6: (
        "windows",
        np.dtype([("entries", "<u4"), ("is_ordered", "<u4"), ("instructions", "<u8")]),
    ),
    7: ("marks", np.dtype([("window", "<u4"), ("kind", "<u4"), ("user", "<u4")])),
    8: ("switches", np.dtype([("from", "<u8"), ("to", "<u8")])),
    FUNCTIONS: ("functions", np.dtype("u1")),
    11: ("values", _VALUE),
    TOUCH_COLUMNS: ("touches", TOUCH),
    14: ("opened", np.dtype("<u4")),
    15: ("sizes", np.dtype("<u4")),
}
_OF_CPU = ("marks", "switches", "values", "touches", "opened")
"""Parts that there are of each CPU."""


@dataclass(frozen=True, eq=False)
class Windows:
    """A boot's windows and marks, as structured arrays; the fields are those of windows.h.

    Marks are those of one CPU after those of another: ``first`` has the first mark of each, and how
    many there are. ``times`` are those of the marks of the trace clock, in the order of the marks
    (clock units). ``opened`` are the marks with which each cell begins, shape (CPUs, cells); None
    for boots of older versions. ``symbols`` are the functions that have any of the blocks, without
    their code; ``called`` those that ``values`` are of. ``touches`` is None where no lines of cache
    were counted.
    """

    blocks: npt.NDArray[np.void]
    special: npt.NDArray[np.void]
    devices: tuple[str, ...]
    accesses: npt.NDArray[np.void]
    contents: npt.NDArray[np.uint32]
    windows: npt.NDArray[np.void]
    marks: npt.NDArray[np.void]
    switches: npt.NDArray[np.void]
    times: Ints
    symbols: Symbols
    called: tuple[str, ...] = ()
    values: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, _VALUE))
    touches: npt.NDArray[np.void] | None = None
    first: Sequence[int] = ()
    opened: Ints | None = None
    sizes: npt.NDArray[np.uint32] | None = None

    @property
    def ends(self) -> npt.NDArray[np.uint64]:
        """The address behind each block, shape (blocks,)."""
        if self.sizes is not None:
            return self.blocks["address"] + self.sizes.astype(np.uint64)
        return self.blocks["address"] + np.uint64(4) * self.blocks["instructions"].astype("<u8")

    @cached_property
    def of_cpu(self) -> list[tuple[int, int]]:
        """The first mark of each CPU, and the one behind its last."""
        return list(pairwise(self.first)) or [(0, len(self.marks))]

    @cached_property
    def cpu(self) -> Ints:
        """The CPU of each mark of the clock, shape (clock marks,)."""
        number = np.flatnonzero(self.marks["kind"] == CLOCK)
        ends = [high for _, high in self.of_cpu[:-1]]
        return np.searchsorted(ends, number, side="right").astype(np.int64)

    @cached_property
    def in_time(self) -> list[Ints]:
        """The marks of the clock of each CPU by their numbers in ``times``, in order of time."""
        order = np.argsort(self.times, kind="stable")
        return [order[self.cpu[order] == cpu] for cpu in range(len(self.of_cpu))]

    @cached_property
    def _reached(self) -> list[tuple[Ints, Ints]]:
        """Of each CPU: when it read the clock, and its place before each reading and at the end."""
        return [
            (self.times[mine], np.concatenate([[first], self.places[mine]]))
            for mine, (first, _) in zip(self.in_time, self.of_cpu, strict=True)
        ]

    def reach(self, begin: int, end: int) -> list[tuple[int, int]]:
        """From which mark to before which other one each CPU ran from one time to another.

        That is what each executed between its last readings of the clock at both times.
        """
        found = []
        for times, places in self._reached:
            low, high = np.searchsorted(times, [begin, end], side="right")
            found.append((int(places[low]), int(places[high])))
        return found

    @cached_property
    def starts(self) -> Ints:
        """Where each window's entries begin in ``contents``, and where the last one's end."""
        ends = np.cumsum(self.windows["entries"].astype(np.int64))
        return np.concatenate([[0], ends])

    @cached_property
    def entries(self) -> tuple[Ints32, npt.NDArray[np.uint32], Ints32]:
        """Of all windows: the window, the entry, and how often it is there; shape (entries,).

        They are 20 million of a whole matrix: of small types, and without copies between.
        """
        sizes = self.windows["entries"].astype(np.int64)
        pairs = np.flatnonzero(self.windows["is_ordered"] == 0)
        # Without order, pairs: the entry, and how often.
        spans = (np.arange(self.starts[n], self.starts[n + 1], 2) for n in pairs.tolist())
        firsts = np.concatenate([np.zeros(0, np.int64), *spans])
        sizes[pairs] //= 2
        window = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        entry = np.delete(self.contents, firsts + 1)
        often = np.ones(len(entry), np.int32)
        often[firsts - np.arange(len(firsts))] = self.contents[firsts + 1]
        return window, entry, often

    @property
    def numbers(self) -> npt.NDArray[np.uint32]:
        """Of each of `entries` the number of its block or, behind those of all blocks, access."""
        _, entry, _ = self.entries
        return entry - (entry >= ACCESS) * np.uint32(ACCESS - len(self.blocks))

    @cached_property
    def places(self) -> Ints:
        """Of each mark of the clock: how many marks are before it, itself included, by time.

        An interrupt may come between the clock's reading and its mark, and read it as well: its
        marks come first and are later. The mark then stands where the interrupt began.
        """
        place = np.flatnonzero(self.marks["kind"] == CLOCK) + 1
        for cpu in range(len(self.of_cpu)):
            mine = np.flatnonzero(self.cpu == cpu)
            self._place(place, mine, self.of_cpu[cpu][0])
        return place

    def _place(self, place: Ints, mine: Ints, first: int) -> None:
        """Correct the places of one CPU's marks of the clock, by their numbers.

        ``first`` is the first of its marks. Between two cells exceptions are no marks, and nothing
        is counted: any place there is right.
        """
        times = self.times[mine]
        highest = np.maximum.accumulate(times) if len(times) else times
        exceptions = np.flatnonzero(self.marks["kind"] == EXCEPTION)
        for late in np.flatnonzero(times < highest).tolist():
            row = int(np.searchsorted(highest, times[late], side="right"))
            after = int(place[mine[row]]) - 1
            begin = place[mine[row - 1]] if row else first
            before = exceptions[(exceptions >= begin) & (exceptions < after)]
            if len(before):
                place[mine[late]] = before[-1] + 1
            elif self.marks["window"][after] == NO_WINDOW:
                place[mine[late]] = after
            else:
                raise InfrastructureError(f"{WINDOWS}: a mark of the clock is out of order")

    def sums(self, values: Ints) -> Ints:
        """What each mark of the clock has before it on its CPU, of ``values`` of each window.

        ``values`` has the shape (windows,) or (windows, n); the result (clock marks,) or the same
        with n. Marks without a window add nothing.
        """
        known = self.marks["window"] != NO_WINDOW
        number = np.where(known, self.marks["window"], 0).astype(np.int64)
        each = values[number] if len(values) else np.zeros((len(number), *values.shape[1:]), int)
        each[~known] = 0
        return self._before(each)

    def mark_sums(self, mark: Ints, amount: Ints) -> Ints:
        """As `sums`, of amounts in the windows that end with these marks; shape (amounts,) both.

        What a last window has that no mark ends is left out.
        """
        size = len(self.marks)
        return self._before(np.bincount(mark, amount, size)[:size].astype(np.int64))

    def _before(self, each: Ints) -> Ints:
        total = np.concatenate([np.zeros((1, *each.shape[1:]), np.int64), np.cumsum(each, axis=0)])
        first = np.array([low for low, _ in self.of_cpu])
        found: Ints = total[self.places] - total[first[self.cpu]]
        return found

    def by_function(self) -> list[dict[str, int]]:
        """The kernel's instructions in each cell, by function, in the order of the boot.

        What a boot does between two cells has no windows.
        """
        size = len(self.windows)
        window, entry, often = self.entries
        block = np.minimum(entry, np.uint32(len(self.blocks)))  # accesses execute nothing
        length = np.append(self.blocks["instructions"].astype(np.int64), 0)
        names, function = np.unique(self.symbols.index(self.blocks["address"]), return_inverse=True)
        begins = np.searchsorted(window, np.arange(size + 1))
        texts = [self.symbols.name(number) for number in names.tolist()]
        kept = self.marks["window"] != NO_WINDOW
        cells = self._cells(kept)
        cell = cells[kept]
        marked = self.marks["window"][kept]
        found = []
        count = int(cells.max(initial=0)) if self.opened is None else self.opened.shape[1]
        for number in range(1, count + 1):
            ran, times = np.unique(marked[cell == number], return_counts=True)
            sizes = begins[ran + 1] - begins[ran]
            # The entries of these windows, one window after the other.
            here = np.arange(sizes.sum()) + np.repeat(begins[ran] - np.cumsum(sizes) + sizes, sizes)
            # Exact up to 2^53.
            ran_often = np.bincount(block[here], often[here] * np.repeat(times, sizes), len(length))
            executed = (ran_often * length)[: len(function)]
            sums = np.bincount(function, executed, len(names)).astype(np.int64)
            found.append({texts[at]: int(sums[at]) for at in np.flatnonzero(sums).tolist()})
        return found

    def _cells(self, kept: npt.NDArray[np.bool_]) -> Ints:
        """The number of the cell of each mark, from 1; ``kept`` are those with a window."""
        if self.opened is None:
            # Of a board with one CPU: marks without a window are between two cells.
            return np.cumsum(kept & ~np.concatenate([[False], kept[:-1]]))
        each = zip(self.opened, self.of_cpu, strict=True)
        parts = [np.searchsorted(mine, np.arange(*span), side="right") for mine, span in each]
        return np.concatenate(parts).astype(np.int64)


def read_windows(folder: Path) -> Windows | None:
    """The windows of a boot's folder; None where none were kept. Raises InfrastructureError."""
    path = folder / WINDOWS
    if not path.is_file():
        return None
    try:
        data = path.read_bytes()
        if data.startswith(PACKED):
            data = zlib.decompress(data[len(PACKED) :])
        parts = _joined(_parts(data))
        readings = np.array(_native.tracing(folder / TRACING), np.int64).reshape(-1, 3)
        times = readings[np.argsort(readings[:, 2], kind="stable"), 0]
        names = tuple(name.decode("ascii", "replace") for name in parts["devices"].tolist())
        symbols, called = _symbols(parts.pop("functions").tobytes())
        more = {"devices": names, "called": called}
        found = Windows(**{**parts, **more}, times=times, symbols=symbols)
    except (OSError, ValueError, TypeError, KeyError, zlib.error, _native.TraceError) as error:
        raise InfrastructureError(f"{path}: not what the plugin writes: {error}") from error
    _check(path, found)
    return found


def _symbols(text: bytes) -> tuple[Symbols, tuple[str, ...]]:
    known = json.loads(text)
    starts = np.array(known["starts"], np.uint64)
    image, machine = bytes(known["size"]), known.get("machine", ARM64)
    symbols = Symbols(starts, tuple(known["names"]), image, known["base"], machine)
    return symbols, tuple(known.get("values", ()))


def _joined(parts: Iterable[tuple[str, int, npt.NDArray[Any]]]) -> dict[str, Any]:
    """The parts by their names; those of CPUs one behind the other, with numbers of all marks."""
    found: dict[str, Any] = {}
    of_cpus: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in _OF_CPU}
    for name, cpu, entries in parts:
        if name in of_cpus:
            if cpu != len(of_cpus[name]):
                raise ValueError(f"{name}: not of the CPUs one after the other")
            of_cpus[name].append(entries)
        else:
            found[name] = entries
    first = list(accumulate(map(len, of_cpus["marks"]), initial=0))
    for name in ("values", "touches"):
        for cpu, entries in enumerate(of_cpus[name]):
            mark = entries["mark"].astype(np.int64)
            # No mark has ended what is behind a CPU's last one.
            ended = mark < len(of_cpus["marks"][cpu])
            moved = entries.copy()
            moved["mark"] = np.where(ended, mark + first[cpu], first[-1])
            of_cpus[name][cpu] = moved
    opened = [one + first[cpu] for cpu, one in enumerate(of_cpus.pop("opened"))]
    found |= {name: np.concatenate(each) for name, each in of_cpus.items() if each}
    return {**found, "first": first, "opened": np.array(opened, np.int64) if opened else None}


def _parts(data: bytes) -> Iterator[tuple[str, int, npt.NDArray[Any]]]:
    if not data.startswith(WINDOWS_MAGIC):
        raise ValueError("another file")
    at = len(WINDOWS_MAGIC)
    while at + PART.itemsize <= len(data):
        head = np.frombuffer(data, PART, 1, at)[0]
        at += PART.itemsize
        kind, count = int(head["kind"]), int(head["count"])
        if kind == WINDOWS_LAST:
            return
        size = int(head["width"]) * count
        if kind in _KINDS:
            name, dtype = _KINDS[kind]
            if dtype.itemsize != int(head["width"]):
                raise ValueError(f"{name}: of another version")
            read = touches_of(data, count, at) if kind == TOUCH_COLUMNS else None
            found = np.frombuffer(data, dtype, count, at) if read is None else read
            yield name, int(head["cpu"]), found
        at += size
    raise ValueError("it is cut off")


def _check(path: Path, found: Windows) -> None:
    """Raise InfrastructureError where one part names what another has not."""
    marks, entries = found.marks["window"], found.contents
    sound = (
        int(np.count_nonzero(found.marks["kind"] == CLOCK)) == len(found.times)
        and (found.sizes is None or len(found.sizes) == len(found.blocks))
        and (found.opened is None or len(found.opened) == len(found.of_cpu))
        and int(np.count_nonzero(found.marks["kind"] == SWITCH)) == len(found.switches)
        and bool(np.all((marks < len(found.windows)) | (marks == NO_WINDOW)))
        and int(found.windows["entries"].astype(np.int64).sum()) == len(entries)
        and int(found.blocks["special"].astype(np.int64).sum()) == len(found.special)
        and bool(np.all(found.accesses["device"] < len(found.devices)))
        and bool(np.all(found.values["which"] < len(found.called)))
        and (found.touches is None or bool(np.all(found.touches["block"] < len(found.blocks))))
    )
    if sound:
        _, entry, _ = found.entries
        is_block = entry < ACCESS
        block = int(np.max(entry, initial=0, where=is_block))
        sound = (block < len(found.blocks) or not is_block.any()) and (
            bool(is_block.all()) or int(entry.max()) - ACCESS < len(found.accesses)
        )
    if not sound:
        raise InfrastructureError(f"{path}: its parts contradict each other: boot again")
