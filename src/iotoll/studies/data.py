"""A study as data: ``studies/NAME.toml``, strictly checked when it is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from iotoll.boards.cells import parse_cell
from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_toml, named_file
from iotoll.records.models.base import Model
from iotoll.records.models.study import ClaimKind, Form
from iotoll.studies.asked import Ran, parse_command, size_of
from iotoll.studies.formula import Formula, parse
from iotoll.studies.quantities import QUANTITIES

FREE = "x"
"""The free variable of a curve."""
NAME = re.compile(r"[a-z][a-z0-9-]*")
"""A variant's name: a folder has it."""


class Source(Model):
    """Where published values come from."""

    title: str = Field(min_length=1)
    setup: str = Field("", description="what it was measured on")


class Variant(Model):
    """One boot: a board, changes to its file and its devices, and the cells that run.

    ``needs_board`` says why a virtual board does not run it: then real boards alone do.
    """

    why: str = Field(min_length=1)
    board: str | None = None
    needs_board: str = ""
    cells: list[str] = Field(min_length=1)
    devices: dict[str, dict[str, Any]] = Field(default_factory=dict)
    changes: dict[str, Any] = Field(default_factory=dict, description="other keys of a board file")

    @field_validator("cells")
    @classmethod
    def _cells(cls, cells: list[str]) -> list[str]:
        for cell in cells:
            try:
                parse_cell(cell)
            except UsageError as error:
                raise ValueError(str(error)) from error
        return cells


class Bound(Model):
    """What gives a formula's names a meaning.

    ``cells`` are names for cells, as ``CELL`` or ``CELL@VARIANT`` (else the first variant that runs
    it), in which ``{workload}`` stands for the row's own. ``values`` are numbers.
    """

    cells: dict[str, str] = Field(default_factory=dict)
    values: dict[str, float] = Field(default_factory=dict)
    workload: str = ""


class Published(Model):
    """One published value, or a range."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _one(self) -> Published:
        if (self.value is None) == (self.low is None or self.high is None):
            raise ValueError("give value, or low and high")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError("low is above high")
        return self

    @property
    def numbers(self) -> list[float]:
        """The value, or low and high."""
        return [v for v in (self.value, self.low, self.high) if v is not None]


class Column(Model):
    """One quantity of a table."""

    key: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    title: str
    unit: str = Field(min_length=1)
    formula: str
    digits: int = Field(1, ge=0, le=6)


class Row(Bound):
    """One row: a label, what its names stand for, and what was published, by column."""

    label: str = Field(min_length=1)
    published: dict[str, Published] = Field(default_factory=dict)


class TableData(Bound):
    """A table; its own ``cells`` and ``values`` hold for all of its rows."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    title: str
    note: str = ""
    source: str = ""
    columns: list[Column] = Field(min_length=1)
    rows: list[Row] = Field(min_length=1)
    form: Form = "none"
    drawn: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _drawable(self) -> TableData:
        keys = {column.key for column in self.columns}
        for row in self.rows:
            if unknown := row.published.keys() - keys:
                raise ValueError(f"row {row.label!r}: no column {min(unknown)!r}")
        if unknown := set(self.drawn) - keys:
            raise ValueError(f"drawn: no column {min(unknown)!r}")
        if (self.form == "none") != (not self.drawn):
            raise ValueError("form and drawn: give both or neither")
        return self


class Line(Row):
    """One line of a curve; points are ``[x, y]``, ``executed`` are formulas of both."""

    points: list[tuple[float, float]] = Field(default_factory=list)
    executed: list[tuple[str, str]] = Field(default_factory=list)


