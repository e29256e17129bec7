"""Accounts for a whole difference along a line of commits, by division, to the last instruction.

Values are whole numbers (tenths of an instruction per I/O) per part, all against the same kernel.
So what the rows of a line have adds up to the difference between its ends, whatever was measured
between them: a row that could not be divided further holds its sum.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Values = Mapping[tuple[str, str], int]
"""Tenths of an instruction per I/O, by cell and section."""

Why = Literal["commit", "small", "same", "limit", "skipped", "tiny"]


@dataclass(frozen=True)
class Row:
    """The commits ``commits`` (oldest first) of a line and by how much they change each part.

    ``why``: one ``commit``; commits whose ends are the ``same`` or differ by too little to look for
    (``tiny``); commits that the ``limit`` on builds, or ``skipped`` ones, keep together; a commit,
    or some that skipped ones keep together, that change no part by more than the gate counts
    (``small``), which need not be their doing.
    """

    commits: tuple[str, ...]
    deltas: Values
    why: Why


def minus(new: Values, old: Values) -> dict[tuple[str, str], int]:
    """By how much each part differs; a part that one side lacks counts as 0 there."""
    parts = dict.fromkeys([*old, *new])
    return {p: d for p in parts if (d := new.get(p, 0) - old.get(p, 0))}


def plus(values: Sequence[Values]) -> dict[tuple[str, str], int]:
    """The sum of several differences."""
    total: dict[tuple[str, str], int] = {}
    for one in values:
        for part, value in one.items():
            total[part] = total.get(part, 0) + value
    return {part: value for part, value in total.items() if value}


@dataclass
class Line:
    """A line of commits, oldest first; ``points[0]`` is where it begins and belongs to no row.

    ``measure`` gives a commit's values, or None for one that must be skipped. ``may`` tells whether
    another kernel may be built. ``tiny`` tells which differences are not divided, ``small`` what
    the gate does not count. ``weights`` of 0 are commits that cannot change the kernel.
    """

    points: Sequence[str]
    measure: Callable[[str], Values | None]
    may: Callable[[], bool]
    tiny: Callable[[Values], bool] = lambda deltas: False
    weights: Mapping[str, float] | None = None
    small: Callable[[Values], bool] = lambda deltas: False

    def rows(self) -> list[Row]:
        """Divide until every difference is one commit's; the largest difference first.

        Both ends must be measurable.
        """
        last = len(self.points) - 1
        values = {i: self.measure(self.points[i]) for i in (0, last)}
        known: dict[int, Values] = {i: v for i, v in values.items() if v is not None}
        if len(known) < len({0, last}):
            raise ValueError("an end of the line cannot be measured")
        skipped: set[int] = set()
        closed: list[tuple[int, int, Why]] = []
        heap = [(-self._size(known, 0, last), 0, last)] if last else []
        while heap:
            _, low, high = heapq.heappop(heap)
            why = self._ended(known, low, high)
            middle = None if why else self._middle(low, high, skipped)
            if why is None and middle is None:
                why = "skipped" if self._open(low, high) > 1 else "commit"
            if why is None and not self.may():
                why = "limit"
            if why is not None:
                closed.append((low, high, why))
                continue
            assert middle is not None
            found = self.measure(self.points[middle])
            if found is None:
                skipped.add(middle)
                heapq.heappush(heap, (-self._size(known, low, high), low, high))
                continue
            known[middle] = found
            for one, other in ((low, middle), (middle, high)):
                heapq.heappush(heap, (-self._size(known, one, other), one, other))
        return [self._row(known, *segment) for segment in sorted(closed)]

    def _size(self, known: Mapping[int, Values], low: int, high: int) -> int:
        return sum(abs(d) for d in minus(known[high], known[low]).values())

    def _ended(self, known: Mapping[int, Values], low: int, high: int) -> Why | None:
        deltas = minus(known[high], known[low])
        if not deltas:
            return "same"
        if high - low == 1:
            return "commit"
        if self.tiny(deltas):
            return "tiny"
        return None

    def _weight(self, index: int) -> float:
        return 1.0 if self.weights is None else self.weights.get(self.points[index], 1.0)

    def _open(self, low: int, high: int) -> int:
        """How many commits of a segment can have changed the kernel."""
        return sum(self._weight(i) > 0 for i in range(low + 1, high + 1))

    def _middle(self, low: int, high: int, skipped: set[int]) -> int | None:
        total = sum(self._weight(i) for i in range(low + 1, high + 1))
        below, best = 0.0, None
        for index in range(low + 1, high):
            below += self._weight(index)
            if index in skipped or not self._weight(index):
                continue
            near = min((abs(index - other) for other in skipped), default=99)
            gain = min(below, total - below) * (1 - 2.0**-near)
            if gain > 0 and (best is None or gain > best[0]):
                best = (gain, index)
        return best[1] if best else None

    def _row(self, known: Mapping[int, Values], low: int, high: int, why: Why) -> Row:
        commits = [self.points[i] for i in range(low + 1, high + 1)]
        deltas = minus(known[high], known[low])
        if why == "commit" and len(commits) > 1:
            # The others change no file of the kernel.
            commits = [c for i, c in enumerate(commits, low + 1) if self._weight(i) > 0]
        if why in ("commit", "skipped") and self.small(deltas):
            why = "small"
        return Row(tuple(commits), deltas, why)
