"""Models of two kernel releases side by side: which functions an I/O's instructions are in."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from iotoll.records.models.base import Model, Section


class FunctionCost(Model):
    """One function; instructions of all I/Os of a cell, 0 where a kernel does not run it."""

    name: str = Field(description="in the second kernel, if that has it")
    first: int
    second: int

    @property
    def change(self) -> int:
        """Second kernel less first, over all I/Os."""
        return self.second - self.first


class ReleaseFunction(FunctionCost):
    """A function that differs, with those that only one kernel runs and that it answers for."""

    was: str | None = Field(None, description="its name in the first kernel, if that is another")
    parts: list[FunctionCost] = Field(
        default_factory=list, description="itself and those others; empty: it has none"
    )

    @model_validator(mode="after")
    def _parts_add_up(self) -> Self:
        sums = sum(p.first for p in self.parts), sum(p.second for p in self.parts)
        if self.parts and sums != (self.first, self.second):
            raise ValueError(f"{self.name}: its parts have {sums}")
        return self


class ReleasePart(Model):
    """One section, all requests of all I/Os of a cell; everything adds up, to the instruction."""

    section: Section
    first: int = Field(description="instructions of all I/Os, by the analyser")
    second: int
    functions: list[ReleaseFunction] = Field(description="those that differ, the largest first")
    unchanged: int = Field(description="instructions of functions that cost the same in both")
    rest: tuple[int, int] = Field(
        description="what the analyser counts beyond the functions' sum, of each kernel"
    )

    @property
    def change(self) -> int:
        """Second kernel less first, over all I/Os."""
        return self.second - self.first

    @model_validator(mode="after")
    def _functions_add_up(self) -> Self:
        first = sum(f.first for f in self.functions) + self.unchanged + self.rest[0]
        second = sum(f.second for f in self.functions) + self.unchanged + self.rest[1]
        if (first, second) != (self.first, self.second):
            raise ValueError(f"{self.section}: functions have {first} and {second}")
        return self


class ReleaseCell(Model):
    """One cell that both kernels ran."""

    cell: str
    ios: int = Field(description="I/Os of each kernel")
    parts: list[ReleasePart]


class RenamedFunction(Model):
    """A function that the two kernels call by different names, by what its code does."""

    first: str
    second: str
    likeness: float = Field(description="share of the machine code that is the same, 0 to 1")


class ReleasesRecord(Model):
    """What `iotoll explain RUN --since RUN` prints, and as JSON with --json; nothing is judged."""

    board: str
    kernels: tuple[str, str] = Field(description="versions of the first kernel and of the second")
    renamed: list[RenamedFunction]
    cells: list[ReleaseCell]
    remarks: list[str] = Field(description="what else differs between the runs")
    left_out: dict[str, str] = Field(description="cells that are not compared, and why")
