"""The merge-request note: the verdict first, what moved, links; to be read in ten seconds.

One note per merge request: `MARKER` is its first line, does not show, and finds it again to be
edited in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from iotoll.records.models import Finding, GrowthRecord, Outcome, VerdictRecord
from iotoll.records.text import clock_note, number, plural, signed_percent
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.findings import findings, groups_of
from iotoll.reports.page.headline import (
    GLYPHS,
    KIND_LABELS,
    candidate_title,
    headline,
    remarks,
    summary,
)
from iotoll.reports.page.summary import first_screen
from iotoll.reports.page.view import CellView, cells
from iotoll.reports.publish.checks import Status, checks, judged
from iotoll.reports.publish.links import Link, run_links
from iotoll.reports.publish.markdown import block, code, link, text
from iotoll.verdict.moved import MovementGroup

MARKER = "<!-- iotoll: this note is edited in place -->"
"""First line of every note; whoever posts looks for a note of its own that begins with it."""

_GROUPS = 6
_CELLS = 16
_LOG_LINES = 15
_LOG_BYTES = 4000


def note(evidence: Evidence, links: Sequence[Link]) -> str:
    """Return the note as GitLab markdown; whatever comes from the run is escaped."""
    views = cells(evidence)
    found = findings(evidence, views)
    head = headline(evidence, found)
    said = [f"**{text(head.sentence)}**", *(text(line) for line in head.more)]
    parts = [
        MARKER,
        f"### {GLYPHS[head.kind]} iotoll: {text(head.word.lower())}",
        said[0] if len(said) == 1 else "\n".join(f"- {line}" for line in said),
    ]
    if line := _not_a_pass(evidence):
        parts.append(line)
    groups = [g for g in groups_of(evidence.verdict) if g.gated]
    verdict = evidence.verdict
    if verdict and (growths := _growths(verdict)):
        parts.append(_grown(growths, judged(verdict)))
    if facts := _first_screen(evidence, views, found):
        parts.append(facts)
    if shown := [*links, *run_links(evidence)][:12]:
        parts.append(" · ".join(link(item.label, item.url) for item in shown))
    parts.append(_facts(evidence))
    if evidence.failure and evidence.failure.log_tail.strip():
        tail = evidence.failure.log_tail.strip()[-_LOG_BYTES:].splitlines()[-_LOG_LINES:]
        parts.append(_folded("Last lines of the log", block("\n".join(tail))))
    if groups:
        parts.append(_folded("Every cell that moved", _cells(groups, views)))
    if care := remarks(views):
        rows = [f"- {code(cell)}: {text(why)}" for cell, why in care[:_CELLS]]
        parts.append(_folded("Cells to read with care", "\n".join(rows)))
    return "\n\n".join(parts) + "\n"


def _first_screen(evidence: Evidence, views: list[CellView], found: Sequence[Finding]) -> str:
    """The first screen's facts; a block of plain lines has the commands, to be pasted."""
    lines, todo = [], ""
    for fact in first_screen(evidence, views, found):
        lines += [f"- {fact.label}: {text(line)}" for line in fact.lines]
        if fact.commands:
            steps = "\n".join(
                what if words == "and" else f"# {words}\n{what}" for words, what in fact.commands
            )
            todo = _folded(fact.label, block(steps))
    return "\n\n".join(part for part in ("\n".join(lines), todo) if part)


def _not_a_pass(evidence: Evidence) -> str:
    """What a hurried reader must not take for a pass."""
    whole, *rest = checks(evidence)
    skipped = sum(check.status is Status.SKIPPED for check in rest)
    outcome = evidence.verdict.outcome if evidence.verdict else None
    if whole.status is Status.SKIPPED or outcome is None:
        return "This is **not a pass**: nothing was decided."
    if outcome is Outcome.INFRASTRUCTURE:
        return "This is **not a pass**: it says nothing about the change. It may be run again."
    if whole.status is Status.PASSED and skipped:
        return f"{plural(skipped, 'section')} of cells could not be judged and did not count."
    return ""


def _growths(verdict: VerdictRecord) -> list[tuple[str, GrowthRecord]]:
    """What surely changed on the clock `time`, by cell; what grew most surely comes first."""
    found = [
        (cell.cell, growth)
        for cell in verdict.cells
        for growth in cell.growth
        if growth.state == "grew" or growth.improved
    ]
    return sorted(found, key=lambda one: (one[1].improved, -one[1].low))


def _kind(growth: GrowthRecord, gate: bool) -> str:
    if not gate:
        return KIND_LABELS["ungated"]
    return KIND_LABELS["improvement" if growth.improved else "regression"]


def _grown(growths: Sequence[tuple[str, GrowthRecord]], gate: bool) -> str:
    rows = ["| what moved | cell | change | at least | at most |", "|---|---|--:|--:|--:|"]
    rows += [
        f"| {_kind(growth, gate)} {code(growth.figure)} | {code(cell)} "
        f"| {signed_percent(growth.growth)} | {signed_percent(growth.low)} "
        f"| {signed_percent(growth.high)} |"
        for cell, growth in growths[:_GROUPS]
    ]
    if len(growths) > _GROUPS:
        rows += ["", f"… and {len(growths) - _GROUPS} more in the report."]
    return "\n".join(rows)


def _cells(groups: Sequence[MovementGroup], views: Sequence[CellView]) -> str:
    by_name = {view.name.full: view for view in views}
    rows = [
        "| cell | section | change | base | candidate | threshold |",
        "|---|---|--:|--:|--:|--:|",
    ]
    moves = [(group.title, move) for group in groups for move in group.moves]
    for title, move in moves[:_CELLS]:
        found = move.comparison
        rows.append(
            f"| {code(move.name.full)} | {code(title)} "
            f"| {by_name[move.name.full].change(found.delta, found.base)} | {number(found.base)} "
            f"| {number(found.candidate)} | {number(found.threshold)} |"
        )
    if len(moves) > _CELLS:
        rows += ["", f"… and {len(moves) - _CELLS} more in the report."]
    return "\n".join(rows)


def _facts(evidence: Evidence) -> str:
    facts = dict(summary(evidence))
    shown = [code(candidate_title(evidence))]
    shown += [text(facts[name]) for name in ("Kernel", "Board", "Matrix") if name in facts]
    note = clock_note(evidence.clock, evidence.virtual, evidence.native)
    return f"{' · '.join(shown)}  \n{text(note)}"


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
