"""Divides a range on the instruction clock until one commit is left, or only skipped ones are.

A step is exact: a commit counts as changed when its value has come at least half of the way from A
to B. So with several changes in a range the one is found that crosses the half;
`iotoll.bisect.rest` finds the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from iotoll.bisect.graph import Range, steps
from iotoll.bisect.history import SHORT, History, selected_cells, without_effect
from iotoll.bisect.meter import Meter, Value
from iotoll.bisect.setting import WHOLE, Part
from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress

HEADER = 50
"""A header counts as so many files to compile."""


@dataclass(frozen=True)
class Asked:
    """What is searched for: full commit names, and what narrows the range."""

    good: str
    bad: str
    cells: tuple[str, ...] = ()
    section: str | None = None
    first_parent: bool = False
    paths: tuple[str, ...] = ()
    terms: tuple[str, str] = ("good", "bad")


@dataclass
class Found:
    """Where a search ended.

    ``commits`` is the culprit alone, or all that it may be where skipped commits hide it, newest
    first; empty where nothing moved, with the reason in ``why``. ``cells`` were measured first.
    """

    target: Part | None = None
    full: float = 0.0
    commits: list[str] = field(default_factory=list)
    why: str = ""
    moved: dict[Part, Value] = field(default_factory=dict)
    cells: tuple[str, ...] = ()
    range_size: int = 0
    candidates: int = 0
    tested: list[tuple[str, str, float | None]] = field(default_factory=list)


class Finder:
    """One search; everything that it measures goes through ``meter``, which remembers it."""

    def __init__(self, meter: Meter, history: History, asked: Asked, progress: Progress) -> None:
        self.meter = meter
        self.history = history
        self.asked = asked
        self.progress = progress
        self.tested: list[tuple[str, str, float | None]] = []
        self.last = asked.bad

    # ------------------------------------------------------------ what moved

    @cached_property
    def cells(self) -> list[str]:
        """The cells that are measured first: the one asked for, or those that the range selects."""
        known = self.meter.matrix.cells
        for cell in self.asked.cells:
            if cell not in known:
                raise UsageError(f"--cell {cell}: not in the matrix: choose from {known[0]}, …")
        if self.asked.cells:
            return list(dict.fromkeys(self.asked.cells))
        return selected_cells(self.history, self.asked.good, self.asked.bad, known)

    def moved(self) -> dict[Part, Value]:
        """Sections that differ between A and B, and may be judged."""
        if not self.cells:
            return {}
        values = self.meter.values(self.asked.bad, self.cells)
        if values is None:
            why = self.meter.why(self.asked.bad)
            raise UsageError(f"--bad {self.asked.bad[:SHORT]}: {why}: name another")
        wanted = self.asked.section
        known = {part for _, part in values}
        if wanted is not None and wanted not in known:
            names = ", ".join(sorted(known))
            raise UsageError(f"--section {wanted}: there is none in these cells: {names}")
        return {
            part: value
            for part, value in values.items()
            if value.moved in ("grew", "shrank")
            and (value.gated or wanted is not None)
            and wanted in (None, part[1])
        }

    # ------------------------------------------------------------ the search

    def find(self) -> Found:
        """Search; raises UsageError where A and B are no range, InfrastructureError at a fault."""
        asked = self.asked
        parents = self.history.graph([asked.good], asked.bad, asked.first_parent, asked.paths)
        if not parents:
            raise self.history.empty(asked.good, asked.bad, asked.paths)
        moved = self.moved()
        graph = Range(parents, self._weights(parents))
        candidates = sum(graph.weight(c) > 0 for c in parents)
        if not moved:
            why = self._nothing(candidates)
            return Found(why=why, range_size=len(parents), candidates=candidates)
        target = _clearest(moved)
        cells, full = self._narrowed(target, moved)
        found = Found(
            target,
            full,
            moved=moved,
            cells=tuple(self.cells),
            range_size=len(parents),
            candidates=candidates,
        )
        if why := self._before_the_range(target, cells, full):
            found.why = why
            return found
        self.progress.say(
            f"{len(parents)} commits, {found.candidates} of which can change the board's kernel:"
            f" at most about {steps(found.candidates)} more builds"
        )
        found.commits = self._divide(graph, target, cells, full)
        found.tested = self.tested
        return found

    def _nothing(self, candidates: int) -> str:
        if not self.cells:
            return "no cell measures what this range changes"
        what = f"{self.asked.section} of " if self.asked.section else ""
        same = f"nothing moved: {what}{len(self.cells)} cells are the same in A and B"
        if candidates < 2:
            return same
        ends = f"{self.asked.good[:SHORT]}..{self.asked.bad[:SHORT]}"
        cells = f" --cells {','.join(self.asked.cells)}" if self.asked.cells else ""
        return (
            f"{same}; commits that cancel each other are not seen so: 'iotoll ledger {ends} --every"
            f"{cells}' measures each that can change the kernel ({candidates} builds)"
        )

    def _narrowed(self, target: Part, moved: dict[Part, Value]) -> tuple[list[str], float]:
        """The one cell to measure from now on, if what moved also shows where it runs alone."""
        self.progress.say(
            f"{len(moved)} sections moved; searched: {target[0]}: {target[1]}"
            f" {moved[target].delta:+g} instructions per I/O"
        )
        if self.cells == [target[0]]:
            return self.cells, moved[target].delta
        alone = self.meter.values(self.asked.bad, [target[0]])
        value = alone.get(target) if alone else None
        if value is not None and value.moved == moved[target].moved:
            return [target[0]], value.delta
        return self.cells, moved[target].delta

    def _before_the_range(self, target: Part, cells: Sequence[str], full: float) -> str:
        """As git does: where A is not behind B, their merge bases must be as A is."""
        for base in self.history.merge_bases(self.asked.good, self.asked.bad):
            if base != self.asked.good and self._is_bad(base, target, cells, full):
                return (
                    f"the merge base {base[:SHORT]} has it already: it was changed between there"
                    f" and {self.asked.good[:SHORT]}, not in this range: swap --good and --bad"
                )
        return ""

    def _divide(self, graph: Range, target: Part, cells: Sequence[str], full: float) -> list[str]:
        bad = self.asked.bad if self.asked.bad in graph.parents else None
        good: list[str] = []
        while True:
            suspects = graph.suspects(bad, good)
            chosen = graph.next(suspects, bad, self.meter.skipped, self._cost)
            if chosen is None:
                live = [c for c in suspects if graph.weight(c) > 0]
                if live or not graph.weights:
                    return live
                # No file of the kernel changed, and yet the kernel did: nothing is ruled out.
                graph = Range(graph.parents)
                continue
            count = sum(graph.weight(c) > 0 for c in suspects)
            self.progress.say(
                f"{count} commits left, about {steps(count)} builds:"
                f" {self.history.known(chosen).line}"
            )
            is_bad = self._is_bad(chosen, target, cells, full)
            if is_bad is None:
                continue
            self.last = chosen
            if is_bad:
                bad = chosen
            else:
                good.append(chosen)

    def _is_bad(self, commit: str, target: Part, cells: Sequence[str], full: float) -> bool | None:
        """Whether the commit has come half of the way to B; None when it must be skipped."""
        values = self.meter.values(commit, cells)
        value = values.get(target) if values is not None else None
        if value is None or value.moved == "unknown":
            if values is not None:
                self.meter.log.add(
                    "skipped", commit=commit, step="workload", why=f"{target[0]} is not comparable"
                )
            self.tested.append((commit, "skip", None))
            return None
        is_bad = crossed(value.delta, full)
        self.tested.append((commit, self.asked.terms[is_bad], value.delta))
        self.progress.say(f"{commit[:SHORT]} is {self.asked.terms[is_bad]}: {value.delta:+g}")
        return is_bad

    # ------------------------------------------------------------ chances and costs

    def _weights(self, parents: dict[str, list[str]]) -> dict[str, float]:
        """0 for commits none of whose files is in the kernel of A or of B, nor steers its build."""
        sources = self.meter.sources(self.asked.good) | self.meter.sources(self.asked.bad)
        return without_effect(self.history, parents, sources)

    def _cost(self, commit: str) -> float:
        """About how many files make compiles for a commit after the one built last."""
        paths = self.history.differing(self.last, commit)
        return sum(HEADER if path.endswith(".h") else 1 for path in paths)


def crossed(value: float, full: float) -> bool:
    """Whether a value has come at least half of the way from 0 to ``full``."""
    return (value >= full / 2) if full > 0 else (value <= full / 2)


def _clearest(moved: dict[Part, Value]) -> Part:
    """What is searched: most I/Os have it, then the largest; the whole I/O only where alone."""
    return max(
        moved,
        key=lambda part: (
            # Instructions before other counts, which have another unit.
            ":" not in part[1],
            part[1] != WHOLE,
            moved[part].share >= 0.5,
            abs(moved[part].delta),
            part,
        ),
    )
