"""What every verdict of a run says beside its judgement, and the verdict that it had before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iotoll.core.errors import ResultError
from iotoll.core.progress import Progress
from iotoll.kernels import compiled
from iotoll.records import results
from iotoll.records.models import Outcome, SelectionRecord, VerdictRecord
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


def with_coverage(
    run: RunDir, sentence: str, warnings: list[str], outcome: Outcome | None = None
) -> dict[str, Any]:
    """Fields of a verdict, which names what of the change is not in the kernel or steers it.

    A pass of a patch of which nothing was measured is none: it becomes inconclusive.
    """
    found = compiled.of_run(run)
    selected = results.read(run.selection, SelectionRecord) if run.selection.is_file() else None
    unmeasured = selected.unmeasured if selected else {}
    notes = [f"no cell runs {path}: {why}" for path, why in unmeasured.items()]
    said = sentence
    if found is not None:
        said = f"{sentence} {found.sentence}".strip()
        notes = [*found.notes, *notes]
    fields: dict[str, Any] = {"sentence": said, "warnings": [*notes, *warnings]}
    if selected and selected.cells and outcome is Outcome.PASS:
        unbuilt = found.unbuilt if found else ()
        missed = {*unbuilt, *unmeasured, *selected.harmless}
        if selected.changed_paths and missed.issuperset(selected.changed_paths):
            needs = "; ".join(dict.fromkeys(unmeasured.values()))
            said_so = f"No cell runs what this patch changes{needs and ': ' + needs}. "
            why = "" if found and found.nothing else said_so
            other = Outcome.INCONCLUSIVE
            fields |= {"outcome": other, "exit_code": other.exit_code, "sentence": why + said}
    return fields
