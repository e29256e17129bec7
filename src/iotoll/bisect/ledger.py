"""Accounts for a whole difference along a line of commits, by division.

Each step between two commits is what the gate's rule says of the one against the other, in tenths
of an instruction of the mean I/O. A row has what its commits moved. What no step shows is no row:
it is left, and named so.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from iotoll.bisect.setting import Part

Values = Mapping[Part, int]
"""Tenths of an instruction of the mean I/O, by cell and section."""

Why = Literal["commit", "small", "same", "limit", "skipped", "tiny"]


@dataclass(frozen=True)
class Step:
    """What moved between two commits: ``deltas``, and of these by the gate's rule ``moved``.

    ``some`` says which I/Os have it, where not all have. ``functions`` have other machine code.
    """

    deltas: Values = field(default_factory=dict)
    moved: frozenset[Part] = frozenset()
    some: Mapping[Part, str] = field(default_factory=dict)
    functions: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Tenths, over all parts."""
        return sum(map(abs, self.deltas.values()))


@dataclass(frozen=True)
class Row:
    """The commits ``commits`` (oldest first) of a line and by how much they change each part.

    ``why``: one ``commit``; commits whose ends are the ``same`` or differ by too little to look for
    (``tiny``), which have no deltas; commits that the ``limit`` on builds, or ``skipped`` ones,
    keep together; a commit, or some that skipped ones keep together, that change no part by more
    than the gate counts (``small``), which need not be their doing.
    """

    commits: tuple[str, ...]
    step: Step
    why: Why

    @property
    def deltas(self) -> Values:
        """What the row has of the whole difference."""
        return self.step.deltas


def minus(new: Values, old: Values) -> dict[Part, int]:
    """By how much each part differs; a part that one side lacks counts as 0 there."""
    parts = dict.fromkeys([*old, *new])
    return {p: d for p in parts if (d := new.get(p, 0) - old.get(p, 0))}


def plus(values: Iterable[Values]) -> dict[Part, int]:
    """The sum of several differences."""
    total: dict[Part, int] = {}
    for one in values:
        for part, value in one.items():
            total[part] = total.get(part, 0) + value
    return {part: value for part, value in total.items() if value}


@dataclass
class Line:
    """A line of commits, oldest first; ``points[0]`` is where it begins and belongs to no row.

    ``measure`` tells whether a commit can be measured; one that cannot is skipped. ``between`` is
    what moved from one measured commit to another. ``may`` tells whether another kernel may be
    built. ``tiny`` tells which steps are not divided. ``weights`` of 0 are commits that cannot
    change the kernel. With ``every`` all others are measured, so that commits are seen that cancel
    each other. ``known`` were measured before: the line is divided there at once.
    """

    points: Sequence[str]
    measure: Callable[[str], bool]
    between: Callable[[str, str], Step]
    may: Callable[[], bool]
    tiny: Callable[[Step], bool] = lambda step: False
    weights: Mapping[str, float] | None = None
    every: bool = False
    known: frozenset[str] = frozenset()

    def rows(self) -> list[Row]:
        """Divide until every difference is one commit's; the largest difference first.

        Both ends must be measurable.
        """
        last = len(self.points) - 1
        if not all(self.measure(self.points[i]) for i in {0, last}):
            raise ValueError("an end of the line cannot be measured")
        inner = [i for i in range(1, last) if self.points[i] in self.known]
        ends = [0, *(i for i in inner if self.measure(self.points[i])), last]
        skipped: set[int] = set()
        closed: list[Row] = []
        heap: list[tuple[int, int, int, Step]] = []
        for low, high in itertools.pairwise(ends):
            self._push(heap, low, high)
        while heap:
            _, low, high, step = heapq.heappop(heap)
            why, middle = self._next(low, high, step, skipped)
            if middle is None:
                closed.append(self._row(low, high, step, why))
            elif self.measure(self.points[middle]):
                self._push(heap, low, middle)
                self._push(heap, middle, high)
            else:
                skipped.add(middle)
                heapq.heappush(heap, (-step.size, low, high, step))
        place = {commit: n for n, commit in enumerate(self.points)}
        return sorted(closed, key=lambda row: place[row.commits[0]])

    def _push(self, heap: list[tuple[int, int, int, Step]], low: int, high: int) -> None:
        if low < high:
            step = self.between(self.points[low], self.points[high])
            heapq.heappush(heap, (-step.size, low, high, step))

    def _next(self, low: int, high: int, step: Step, skipped: set[int]) -> tuple[Why, int | None]:
        """The place to divide a segment at, or None and why it is not divided."""
        if not self.every:
            if not step.deltas:
                return "same", None
            if high - low > 1 and self.tiny(step):
                return "tiny", None
        middle = self._middle(low, high, skipped)
        if middle is None:
            if not step.deltas:
                return "same", None
            return ("skipped" if self._open(low, high) > 1 else "commit"), None
        return ("commit", middle) if self.may() else ("limit", None)

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

    def _row(self, low: int, high: int, step: Step, why: Why) -> Row:
        commits = [self.points[i] for i in range(low + 1, high + 1)]
        if why in ("same", "tiny"):
            return Row(tuple(commits), Step(), why)
        if why == "commit" and len(commits) > 1:
            # The others change no file of the kernel.
            commits = [c for i, c in enumerate(commits, low + 1) if self._weight(i) > 0] or commits
        if why in ("commit", "skipped") and not step.moved:
            why = "small"
        return Row(tuple(commits), step, why)
