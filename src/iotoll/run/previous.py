"""What every verdict of a run says beside its judgement, and the verdict that it had before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iotoll.core.errors import ResultError
from iotoll.core.progress import Progress
from iotoll.kernels import coverage
from iotoll.records import results
from iotoll.records.models import VerdictRecord
from iotoll.records.rundir import RunDir

NAME = "verdict.previous.json"
"""The verdict that a run had before the last command, where the outcome is another one now."""


def keep(run: RunDir) -> Path:
    """Put the verdict of a run aside, if it has one; returns where it then is."""
    kept = run.root / NAME
    if run.verdict.is_file():
        run.verdict.replace(kept)
    return kept


def tell_change(kept: Path, verdict: VerdictRecord | None, progress: Progress) -> None:
    """Say when a run's verdict is another one than it had; that one then stays beside it."""
    if verdict is None or not kept.is_file():
        return
    try:
        before = results.read(kept, VerdictRecord).outcome
    except ResultError:
        return
    if before is verdict.outcome:
        kept.unlink()
    else:
        progress.say(f"the verdict was {before.value}, now {verdict.outcome.value}: see {kept}")


def with_coverage(run: RunDir, sentence: str, warnings: list[str]) -> dict[str, Any]:
    """Fields of a verdict, which names what of the change is not in the kernel or steers it."""
    found = coverage.of_run(run)
    if found is None:
        return {"sentence": sentence, "warnings": warnings}
    said = f"{sentence} {found.sentence}".strip()
    return {"sentence": said, "warnings": [*found.notes, *warnings]}
