"""Digests of what a boot left, so that nobody judges another boot's files, or half of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from iotoll.core.digest import file_sha256
from iotoll.core.errors import ResultError
from iotoll.records import results
from iotoll.records.models import SourceRecord
from iotoll.records.rundir import RunDir

NO_RECORDS = ("boot.json", "console.log", "qemu.log", "handover.tar")
"""What a boot's folder holds that no value is made of."""


def digests(folder: Path, paths: Iterable[Path] | None = None) -> dict[str, str]:
    """SHA-256 of files below ``folder`` by their relative paths; of all records if not named."""
    if paths is None:
        paths = (p for p in folder.rglob("*") if p.is_file() and p.name not in NO_RECORDS)
    return {str(path.relative_to(folder)): file_sha256(path) for path in sorted(paths)}


def change(run: RunDir) -> bytes | None:
    """The run's ``change.diff`` as it was written; None when it is absent, or is another one.

    A run of an older iotoll has no digest of it: then it is taken as it is.
    """
    source = run.side("candidate") / "source.json"
    if not run.change.is_file() or not source.is_file():
        return None
    known = results.read(source, SourceRecord).change_sha256
    return run.change.read_bytes() if known in (None, file_sha256(run.change)) else None


def check(folder: Path, known: Mapping[str, str]) -> None:
    """Raise ResultError when a file is not the one whose digest is known."""
    for name, sha256 in known.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            raise ResultError(f"{path}: is gone, which boot.json names: run the boot again")
        if file_sha256(path) != sha256:
            raise ResultError(
                f"{path}: is not what the board handed over (SHA-256 in boot.json):"
                " run the boot again"
            )