class CurveData(Bound):
    """A formula over the free variable ``x``, one line for each row."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    title: str
    note: str = ""
    x_title: str
    x_unit: str = Field(min_length=1)
    unit: str = Field(min_length=1)
    formula: str
    x: list[float] = Field(min_length=2)
    lines: list[Line] = Field(min_length=1)


class ClaimData(Bound):
    """One claim: a ``value`` that is to come out, or a ``shape``, which is a condition.

    ``needs_board`` says why a virtual board cannot show it; there the value is printed and not
    judged.
    """

    text: str = Field(min_length=1)
    source: str
    kind: ClaimKind
    formula: str
    unit: str = ""
    published: Published | None = None
    tolerance: float = Field(0, ge=0, description="per cent of the published value")
    needs_board: str = ""

    @model_validator(mode="after")
    def _whole(self) -> ClaimData:
        if self.kind == "value" and (self.published is None or not self.unit):
            raise ValueError("a claim of kind 'value' needs published and unit")
        return self


class Reported(Model):
    """A published fio run: its command, and what its log and result say that ran.

    The log's I/Os are ``size`` x ``numjobs`` / ``bs`` of the command.
    """

    command: str
    options: dict[str, str] = Field(description="those that the log names")
    directions: list[Literal["read", "write"]] = Field(min_length=1)
    iops: float = Field(gt=0)
    clat_ms: float = Field(gt=0)
    requests: float | None = Field(None, gt=0, description="requests per I/O")

    @property
    def ran(self) -> Ran:
        """As fio's own JSON would have it; raises UsageError for a command without a size."""
        asked = parse_command(self.command)
        if missing := {"size", "bs", "numjobs"} - asked.keys():
            raise UsageError(f"the command has no {min(missing)}")
        total = size_of(asked["size"]) * int(asked["numjobs"])
        ios = total // size_of(asked["bs"])
        return Ran(
            options=self.options,
            directions=tuple(self.directions),
            ios=ios,
            bytes=total,
            runtime_ms=round(ios / self.iops * 1000),
            clat_mean_ns=self.clat_ms * 1e6,
            clat_p99_ns=0.0,
            lat_mean_ns=self.clat_ms * 1e6,  # psync waits in the call: submission takes no time
            timestamp_ms=None,
            partial=True,
        )


class BoardUse(Model):
    """How a study runs on a board that has another matrix."""

    matrix: str


class Study(Model):
    """A study file."""

    name: str
    title: str = Field(min_length=1)
    question: str = Field(min_length=1)
    sources: dict[str, Source]
    assumed: list[str] = Field(default_factory=list)
    not_shown: list[str] = Field(default_factory=list)
    board: str = "virt-arm64"
    matrix: dict[str, Any] = Field(
        default_factory=lambda: {"extends": "default"}, description="as a matrix file"
    )
    boards: dict[str, BoardUse] = Field(default_factory=dict)
    variants: dict[str, Variant] = Field(min_length=1)
    fio: dict[str, str] = Field(default_factory=dict, description="raw cell -> a fio command")
    scaled_size: str = Field(
        "", pattern=r"^(\d+[kKmMgG])?$", description="of each fio job, in place of the command's"
    )
    refused: dict[str, str] = Field(
        default_factory=dict, description="commands as published that cannot be run"
    )
    reported: dict[str, Reported] = Field(
        default_factory=dict, description="published runs, checked as our own are"
    )
    destroys: str = Field("", description="what is overwritten; it must be allowed by hand")
    tables: list[TableData] = Field(default_factory=list)
    curves: list[CurveData] = Field(default_factory=list)
    claims: list[ClaimData] = Field(default_factory=list)

    def places(self) -> Iterator[tuple[str, str, Mapping[str, str], set[str]]]:
        """Every formula: where it is, its text, the cells that it may name, and the values."""
        for t in self.tables:
            for row in t.rows:
                cells, values = bound(t, row)
                for column in t.columns:
                    yield f"tables.{t.name}, row {row.label!r}", column.formula, cells, set(values)
        for c in self.curves:
            for line in c.lines:
                cells, values = bound(c, line)
                where = f"curves.{c.name}, line {line.label!r}"
                yield where, c.formula, cells, {*values, FREE}
                for pair in line.executed:
                    for text in pair:
                        yield where, text, cells, set(values)
        for claim in self.claims:
            cells, values = bound(claim, Bound())
            yield f"claim {claim.text[:40]!r}", claim.formula, cells, set(values)


