"""What ran of the patch, or that nobody looked, and what ran outside I/Os."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotoll.patch.diff import Hunk
from iotoll.records.models import ExplainRecord
from iotoll.records.text import clean, plural, signed
from iotoll.reports.page.blame import function_of
from iotoll.reports.page.coverage import coverage_sentence
from iotoll.reports.page.evidence import Evidence
from iotoll.verdict.moved import MovementGroup

_NAMED = 5
"""Changed functions that a pass names."""


def coverage_of(record: ExplainRecord, outside: Mapping[str, float] | None = None) -> list[str]:
    """What ran of the changed code.

    ``outside`` are changed functions that ran outside I/Os alone: instructions per I/O, at most.
    """
    coverage = record.coverage
    if record.failure is not None or not coverage.sentence:
        return []
    lines = [coverage_sentence(coverage)]
    if outside:
        named = sorted(outside, key=lambda name: (-outside[name], name))
        words = [f"{name} ({signed(outside[name])} instructions per I/O)" for name in named]
        lines.append(f"Outside I/Os alone ran {', '.join(words)}.")
    return lines


def never_ran(record: ExplainRecord | None, outside: Mapping[str, float] | None = None) -> str:
    """What a pass on code that never ran says first; empty where any of it ran.

    ``outside`` is as in `coverage_of`: a function without any changed line may have run there.
    """
    coverage = record.coverage if record and record.failure is None else None
    if coverage is None or not coverage.functions or not coverage.sentence:
        return ""
    if any(line.executions for line in coverage.lines):
        return ""
    if any(function.did_change_run for function in coverage.functions):
        return ""
    if coverage.lines:
        return "This pass says nothing about the patch: none of its changed lines ran."
    return "" if outside else "This pass says nothing about the patch: its code never ran."


def not_looked_at(hunks: Sequence[Hunk]) -> list[str]:
    """What a pass that nobody explained says of the change: where it is, not that it ran."""
    named = dict.fromkeys((function_of(hunk.heading), hunk.path) for hunk in hunks)
    files: dict[str, list[str]] = {}
    for name, path in list(named)[:_NAMED]:
        files.setdefault(path, []).extend([f"{name}()"] if name else [])
    words = [f"{', '.join(names)} in {path}" if names else path for path, names in files.items()]
    if not words:
        return []
    more = f" and {plural(len(named) - _NAMED, 'more place')}" if len(named) > _NAMED else ""
    return [f"not looked at: whether these cells run {'; '.join(words)}{more}"]


def work_outside(evidence: Evidence, groups: Sequence[MovementGroup]) -> list[str]:
    """How little such work moved; nothing where it is a finding, or where it was not counted.

    `not_counted` has the reason for that.
    """
    verdict = evidence.verdict
    if verdict is None or not verdict.cells:
        return []
    known = [cell.work for cell in verdict.cells if cell.work]
    if not known:
        return []
    if any(group.name == "work" for group in groups):
        return []
    largest = max(work.delta for work in known)
    where = plural(len(known), "workload")
    if largest <= 0:
        return [f"nothing grew in {where}"]
    return [f"within its threshold: at most {signed(largest)} per I/O in {where}"]


def not_counted(evidence: Evidence) -> str:
    """In how many cells work outside I/Os was not counted, and why; empty where it was in all."""
    found = evidence.verdict.cells if evidence.verdict else []
    left = sum(cell.work is None for cell in found)
    if not left:
        return ""
    some = f" in {left} of {plural(len(found), 'cell')}" if left < len(found) else ""
    return f"work outside I/Os{some} ({_why_not(evidence)})"


def _why_not(evidence: Evidence) -> str:
    if not evidence.virtual:
        return "this board has nothing that sees all that its CPUs execute"
    if evidence.clock.value == "time":
        return "only the clock instructions counts what is executed"
    boots = [boot for result in evidence.sides.values() for boot in result.boots]
    why = next((boot.uncounted for boot in boots if boot.uncounted), "")
    return clean(why) or "the boots left no counts"


def ran_outside(evidence: Evidence) -> dict[str, float]:
    """Changed functions that no I/O ran and something else did: instructions per I/O, at most."""
    candidate, explained = evidence.sides.get("candidate"), evidence.explained
    if candidate is None or explained is None:
        return {}
    works = [r.work for several in candidate.cells.values() for r in several if r.work]
    most = {
        function.name: max((w.functions.get(function.name, 0) / w.ios for w in works), default=0.0)
        for function in explained.coverage.functions
        if not function.executed
    }
    return {name: round(value, 1) for name, value in most.items() if value}
