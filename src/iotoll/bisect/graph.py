"""Divides a range of commits as git does, with weights: which commit is to be tested next.

A range is what ``git rev-list --parents A..B`` prints. A test splits what may still hold the first
changed commit into those that are reached from the tested commit and those that are not. The best
commit splits the weight in halves. A commit of weight 0 cannot have changed the kernel: it is
never tested, and where it stands in the range makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

NEAR = 0.98
"""Two commits divide equally well when the worse one has at least this of the other's gain."""

ASKED = 16
"""Of so many commits that divide equally well the cost is asked for."""

SPREAD = 2.0
"""Each commit between a candidate and a skipped one halves the fear that it must be skipped too."""


@dataclass(frozen=True)
class Range:
    """Commits with their parents, newest first, as git lists them (children before parents).

    ``weights`` are relative chances that a commit is the one; 1 where nothing is known.
    """

    parents: Mapping[str, Sequence[str]]
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Compute, per commit, itself and all of the range that it reaches."""
        order = list(self.parents)
        place = {commit: number for number, commit in enumerate(order)}
        reach: dict[str, int] = {}
        for commit in reversed(order):
            bits = 1 << place[commit]
            for parent in self.parents[commit]:
                bits |= reach.get(parent, 0)
            reach[commit] = bits
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_place", place)
        object.__setattr__(self, "_reach", reach)
        masks: dict[float, int] = {}
        for commit, number in place.items():
            weight = self.weight(commit)
            masks[weight] = masks.get(weight, 0) | 1 << number
        object.__setattr__(self, "_masks", masks)

    _order: list[str] = field(init=False, repr=False, compare=False)
    _place: dict[str, int] = field(init=False, repr=False, compare=False)
    _reach: dict[str, int] = field(init=False, repr=False, compare=False)
    _masks: dict[float, int] = field(init=False, repr=False, compare=False)

    def weight(self, commit: str) -> float:
        """The relative chance of one commit."""
        return self.weights.get(commit, 1.0)

    def suspects(self, bad: str | None, good: Iterable[str]) -> list[str]:
        """Commits that may be the first changed one: reached from ``bad``, from no ``good``.

        ``bad`` None stands for a tip outside of the range, as with paths: all is suspect. The order
        is git's, newest first.
        """
        bits = (1 << len(self._order)) - 1 if bad is None else self._reach[bad]
        for commit in good:
            bits &= ~self._reach.get(commit, 0)
        return [c for c in self._order if bits >> self._place[c] & 1]

    def next(
        self,
        suspects: Sequence[str],
        bad: str | None,
        skipped: Iterable[str],
        cost: Callable[[str], float] = lambda _: 0.0,
    ) -> str | None:
        """The commit to test; None when none is left that would tell anything.

        Of those that divide equally well the cheapest by ``cost``, then the oldest is taken. Near
        a skipped commit others are likely to be skipped too, so the gain is less there.
        """
        total = sum(self.weight(c) for c in suspects)
        out = set(skipped)
        bits = sum(1 << self._place[c] for c in suspects)
        gains: dict[str, float] = {}
        for commit in suspects:
            if commit == bad or commit in out or not self.weight(commit):
                continue
            below = self._weight_of(self._reach[commit] & bits)
            gain = min(below, total - below)
            if gain > 0:
                gains[commit] = gain * self._hope(commit, out, suspects)
        if not gains:
            return None
        best = max(gains.values())
        near = sorted((c for c in gains if gains[c] >= best * NEAR), key=lambda c: -gains[c])[
            :ASKED
        ]
        return min(near, key=lambda c: (cost(c), -gains[c], -self._place[c]))

    def _weight_of(self, bits: int) -> float:
        return sum(weight * (bits & mask).bit_count() for weight, mask in self._masks.items())

    def _hope(self, commit: str, skipped: set[str], suspects: Sequence[str]) -> float:
        """The chance that a commit need not be skipped, by its distance to skipped ones."""
        places = [self._place[c] for c in skipped if c in self._place]
        live = [self._place[c] for c in suspects]
        if not places or not live:
            return 1.0
        own = self._place[commit]
        nearest = min(abs(own - place) for place in places)
        return float(1.0 - SPREAD ** -max(nearest, 0.5))


def steps(total: float) -> int:
    """Tests that a range of so many equally likely commits takes, at most."""
    count = 0
    while total > 1:
        total, count = -(-total // 2), count + 1
    return count
