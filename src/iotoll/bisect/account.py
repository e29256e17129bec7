"""The ledger of a range: its first parents one by one, and the branches that its merges bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from iotoll.bisect.graph import steps
from iotoll.bisect.history import SHORT, History, selected_cells, without_effect
from iotoll.bisect.ledger import Line, Row, Step, Values, minus, plus
from iotoll.bisect.meter import Meter
from iotoll.bisect.setting import WHOLE
from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.records.models import Section

TENTHS = 10


@dataclass
class Entry:
    """One row of the ledger: as `Row`, with what a merge's branch and its interaction hold.

    ``inside`` are the rows of a merged branch, each against its own parent; ``interaction`` is what
    the merge has beyond their sum. Both are part of ``row``, and not to be added to it.
    """

    row: Row
    inside: list[Entry] = field(default_factory=list)
    interaction: Values = field(default_factory=dict)


@dataclass
class Accounted:
    """A whole ledger: part by part, ``total`` is the sum of ``entries`` and of what is ``left``.

    ``open`` is how many commits can change the board's kernel: with ``every`` all were measured.
    """

    entries: list[Entry]
    total: Values
    left: Values
    cells: Sequence[str]
    commits: int
    open: int
    every: bool
    skipped: list[str]
    partial: bool

    @property
    def rows(self) -> list[Row]:
        """The rows of the line of first parents that changed something."""
        return [entry.row for entry in self.entries if entry.row.deltas]


class Accountant:
    """Accounts for A..B with at most ``max_builds`` kernels built.

    ``section`` limits it to one; with ``every`` each commit that can change the kernel is measured.
    """

    def __init__(
        self,
        meter: Meter,
        history: History,
        progress: Progress,
        max_builds: int | None,
        every: bool = False,
        section: str | None = None,
    ) -> None:
        self.meter = meter
        self.history = history
        self.progress = progress
        self.max_builds = max_builds
        self.every = every
        self.section = section
        self.cells: list[str] = []
        self.weights: dict[str, float] = {}
        self.limited = False
        self._steps: dict[tuple[str | None, str | None], Step] = {}

    def account(
        self,
        good: str,
        bad: str,
        cells: Sequence[str] | None,
        known: Sequence[str] = (),
    ) -> Accounted:
        """Measure and divide; raises UsageError where the range or an end of it cannot be used.

        ``known`` commits are measured first, since a search has measured them before.
        """
        if not self.history.graph([good], bad):
            raise self.history.empty(good, bad)
        matrix = self.meter.matrix.cells
        self.cells = (
            selected_cells(self.history, good, bad, matrix) if cells is None else list(cells)
        )
        points = self._points(good, bad)
        total = self._ends(good, bad) if self.cells else Step()
        count = self._expect(points, total)
        rows = self._line(points, known).rows() if self.cells else []
        entries = [self._entry(row) for row in rows]
        found = [entry.row.deltas for entry in entries]
        whole = _rounded(total.deltas, found)
        return Accounted(
            entries,
            whole,
            minus(whole, plus(found)),
            self.cells,
            len(points) - 1,
            count,
            self.every,
            self.meter.skipped,
            self.limited,
        )

    # ------------------------------------------------------------ before the division

    def _ends(self, good: str, bad: str) -> Step:
        """B against A in the cells that differ; the other cells are not measured again."""
        if not self._measured(bad):
            raise UsageError(f"{bad[:SHORT]}: {self.meter.why(bad)}: name another end")
        first = self._between(good, bad)
        moved = [cell for cell in self.cells if any(part[0] == cell for part in first.deltas)]
        if moved and len(moved) < len(self.cells) and not self.every:
            self.cells = moved
            self._steps.clear()
            self._measured(bad)
            first = self._between(good, bad)
        return first

    def _points(self, good: str, bad: str) -> list[str]:
        """A, then the first parents from where they leave A to B."""
        chain = list(self.history.graph([good], bad, first_parent=True))[::-1]
        fork = self.history.parents(chain[0])[:1]
        return [good, *([f for f in fork if f != good]), *chain]

    def _expect(self, points: Sequence[str], total: Step) -> int:
        """Say how many builds are expected; returns how many commits can change the kernel."""
        sources = self.meter.sources(points[0]) | self.meter.sources(points[-1])
        self.weights = without_effect(self.history, points[1:], sources)
        count = sum(self.weights.get(c, 1.0) > 0 for c in points[1:])
        one = steps(count)
        spent = self.meter.spent
        each = spent.build_seconds / max(spent.builds, 1) + spent.boot_seconds / max(spent.boots, 1)
        limit = "" if self.max_builds is None else f"; at most {self.max_builds} builds"
        expected = f"Expected: {count} builds, one of each"
        if not self.every:
            expected = (
                f"Expected for 1, 2 and 5 changes: {one}, {2 * one} and {min(5 * one, count)}"
                " builds"
            )
        self.progress.say(
            f"{len(points) - 1} commits, {count} of which can change the board's kernel;"
            f" {len({c for c, _ in total.deltas})} cells differ. {expected} of about {each:.0f} s"
            f" with boot{limit}"
        )
        return count

    # ------------------------------------------------------------ the division

    def _line(self, points: Sequence[str], known: Sequence[str] = ()) -> Line:
        return Line(
            points,
            self._measured,
            self._between,
            self._may,
            self._tiny,
            self.weights,
            self.every,
            frozenset(known),
        )

    def _tiny(self, step: Step) -> bool:
        """Whether all of it is too little to look for, and not of the gate's kind."""
        policy = self.meter.policy
        return not step.moved and all(
            abs(tenths) <= TENTHS * policy.moved.mean * policy.rule(cell, _section(name)).threshold
            for (cell, name), tenths in step.deltas.items()
        )

    def _may(self) -> bool:
        allowed = self.max_builds is None or self.meter.spent.builds < self.max_builds
        self.limited = self.limited or not allowed
        return allowed

    def _measured(self, commit: str) -> bool:
        """Measure a commit; False where it does not build or boot."""
        values = self.meter.values(commit, self.cells)
        if values is None:
            return False
        if not any(row["commit"] == commit for row in self.meter.log.of("valued")):
            parts = sum(v.has_moved for v in values.values())
            self.meter.log.add("valued", commit=commit, parts=parts)
            self.progress.say(f"{self.history.known(commit).line}: {parts} sections differ")
        return True

    def step(self, one: str, other: str) -> Step | None:
        """What moved from one commit to another in the cells; None where one cannot be tested."""
        if not (self._measured(one) and self._measured(other)):
            return None
        return self._between(one, other)

    def _between(self, one: str, other: str) -> Step:
        """What moved between two measured commits; equal kernels are not compared."""
        key = self.meter.image(one), self.meter.image(other)
        if key[0] == key[1]:
            return Step()
        if key not in self._steps:
            self._steps[key] = self._compared(one, other)
        return self._steps[key]

    def _compared(self, one: str, other: str) -> Step:
        values = self.meter.between(one, other, self.cells) or {}
        functions = self._changed(one) ^ self._changed(other)
        shown = {
            part: value
            for part, value in values.items()
            if value.gated
            and (part[1] != WHOLE if self.section is None else part[1] == self.section)
            # What moved less than the gate asks for is a commit's only where it changed code.
            and (value.has_moved or (value.steady and functions))
        }
        deltas = {part: round(value.delta * TENTHS) for part, value in shown.items()}
        return Step(
            {part: tenths for part, tenths in deltas.items() if tenths},
            frozenset(p for p, v in shown.items() if v.has_moved or abs(v.delta) > v.threshold),
            {part: value.some for part, value in shown.items() if value.some},
            tuple(sorted(functions)),
        )

    def _changed(self, commit: str) -> frozenset[str]:
        return self.meter.changed(commit, self.cells)

    def _entry(self, row: Row) -> Entry:
        """A row, with the branch of a merge that changed something."""
        if len(row.commits) != 1 or not row.deltas:
            return Entry(row)
        parents = self.history.parents(row.commits[0])
        if len(parents) != 2 or not self._may():
            return Entry(row)
        branch = list(self.history.graph([parents[0]], parents[1], first_parent=True))[::-1]
        if not branch:
            return Entry(row)
        fork = self.history.parents(branch[0])[:1]
        if not fork or not all(self._measured(end) for end in (fork[0], branch[-1])):
            return Entry(row)
        inside = [self._entry(one) for one in self._line([fork[0], *branch]).rows()]
        own = plus(entry.row.deltas for entry in inside)
        return Entry(row, inside, minus(row.deltas, own))


def _rounded(total: Values, rows: Sequence[Values]) -> Values:
    """The total as the sum of rounded rows, where it differs from that by their rounding only."""
    whole = dict(total)
    for part, value in plus(rows).items():
        count = sum(part in row for row in rows)
        if abs(whole.get(part, 0) - value) <= (count + 1) / 2:
            whole[part] = value
    return whole


def _section(name: str) -> Section | None:
    """A section as policies name it; None is the whole I/O."""
    return None if name == WHOLE else Section(name)
