"""Models of what `iotoll explain --profile` finds: approximate, and never gated."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from iotoll.records.models.base import Model
from iotoll.records.models.run import Side


class ProfiledFunction(Model):
    """One function in one cell, all CPUs and tasks together; times without what it calls."""

    name: str
    base_calls: float = Field(description="per I/O")
    candidate_calls: float
    base_ns: float = Field(description="per I/O, the profiler's own cost included")
    candidate_ns: float
    changed: bool | None = Field(
        None,
        description="its machine code differs in the gated or profiled kernels; absent: not known",
    )
    holds: list[str] = Field(
        default_factory=list, description="changed functions without a line, whose time is in this"
    )

    @property
    def change(self) -> float:
        """Nanoseconds per I/O, candidate less base."""
        return self.candidate_ns - self.base_ns


class UnseenFunction(Model):
    """A changed function that the profiler has no line of in the kernels of ``sides``, and why.

    ``untraced``: the tracer cannot enter it. ``absent``: it is no function of its own there, so
    another one has its code, and is changed. ``cut``: its line is that of all functions whose
    names begin alike. ``idle``: nothing called it.
    """

    name: str
    sides: list[Side]
    why: Literal["untraced", "absent", "cut", "idle"]
    holders: list[str] = Field(
        default_factory=list,
        description="listed functions whose time its own is part of: the nearest callers that are"
        " traced and ran, or the line with the name that was cut",
    )


class ProfiledCell(Model):
    """The functions of one cell: changed ones and their holders, then the others.

    Of both the largest changes come first.
    """

    cell: str
    ios: int
    functions: list[ProfiledFunction]
    left_out: int = Field(0, description="functions with smaller changes that are not listed")
    unseen: list[UnseenFunction] = Field(
        default_factory=list, description="changed functions without a line"
    )


class ProfileRecord(Model):
    """``profile.json``: functions of both kernels by function_graph's profiler, in own boots."""

    schema_version: str = "iotoll.profile/1"
    board: str
    approximate: Literal[True] = Field(
        True, description="other kernels than the gated ones: their functions are traced"
    )
    cells: list[ProfiledCell]
    images: list[str] = Field(description="sha256 of the gated base's and candidate's images")
