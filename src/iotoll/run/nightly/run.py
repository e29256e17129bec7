"""Run directories of a nightly: made once, resumed by the same command."""

from __future__ import annotations

from pathlib import Path

from iotoll.records import results
from iotoll.records.models import RunManifest
from iotoll.records.rundir import RunDir


def opened(manifest: RunManifest, folder: Path) -> RunDir:
    """The run directory ``folder``; one that is there keeps its own manifest."""
    if not (folder / "run.json").is_file():
        results.write(folder / "run.json", manifest)
    return RunDir.open(folder)
