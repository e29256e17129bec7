"""TOML data files: reading them, files that extend others, and what is wrong in one line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from iotoll.core.errors import UsageError
from iotoll.core.nearest import meant, near_path


def load_toml(path: Path) -> dict[str, Any]:
    """Read a TOML data file; raises UsageError with the line that is wrong."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise UsageError(_absent(path)) from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: values lie too deep in one another") from error


_KINDS = {
    "boards": "board",
    "hardware": "board",
    "caches": "cache model",
    "known-issues": "pack of known issues",
    "labs": "lab",
    "matrices": "matrix",
    "policies": "policy",
    "simboards": "simulated board",
    "studies": "study",
}
"""Folders of data files: what a file of each is. Their users give a name, and no path."""


def _absent(path: Path) -> str:
    """What is said of a file that is not there, by the name that its user gave."""
    names = sorted(other.stem for other in path.parent.glob("*.toml"))
    kind = _KINDS.get(path.parent.name)
    if kind is None or not names:
        return f"{path}: no such file{near_path(path)}"
    listed = f" There are: {', '.join(names)}"
    return f"no {kind} {path.stem!r}{meant(path.stem, names) or '.'}{listed}"


def named_file(folder: Path, name: str) -> Path:
    """A data file by its bare name in ``folder``, or a path of the user's own."""
    return Path(name) if "/" in name or name.endswith(".toml") else folder / f"{name}.toml"


def load_extended(folder: Path, path: Path) -> dict[str, Any]:
    """As `load_toml`, of a file that may hold only what differs from another one.

    Which one it ``extends``, by its bare name in ``folder`` or a path; which may itself extend one.
    """
    data: dict[str, Any] = {}
    for _, read in _chain(folder, path):
        data = _merged(read, data)
    return data


def extended_files(folder: Path, path: Path) -> list[Path]:
    """The files that `load_extended` reads, ``path`` first; raises UsageError as it does."""
    return [name for name, _ in _chain(folder, path)]


def _chain(folder: Path, path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A file and those that it extends, each with what it holds but ``extends``."""
    seen: set[Path] = set()
    name: Path | None = path
    while name is not None:
        if name in seen:
            raise UsageError(f"{path}: extends: {name} is where it began")
        seen.add(name)
        data = load_toml(name)
        other = data.pop("extends", None)
        yield name, data
        name = named_file(folder, str(other)) if other else None


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """``base`` with its keys replaced by those of ``changes``, table by table."""
    merged = dict(base)
    for key, value in changes.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            value = _merged(below, value)
        merged[key] = value
    return merged


def first_error(path: Path, error: ValidationError) -> UsageError:
    """The first validation error as one line naming file and field."""
    detail = error.errors()[0]
    field = ".".join(str(p) for p in detail["loc"])
    return UsageError(f"{path}: {field}: {detail['msg']}")
