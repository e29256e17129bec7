"""Who accepts a regression of a merge request: what one job of the pipeline leaves for the others.

The file is made before any code of the candidate's runs, by the job that asked GitLab.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from iotoll.core.errors import ResultError
from iotoll.records.results import write_text

_NAME = re.compile(r"[\w.-]{1,255}")
LARGEST = 4096  # bytes


def write(path: Path, name: str, commit: str) -> None:
    """Note that ``name`` accepts what the trailers of ``commit`` name."""
    write_text(path, json.dumps({"approved_by": name, "commit": commit}) + "\n")


def read(path: Path | None, commit: str) -> str | None:
    """Who accepts it; None where there is no file. Raises ResultError for another commit's."""
    if path is None or not path.exists():
        return None
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST:
            raise ValueError("it is a link, or too large")
        data = json.loads(path.read_text())
        name, of = str(data["approved_by"]), str(data["commit"])
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a user's name")
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ResultError(f"{path}: is not what 'iotoll ci accept' writes: {error}") from error
    if of != commit:
        raise ResultError(f"{path}: is of commit {of[:12]}, not of {commit[:12]}")
    return name
