"""Searches on after the first culprit, until what was found is the whole difference.

A range may hold several changes: more of one kind, or some that oppose each other. The first
search names the commit that crosses half of the way. Its step is taken off the whole, cell by cell
and section by section, and where anything is left the range is divided as a ledger is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from iotoll.bisect.account import Accountant, Accounted, Entry
from iotoll.bisect.find import Asked, Found
from iotoll.bisect.history import History
from iotoll.bisect.ledger import Step, Values, minus
from iotoll.bisect.meter import Meter
from iotoll.bisect.setting import Part
from iotoll.core.progress import Progress

TENTHS = 10


@dataclass(frozen=True)
class Culprit:
    """Commits (one, or those that cannot be tested separately) and what they moved."""

    commits: tuple[str, ...]
    step: Step

    @property
    def worst(self) -> Part:
        """What moved most, in instructions where any moved; growth before less of the same size."""
        deltas = self.step.deltas
        return max(
            deltas, key=lambda part: (":" not in part[1], abs(deltas[part]), deltas[part], part)
        )

    @property
    def grew(self) -> bool:
        """Whether what moved most is a growth."""
        return self.step.deltas[self.worst] > 0


@dataclass(frozen=True)
class Whole:
    """All culprits of a range, oldest first, the whole difference, and what they leave of it."""

    culprits: list[Culprit] = field(default_factory=list)
    total: Values = field(default_factory=dict)
    left: Values = field(default_factory=dict)


def search_on(
    meter: Meter, history: History, asked: Asked, found: Found, progress: Progress
) -> Whole:
    """Every commit that moved what moved between A and B; nothing where the range has no change."""
    if not found.commits:
        return Whole()
    accountant = Accountant(meter, history, progress, None, section=asked.section)
    accountant.cells = list(found.cells)
    total = accountant.step(asked.good, asked.bad)
    moved = total.moved if total is not None else frozenset[Part]()
    cells = sorted({cell for cell, _ in [*found.moved, *moved]})
    accountant = Accountant(meter, history, progress, None, section=asked.section)
    accountant.cells = cells
    first = _alone(accountant, history, asked, found)
    if first is not None:
        return first
    progress.say("what it moved is not the whole: the search goes on")
    known = [sha for sha, word, _ in found.tested if word != "skip"]
    whole = accountant.account(asked.good, asked.bad, cells, known)
    return Whole(list(_culprits(whole, asked.first_parent)), whole.total, whole.left)


def _alone(accountant: Accountant, history: History, asked: Asked, found: Found) -> Whole | None:
    """The one culprit, where its own step is the whole difference; None where more is left."""
    parents = history.parents(found.commits[0])
    total = accountant.step(asked.good, asked.bad)
    if len(found.commits) > 1 or not parents or total is None:
        return None
    step = accountant.step(parents[0], found.commits[0])
    if step is None or not step.deltas:
        return None
    left = {part: d for part, d in minus(total.deltas, step.deltas).items() if abs(d) > 1}
    # With paths the user has said which commits may be named; the others' part is left.
    if left and not asked.paths:
        return None
    return Whole([Culprit((found.commits[0],), step)], total.deltas, left)


def _culprits(whole: Accounted, first_parent: bool) -> Iterator[Culprit]:
    for entry in whole.entries:
        yield from _of(entry, first_parent)


def _of(entry: Entry, first_parent: bool) -> Iterator[Culprit]:
    """A row's commits; of a merge those of its branch, and itself for what only both have."""
    step = entry.row.step
    if not step.moved:
        return
    if first_parent or not entry.inside:
        yield Culprit(entry.row.commits, step)
        return
    for inner in entry.inside:
        yield from _of(inner, first_parent)
    if entry.interaction:
        moved = frozenset(part for part in entry.interaction if part in step.moved)
        if moved:
            yield Culprit(entry.row.commits, Step(entry.interaction, moved, {}, step.functions))


def as_json(history: History, culprit: Culprit) -> dict[str, Any]:
    """A culprit as ``bisect.json`` has it; values are instructions per I/O."""
    step = culprit.step
    return {
        "commits": [
            {"sha": c.sha, "subject": c.subject, "author": c.author, "email": c.email}
            for c in map(history.known, culprit.commits)
        ],
        "grew": culprit.grew,
        "cell": culprit.worst[0],
        "section": culprit.worst[1],
        "parts": parts_json(step.deltas, step.some),
        "changed": list(step.functions),
    }


def parts_json(deltas: Values, some: Mapping[Part, str] | None = None) -> list[dict[str, Any]]:
    """Values of parts as a list of cell, section and delta, in instructions per I/O."""
    return [
        {
            "cell": part[0],
            "section": part[1],
            "delta": tenths / TENTHS,
            "some": (some or {}).get(part, ""),
        }
        for part, tenths in sorted(deltas.items())
    ]
