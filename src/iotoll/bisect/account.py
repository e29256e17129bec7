"""The ledger of a range: its first parents one by one, and the branches that its merges bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from iotoll.bisect.graph import steps
from iotoll.bisect.history import SHORT, History, selected_cells, without_effect
from iotoll.bisect.ledger import Line, Row, Values, minus, plus
from iotoll.bisect.meter import Meter
from iotoll.bisect.setting import WHOLE, WORK, Part
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
    """A whole ledger: ``total`` is B minus A and the sum of ``entries``, part by part."""

    entries: list[Entry]
    total: Values
    cells: Sequence[str]
    commits: int
    skipped: list[str]
    partial: bool


class Accountant:
    """Accounts for A..B with at most ``max_builds`` kernels built."""

    def __init__(
        self, meter: Meter, history: History, progress: Progress, max_builds: int | None
    ) -> None:
        self.meter = meter
        self.history = history
        self.progress = progress
        self.max_builds = max_builds
        self.cells: list[str] = []
        self.parts: set[Part] = set()
        self.weights: dict[str, float] = {}
        self.total: Values = {}
        self.noise: dict[Part, int] = {}
        self.limited = False

    def account(self, good: str, bad: str, cells: Sequence[str] | None) -> Accounted:
        """Measure and divide; raises UsageError where the range or an end of it cannot be used."""
        if not self.history.graph([good], bad):
            raise UsageError(f"{good[:SHORT]}..{bad[:SHORT]}: holds no commit: swap them?")
        known = self.meter.matrix.cells
        self.cells = (
            selected_cells(self.history, good, bad, known) if cells is None else list(cells)
        )
        points = self._points(good, bad)
        total = self.total = self._ends(good, bad) if self.cells else {}
        self._expect(points, total)
        rows = self._line(points).rows() if self.cells else []
        entries = [self._entry(row) for row in rows]
        check = plus([entry.row.deltas for entry in entries])
        assert check == dict(total), "the rows do not add up to the whole"
        return Accounted(
            entries, total, self.cells, len(points) - 1, self.meter.skipped, self.limited
        )

    # ------------------------------------------------------------ before the division

    def _ends(self, good: str, bad: str) -> dict[Part, int]:
        """B minus A in the cells that differ; the other cells are not measured again."""
        first = self._values(bad)
        if first is None:
            raise UsageError(f"{bad[:SHORT]}: {self.meter.why(bad)}: name another end")
        moved = [cell for cell in self.cells if any(part[0] == cell for part in first)]
        if moved and len(moved) < len(self.cells):
            self.cells = moved
            again = self._values(bad)
            assert again is not None
            first = again
        return dict(first)

    def _points(self, good: str, bad: str) -> list[str]:
        """A, then the first parents from where they leave A to B."""
        chain = list(self.history.graph([good], bad, first_parent=True))[::-1]
        fork = self.history.parents(chain[0])[:1]
        return [good, *([f for f in fork if f != good]), *chain]

    def _expect(self, points: Sequence[str], total: Values) -> None:
        sources = self.meter.sources(points[0]) | self.meter.sources(points[-1])
        self.weights = without_effect(self.history, points[1:], sources)
        count = sum(self.weights.get(c, 1.0) > 0 for c in points[1:])
        one = steps(count)
        spent = self.meter.spent
        each = spent.build_seconds / max(spent.builds, 1) + spent.boot_seconds / max(spent.boots, 1)
        limit = "" if self.max_builds is None else f"; at most {self.max_builds} builds"
        self.progress.say(
            f"{len(points) - 1} commits, {count} of which can change the board's kernel;"
            f" {len({c for c, _ in total})} cells differ. Expected for 1, 2 and 5 changes: {one},"
            f" {2 * one} and {min(5 * one, count)} builds of about {each:.0f} s with boot{limit}"
        )

    # ------------------------------------------------------------ the division

    def _line(self, points: Sequence[str]) -> Line:
        return Line(points, self._values, self._may, self._tiny, self.weights, self._small)

    def _tiny(self, deltas: Values) -> bool:
        """Whether all of it is too little to look for."""
        mean = self.meter.policy.moved.mean
        return all(
            abs(tenths)
            <= (self._noise(part) if part[1] == WORK else round(mean * self._threshold(part)))
            for part, tenths in deltas.items()
        )

    def _small(self, deltas: Values) -> bool:
        """Whether the gate would call all of it the same."""
        return all(
            abs(tenths) <= (self._noise(part) if part[1] == WORK else self._threshold(part))
            for part, tenths in deltas.items()
        )

    def _threshold(self, part: Part) -> int:
        """Tenths that a section may grow by."""
        return self.meter.policy.rule(part[0], Section(part[1])).threshold * TENTHS

    def _noise(self, part: Part) -> int:
        """Tenths by which work outside I/Os differs between boots without a commit's doing.

        Where A and B differ by no more, only functions with other code were looked at.
        """
        whole = self.noise.get(part, 0)
        few = self.meter.policy.work.changed * TENTHS
        return whole if abs(self.total.get(part, 0)) > whole else few

    def _may(self) -> bool:
        allowed = self.max_builds is None or self.meter.spent.builds < self.max_builds
        self.limited = self.limited or not allowed
        return allowed

    def _values(self, commit: str) -> dict[Part, int] | None:
        """Tenths of an instruction per I/O against A, without parts that are 0."""
        known = self.meter.values(commit, self.cells)
        if known is None:
            return None
        for part, value in known.items():
            if part[1] == WORK:
                self.noise[part] = round(value.threshold * TENTHS)
        found = {
            part: round(value.delta * TENTHS)
            for part, value in known.items()
            if part[1] != WHOLE
            and value.moved != "unknown"
            # A sum of many functions is never the same twice: below its threshold it is noise.
            and (part[1] != WORK or value.moved != "same")
        }
        shown = {part: tenths for part, tenths in found.items() if tenths}
        if not any(row["commit"] == commit for row in self.meter.log.of("valued")):
            self.meter.log.add("valued", commit=commit, parts=len(shown))
            self.progress.say(f"{self.history.known(commit).line}: {len(shown)} sections differ")
        return shown

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
        if not fork or any(self._values(end) is None for end in (fork[0], branch[-1])):
            return Entry(row)
        inside = [self._entry(one) for one in self._line([fork[0], *branch]).rows()]
        own = plus([entry.row.deltas for entry in inside])
        return Entry(row, inside, minus(row.deltas, own))
