"""What every verdict of a run says beside its judgement, and the verdict that it had before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iotoll.core.errors import ResultError
from iotoll.core.progress import Progress
from iotoll.kernels import compiled
from iotoll.records import results
from iotoll.records.models import BootRecord, Outcome, SelectionRecord, VerdictRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir

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


def _died(run: RunDir) -> list[tuple[Side, str]]:
    """Boots of which an earlier try crashed or hung and the last one did not, by side, in words.

    A crash that comes and goes may be the board's or the patch's, so a pass says so and is none.
    """
    found: list[tuple[Side, str]] = []
    for side in SIDES:
        for path in sorted(run.side(side).glob("boots/*/boot.json")):
            record = results.read(path, BootRecord)
            if record.died:
                why = record.died[0].rstrip(".")
                text = f"Boot {record.boot} of the {side} failed once ({why})"
                found.append((side, f"{text}, and ran when it was repeated."))
    return found


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
    died = _died(run) if outcome not in (None, Outcome.BROKEN, Outcome.INFRASTRUCTURE) else []
    said = " ".join([*(text for _, text in died), said])
    notes = [*(text for _, text in died), *notes]
    fields: dict[str, Any] = {"sentence": said, "warnings": [*notes, *warnings]}
    if outcome is Outcome.PASS and any(side == "candidate" for side, _ in died):
        other = Outcome.INCONCLUSIVE
        fields |= {"outcome": other, "exit_code": other.exit_code}
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
