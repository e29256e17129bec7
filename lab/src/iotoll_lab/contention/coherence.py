"""Coherent caches without an end: which lines go from CPU to CPU, and whether they had to.

Each CPU has a cache that forgets a line only when another CPU writes to it (MESI without capacity).
So what is counted follows from who accessed a line after whom, and not from when:

- A *transfer* is an access to a line that the CPU does not have, and that another CPU has written.
- It is *false* if, as long as the CPU then has the line, it accesses no byte that others wrote
  since it last got something from them (Dubois, Skeppstedt, Ricciulli, Ramamoorthy and Stenström,
  "The detection and elimination of useless misses in multiprocessors", ISCA 1993).
- An *invalidation* is a write to a line that other CPUs have.
- A *hand-over* is an atomic with acquire semantics, and without release, that writes to a word
  whose last such write was another CPU's: a lock that was taken elsewhere before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from iotoll_lab.contention.recorder import STORE, Accesses

LINE_BITS = 6
_LINE = 1 << LINE_BITS
_PLAIN, _ACQUIRE_LOAD, _EXCLUSIVE_LOAD, _EXCLUSIVE_STORE, _ACQUIRE = range(5)
"""What an instruction is to a lock."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shared:
    """What some accesses did to each other, as numbers of accesses in their order.

    ``is_false`` is of each of the ``transfers``.
    """

    transfers: Ints
    is_false: npt.NDArray[np.bool_]
    invalidations: Ints
    hand_overs: Ints


def shared(accesses: Accesses, low: int, high: int) -> Shared:
    """Of the records from ``low`` to before ``high``; the caches are empty before the first."""
    records = accesses.records[low:high]
    number = np.flatnonzero(records["kind"] <= STORE)
    lines = _Lines(records, number)
    lines.run()
    transfers = np.array(lines.transfers, np.int64)
    order = np.argsort(transfers, kind="stable")
    return Shared(
        low + transfers[order],
        ~np.array(lines.is_true, bool)[order],
        low + np.sort(np.array(lines.invalidations, np.int64)),
        low + _hand_overs(accesses, records, number),
    )


class _Lines:
    """The accesses by line, and by *runs*: those of one CPU that no other CPU's come between."""

    def __init__(self, records: npt.NDArray[np.void], number: Ints) -> None:
        address = records["physical"][number].astype(np.int64)
        begin = address & (_LINE - 1)
        end = begin + records["bytes"][number].astype(np.int64)
        over = end > _LINE
        # What crosses the end of a line is also an access to the next one.
        line = np.concatenate([address, address[over] + _LINE]) >> LINE_BITS
        first = np.concatenate([begin, np.zeros(over.sum(), np.int64)])
        last = np.concatenate([np.minimum(end, _LINE), end[over] - _LINE])
        self._number = np.concatenate([number, number[over]])
        order = np.lexsort((self._number, line))
        self._number, line = self._number[order], line[order]
        self._cpu = records["cpu"][self._number].astype(np.int64)
        self._store = records["kind"][self._number] == STORE
        self._line = line
        self._bytes = _masks(first[order], last[order])
        self.transfers: list[int] = []
        self.is_true: list[bool] = []
        self.invalidations: list[int] = []

    def run(self) -> None:
        """Go through all lines that more than one CPU has accessed, and any has written."""
        if not len(self._line):
            return
        begins = np.flatnonzero(np.diff(self._line, prepend=self._line[0] - 1))
        sizes = np.diff(begins, append=len(self._line))
        reduced = [f.reduceat(self._cpu, begins) for f in (np.minimum, np.maximum)]
        stored = np.logical_or.reduceat(self._store, begins)
        kept = np.repeat((reduced[0] != reduced[1]) & stored, sizes)
        line, cpu, store = self._line[kept], self._cpu[kept], self._store[kept]
        if not len(line):
            return
        masks, number = self._bytes[kept], self._number[kept]
        changes = (np.diff(line, prepend=line[0] - 1) != 0) | (np.diff(cpu, prepend=-1) != 0)
        runs = np.flatnonzero(changes)
        touched = np.bitwise_or.reduceat(masks, runs)
        written = np.bitwise_or.reduceat(np.where(store, masks, np.uint64(0)), runs)
        never = np.iinfo(np.int64).max
        first_store = np.minimum.reduceat(np.where(store, number, never), runs)
        columns = (line[runs], cpu[runs], number[runs], touched, written, first_store)
        self._follow(zip(*(column.tolist() for column in columns), strict=True))

    def _follow(self, runs: Any) -> None:
        """The states of each line, run by run."""
        at, state = None, _Line()
        for line, cpu, number, touched, written, first_store in runs:
            if line != at:
                at, state = line, _Line()
            mine = 1 << cpu
            if not state.holders & mine:
                state.since.pop(cpu, None)
                if state.writers & ~mine:
                    state.since[cpu] = len(self.transfers)
                    self.transfers.append(number)
                    self.is_true.append(False)
                state.holders |= mine
            # What a CPU that comes later finds is what all others wrote so far.
            if touched & state.stale.get(cpu, state.all_written):
                if cpu in state.since:
                    self.is_true[state.since[cpu]] = True
                state.stale[cpu] = 0
            state.stale.setdefault(cpu, state.all_written)
            if written:
                if state.holders & ~mine:
                    self.invalidations.append(first_store)
                state.holders = mine
                state.writers |= mine
                state.all_written |= written
                for other in state.stale:
                    if other != cpu:
                        state.stale[other] |= written


