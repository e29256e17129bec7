"""The first screen below the findings: where, what ran, how sure, what to do; in every report."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from iotoll.boards.plugin import WINDOWS
from iotoll.records.models import Clock, Finding, FoundFunction, Outcome, Section
from iotoll.records.models.io_checks import StepRecord
from iotoll.records.text import clean, number, plural, signed
from iotoll.reports.page.blame import Place, blame
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.findings import blocking, findings, groups_of
from iotoll.reports.page.functions import (
    coverage_of,
    not_counted,
    not_looked_at,
    ran_outside,
    work_outside,
)
from iotoll.reports.page.sure import how_sure
from iotoll.reports.page.view import ONCE, CellView, cells, unit_of
from iotoll.verdict.accept import proposed
from iotoll.verdict.elements import LINES
from iotoll.verdict.moved import MovementGroup

_GROUPS = 3
"""Groups, functions and cells that a line names; the report lists all of them."""

_SHARE = 0.5
"""The part of a section's change that one sub-step must show, to be named as its place."""

_UNCOUNTED = {
    Clock.INSTRUCTIONS: "what instructions do not show: register accesses, barriers, cache misses, "
    "lock contention, memory",
    Clock.TIME: "growth below what the policy calls unacceptable",
}
"""What a clock's values leave out, so that a pass is not read as more than it is."""

_WITH_ELEMENTS = "lines of cache (--lines counts them), lock contention, memory"
_WITH_LINES = "lock contention, memory"


_AGAIN = "run it again, when the cause is removed"


