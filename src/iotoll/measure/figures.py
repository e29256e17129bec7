"""Figures of boots that were analysed before: the same files and the same iotoll give the same.

What a gate takes from the store of base boots (`iotoll.boots.base_boots`) is analysed once as well.
A kept analysis is named by the boot's record, which has the SHA-256 of each of its files, and by
iotoll's own code and data: another version of them finds nothing.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from iotoll.core.digest import file_sha256, json_sha256
from iotoll.core.errors import InfrastructureError
from iotoll.core.paths import cache_dir, data_dir, prune
from iotoll.records import results
from iotoll.records.models import BootRecord, CellRecord
from iotoll.records.models.base import Model

LIMIT = 256 << 20
"""Bytes that all kept analyses may have; the least recently used go first."""

Figures = tuple[dict[str, CellRecord], dict[str, float]]
"""The cells' records, and the calibrated costs of events."""


class _Kept(Model):
    cells: dict[str, CellRecord]
    costs: dict[str, float]


def find(boot: BootRecord, functions: Collection[str]) -> Figures | None:
    """What an analysis of this boot found; None where none is kept, or what is kept is damaged."""
    path = _path(boot, functions)
    try:
        kept = _Kept.model_validate_json(zlib.decompress(path.read_bytes()))
        os.utime(path)
    except (OSError, zlib.error, ValidationError):
        return None
    return kept.cells, kept.costs


def keep(boot: BootRecord, functions: Collection[str], found: Figures) -> None:
    """Keep what an analysis found, if there is room for it."""
    path = _path(boot, functions)
    text = _Kept(cells=found[0], costs=found[1]).model_dump_json()
    # A full disk, or one that is read alone: the next one analyses the boot again.
    with suppress(OSError, InfrastructureError):
        results.write_bytes(path, zlib.compress(text.encode(), 1))
        prune(path.parent, LIMIT)


def _path(boot: BootRecord, functions: Collection[str]) -> Path:
    name = json_sha256([_code(), boot.model_dump_json(), sorted(functions)])
    return cache_dir() / "figures" / name


@lru_cache(maxsize=1)
def _code() -> str:
    """The SHA-256 of iotoll's code, and of the data that an analysis reads."""
    package = Path(__file__).resolve().parents[1]
    data = data_dir("pipelines")
    code = [path for path in package.rglob("*") if path.suffix in (".py", ".so")]
    files = [*code, *(path for path in data.rglob("*.toml"))]
    return json_sha256(sorted([path.name, file_sha256(path)] for path in files))
