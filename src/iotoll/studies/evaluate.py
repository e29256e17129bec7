"""From a study's data and what its variants measured to the tables, curves and claims' verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial

from iotoll.records.models import CellRecord, Clock
from iotoll.records.models.run import DeviceModel
from iotoll.records.models.study import (
    ClaimVerdict,
    StudyCheck,
    StudyClaim,
    StudyColumn,
    StudyCurve,
    StudyLine,
    StudyRow,
    StudyTable,
    StudyValue,
)
from iotoll.studies.asked import Ran, checks, parse_command
from iotoll.studies.data import (
    FREE,
    ClaimData,
    CurveData,
    Line,
    Row,
    Study,
    TableData,
    bound,
    find_variant,
    refusal,
)
from iotoll.studies.data import Bound as BoundNames
from iotoll.studies.formula import Formula, NoValue, parse
from iotoll.studies.quantities import Counts, Known, quantity


@dataclass(frozen=True)
class Measured:
    """What one variant measured; ``missing`` says why it has nothing.

    ``ran`` is fio's own report of the cells that have a command of the study's, ``hpb`` what
    ufshpb counted in each cell.
    """

    cells: Mapping[str, CellRecord]
    models: Mapping[str, DeviceModel]
    missing: str = ""
    ran: Mapping[str, Ran] = field(default_factory=dict)
    hpb: Mapping[str, Counts] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluator:
    """Computes a study's formulas; ``measured`` has an entry for each variant."""

    study: Study
    measured: Mapping[str, Measured]
    clock: Clock
    virtual: bool

    def table(self, table: TableData) -> StudyTable:
        """A table with our values beside the published ones."""
        columns = [StudyColumn.model_validate(c.model_dump()) for c in table.columns]
        return StudyTable(
            name=table.name,
            title=table.title,
            note=table.note,
            source=self._source(table.source),
            columns=columns,
            rows=[self._row(table, row) for row in table.rows],
            form=table.form,
            drawn=table.drawn,
        )

    def curve(self, curve: CurveData) -> StudyCurve:
        """A curve; a line without values has no points."""
        return StudyCurve(
            name=curve.name,
            title=curve.title,
            note=curve.note,
            x_title=curve.x_title,
            x_unit=curve.x_unit,
            unit=curve.unit,
            formula=curve.formula,
            lines=[self._line(curve, line) for line in curve.lines],
        )

    def claim(self, claim: ClaimData) -> StudyClaim:
        """A claim with its verdict."""
        formula, lookup = parse(claim.formula), self._lookup(claim, BoundNames())
        ours, why = self._number(formula, lookup)
        shape = claim.kind == "shape" and ours is not None
        compared = formula.comparisons(lookup) if shape else []
        published = claim.published.numbers if claim.published else []
        verdict, note = self._verdict(claim, ours, why)
        return StudyClaim(
            text=claim.text,
            source=self._source(claim.source),
            kind=claim.kind,
            formula=claim.formula,
            unit=claim.unit,
            ours=ours if claim.kind == "value" else None,
            compared=[(round(a, 9), sign, round(b, 9)) for a, sign, b in compared],
            published=published,
            tolerance=claim.tolerance,
            verdict=verdict,
            why=note,
        )

    def checks(self) -> list[StudyCheck]:
        """What each command asks for beside what ran: published runs, ours, and those refused.

        A cell that did not run has none.
        """
        found = []
        for name, reported in self.study.reported.items():
            asked = parse_command(reported.command)
            for check in checks(asked, reported.ran, reported.requests):
                found.append(StudyCheck(run=f"{name}, as published", **asdict(check)))
        for cell, command in self.study.fio.items():
            try:
                known = self._cell(cell)
            except NoValue:
                continue
            if known.ran is None:
                continue
            requests = self._number(parse("c.requests"), partial(_of, known))[0]
            for check in checks(parse_command(command), known.ran, requests):
                found.append(StudyCheck(run=known.cell.fio_rw, **asdict(check)))
        for name, command in self.study.refused.items():
            why = f"refused: {refusal(command)}"
            found.append(
                StudyCheck(run=name, what="command", asked=command, ran=why, verdict="differs")
            )
        return found

    def _verdict(self, claim: ClaimData, ours: float | None, why: str) -> tuple[ClaimVerdict, str]:
        if claim.needs_board and self.virtual:
            return "needs a board", claim.needs_board
        if claim.cells and self.virtual and self.clock is Clock.TIME:
            return "needs a board", "the board is simulated: its times are not a board's"
        if ours is None:
            return "not measured", why
        if claim.kind == "shape":
            return ("shape holds" if ours else "shape differs"), ""
        assert claim.published is not None  # ClaimData's own check
        numbers = claim.published.numbers
        spare = claim.tolerance / 100
        low = numbers[0] - abs(numbers[0]) * spare
        high = numbers[-1] + abs(numbers[-1]) * spare
        return ("agrees" if low <= ours <= high else "differs"), ""

    def _source(self, name: str) -> str:
        return self.study.sources[name].title if name else ""

    def _row(self, table: TableData, row: Row) -> StudyRow:
        lookup = self._lookup(table, row)
        values = []
        for column in table.columns:
            ours, why = self._number(parse(column.formula), lookup)
            found = row.published.get(column.key)
            values.append(StudyValue(ours=ours, published=found.numbers if found else [], why=why))
        return StudyRow(label=row.label, values=values)

    def _line(self, curve: CurveData, line: Line) -> StudyLine:
        formula, lookup = parse(curve.formula), self._lookup(curve, line)

        def at(x: float) -> float | None:
            return self._number(formula, lambda name: x if name == FREE else lookup(name))[0]

        executed = [
            (x, y)
            for pair in line.executed
            if (x := self._number(parse(pair[0]), lookup)[0]) is not None
            and (y := self._number(parse(pair[1]), lookup)[0]) is not None
        ]
        points = [(x, y) for x in curve.x if (y := at(x)) is not None]
        return StudyLine(label=line.label, points=points, published=line.points, executed=executed)

    @staticmethod
    def _number(formula: Formula, lookup: Callable[[str], float]) -> tuple[float | None, str]:
        """A formula's value, or why it has none; rounded so that it prints alike everywhere."""
        try:
            return round(formula.value(lookup), 9), ""
        except NoValue as error:
            return None, str(error)

    def _lookup(self, outer: BoundNames, inner: BoundNames) -> Callable[[str], float]:
        cells, values = bound(outer, inner)

        def look(name: str) -> float:
            cell, dot, what = name.partition(".")
            return quantity(self._cell(cells[cell]), what) if dot else values[name]

        return look

    def _cell(self, spelled: str) -> Known:
        name, cell = find_variant(self.study, spelled)
        measured = self.measured[name]
        if measured.missing:
            raise NoValue(f"{cell}: {measured.missing}")
        record = measured.cells.get(cell)
        if record is None:
            raise NoValue(f"{cell} did not run on this board")
        if record.invalid is not None:
            raise NoValue(f"{cell}: {record.invalid}")
        return Known.make(record, measured.models, measured.ran.get(cell), measured.hpb.get(cell))


def _of(known: Known, name: str) -> float:
    """The quantity of ``c.NAME``, whatever cell a formula calls ``c``."""
    return quantity(known, name.partition(".")[2])
