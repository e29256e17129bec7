"""Models of what a run found, as every output says it: ``findings.json``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from iotoll.records.models.base import Clock, Model, Outcome
from iotoll.records.models.verdict import TimeShare

Kind = Literal["regression", "accepted", "undecided", "improvement", "ungated"]


class FoundFunction(Model):
    """One function that a finding is in; ``delta`` is in the finding's unit, per the same thing."""

    name: str
    delta: float = Field(description="commonest difference where most I/Os have it, else the mean")
    changed: bool = Field(description="its machine code differs between the two kernels")
    into: str = Field("", description="inlined: the function that has its code")
    file: str | None = Field(None, description="of its source; absent: not known")
    line: int | None = Field(None, description="where its code begins")


class Finding(Model):
    """One change: one element of cost, in one part of the I/Os of one device, one way.

    Sizes are candidate less base, and of the cells that are named.
    """

    kind: Kind = Field(description="accepted grew and may; undecided: its cells have no verdict")
    element: str = Field(description="what is counted, such as instructions or limit")
    device: str = Field(description="as people write it, such as UFS")
    part: str = Field(description="a section, whole, work, throughput, or the limit's name")
    size: float | None = Field(None, description="median over the cells; absent of a limit")
    least: float | None = Field(None, description="the smallest of a cell")
    most: float | None = Field(None, description="the largest of a cell; a trailer allows it")
    per: str = Field("", description="what it is the cost of, such as UFS request")
    share: float | None = Field(None, description="median of size over the base's value")
    is_net: bool = Field(True, description="whether that value is without the trace's recorder")
    some: str = Field("", description="what some I/Os have beside it, in words")
    requests: list[int] = Field(
        default_factory=list, description="of a whole I/O that has several: how many, over cells"
    )
    each: float | None = Field(
        None, description="where size is so much for each of the I/O's requests"
    )
    functions: list[FoundFunction] = Field(
        default_factory=list, description="measured, those that explain it best first"
    )
    time: TimeShare | None = Field(
        None, description="what its part takes more on this machine's CPU, where that was measured"
    )
    counted: Literal["", "counted in the trace", "PMU, a separate run"] = Field(
        "", description="where it was not counted I/O by I/O, in all that boots executed"
    )
    named: Literal["", "instructions grew, time did not", "time grew, instructions did not"] = (
        Field("", description="what instructions and time say together, where they differ")
    )
    cells: list[str] = Field(description="workloads that show it, those that show most first")
    judged: int = Field(description="workloads of the device that could show it")
    sentence: str = Field(description="all of this in one line")


class FindingsRecord(Model):
    """``findings.json``: what a run found, the largest of each kind first.

    It is made of the verdict, the figures and ``explain.json`` whenever the report is.
    """

    schema_version: str = "iotoll.findings/1"
    outcome: Outcome | None = Field(None, description="absent: without a verdict")
    clock: Clock
    sentence: str = Field(description="what blocks, else what the verdict says")
    sure: str = Field("", description="how sure the first finding is, in words")
    findings: list[Finding]
    trailers: list[str] = Field(
        default_factory=list, description="what accepts all that blocks, but for the reasons"
    )
