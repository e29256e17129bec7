"""Models of what `iotoll explain` finds: functions behind a difference, and what a patch ran."""

from __future__ import annotations

from typing import Self

from pydantic import Field, field_validator, model_validator

from iotoll.records.models.base import Model, Outcome, Section
from iotoll.records.models.run import Side


class Difference(Model):
    """A count per I/O of both sides, and how they differ I/O by I/O."""

    base: float = Field(description="median of the paired I/Os")
    candidate: float
    delta: int = Field(description="commonest difference over the paired I/Os")
    share: float = Field(description="of the paired I/Os that have exactly this difference")
    mean: float = Field(description="difference per I/O, over the paired I/Os")

    @property
    def effect(self) -> float:
        """The commonest difference where most I/Os have it, else the mean: paths alternate then."""
        return float(self.delta) if self.share > 0.5 else self.mean


class InlinedDelta(Difference):
    """An inlined function of a changed function; its instructions are part of that function's."""

    name: str
    into: list[str] = Field(description="what it is inlined into, the nearest first")
    file: str
    line: int = Field(description="the first of its lines that has code there")


class FunctionDelta(Difference):
    """One function in one section of one cell: its own instructions per I/O."""

    name: str
    calls_base: float = Field(description="calls per I/O, median")
    calls_candidate: float
    callers: list[str] = Field(description="who calls it, the most frequent first")
    changed: bool = Field(description="its machine code differs between the two kernels")
    next_delta: int | None = Field(
        None, description="second commonest difference; absent: all I/Os have the same"
    )
    next_share: float | None = Field(None, description="of the paired I/Os that have that one")
    file: str | None = Field(None, description="of its source; absent: not looked up, or not known")
    line: int | None = Field(None, description="where the function begins")
    inlined: list[InlinedDelta] = Field(
        default_factory=list, description="inlined functions that differ; of changed functions only"
    )

    @property
    def order(self) -> tuple[bool, float, float, str]:
        """Sorts functions of a part: changed ones first, each kind by size, then by name."""
        return not self.changed, -abs(self.effect), -abs(self.mean), self.name


class PartDelta(Model):
    """One part of a cell's I/Os, divided by function."""

    judged: float | None = Field(
        None, description="the gate's difference; absent if it judged none"
    )
    ios_base: int = Field(description="I/Os whose instructions add up to the analyser's count")
    ios_candidate: int
    missing_base: int = Field(description="I/Os that could not be dissected")
    missing_candidate: int
    paired: int = Field(description="I/Os dissected on both sides, which are compared")
    base: float
    candidate: float
    delta: int = Field(description="commonest difference of the whole section")
    share: float
    mean: float
    explained: float = Field(
        description="sum over functions of delta where most I/Os have it, else of mean"
    )
    unexplained: float | None = Field(
        None, description="the gate's difference less what is explained; absent if it judged none"
    )
    functions: list[FunctionDelta] = Field(
        description="that differ: those with other machine code first, each kind by its effect"
    )

    @field_validator("functions")
    @classmethod
    def _in_order(cls, functions: list[FunctionDelta]) -> list[FunctionDelta]:
        # Here, so that every reader has this order, also of records that were written before it.
        return sorted(functions, key=lambda function: function.order)


class SectionDelta(PartDelta):
    """One section of one cell, divided by function."""

    section: Section


class CellDelta(Model):
    """One cell: every section that could be dissected on both sides."""

    cell: str
    ios: int
    same_base: bool = Field(description="the recorded boot's trace is that of the gate's boot")
    same_candidate: bool
    sections: list[SectionDelta]
    whole: PartDelta | None = Field(
        None,
        description="all that ran from call to return, in any task or interrupt; where the gate"
        " says that the whole I/O moved, and its sections do not account for it",
    )


class FunctionCoverage(Model):
    """One function whose machine code the change altered, in the recorded I/Os of the candidate."""

    name: str
    new: bool = Field(description="the base has no function of this name")
    instructions: int = Field(description="length of its code")
    executed: int = Field(description="how many of these ran at least once, in any cell")
    calls: dict[str, float] = Field(description="calls per I/O, by cell in which it ran")
    changed: int | None = Field(
        None,
        description="how many of the instructions are from changed lines or, where none is known,"
        " are not in the base's code; absent: not known",
    )
    changed_executed: int = Field(0, description="how many of these ran at least once")
    executions: dict[str, float] = Field(
        default_factory=dict,
        description="of the changed instruction that ran most often: per I/O, by cell",
    )

    @property
    def did_change_run(self) -> bool:
        """Whether what changed in it ran; where that is not known, whether any of it did."""
        return bool(self.executed if self.changed is None else self.changed_executed)


