"""The result of a study: the seed's numbers beside ours, and what each claim comes to."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from iotoll.records.models.base import Clock, Model

Form = Literal["none", "bars", "shares"]
ClaimKind = Literal["value", "shape"]
ClaimVerdict = Literal[
    "agrees", "differs", "shape holds", "shape differs", "needs a board", "not measured"
]


class StudyColumn(Model):
    """One quantity of a table; ``formula`` is what it is computed with."""

    key: str
    title: str
    unit: str
    formula: str
    digits: int = Field(ge=0, le=6)


class StudyValue(Model):
    """One quantity of one row: ours, and what was published: nothing, a value, or low and high."""

    ours: float | None = None
    published: list[float] = Field(default_factory=list, max_length=2)
    why: str = Field("", description="why ours is absent")


class StudyRow(Model):
    """One row of a table: one value for each column."""

    label: str
    values: list[StudyValue]


class StudyTable(Model):
    """A table, and the form in which it is drawn; ``drawn`` are the keys of its drawn columns."""

    name: str
    title: str
    note: str = ""
    source: str = Field("", description="where the published values come from")
    columns: list[StudyColumn]
    rows: list[StudyRow]
    form: Form = "none"
    drawn: list[str] = Field(default_factory=list)


class StudyLine(Model):
    """One line of a curve; ``published`` and ``executed`` are single points beside it."""

    label: str
    points: list[tuple[float, float]]
    published: list[tuple[float, float]] = Field(default_factory=list)
    executed: list[tuple[float, float]] = Field(default_factory=list)


class StudyCurve(Model):
    """A formula over one free variable ``x``."""

    name: str
    title: str
    note: str = ""
    x_title: str
    x_unit: str
    unit: str
    formula: str
    lines: list[StudyLine]


class StudyClaim(Model):
    """One claim of a seed, and what this run makes of it."""

    text: str
    source: str
    kind: ClaimKind
    formula: str = ""
    unit: str = ""
    ours: float | None = None
    compared: list[tuple[float, str, float]] = Field(
        default_factory=list, description="of a shape: both sides of its comparisons, in its unit"
    )
    published: list[float] = Field(default_factory=list, max_length=2)
    tolerance: float = Field(0, description="per cent of the published value")
    verdict: ClaimVerdict
    why: str = ""


class StudyCheck(Model):
    """One thing that was asked of fio, beside what ran."""

    run: str
    what: str
    asked: str
    ran: str
    verdict: Literal["as asked", "differs", "note"]


class StudyVariant(Model):
    """One set of devices that booted, or why it did not."""

    name: str
    why: str
    board: str
    cells: list[str]
    models: dict[str, str] = Field(default_factory=dict, description="device: its model's data")
    kernel: str = ""
    boot_sha256: str = Field("", description="over the files that the board handed over")
    missing: str = Field("", description="why it has no values; empty: it has")


class StudyRecord(Model):
    """``study.json``: everything that a study's page shows."""

    schema_version: str = "iotoll.study/1"
    name: str
    title: str
    question: str
    sources: list[str]
    clock: Clock
    virtual: bool
    command: list[str] = Field(description="what repeats the study")
    assumed: list[str]
    not_shown: list[str] = Field(description="what cannot be shown here, and why")
    variants: list[StudyVariant]
    claims: list[StudyClaim]
    tables: list[StudyTable]
    curves: list[StudyCurve] = Field(default_factory=list)
    checks: list[StudyCheck] = Field(default_factory=list)
