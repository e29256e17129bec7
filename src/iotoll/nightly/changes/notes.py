"""What people and other commands note about a change, kept beside the history.

Each note is a file of its own that never changes, so that several may be written at once.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field, ValidationError

from iotoll.core.digest import json_sha256
from iotoll.core.errors import ResultError, UsageError
from iotoll.nightly.history.files import Files
from iotoll.records.models.base import Model

FOLDER = "changes"
_ID = re.compile(r"[0-9a-f]{12}")


State = Literal[
    "new", "confirmed", "bisecting", "explained", "accepted", "fixed", "reappeared", "dismissed"
]


class Effected(Model):
    """What one commit did to a cell's section, in instructions per I/O."""

    cell: str
    section: str
    delta: float
    some: str = Field("", description="which I/Os have it, where not all have")


class Cause(Model):
    """One commit of a change's range, as a search found it: who, which functions, and how much."""

    commit: str = Field(pattern="^[0-9a-f]{7,64}$")
    subject: str = ""
    author: str = ""
    functions: list[str] = Field(default_factory=list)
    parts: list[Effected] = Field(default_factory=list)

    @property
    def line(self) -> str:
        """As in a commit message: ``1234567890ab ("subject")``."""
        return f'{self.commit[:12]} ("{self.subject}")'

    @property
    def worst(self) -> Effected | None:
        """What it moved most."""
        return max(self.parts, key=lambda part: (abs(part.delta), part.cell), default=None)


class Note(Model):
    """One note; an empty ``state`` leaves the state as it is. ``at`` is UTC, ISO 8601."""

    change: str = Field(pattern="^[0-9a-f]{12}$")
    at: str
    state: State | Literal[""] = ""
    commit: str = Field("", pattern="^([0-9a-f]{7,64})?$", description="the culprit, if explained")
    causes: list[Cause] = Field(default_factory=list, description="all culprits, oldest first")
    same: str = Field("", description="the change of another branch with these culprits")
    undone: str = Field("", description="the commit that took it back")
    words: str = Field("", max_length=2000)
    by: str = Field("", max_length=100)
    told: str = Field(
        "", description="what was sent about it: opened, explained, closed or reopened"
    )
    seen: bool = Field(False, description="iotoll saw the state in the values: a record, no order")


def note(files: Files, change: str, **fields: Any) -> Note:
    """Write a note on a change; raises UsageError for an impossible one."""
    if not _ID.fullmatch(change):
        raise UsageError(f"change {change!r}: name 12 hexadecimal digits, as iotoll trend shows")
    at = datetime.now(UTC).isoformat(timespec="microseconds")
    try:
        made = Note.model_validate({"change": change, "at": at, **fields})
    except ValidationError as error:
        detail = error.errors()[0]
        raise UsageError(f"change {change}: {detail['loc'][-1]}: {detail['msg']}") from error
    text = made.model_dump_json() + "\n"
    name = f"{FOLDER}/{change}/{at.replace(':', '')}-{json_sha256(text)[:8]}.json"
    files.write(name, text.encode())
    return made


def notes(files: Files) -> list[Note]:
    """All notes, in the order in which they were written."""
    found = []
    for name in files.names(FOLDER):
        try:
            found.append(Note.model_validate_json(files.read(name)))
        except ValidationError as error:
            raise ResultError(f"{files.place}/{name} is not a note: remove it") from error
    return sorted(found, key=lambda n: n.at)
