"""What a search has found so far: one JSON line each, on the disk before the search goes on.

The log is the whole state. A search that starts again reads it and asks for nothing that is in it,
so it can be killed at any point. A last line that a kill cut short is dropped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from iotoll.core.errors import InfrastructureError, UsageError, os_fix
from iotoll.core.paths import check_tree

NAME = "log.jsonl"


class Log:
    """An append-only file of JSON objects; the first one says what is searched for."""

    def __init__(self, path: Path, asked: dict[str, Any]) -> None:
        check_tree(path.parent)  # the search's whole folder, in which its runs are as well
        self.path = path
        self.rows = _read(path)
        if not self.rows:
            self.add("asked", **asked)
        elif self.rows[0].get("event") != "asked" or not _same(self.rows[0], asked):
            raise UsageError(
                f"{path.parent} holds another search: choose another --out, or remove it"
            )

    def add(self, event: str, **values: Any) -> dict[str, Any]:
        """Append one line and wait until the disk has it."""
        row = {"event": event, **values}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as stream:
                stream.write(json.dumps(row, sort_keys=True).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise InfrastructureError(
                f"cannot write {self.path}: {error.strerror}: {os_fix(error)}"
            ) from error
        self.rows.append(row)
        return row

    def of(self, event: str) -> list[dict[str, Any]]:
        """All lines of one event, oldest first."""
        return [row for row in self.rows if row["event"] == event]


def _same(row: dict[str, Any], asked: dict[str, Any]) -> bool:
    known = {name: value for name, value in row.items() if name != "event"}
    return bool(known == json.loads(json.dumps(asked)))


def _read(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; what follows the last whole line is cut off the file."""
    if not path.is_file():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    rows = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UsageError(
                f"{path}: line {number} is not JSON: choose another --out, or remove it"
            ) from error
        if not isinstance(row, dict) or not isinstance(row.get("event"), str):
            raise UsageError(f"{path}: line {number} has no event: choose another --out")
        rows.append(row)
    if len(whole) != len(data):
        with path.open("r+b") as stream:
            stream.truncate(len(whole))
    return rows
