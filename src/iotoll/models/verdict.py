"""Models of what a run concludes: figures per side, comparisons, the verdict."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from iotoll.models.analysis import CellRecord
from iotoll.models.base import Clock, Model, Outcome, Section, Unit
from iotoll.models.run import BootRecord, BuildRecord, FailureRecord, Side, SourceRecord


class SideResult(Model):
    """``sides/SIDE/result.json``: all cells of one kernel, with where they come from."""

    schema_version: str = "iotoll.result/1"
    side: Side
    clock: Clock
    unit: Unit
    source: SourceRecord | None = None
    build: BuildRecord
    boots: list[BootRecord]
    cells: dict[str, list[CellRecord]] = Field(description="per cell, one record per boot")


class SectionComparison(Model):
    """Candidate against base for one section of one cell; durations in the verdict's unit."""

    section: Section
    base: float
    candidate: float
    delta: float = Field(description="candidate minus base; positive is more expensive")
    relative: float = Field(description="delta / base")
    threshold: float = Field(description="a larger delta is a regression")
    gated: bool = Field(description="false: shown only, by policy or because unrepeatable")
    moved: Literal["grew", "shrank", "same"]
    confidence: str = Field(description="how sure, in words, from the evidence of this cell")
    why: str = Field("", description="why it is not gated, or what qualifies the comparison")


class CellVerdict(Model):
    """The outcome of one cell."""

    cell: str
    outcome: Outcome
    sections: list[SectionComparison]
    why: str = ""


class VerdictRecord(Model):
    """``verdict.json``: the outcome of the run, and everything it rests on."""

    schema_version: str = "iotoll.verdict/1"
    outcome: Outcome
    exit_code: int
    sentence: str = Field(description="the verdict in one plain sentence")
    clock: Clock
    unit: Unit
    board: str
    matrix: str
    policy: str
    policy_sha256: str
    can_gate: bool = Field(description="false for smoke tests (clock time on a virtual board)")
    identical_images: bool = False
    cells: list[CellVerdict] = Field(default_factory=list)
    improvements: list[str] = Field(default_factory=list)
    regressions: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(
        default_factory=list, description="figures of usable cells that fio's own JSON contradicts"
    )
    failure: FailureRecord | None = None
