"""What ran of the patch: of ``explain.json``, or that nobody looked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotoll.patch.diff import Hunk
from iotoll.records.models import ExplainRecord, Outcome
from iotoll.records.text import plural, signed
from iotoll.reports.page.blame import function_of

_NAMED = 5
"""Changed functions that a pass names."""


def coverage_of(
    record: ExplainRecord, outcome: Outcome | None, outside: Mapping[str, float] | None = None
) -> list[str]:
    """What ran of the changed code; a pass on code that never ran is said to be none.

    ``outside`` are changed functions that ran outside I/Os alone: instructions per I/O, at most.
    """
    coverage = record.coverage
    if record.failure is not None or not coverage.sentence:
        return []
    lines = [coverage.sentence]
    if outside:
        named = sorted(outside, key=lambda name: (-outside[name], name))
        words = [f"{name} ({signed(outside[name])} instructions per I/O)" for name in named]
        lines.append(f"Outside I/Os alone ran {', '.join(words)}.")
    idle = coverage.functions and not any(f.executed for f in coverage.functions)
    if idle and not outside and outcome is Outcome.PASS:
        lines.insert(0, "This pass says nothing about the patch: its code never ran.")
    return lines


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
