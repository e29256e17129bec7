"""The first screen: what moved, where, how sure, and what to do; the same in every report."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from iotoll.records.models import Clock, Outcome, Section
from iotoll.records.models.base import SOFTWARE_SECTIONS
from iotoll.records.models.io_checks import StepRecord
from iotoll.records.text import clean, plural, signed, signed_percent
from iotoll.reports.page.blame import Place, blame
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.functions import coverage_of, in_functions, not_looked_at
from iotoll.reports.page.headline import moved_sentence, other_costs
from iotoll.reports.page.moved import MovementGroup, movements
from iotoll.reports.page.view import ONCE, CellView, cells, unit_of
from iotoll.reports.page.work import not_counted, ran_outside, work_outside
from iotoll.verdict.accept import proposed
from iotoll.verdict.limits import rate_line

_GROUPS = 3
"""Groups of movements that the first screen names; the report lists all of them."""

_COSTS = 4
"""Lines of other costs than instructions on the first screen."""

_SHARE = 0.5
"""The part of a section's change that one sub-step must show, to be named as its place."""

_UNCOUNTED = {
    Clock.INSTRUCTIONS: "instructions are counted, not the time of register accesses, barriers, "
    "cache misses, lock contention and memory",
    Clock.TIME: "time is counted, not growth below what the policy calls unacceptable",
}
"""What a clock's values leave out, so that a pass is not read as more than it is."""

_WITH_ELEMENTS = (
    "instructions, register accesses, barriers and other costs (docs/explain.md) are counted, not "
    "cache misses, lock contention and memory"
)


