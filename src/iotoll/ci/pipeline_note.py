"""The text of a pipeline: its note in the merge request, made from results that nobody trusts."""

from __future__ import annotations

from collections.abc import Iterable

from iotoll.records.models import Outcome, SummaryRecord
from iotoll.reports.publish.markdown import text

WORDS = {
    Outcome.PASS: "pass",
    Outcome.REGRESSION: "REGRESSION",
    Outcome.INCONCLUSIVE: "INCONCLUSIVE: the data do not allow a decision; this is not a pass",
    Outcome.INFRASTRUCTURE: "infrastructure: it says nothing about the change",
    Outcome.BROKEN: "BROKEN",
}


def pipeline_note(summary: SummaryRecord, details: Iterable[str], link: str | None) -> str:
    """The whole note in Markdown: verdict, one line per board, then each run's own note."""
    notes = list(details)
    lines = []
    if len(summary.runs) != 1 or len(notes) != 1:  # the note of a single run says all of it
        lines += [f"### iotoll: {WORDS[summary.outcome]}", "", text(summary.sentence), ""]
    if len(summary.runs) > 1:
        lines += ["| board | outcome | |", "|---|---|---|"]
        for run in summary.runs:
            where = "LAVA" if run.runner == "lava" else "virtual"
            words = text(run.sentence)
            lines.append(f"| {text(run.board)} ({where}) | {run.outcome.value} | {words} |")
        lines.append("")
    if summary.reading:
        lines += [text(summary.reading), ""]
    for part in notes:
        lines += [part.rstrip(), ""]
    plan = summary.plan
    pins = f"candidate `{plan.candidate[:12]}`, merge base `{plan.base[:12]}`"
    lines.append(f"[Pipeline with all results]({link}), {pins}" if link else pins)
    return "\n".join(lines) + "\n"
