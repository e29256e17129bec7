"""Keeps a real run directory as a fixture: ``python -m tests.golden.keep_run RUN NAME``.

Figures, verdict and change stay as they were measured. Left out: traces, images, logs, and of the
records what no report shows (paths, histograms, the counts of single I/Os); paths of the machine
become relative.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data" / "runs"
ROOT = Path(__file__).parents[2]
KEPT = (
    "run.json",
    "selection.json",
    "verdict.json",
    "sides/*/source.json",
    "sides/*/build/build.json",
    "sides/*/result.json",
    "sides/candidate/change.diff",
    "sides/candidate/patches/*.patch",
)


def keep(run: Path, name: str, folder: Path = FOLDER, kept: Sequence[str] = KEPT) -> Path:
    """Write ``data/runs/NAME`` from a finished run directory; returns it."""
    target = folder / name
    for pattern in kept:
        for path in run.glob(pattern):
            text = path.read_text()
            if path.suffix == ".json":
                text = json.dumps(_slim(json.loads(text)), sort_keys=True) + "\n"
                text = text.replace(str(run.resolve()), f"runs/{name}")
                text = text.replace(f"{ROOT}/", "").replace(str(Path.home()), "~")
            copy = target / path.relative_to(run)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text)
    return target


def _slim(document: Any) -> Any:
    is_result = document["schema_version"].startswith("iotoll.result/")
    for records in document["cells"].values() if is_result else ():
        for record in records:
            record["paths"] = []
            record["gate"] = {}
            for stats in _stats(record):
                stats.pop("histogram", None)
    return document


def _stats(record: Any) -> list[Any]:
    groups = [*record["sections"].values(), record["overhead"], record["total"]]
    return [stats for group in groups for stats in group.values() if isinstance(stats, dict)]


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2])