@dataclass(frozen=True)
class Fact:
    """One line of the first screen: lines of text, or things to do with the command for each."""

    label: str
    lines: tuple[str, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()


def first_screen(evidence: Evidence, views: list[CellView] | None = None) -> list[Fact]:
    """Return the first screen of a run; empty where there is nothing to add to its headline."""
    verdict = evidence.verdict
    views = cells(evidence) if views is None else views
    groups = [g for g in movements(views) if g.gated]
    unit = unit_of(evidence).value
    facts = []
    if groups:
        lines = [moved_sentence(g, unit) for g in groups[:_GROUPS]]
        if left := len(groups) - _GROUPS:
            lines += [f"and {plural(left, 'more group')} of them below"] if left > 0 else []
        if len(groups) > 1 or groups[0].kind != "regression":  # else the headline has it
            facts.append(Fact("What moved", tuple(lines)))
        facts.append(Fact("Whole path", tuple(_whole_path(groups, views, unit))))
        facts.append(Fact("Where", tuple(_where(evidence, groups, views, unit))))
    facts.append(Fact("Other costs", tuple(_other_costs(evidence))))
    facts.append(Fact("Limits", tuple(_limits(evidence))))
    facts.append(Fact("Throughput", tuple(_throughput(evidence))))
    if outside := work_outside(evidence, groups):
        facts.append(Fact("Outside I/Os", tuple(outside)))
    if found := evidence.explained:
        facts.append(Fact("In functions", tuple(in_functions(found, groups[:_GROUPS], unit))))
        outcome = verdict.outcome if verdict else None
        facts.append(Fact("What ran", tuple(coverage_of(found, outcome, ran_outside(evidence)))))
    elif _is_unexplained_pass(evidence):
        facts.append(Fact("What ran", tuple(map(clean, not_looked_at(evidence.hunks)))))
    if once := seen_once(views):
        facts.append(Fact("Seen once", tuple(_once_line(once, unit))))
    facts.append(Fact("Not covered", tuple(not_covered(evidence))))
    facts.append(Fact("Mind", tuple(_mind(evidence))))
    if verdict and verdict.accepted:
        facts.append(Fact("Accepted", tuple(_accepted(evidence))))
    if groups and (sure := _how_sure(evidence, groups)):
        facts.append(Fact("How sure", sure))
    facts.append(Fact("What to do", commands=tuple(_to_do(evidence, groups))))
    return [fact for fact in facts if fact.lines or fact.commands]


def _other_costs(evidence: Evidence) -> Iterable[str]:
    """What moved besides instructions: what is gated, then what is only shown."""
    lines = other_costs(evidence)
    lines += [f"{line} (shown only)" for line in other_costs(evidence, gated=False)]
    yield from lines[:_COSTS]
    if left := len(lines) - _COSTS:
        yield from [f"and {plural(left, 'line')} of them in verdict.json"] if left > 0 else []


def _limits(evidence: Evidence) -> Iterable[str]:
    """Every limit that differs, accepted or not."""
    for one in evidence.verdict.limits if evidence.verdict else ():
        if one.accepted is not None:
            more = f" (accepted: {one.accepted})"
        else:
            more = "" if one.gated else " (the base does not report it: shown only)"
        yield clean(f"{one.name} {one.base} -> {one.candidate}{more}")


def _throughput(evidence: Evidence) -> Iterable[str]:
    """Where the time per I/O on the modelled device changed, or is not judged."""
    for one in evidence.verdict.throughput if evidence.verdict else ():
        if one.moved != "same":
            more = f" (accepted: {one.accepted})" if one.accepted is not None else ""
            yield clean(f"{rate_line(one)}{more}")


def _is_unexplained_pass(evidence: Evidence) -> bool:
    """Whether cells ran and passed, and what of the change they run is not known."""
    verdict = evidence.verdict
    if evidence.explained is not None or verdict is None or not verdict.cells:
        return False
    return verdict.outcome is Outcome.PASS


def not_covered(evidence: Evidence) -> Iterable[str]:
    """What a pass says nothing of, in one line: changed code that did not run, costs not counted.

    Nothing for another outcome, and where no cell was needed.
    """
    verdict = evidence.verdict
    if verdict is None or verdict.outcome is not Outcome.PASS:
        return
    if not verdict.cells or not verdict.can_gate:
        return
    outside = not_counted(evidence)
    counts_elements = bool(evidence.sides) and all(
        record.vector is not None
        for side in evidence.sides.values()
        for records in side.cells.values()
        for record in records
    )
    left_out = _WITH_ELEMENTS if counts_elements else _UNCOUNTED[evidence.clock]
    costs = f"{left_out}{f', nor {outside}' if outside else ''}"
    yield f"{'; '.join(text for text in (_code_not_run(evidence), costs) if text)}."


def _code_not_run(evidence: Evidence) -> str:
    record = evidence.explained
    if record is None or record.failure is not None or not record.coverage.sentence:
        return "" if evidence.hunks else "it is not known which of the changed code ran"
    functions, cells_run = record.coverage.functions, len(record.coverage.cells)
    idle = [f.name for f in functions if not f.executed]
    if idle:
        named = ", ".join(clean(name) for name in idle[:_GROUPS])
        more = f" and {len(idle) - _GROUPS} more" if len(idle) > _GROUPS else ""
        return (
            f"{len(idle)} of {plural(len(functions), 'changed function')} never ran ({named}{more})"
        )
    ran_in = {cell for f in functions for cell, calls in f.calls.items() if calls}
    if functions and ran_in and len(ran_in) < cells_run:
        return f"changed code ran in {len(ran_in)} of {plural(cells_run, 'cell')}"
    return ""


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


def _whole_path(
    groups: Sequence[MovementGroup], views: Sequence[CellView], unit: str
) -> Iterable[str]:
    by_name = {view.name.full: view for view in views}
    for device in dict.fromkeys(group.device for group in groups):
        names = {
            move.name.full
            for group in groups
            if group.device == device and group.section in SOFTWARE_SECTIONS
            for move in group.moves
        }
        if not names:
            yield (
                f"{device} software path (sections 1, 2 and 4): unchanged;"
                " return and other tasks are not in it"
            )
            continue
        paths = [path for name in sorted(names) if (path := by_name[name].path)]
        if not paths:
            continue
        shares = [(after - before) / before for before, after in paths if before]
        relative = f" ({signed_percent(median(shares))})" if shares else ""
        yield (
            f"{device} software path (sections 1, 2 and 4): "
            f"{signed(median(after - before for before, after in paths))} {unit}{relative} an I/O, "
            f"median of {plural(len(paths), 'workload')} that moved"
        )


def _where(
    evidence: Evidence, groups: Sequence[MovementGroup], views: Sequence[CellView], unit: str
) -> Iterable[str]:
    by_name = {view.name.full: view for view in views}
    for group in groups[:_GROUPS]:
        if step := place_in_section(group, by_name, unit):
            yield step
        if group.kind == "improvement" or group.section is None:
            continue
        place = blame(evidence.hunks, group.moves[0].name.device, group.section)
        if place:
            yield _code(place)


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


def _code(place: Place) -> str:
    function = f"{clean(place.function)}(), " if place.function else ""
    return f"likely {function}{clean(place.path)}:{place.line}: a guess from the changed lines"


def _accepted(evidence: Evidence) -> Iterable[str]:
    verdict = evidence.verdict
    for record in (verdict.accepted or []) if verdict else []:
        by = f" by {record.by}" if record.by else ""
        if record.moves:
            more = f" ({record.why})" if record.why else ""
            yield f"{plural(len(record.moves), 'movement')}{by}: {record.reason}{more}"
        else:
            yield f"nothing: Iotoll-Accept: {record.trailer}: {record.why}"


def _how_sure(evidence: Evidence, groups: Sequence[MovementGroup]) -> tuple[str, ...]:
    verdict = evidence.verdict
    if verdict and verdict.sequential:
        return (verdict.sequential.promise,)
    boots = min((len(side.boots) for side in evidence.sides.values()), default=0)
    first = groups[0].moves[0]
    words = clean(first.comparison.confidence)
    times = "one pair of boots" if boots < 2 else f"each of {boots} pairs of boots"
    said = f"in {times}: " if groups[0].grew else ""
    return (f"{said}{words} ({first.name.full})",) if words else ()


def _is_explained(evidence: Evidence) -> bool:
    """Whether `iotoll explain` records such a run: arm64 boards of this machine with one CPU."""
    boots = (boot for side in evidence.sides.values() for boot in side.boots)
    return (
        evidence.clock is Clock.INSTRUCTIONS
        and evidence.manifest.runner == "local"
        and all(build.arch == "arm64" for build in evidence.builds.values())
        and not any(boot.shares_clock for boot in boots)
    )


def _to_do(evidence: Evidence, groups: Sequence[MovementGroup]) -> Iterable[tuple[str, str]]:
    verdict = evidence.verdict
    command = shlex.join(evidence.manifest.command)
    if verdict is None:
        return
    if verdict.outcome in (Outcome.INFRASTRUCTURE, Outcome.BROKEN):
        yield "run it again, when the cause is removed", command
        return
    if verdict.outcome is Outcome.INCONCLUSIVE:
        if any(cell.outcome is not Outcome.PASS for cell in verdict.cells):
            yield "measure again", command
        else:  # the same cells would pass again, and say as little of the patch
            yield from _other_boards(evidence)
    if _is_unexplained_pass(evidence) and _is_explained(evidence) and evidence.hunks:
        yield "see what of the change ran", f"iotoll explain {_run(evidence)}"
    yield from _other_families(evidence)
    grown = any(group.kind == "regression" for group in groups)
    if not grown and verdict.without_limits is None:
        return
    if not grown:
        pass
    elif _is_explained(evidence):
        yield "see which functions it is made of", f"iotoll explain {_run(evidence)}"
    elif evidence.clock is Clock.INSTRUCTIONS and evidence.manifest.tree is not None:
        words = f"iotoll explain {_run(evidence)} --profile"
        yield "see which functions it is made of, approximately", words
    yield "check the verdict from the stored files", f"iotoll reproduce {_run(evidence)}"
    yield "measure again", command
    wanted = proposed(verdict)
    lines = "a line" if len(wanted) == 1 else f"{len(wanted)} lines"
    for number, line in enumerate(wanted):
        words = "and" if number else f"accept it, with {lines} in the commit message"
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


def _mind(evidence: Evidence) -> Iterable[str]:
    """What the verdict says of the coverage; fio's own warnings stand beside their cells."""
    cells_of = tuple(f"{side}, " for side in evidence.sides)
    warnings = evidence.verdict.warnings if evidence.verdict else ()
    return (clean(text) for text in warnings if not text.startswith(cells_of))


def _run(evidence: Evidence) -> str:
    words = evidence.manifest.command
    if "--out" in words[:-1]:
        return shlex.quote(words[words.index("--out") + 1])
    return f"runs/{shlex.quote(evidence.name)}"