class LineCoverage(Model):
    """One line that the change adds or replaces, and that machine code is from."""

    file: str
    line: int
    function: str = Field("", description="that has the line, also where it was inlined")
    executions: dict[str, float] = Field(
        description="per I/O, by cell in which it ran; empty: it never ran"
    )


class CoverageRecord(Model):
    """Whether the changed code ran at all while I/Os were measured."""

    cells: list[str]
    functions: list[FunctionCoverage]
    gone: list[str] = Field(description="functions that only the base has")
    sentence: str
    changed_lines: int = Field(0, description="lines that the change adds or replaces")
    lines: list[LineCoverage] = Field(
        default_factory=list, description="those of them that have machine code"
    )
    note: str | None = Field(None, description="why files and lines are not known")


class CacheLevel(Model):
    """One cache of a model."""

    size_kib: int = Field(gt=0)
    ways: int = Field(gt=0, le=1024)


class CacheModel(Model):
    """Modelled caches of one CPU: ``lava-jobs/caches/*.toml``."""

    name: str
    description: str = Field(min_length=1)
    source: str = Field(min_length=1, description="where the sizes are from")
    line: int = Field(ge=16, description="bytes of a line")
    l1i: CacheLevel = Field(description="level 1, instructions")
    l1d: CacheLevel = Field(description="level 1, data")
    l2: CacheLevel = Field(description="level 2, for both")

    @model_validator(mode="after")
    def _has_whole_sets(self) -> Self:
        for name in ("l1i", "l1d", "l2"):
            level: CacheLevel = getattr(self, name)
            sets, rest = divmod(level.size_kib << 10, self.line * level.ways)
            if rest or not sets or sets & (sets - 1) or self.line & (self.line - 1):
                words = "size divided by (line x ways) must be a power of two, and so must line"
                raise ValueError(f"{name}: {words}")
        return self


class CacheCounts(Model):
    """Lines touched per I/O, each once; misses in the modelled caches per I/O."""

    data_lines: Difference
    code_lines: Difference
    l1d_misses: Difference
    l1i_misses: Difference
    l2_misses: Difference


class CacheFunction(CacheCounts):
    """One function's own accesses and instructions."""

    name: str


class CacheSection(CacheCounts):
    """One section of one cell, with the functions whose counts differ."""

    cell: str
    section: Section
    paired: int = Field(description="I/Os dissected on both sides, which are compared")
    functions: list[CacheFunction]


class CacheRecord(Model):
    """What modelled caches say of both kernels: a model's values, never a board's."""

    model: CacheModel
    sections: list[CacheSection]


class ExplainRecord(Model):
    """``explain.json``: which functions account for the differences of a run."""

    schema_version: str = "iotoll.explain/1"
    board: str
    outcome: Outcome = Field(description="of the verdict that is explained")
    cells: list[CellDelta]
    coverage: CoverageRecord
    images: list[str] = Field(
        default_factory=list, description="sha256 of base's and candidate's kernel images"
    )
    failure: str | None = Field(None, description="why nothing could be explained")
    left_out: int = Field(0, description="cells that moved and were not explained, by the policy")
    caches: CacheRecord | None = Field(None, description="with --cache: a model of caches")


class UntracedSection(Model):
    """One section of one cell of one kernel: medians of instructions per I/O, first requests."""

    section: Section
    ios: int = Field(description="I/Os that were cut in the untraced boot")
    counted: float | None = Field(
        None,
        description="in the gate's boot, without what recorded the trace; absent where it has that",
    )
    untraced: float = Field(description="in a boot that records no event")


class UntracedCell(Model):
    """One cell of one kernel, cut by its code in a boot that records no events."""

    cell: str
    side: Side
    sections: list[UntracedSection]


class UntracedRecord(Model):
    """``untraced.json``: what the kernels cost without events, beside what the gate counted."""

    schema_version: str = "iotoll.untraced/2"
    board: str
    cells: list[UntracedCell]
    images: list[str] = Field(description="sha256 of base's and candidate's kernel images")
