"""An in-order pipeline that issues several instructions a cycle, cycle by cycle.

It is mechanistic: nothing is fitted to whole programs. What it has: operands that are needed and
ready at stages, units that are busy, the width of fetch and issue, bubbles behind taken branches,
mispredicted ones, and loads of what was just stored. What it has not: caches and translation (they
are added by their misses), a store buffer that fills, and what other masters do.
"""

from __future__ import annotations

from collections.abc import Iterable

from iotoll_lab.estimate.core import Core
from iotoll_lab.estimate.decode import Op

Step = tuple[Op, bool, bool]
"""An instruction as it ran: whether it is a branch that was taken, and whether mispredicted."""


def issued(steps: Iterable[Step], core: Core) -> list[int]:
    """The cycle in which each instruction is issued; the pipeline is empty before the first."""
    pipeline = _Pipeline(core)
    return [pipeline.issue(*step) for step in steps]


def cycles(steps: Iterable[Step], core: Core) -> int:
    """How many cycles instructions take, until behind them another could be issued."""
    times = issued(steps, core)
    return times[-1] + 1 if times else 0


class _Pipeline:
    """What is in flight."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ready: dict[str, int] = {}
        self._free = {"memory": 0, "multiply": 0, "shift": 0, "branch": 0}
        self._now = 0
        self._in_cycle = 0
        self._fetch, self._in_fetch = 0, 0
        self._recent: list[int] = []
        self._stored: dict[tuple[str, int], int] = {}

    def issue(self, op: Op, taken: bool, missed: bool) -> int:
        """Issue the next instruction; returns its cycle."""
        core = self._core
        time = max(self._now, self._fetched())
        for register, need in op.reads:
            time = max(time, self._ready.get(register, 0) - need)
        if op.unit:
            time = max(time, self._free[op.unit])
        if op.place is not None and not op.is_store:
            time = max(time, self._stored.get(op.place, 0))
        if time == self._now and self._in_cycle >= core.issue.width:
            time += 1
        if time > self._now:
            self._now, self._in_cycle = time, 0
        self._in_cycle += 1
        self._issued(op, time)
        self._next_fetch(op, time, taken, missed)
        return time

    def _issued(self, op: Op, time: int) -> None:
        for register, ready in op.writes:
            self._ready[register] = time + ready
            if self._stored:
                # A place is known by its register's value.
                self._stored = {p: t for p, t in self._stored.items() if p[0] != register}
        if op.unit:
            self._free[op.unit] = time + op.busy
        if op.is_store and op.place is not None:
            self._stored[op.place] = time + self._core.issue.store_to_load
        if op.wait:
            self._now, self._in_cycle = time + op.wait, 0

    def _fetched(self) -> int:
        """When the next instruction is there."""
        queue = self._core.issue.queue
        if self._in_fetch >= self._core.issue.fetch:
            self._fetch, self._in_fetch = self._fetch + 1, 0
        if len(self._recent) >= queue and self._recent[-queue] > self._fetch:
            self._fetch, self._in_fetch = self._recent[-queue], 0
        self._in_fetch += 1
        return self._fetch

    def _next_fetch(self, op: Op, time: int, taken: bool, missed: bool) -> None:
        branches = self._core.branches
        self._recent.append(time)
        if len(self._recent) > 4 * self._core.issue.queue:
            del self._recent[: -self._core.issue.queue]
        if missed:
            self._fetch, self._in_fetch = time + branches.mispredicted, 0
        elif taken:
            more = branches.indirect if op.branch == "indirect" else 0
            self._fetch, self._in_fetch = self._fetch + 1 + branches.taken + more, 0
