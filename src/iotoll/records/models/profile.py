"""Models of what `iotoll explain --profile` finds: approximate, and never gated."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from iotoll.records.models.base import Model


class ProfiledFunction(Model):
    """One function in one cell, all CPUs and tasks together; times without what it calls."""

    name: str
    base_calls: float = Field(description="per I/O")
    candidate_calls: float
    base_ns: float = Field(description="per I/O, the profiler's own cost included")
    candidate_ns: float
    changed: bool | None = Field(
        None, description="its machine code differs in the gated kernels; absent: not known"
    )

    @property
    def change(self) -> float:
        """Nanoseconds per I/O, candidate less base."""
        return self.candidate_ns - self.base_ns


class ProfiledCell(Model):
    """The functions of one cell: the changed ones, then the others, the largest changes first."""

    cell: str
    ios: int
    functions: list[ProfiledFunction]
    left_out: int = Field(0, description="functions with smaller changes that are not listed")


class ProfileRecord(Model):
    """``profile.json``: functions of both kernels by function_graph's profiler, in own boots."""

    schema_version: str = "iotoll.profile/1"
    board: str
    approximate: Literal[True] = Field(
        True, description="other kernels than the gated ones: each function is traced"
    )
    cells: list[ProfiledCell]
    images: list[str] = Field(description="sha256 of the gated base's and candidate's images")
