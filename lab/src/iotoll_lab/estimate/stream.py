"""What a boot executed, as a core would take time for it: cycles of each window.

The recorder has blocks in their order, what they accessed of devices, and misses in a model of
caches; it has no addresses of memory. So loads that hit take a hit's time, whether aligned or not,
and translation costs nothing. A branch is taken for mispredicted where it does not go where it goes
most often in the cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from iotoll.kernels.symbols import Symbols
from iotoll.measure.windows import ACCESS, NO_WINDOW, Ints, Windows
from iotoll_lab.estimate.core import Core
from iotoll_lab.estimate.decode import Decoder, Op
from iotoll_lab.estimate.pipeline import Step, cycles


@dataclass(frozen=True)
class Flow:
    """The blocks of windows whose order is known; all of the shape (blocks that ran,).

    ``taken`` and ``missed`` are of the branch that a block ends with, if it does.
    """

    window: Ints
    block: Ints
    taken: np.ndarray
    missed: np.ndarray


class Boot:
    """One boot's windows with its image's code; ``often`` is how often each window counts."""

    def __init__(self, windows: Windows, image: Symbols, often: Ints) -> None:
        self._windows = windows
        self._often = often
        size = windows.blocks["instructions"].astype(np.int64)
        self._first = np.concatenate([[0], np.cumsum(size)])
        place = np.arange(self._first[-1]) - np.repeat(self._first[:-1], size)
        address = np.repeat(windows.blocks["address"], size) + (4 * place).astype(np.uint64)
        self._words = image.words(address).copy()
        # The kernel patches itself: these words are known as they ran.
        special = windows.blocks["special"].astype(np.int64)
        begin = np.repeat(self._first[:-1], special)
        self._words[begin + windows.special["place"]] = windows.special["word"]

    @cached_property
    def flow(self) -> Flow:
        """Which way branches went, and where that is not the way they mostly go."""
        windows = self._windows
        window, entry, _ = windows.entries
        ordered = windows.windows["is_ordered"].astype(bool)
        here = (entry < ACCESS) & ordered[window] & (self._often[window] > 0)
        window, block = window[here].astype(np.int64), entry[here].astype(np.int64)
        address = windows.blocks["address"]
        end = address + 4 * windows.blocks["instructions"].astype(np.uint64)
        after = np.zeros(len(block), np.uint64)
        after[:-1] = address[block[1:]]
        # Behind a window's last block nothing is known: it goes on as it does mostly.
        known = np.zeros(len(block), bool)
        known[:-1] = window[1:] == window[:-1]
        taken = known & (after != end[block])
        places, place = np.unique(after, return_inverse=True)
        ways, way = np.unique(block * len(places) + place, return_inverse=True)
        counts = np.bincount(way, self._often[window] * known, len(ways))
        best = np.zeros(len(address), np.int64)
        rank = np.argsort(counts, kind="stable")
        best[ways[rank] // len(places)] = rank
        return Flow(window, block, taken, known & (way != best[block]))

    def cycles(self, core: Core) -> Ints:
        """Of each window; of those without order by the mean of the others, shape (windows,)."""
        ops = self._ops(Decoder(core))
        flow, windows = self.flow, self._windows
        found = np.zeros(len(windows.windows), np.int64)
        ran = np.zeros(len(windows.windows), np.int64)
        size = windows.blocks["instructions"].astype(np.int64)
        np.add.at(ran, flow.window, size[flow.block])
        begins = np.flatnonzero(np.diff(flow.window, prepend=-1))
        for first, last in zip(begins, [*begins[1:], len(flow.window)], strict=True):
            steps: list[Step] = []
            for at in range(first, last):
                block = ops[int(flow.block[at])]
                steps += [(op, False, False) for op in block[:-1]]
                steps.append((block[-1], *_ends(block[-1], flow.taken[at], flow.missed[at])))
            found[flow.window[first]] = cycles(steps, core)
        mean = (found * self._often).sum() / max((ran * self._often).sum(), 1)
        unknown = (self._often > 0) & (ran == 0)
        executed = windows.windows["instructions"].astype(np.int64)
        found[unknown] = np.round(mean * executed[unknown]).astype(np.int64)
        return found + self._accesses(core)

    def _ops(self, decoder: Decoder) -> Mapping[int, list[Op]]:
        """The instructions of each block that ran in an order that is known."""
        return {
            block: decoder.ops(self._words[self._first[block] : self._first[block + 1]].tolist())
            for block in np.unique(self.flow.block).tolist()
        }

    def _accesses(self, core: Core) -> Ints:
        """Cycles of each window for registers of devices."""
        window, entry, often = self._windows.entries
        here = entry >= ACCESS
        stores = self._windows.accesses["is_store"][entry[here] - np.uint32(ACCESS)]
        ns = np.where(stores != 0, core.devices.write, core.devices.read) * often[here]
        size = len(self._windows.windows)
        return np.round(np.bincount(window[here], ns, size) * core.mhz / 1000).astype(np.int64)

    def until(self, core: Core) -> Ints:
        """Cycles before each reading of the trace clock, in the order of the marks."""
        windows = self._windows
        total = windows.sums(self.cycles(core))
        touches = windows.touches
        if touches is None:
            return total
        touches = touches[touches["mark"] < len(windows.marks)]
        misses = core.misses
        cost = (
            touches["l1d_misses"].astype(np.int64) * misses.l1d
            + touches["l1i_misses"].astype(np.int64) * misses.l1i
            + touches["l2_misses"].astype(np.int64) * misses.l2
        )
        return total + windows.mark_sums(touches["mark"].astype(np.int64), cost)


def _ends(op: Op, taken: bool, missed: bool) -> tuple[bool, bool]:
    """Whether a block's last instruction is a branch that was taken, and mispredicted."""
    if not op.branch:
        return False, False
    is_sure = op.branch in ("direct", "return")
    return bool(taken) or op.branch != "conditional", bool(missed) and not is_sure


def ran_between(windows: Windows, low: int, high: int) -> Ints:
    """How often each window ended with one of these marks; shape (windows,)."""
    ran = windows.marks["window"][low:high]
    return np.bincount(ran[ran != NO_WINDOW].astype(np.int64), minlength=len(windows.windows))