@dataclass(frozen=True)
class Fact:
    """One line of the first screen: lines of text, or things to do with the command for each."""

    label: str
    lines: tuple[str, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()


def first_screen(
    evidence: Evidence,
    views: list[CellView] | None = None,
    found: Sequence[Finding] | None = None,
) -> list[Fact]:
    """Return what stands below the findings; empty where there is nothing to add to them."""
    verdict = evidence.verdict
    views = cells(evidence) if views is None else views
    told = blocking(findings(evidence, views) if found is None else found)
    groups = [g for g in groups_of(evidence.verdict) if g.gated]
    unit = unit_of(evidence).value
    facts = [Fact("Where", tuple(_where(evidence, told, groups, views)))]
    passed = verdict is not None and verdict.outcome is Outcome.PASS and verdict.can_gate
    if passed and not told and (largest := _largest(views, unit)):
        facts.append(Fact("Largest", (largest,)))
    if outside := work_outside(evidence, groups):
        facts.append(Fact("Outside I/Os", tuple(outside)))
    facts.append(Fact("What ran", tuple(_what_ran(evidence))))
    if once := seen_once(views):
        facts.append(Fact("Seen once", tuple(_once_line(once, unit))))
    facts.append(Fact("Not covered", tuple(not_covered(evidence))))
    facts.append(Fact("Mind", tuple(_mind(evidence))))
    if verdict and verdict.accepted:
        facts.append(Fact("Accepted", tuple(_accepted(evidence))))
    if told and (sure := how_sure(evidence, told)):
        facts.append(Fact("How sure", (sure,)))
    facts.append(Fact("What to do", commands=tuple(_to_do(evidence, told))))
    return [fact for fact in facts if fact.lines or fact.commands]


def _what_ran(evidence: Evidence) -> Iterable[str]:
    if explained := evidence.explained:
        if explained.failure is not None:
            yield clean(f"not explained: {explained.failure}")
        yield from coverage_of(explained, ran_outside(evidence))
    elif _is_unexplained_pass(evidence):
        yield from map(clean, not_looked_at(evidence.hunks))


def _largest(views: Iterable[CellView], unit: str) -> str:
    """The largest change that stayed within its threshold: a pass does not say "unchanged"."""
    rows = [(view, row.comparison) for view in views for row in view.rows if row.comparison]
    judged = [(view, found) for view, found in rows if found.gated and found.moved == "same"]
    view, found = max(judged, key=lambda one: abs(one[1].delta), default=(None, None))
    if view is None or found is None:
        return ""
    if not found.delta:
        return f"no section's median changed by so much as one {unit.removesuffix('s')}"
    section = found.section.value
    return (
        f"{signed(found.delta)} {unit} in {section} of {view.name.full}, "
        f"threshold {number(found.threshold)}"
    )


def _is_unexplained_pass(evidence: Evidence) -> bool:
    """Whether cells ran and passed, and what of the change they run is not known."""
    verdict = evidence.verdict
    if evidence.explained is not None or verdict is None or not verdict.cells:
        return False
    return verdict.outcome is Outcome.PASS


def not_covered(evidence: Evidence) -> Iterable[str]:
    """What a pass says nothing of, in one line: costs that are not counted.

    Changed code that did not run is in `coverage_of`. Nothing for another outcome, and where no
    cell was needed.
    """
    verdict = evidence.verdict
    if verdict is None or verdict.outcome is not Outcome.PASS:
        return
    if not verdict.cells or not verdict.can_gate:
        return
    left_out = [_left_out(evidence)]
    record = evidence.explained
    if (record is None or record.failure is not None) and not evidence.hunks:
        left_out.insert(0, "which of the changed code ran")
    if outside := not_counted(evidence):
        left_out.append(outside)
    yield "; ".join(left_out)


def _left_out(evidence: Evidence) -> str:
    """Which costs not all boots counted."""
    cells = (one for side in evidence.sides.values() for one in side.cells.values())
    vectors = [record.vector for records in cells for record in records]
    if not vectors or any(vector is None for vector in vectors):
        return _UNCOUNTED[evidence.clock]
    lines = all(LINES in vector for vector in vectors if vector is not None)
    return _WITH_LINES if lines else _WITH_ELEMENTS


def seen_once(views: Iterable[CellView]) -> list[tuple[CellView, Section, float]]:
    """Return growth that was seen in one of two pairs of boots, so that it is neither nor."""
    return [
        (view, row.section, row.comparison.delta)
        for view in views
        for row in view.rows
        if row.comparison and row.comparison.moved == "same" and ONCE in row.comparison.why
    ]


def _once_line(once: Sequence[tuple[CellView, Section, float]], unit: str) -> Iterable[str]:
    for view, section, delta in once[:_GROUPS]:
        yield (
            f"{view.name.full}: {section.value} {signed(delta)} {unit} {ONCE} of boots, "
            "so neither confirmed nor ruled out"
        )
    if len(once) > _GROUPS:
        yield f"and {len(once) - _GROUPS} more below"


def _where(
    evidence: Evidence,
    told: Sequence[Finding],
    groups: Sequence[MovementGroup],
    views: Sequence[CellView],
) -> Iterable[str]:
    """The functions that were measured; a guess from the changed lines where none were."""
    places = dict.fromkeys(
        _place(function)
        for one in told
        for function in one.functions[:_GROUPS]
        if function.file and (function.changed or function is one.functions[0])
    )
    yield from places
    if any(one.functions for one in told):
        return
    by_name = {view.name.full: view for view in views}
    unit = unit_of(evidence).value
    for group in groups[:_GROUPS]:
        if step := place_in_section(group, by_name, unit):
            yield step
        if group.kind == "improvement" or group.section is None:
            continue
        place = blame(evidence.hunks, group.moves[0].name.device, group.section)
        if place:
            yield _guessed(place)


def _place(function: FoundFunction) -> str:
    into = f", inlined into {clean(function.into)}" if function.into else ""
    return f"{clean(function.file or '')}:{function.line} {clean(function.name)}{into}"


def place_in_section(group: MovementGroup, by_name: dict[str, CellView], unit: str) -> str | None:
    """Return the sub-step that shows most of a group's change; None where no single one does."""
    found: dict[tuple[str, str], list[tuple[StepRecord, StepRecord]]] = {}
    for move in group.moves:
        pairs = [
            ((row.step, row.meaning), (row.sides["base"], row.sides["candidate"]))
            for row in by_name[move.name.full].steps
            if row.section is group.section and len(row.sides) == 2
        ]
        delta = move.comparison.delta
        shown = [
            (key, pair)
            for key, pair in pairs
            if (pair[1].median - pair[0].median) / delta >= _SHARE
        ]
        if len(shown) == 1:
            key, pair = shown[0]
            found.setdefault(key, []).append(pair)
    if not found:
        return None
    (step, meaning), best = max(found.items(), key=lambda item: len(item[1]))
    change = median(after.median - before.median for before, after in best)
    base = median(before.median for before, _ in best)
    return (
        f"{group.device} {group.title}, {clean(step).replace('->', '→')} "
        f"({clean(meaning)}): {signed(change)} {unit} on {base:,.0f}, in {len(best)} of "
        f"{plural(len(group.moves), 'workload')}"
    )


def _guessed(place: Place) -> str:
    function = f" {clean(place.function)}" if place.function else ""
    return (
        f"{clean(place.path)}:{place.line}{function}: a guess from the changed lines, no function"
        " was measured"
    )


def _accepted(evidence: Evidence) -> Iterable[str]:
    verdict = evidence.verdict
    for record in (verdict.accepted or []) if verdict else []:
        by = f" by {record.by}" if record.by else ""
        if record.moves:
            more = f" ({record.why})" if record.why else ""
            yield f"{plural(len(record.moves), 'movement')}{by}: {record.reason}{more}"
        else:
            yield f"nothing: Iotoll-Accept: {record.trailer}: {record.why}"


def _is_explained(evidence: Evidence) -> bool:
    """Whether `iotoll explain` dissects such a run: arm64 boards of this machine; of x86-64 and of
    several CPUs, what their boots kept."""
    boots = [boot for side in evidence.sides.values() for boot in side.boots]
    kept = [WINDOWS in (boot.digests or ()) for boot in boots]
    return (
        evidence.clock is Clock.INSTRUCTIONS
        and evidence.manifest.runner == "local"
        and (
            all(build.arch == "arm64" for build in evidence.builds.values())
            or (bool(kept) and all(kept))
        )
        and not any(boot.shares_clock and WINDOWS not in (boot.digests or ()) for boot in boots)
    )


def _to_do(evidence: Evidence, told: Sequence[Finding]) -> Iterable[tuple[str, str]]:
    verdict = evidence.verdict
    command = shlex.join(evidence.manifest.command)
    if verdict is None:
        return
    if verdict.outcome in (Outcome.INFRASTRUCTURE, Outcome.BROKEN):
        is_base = verdict.failure is not None and verdict.failure.step == "apply"
        words = "run it again with the --base that it is for" if is_base else _AGAIN
        yield words, command
        return
    if verdict.outcome is Outcome.INCONCLUSIVE:
        if any(cell.outcome is not Outcome.PASS for cell in verdict.cells):
            yield "measure again", command
        else:  # the same cells would pass again, and say as little of the patch
            yield from _other_boards(evidence)
            if verdict.identical_images and _differ(evidence):
                yield "choose a --board whose kernel has it", "iotoll list boards"
    if _is_unexplained_pass(evidence) and _is_explained(evidence) and evidence.hunks:
        yield "see what of the change ran", f"iotoll explain {_run(evidence)}"
    yield from _other_families(evidence)
    counts = [one for one in told if one.kind == "regression" and one.cells]
    if not counts and verdict.without_limits is None:
        return
    if counts and _is_explained(evidence):
        words = "see every function" if evidence.explained else "see which functions it is in"
        yield words, f"iotoll explain {_run(evidence)}"
    elif counts and evidence.clock is Clock.INSTRUCTIONS and evidence.manifest.tree is not None:
        yield (
            "see which functions it is in, approximately",
            f"iotoll explain {_run(evidence)} --profile",
        )
    yield "derive the verdict again", f"iotoll reproduce {_run(evidence)}"
    wanted = proposed(verdict)
    lines = "a line" if len(wanted) == 1 else f"{len(wanted)} lines"
    for number_of, line in enumerate(wanted):
        words = "and" if number_of else f"accept it, with {lines} in the commit message"
        yield words, f"Iotoll-Accept: {line} REASON"


def _other_families(evidence: Evidence) -> Iterable[tuple[str, str]]:
    """Families that the changed paths select and another board runs, with the command."""
    for name, board in (evidence.selection.left_out if evidence.selection else {}).items():
        words = _without(evidence.manifest.command, ("--out", "--board", "--cells"))
        more = ["--board", board, "--cells", name]
        yield f"run the family {name} as well", shlex.join([*words, *more])


def _without(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """The command without these options and their values."""
    kept, left = [], list(words)
    while left:
        word = left.pop(0)
        if word in options:
            left = left[1:]
        elif word.partition("=")[0] not in options:
            kept.append(word)
    return kept


def _other_boards(evidence: Evidence) -> Iterable[tuple[str, str]]:
    words = _without(evidence.manifest.command, ("--out",))  # it is another run
    reasons = evidence.selection.unmeasured.values() if evidence.selection else ()
    named = [found[1] for why in reasons if (found := re.search(r"--board (\S+)", why))]
    for board in dict.fromkeys(named):
        yield "measure it on a board that runs it", shlex.join([*words, "--board", board])


def _differ(evidence: Evidence) -> bool:
    """Whether base and candidate are two sources."""
    return len({source.git_tree for source in evidence.sources.values()}) > 1


def _mind(evidence: Evidence) -> Iterable[str]:
    """What the verdict says of the coverage; fio's own warnings stand beside their cells."""
    cells_of = tuple(f"{side}, " for side in evidence.sides)
    warnings = evidence.verdict.warnings if evidence.verdict else ()
    return (clean(text) for text in warnings if not text.startswith(cells_of))


def full_command(evidence: Evidence) -> str:
    """The command that prints all of a run's report."""
    return f"iotoll report {_run(evidence)} --full"


def _run(evidence: Evidence) -> str:
    words = evidence.manifest.command
    if "--out" in words[:-1]:
        return shlex.quote(words[words.index("--out") + 1])
    return f"runs/{shlex.quote(evidence.name)}"
