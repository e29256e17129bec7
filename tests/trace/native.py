"""The native module's answers as Python values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iotoll import _native

Table = dict[str, Any]


def analysed(path: Path | str, **options: Any) -> tuple[dict[str, Any], Table]:
    """Record and per-I/O table of a whole trace, or of its only window."""
    ((record, table),) = _native.analyze(str(path), **options)
    return json.loads(record), dict(table)


def in_windows(
    path: Path | str, windows: Sequence[tuple[int, int]]
) -> list[tuple[dict[str, Any], Table]]:
    """Record and per-I/O table of each window."""
    found = _native.analyze(str(path), windows=windows)
    return [(json.loads(record), dict(table)) for record, table in found]


def record_of(path: Path | str, **options: Any) -> dict[str, Any]:
    """The record alone."""
    return analysed(path, **options)[0]


def table_of(path: Path | str, **options: Any) -> Table:
    """The per-I/O table alone."""
    return analysed(path, **options)[1]
