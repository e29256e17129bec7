"""Known issues as data (``lava-jobs/known-issues/*.toml``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

from pydantic import Field, ValidationError, field_validator

from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_toml, named_file
from iotoll.records.models.base import Model

GENERIC = "generic"
Phase = Literal["any", "deploy", "boot", "workload"]


class Issue(Model):
    """One known issue."""

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    phase: Phase = Field(description="of the job in which it counts")
    pattern: str = Field(description="Python regular expression, searched in one line")
    outcome: Literal["infrastructure", "broken", "hang"]
    note: str
    source: str

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, text: str) -> str:
        try:
            re.compile(text)
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from error
        if re.search(text, ""):
            raise ValueError("it matches an empty line, so any")
        return text

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern, compiled."""
        return re.compile(self.pattern)


class Pack(Model):
    """A file of known issues."""

    issue: list[Issue]


def load_issues(packs: Sequence[str]) -> list[Issue]:
    """The issues of the named packs (or files), in their order, and the generic ones after them.

    Raises UsageError when a file is not valid or an id is there twice.
    """
    found: dict[str, Issue] = {}
    for name in [*packs, GENERIC]:
        path = named_file(data_dir("lava-jobs") / "known-issues", name)
        try:
            pack = Pack.model_validate(load_toml(path))
        except ValidationError as error:
            raise first_error(path, error) from error
        for issue in pack.issue:
            if issue.id in found:
                raise UsageError(f"{path}: there is another issue {issue.id}: rename it")
            found[issue.id] = issue
    return list(found.values())