def bound(outer: Bound, inner: Bound) -> tuple[dict[str, str], dict[str, float]]:
    """The cells and values that a row's formulas may name; the row's own win."""
    workload = inner.workload or outer.workload
    cells = {**outer.cells, **inner.cells}
    filled = {name: cell.replace("{workload}", workload) for name, cell in cells.items()}
    return filled, {**outer.values, **inner.values}


def studies_folder() -> Path:
    """Where the study files are."""
    return data_dir("studies")


def load_study(name: str) -> Study:
    """Load a study by name or path; raises UsageError naming file and field."""
    path = named_file(studies_folder(), name)
    data = load_toml(path)
    if "name" in data:
        raise UsageError(f"{path}: name: leave it out: a study has its file's name")
    try:
        study = Study.model_validate({"name": path.stem, **data})
    except ValidationError as error:
        raise first_error(path, error) from error
    try:
        _check(study)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return study


def _check(study: Study) -> None:
    """Raise UsageError for a source, cell, variant or name that nothing defines."""
    named = [claim.source for claim in study.claims] + [table.source for table in study.tables]
    for source in named:
        if source and source not in study.sources:
            raise UsageError(f"no source {source!r}: there are {', '.join(study.sources)}")
    for name in study.variants:
        if not NAME.fullmatch(name):
            raise UsageError(f"variants: {name!r} is not a name: small letters, digits and -")
    _check_fio(study)
    for where, text, cells, values in study.places():
        try:
            formula = parse(text)
            _check_names(study, formula, cells, values)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error


def _check_fio(study: Study) -> None:
    """Raise UsageError for a command that fio would misread, or that is called so wrongly."""
    raw = {c for v in study.variants.values() for c in v.cells if parse_cell(c).is_raw}
    written = {c for c in raw if parse_cell(c).op != "read"}
    if written and not study.destroys:
        raise UsageError(f"cell {min(written)} overwrites a disk: destroys must say so")
    for cell, command in study.fio.items():
        if cell not in raw:
            raise UsageError(f"fio: no variant runs a raw cell {cell!r}")
        try:
            options = parse_command(command)
        except UsageError as error:
            raise UsageError(f"fio.{cell}: {error}") from error
        wanted = parse_cell(cell)
        own = {
            "rw": wanted.fio_rw,
            "bs": f"{wanted.block_kb}k",
            "numjobs": str(wanted.threads),
            "direct": "1",
        }
        for name, value in own.items():
            if options.get(name) != value:
                raise UsageError(f"fio.{cell}: {name} is {options.get(name)}, the cell's {value}")
    for name, reported in study.reported.items():
        try:
            _ = reported.ran
        except UsageError as error:
            raise UsageError(f"reported.{name}: {error}") from error
    for name, command in study.refused.items():
        if not refusal(command):
            raise UsageError(f"refused.{name}: fio would take this command")


def refusal(command: str) -> str:
    """Why a published command cannot be run; empty if it can."""
    try:
        parse_command(command)
    except UsageError as error:
        return str(error)
    return ""


def _check_names(
    study: Study, formula: Formula, cells: Mapping[str, str], values: set[str]
) -> None:
    for name in sorted(formula.names):
        cell, dot, quantity = name.partition(".")
        if not dot and name not in values:
            raise UsageError(f"{formula.text!r}: no value {name!r}")
        if dot and cell not in cells:
            raise UsageError(f"{formula.text!r}: no cell {cell!r}")
        if dot and quantity not in QUANTITIES:
            known = ", ".join(QUANTITIES)
            raise UsageError(f"{formula.text!r}: no quantity {quantity!r}: there are {known}")
        if dot:
            find_variant(study, cells[cell])


def find_variant(study: Study, spelled: str) -> tuple[str, str]:
    """Variant and cell of ``CELL`` or ``CELL@VARIANT``; raises UsageError where none runs it."""
    cell, _, named = spelled.partition("@")
    if not re.fullmatch(r"[\w-]+", cell):
        raise UsageError(f"{spelled!r} is not CELL or CELL@VARIANT")
    for name, variant in study.variants.items():
        if cell in variant.cells and named in ("", name):
            return name, cell
    raise UsageError(f"no variant {named or 'at all'!s} runs cell {cell!r}")
