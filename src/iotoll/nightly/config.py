"""What a nightly measures: a TOML file with branches and boards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from iotoll.core.errors import UsageError
from iotoll.core.toml import first_error, load_toml
from iotoll.records.models.base import Model

_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$")]
_Revision = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/~^-]{0,199}$")]


class Branch(Model):
    """A branch: ``ref`` in the git tree ``tree``, fetched from ``remote`` if one is named.

    A night whose tip carries a tag that fits ``releases`` (a glob) is a release. ``commit_url`` is
    where a commit is shown, with ``{commit}`` in it.
    """

    name: _Name
    tree: str
    ref: _Revision
    remote: _Name | None = None
    releases: str = "v*"
    commit_url: str = Field("", pattern=r"^(https?://.*\{commit\}.*)?$")


class Board(Model):
    """A board with its matrix; ``reference`` is the kernel that boots beside each tip.

    ``cells`` are cells, families or patterns: by default every cell of the matrix.
    """

    name: str = Field(min_length=1)
    matrix: str = "default"
    cells: list[str] = Field(default=["*"], min_length=1)
    policy: str | None = None
    runner: Literal["local", "lava"] = "local"
    lab: str = "local"
    reference: _Revision | None = None
    boots: int = Field(1, ge=1, le=99)


class Config(Model):
    """The whole file; paths are relative to where the command runs."""

    history: str = "history"
    engine: Literal["duckdb", "spark"] = "duckdb"
    runs: str = "nightly-runs"
    page: str = "public"
    hook: list[str] = Field(default_factory=list)
    catch_up: int = Field(7, ge=0, le=366, description="missed nights that are measured later")
    bisects: int = Field(1, ge=0, le=99, description="searches for a culprit, a night at most")
    keep: int = Field(14, ge=1, description="nights whose run directories are kept")
    budget: dict[Literal["instructions", "ns"], float] = Field(default_factory=dict)
    branch: list[Branch] = Field(min_length=1)
    board: list[Board] = Field(min_length=1)

    @model_validator(mode="after")
    def _unique(self) -> Config:
        for what, names in (
            ("branch", [b.name for b in self.branch]),
            ("board", [b.name for b in self.board]),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"{what}: two have the same name")
        return self


def load_config(path: Path) -> Config:
    """Read the file; raises UsageError with the field that is wrong."""
    try:
        return Config.model_validate(load_toml(path))
    except ValidationError as error:
        detail = error.errors()[0]
        if detail["loc"]:
            raise first_error(path, error) from error
        raise UsageError(f"{path}: {detail['msg'].removeprefix('Value error, ')}") from error
