"""Gate policies as data: ``pipelines/policies/*.toml``."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import Field, ValidationError

from iotoll.digest import file_sha256
from iotoll.errors import UsageError
from iotoll.matrix import first_error, load_toml, named_file
from iotoll.models.base import Clock, Model, Section
from iotoll.paths import data_dir


class Fit(Model):
    """How well a moved comb must fit: its overlap, and how many times any unmoved one's."""

    overlap: float = Field(ge=0, le=1)
    ratio: float = Field(ge=1)


class CombRule(Model):
    """When a moved comb counts as moved (see `iotoll.shift`).

    ``alarm`` holds for one pair of boots alone, ``confirm`` for each of two that agree.
    """

    alarm: Fit
    confirm: Fit
    in_place: float = Field(ge=0, le=1)


class AgreeRule(Model):
    """How far the sizes of two pairs may differ: instructions, or a share of the larger one."""

    instructions: int = Field(ge=0)
    share: float = Field(ge=0)


class SectionRule(Model):
    """How far a section may grow: instructions, and a share of the base's median."""

    threshold: int = Field(gt=0)
    quartile_floor: int = Field(gt=0)
    quartile_share: float = Field(ge=0)
    gated: bool = True
    why: str = ""


class CellException(Model):
    """Another rule for the sections of some cells; ``cells`` are glob patterns."""

    cells: list[str]
    sections: list[Section]
    quartile_floor: int | None = None
    quartile_share: float | None = None
    gated: bool | None = None
    why: str


class Policy(Model):
    """A policy file."""

    name: str
    sha256: str
    clock: Clock
    min_ios: int
    confirm: bool
    comb: CombRule
    agree: AgreeRule
    sections: dict[Section, SectionRule]
    exceptions: list[CellException] = Field(default_factory=list)

    def rule(self, cell: str, section: Section) -> SectionRule:
        """The rule for a section of a cell; later exceptions win."""
        rule = self.sections[section]
        for other in self.exceptions:
            if section in other.sections and any(fnmatchcase(cell, p) for p in other.cells):
                known = other.model_dump(exclude={"cells", "sections"}, exclude_none=True)
                rule = rule.model_copy(update=known)
        return rule


def load_policy(name: str) -> Policy:
    """Load a policy by name or path; raises UsageError when it is not valid."""
    path: Path = named_file(data_dir("pipelines") / "policies", name)
    data = load_toml(path)
    try:
        policy = Policy.model_validate({"name": path.stem, "sha256": file_sha256(path), **data})
    except ValidationError as error:
        raise first_error(path, error) from error
    if Section.HARDWARE in policy.sections:
        raise UsageError(f"{path}: sections.hardware: it has no meaning on this clock: drop it")
    return policy
