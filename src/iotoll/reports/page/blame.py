"""Where in the patch a regression most likely comes from: a changed file and line.

A guess by rules that are data (``pipelines/sections.toml``): which code a latency section is spent
in. It says how it was made, and stays silent where no changed file fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import Field, ValidationError

from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_toml
from iotoll.patch.diff import Hunk
from iotoll.patch.selection import glob_pattern
from iotoll.records.models.base import Model, Section


class Part(Model):
    """A part of the kernel, and the sections (on ``devices``, or on all) that it is on."""

    paths: list[str] = Field(min_length=1)
    sections: list[Section]
    devices: list[str] | None = None

    def covers(self, path: str) -> bool:
        """Tell whether a file belongs to this part."""
        return any(glob_pattern(p).fullmatch(path) for p in self.paths)

    def holds(self, device: str, section: Section) -> bool:
        """Tell whether a section of a device is spent here."""
        return section in self.sections and (self.devices is None or device in self.devices)


class Parts(Model):
    """``pipelines/sections.toml``."""

    part: list[Part]
    words: dict[Section, list[str]]


@dataclass(frozen=True)
class Place:
    """A line of the candidate's tree, and in words how it was chosen."""

    path: str
    line: int
    how: str
    function: str = ""


def load_parts(path: Path) -> Parts:
    """Read the rules; raises UsageError naming file and field of a mistake."""
    try:
        return Parts.model_validate(load_toml(path))
    except ValidationError as error:
        raise first_error(path, error) from error


@cache
def _parts() -> Parts:
    return load_parts(data_dir("pipelines") / "sections.toml")


def blame(
    hunks: Sequence[Hunk], device: str, section: Section, parts: Parts | None = None
) -> Place | None:
    """Pin a section that grew on a device to a line of the change; None where nothing fits."""
    parts = parts or _parts()
    files = list(dict.fromkeys(h.path for h in hunks))
    suspects = [f for f in files if _suspect(f, device, section, parts)]
    how = f"{device} {section.value} is spent in this file"
    if not suspects and len(files) == 1:
        suspects, how = files, "the only file that the patch changes"
    if not suspects:
        return None
    if len(suspects) > 1:
        how += f", as it is in {len(suspects) - 1} more of the patch; here it adds most lines"
    sizes = {f: sum(h.added for h in hunks if h.path == f) for f in suspects}
    path = max(suspects, key=lambda f: sizes[f])
    mine = [h for h in hunks if h.path == path]
    words = parts.words.get(section, [])
    named = [h for h in mine if any(w in function_of(h.heading) for w in words)]
    hunk = max(named or mine, key=lambda h: h.added)
    if function := function_of(hunk.heading):
        how += f"; {'by its name, ' if named else 'the largest change, '}in {function}"
    return Place(path, hunk.line, how, function_of(hunk.heading))


def in_function(hunks: Sequence[Hunk], names: Iterable[str]) -> Place | None:
    """The first of these functions that the patch changes: where it begins, or is changed."""
    for name in names:
        for hunk in hunks:
            begun = [line for line, text in hunk.begins if function_of(text) == name]
            if begun or function_of(hunk.heading) == name:
                where = begun[0] if begun else hunk.line
                return Place(hunk.path, where, f"{name}() executes it", name)
    return None


def _suspect(path: str, device: str, section: Section, parts: Parts) -> bool:
    part = next((p for p in parts.part if p.covers(path)), None)
    return part is not None and part.holds(device, section)


def function_of(heading: str) -> str:
    """The function's name in a hunk's heading: ``static int f(struct x *y)`` gives ``f``."""
    words = heading.partition("(")[0].split() if "(" in heading else []
    return words[-1].lstrip("*") if words else ""