class _Line:
    """One line: CPUs that have it and that wrote it (a bit each), and bytes that were written.

    ``stale`` are those that others wrote since a CPU last got something from them, ``since`` is the
    transfer by which it got its copy.
    """

    __slots__ = ("all_written", "holders", "since", "stale", "writers")

    def __init__(self) -> None:
        self.holders = self.writers = self.all_written = 0
        self.stale: dict[int, int] = {}
        self.since: dict[int, int] = {}


def _masks(first: Ints, last: Ints) -> npt.NDArray[np.uint64]:
    """A bit for each byte of a line from one to before another."""
    below = np.array([(1 << size) - 1 for size in range(_LINE + 1)], np.uint64)
    found: npt.NDArray[np.uint64] = below[last] & ~below[first]
    return found


def _hand_overs(accesses: Accesses, records: npt.NDArray[np.void], number: Ints) -> Ints:
    of_site = lock_roles(accesses.sites["word"])
    role = of_site[records["site"][number]]
    number, role = number[role != _PLAIN], role[role != _PLAIN]
    mine = records[number]
    store = mine["kind"] == STORE
    taken = (role == _ACQUIRE) & store
    loads = (role == _ACQUIRE_LOAD) | (role == _EXCLUSIVE_LOAD)
    for cpu in np.unique(mine["cpu"]):
        here = np.flatnonzero((mine["cpu"] == cpu) & (loads | ((role == _EXCLUSIVE_STORE) & store)))
        # A store-exclusive follows the load that it belongs to.
        before, after = here[:-1], here[1:]
        follows = (role[before] == _ACQUIRE_LOAD) & (role[after] == _EXCLUSIVE_STORE)
        follows &= mine["physical"][before] == mine["physical"][after]
        taken[after[follows]] = True
    number, mine = number[taken], mine[taken]
    order = np.argsort(mine["physical"], kind="stable")
    word, cpu = mine["physical"][order], mine["cpu"][order]
    moved = np.zeros(len(order), bool)
    moved[1:] = (word[1:] == word[:-1]) & (cpu[1:] != cpu[:-1])
    found: Ints = np.sort(number[order[moved]])
    return found


def lock_roles(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """What each arm64 instruction is to a lock; shape (words,)."""
    word = words.astype(np.int64)
    bit15, bit22, bit23 = ((word >> n & 1).astype(bool) for n in (15, 22, 23))
    found = np.full(len(word), _PLAIN, np.int64)
    exclusive = (word & 0x3F800000) == 0x08000000
    found[exclusive & bit22 & bit15] = _ACQUIRE_LOAD
    found[exclusive & bit22 & ~bit15] = _EXCLUSIVE_LOAD
    found[exclusive & ~bit22] = _EXCLUSIVE_STORE
    # Compare-and-swap of ARMv8.1: acquire and release are bits 22 and 15; of other atomics 23, 22.
    swap = (word & 0x3FA00000) == 0x08A00000
    found[swap & bit22 & ~bit15] = _ACQUIRE
    atomic = (word & 0x3B200C00) == 0x38200000
    found[atomic & bit23 & ~bit22] = _ACQUIRE
    return found
