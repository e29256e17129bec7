"""SHA-256 of files, trees and JSON-able values: the identity of every input of a step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def file_sha256(path: Path) -> str:
    """Return the hex SHA-256 of a file's bytes, read in 1 MiB pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def text_sha256(text: str) -> str:
    """Return the hex SHA-256 of a text's UTF-8 bytes: of the file that holds it."""
    return hashlib.sha256(text.encode()).hexdigest()


def json_sha256(value: Any) -> str:
    """Return the hex SHA-256 of a JSON-able value, independent of key order."""
    return text_sha256(json.dumps(value, sort_keys=True, separators=(",", ":")))


def files_sha256(paths: Iterable[Path], root: Path) -> str:
    """Return one hex SHA-256 over names (relative to ``root``) and bytes of several files."""
    return json_sha256({str(p.relative_to(root)): file_sha256(p) for p in sorted(paths)})
