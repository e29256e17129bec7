"""What a run found, as data and in one sentence each: the one source of every output's numbers.

Terminal, page, note, mail, JUnit, Allure, code quality and trailers say what `findings` returns, so
that none of them can say another number. Nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from statistics import median

from iotoll.measure.elements import load_elements
from iotoll.patch.diff import Hunk
from iotoll.records.models import (
    CellVerdict,
    ExplainRecord,
    Finding,
    FindingsRecord,
    FoundFunction,
    FunctionDelta,
    Outcome,
    PartDelta,
    PoolRecord,
    Section,
    SideResult,
    VerdictRecord,
    WorkComparison,
)
from iotoll.records.models.finding import Kind
from iotoll.records.models.run import Side
from iotoll.records.models.verdict import ElementComparison, LimitRecord, ThroughputRecord
from iotoll.records.text import DEVICES, NBSP, clean, number, plural, signed, signed_percent
from iotoll.reports.page.blame import in_function
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.functions import never_ran, ran_outside
from iotoll.reports.page.moved import Movement, MovementGroup, movements
from iotoll.reports.page.sure import how_sure
from iotoll.reports.page.view import CellView, cells, unit_of
from iotoll.verdict.accept import proposed
from iotoll.verdict.growth import is_of_most, rare, weight
from iotoll.verdict.limits import rate_line

_NARROW = 0.1
"""Sizes of all cells within so much of the middle one are told as a range."""
_ENOUGH = 0.9
"""Functions are named until they have so much of a finding."""
_NAMED = 3
_LEAST = 0.05
"""Functions that have a smaller share of a finding are not named in its sentence."""
_MOST = 0.5
"""The share of a function's difference from which what is inlined into it is named for it."""
_REQUEST = (Section.SUBMISSION, Section.COMPLETION)
"""Sections that are one request's; the others are the I/O's."""
_KINDS: tuple[Kind, ...] = ("regression", "accepted", "undecided", "improvement", "ungated")
_NOTHING = 0.05
"""Smaller sizes would be written as zero."""


def findings(evidence: Evidence, views: Sequence[CellView] | None = None) -> list[Finding]:
    """Return what changed, by kind: limits, throughput, other costs, then counts by their size."""
    verdict = evidence.verdict
    if verdict is None:
        return []
    views = cells(evidence) if views is None else views
    found = [*_limits(verdict), *_rates(verdict.throughput), *_grown(verdict)]
    if not verdict.sequential:
        found += _elements(evidence, verdict)
        found += [_moved(evidence, group, views) for group in movements(list(views))]
        found += [_pooled(pool, views) for pool in verdict.pools]
    return sorted(found, key=lambda one: (_KINDS.index(one.kind), one.size is not None))


def record_of(evidence: Evidence, views: Sequence[CellView] | None = None) -> FindingsRecord:
    """Return ``findings.json`` of a run."""
    found = findings(evidence, views)
    verdict = evidence.verdict
    return FindingsRecord(
        outcome=verdict.outcome if verdict else None,
        clock=evidence.clock,
        sentence=headline_of(evidence, found),
        sure=how_sure(evidence, found),
        findings=found,
        trailers=proposed(verdict) if verdict and verdict.outcome in _BLOCKED else [],
    )


_BLOCKED = (Outcome.REGRESSION, Outcome.INCONCLUSIVE)


def headline_of(evidence: Evidence, found: Sequence[Finding]) -> str:
    """All that blocks, in one line; what the verdict itself says where nothing does.

    A pass on code that never ran says that first.
    """
    verdict = evidence.verdict
    if verdict is None:
        return ""
    told = clean(verdict.sentence)
    if verdict.outcome is Outcome.PASS and verdict.can_gate:
        first = never_ran(evidence.explained, ran_outside(evidence))
        return f"{first} {told}" if first else told
    if verdict.outcome not in _BLOCKED or verdict.sequential or not verdict.can_gate:
        return told
    return "; ".join(lines_of([one for one in found if one.kind == "regression"])) or told


_SIGNS = {
    "regression": "",
    "accepted": "◆ ",
    "undecided": "? ",
    "improvement": "▼ ",
    "ungated": "○ ",
}


def lines_of(found: Sequence[Finding]) -> list[str]:
    """The findings as lines behind the signs of their kinds; limits of one kind share a line."""
    limits: dict[str, list[str]] = {}
    for one in found:
        if one.element == "limit":
            limits.setdefault(one.kind, []).append(one.sentence.removeprefix("limit "))
    lines = []
    for one in found:
        if one.element != "limit":
            lines.append(f"{_SIGNS[one.kind]}{one.sentence}")
        elif words := limits.pop(one.kind, []):
            name = "limit" if len(words) == 1 else "limits"
            lines.append(f"{_SIGNS[one.kind]}{name} {', '.join(words)}")
    return lines


def blocking(found: Iterable[Finding]) -> list[Finding]:
    """What the gate acts on, one way or the other."""
    return [one for one in found if one.kind != "ungated"]


def of_cell(found: Sequence[Finding], cell: str, part: str) -> Finding | None:
    """The finding that has a part of a cell; None where there is none."""
    return next((one for one in found if one.part == part and cell in one.cells), None)


def _limits(verdict: VerdictRecord) -> list[Finding]:
    """One for each limit and its values, whichever disks of a device have it."""
    made = []
    for several in _by_values(verdict.limits).values():
        first = several[0]
        kind: Kind = "ungated" if not first.gated else "regression"
        kind = "accepted" if first.accepted is not None else kind
        if kind == "regression" and not verdict.can_gate:
            kind = "ungated"
        where, _, attribute = first.name.partition(".")
        disks = [one.name.partition(".")[0] for one in several]
        named = ", ".join(DEVICES.get(disk, disk) for disk in disks)
        words = attribute.removeprefix("queue.")
        made.append(
            Finding(
                kind=kind,
                element="limit",
                device=DEVICES.get(where, where),
                part=first.name,
                cells=[],
                judged=0,
                sentence=clean(f"limit {named} {words} {first.base} -> {first.candidate}"),
            )
        )
    return made


def _by_values(limits: Iterable[LimitRecord]) -> dict[tuple[str, ...], list[LimitRecord]]:
    groups: dict[tuple[str, ...], list[LimitRecord]] = {}
    for one in limits:
        attribute = one.name.partition(".")[2]
        said = "gated" if one.gated else ""
        key = (attribute, one.base, one.candidate, said, one.accepted or "")
        groups.setdefault(key, []).append(one)
    return groups


def _rates(rates: Iterable[ThroughputRecord]) -> list[Finding]:
    """Each cell whose time per I/O on the modelled device changed, the largest first."""
    made = [
        Finding(
            kind="improvement"
            if one.moved == "shrank"
            else "regression"
            if one.accepted is None
            else "accepted",
            element="throughput",
            device=one.cell.partition("-")[0],
            part="throughput",
            share=one.relative,
            cells=[one.cell],
            judged=1,
            sentence=clean(rate_line(one)),
        )
        for one in rates
        if one.moved in ("grew", "shrank")
    ]
    return sorted(made, key=lambda one: -abs(one.share or 0))


def _grown(verdict: VerdictRecord) -> list[Finding]:
    """What surely changed on the clock `time`, by cell; what grew most surely first."""
    made = [
        Finding(
            kind=_kind_of_time(verdict, growth.improved, growth.accepted),
            element="ns",
            device=DEVICES.get(cell.cell.partition("-")[0], cell.cell.partition("-")[0]),
            part=growth.figure,
            share=growth.growth,
            cells=[cell.cell],
            judged=1,
            sentence=f"{signed_percent(growth.growth)} of {growth.figure} in {clean(cell.cell)}, "
            f"{growth.bounds}",
        )
        for cell in verdict.cells
        for growth in cell.growth
        if growth.state == "grew" or growth.improved
    ]
    return sorted(made, key=lambda one: -abs(one.share or 0))


def _kind_of_time(verdict: VerdictRecord, improved: bool, accepted: str | None) -> Kind:
    if not verdict.can_gate:
        return "ungated"
    if improved:
        return "improvement"
    return "regression" if accepted is None else "accepted"


def _pooled(pool: PoolRecord, views: Sequence[CellView]) -> Finding:
    """What several cells show together, and none alone."""
    device = DEVICES.get(pool.device, pool.device)
    part = pool.section.value if pool.section else "whole"
    of = sum(view.name.device == pool.device for view in views)
    return Finding(
        kind="regression" if pool.moved == "grew" else "improvement",
        element="instructions",
        device=device,
        part=part,
        size=pool.paired.mean,
        least=pool.paired.mean,
        most=pool.paired.mean,
        per=_per(device, pool.section),
        cells=[],
        judged=of,
        sentence=clean(pool.sentence).rstrip("."),
    )


def _elements(evidence: Evidence, verdict: VerdictRecord) -> list[Finding]:
    """Other costs than instructions that moved, by device, part and element.

    Of a whole I/O only what no section of it shows: it has as much of it as it has requests.
    """
    groups: dict[tuple[str, Section | None, str, str, Kind], list[_Cost]] = {}
    for cell in verdict.cells:
        device = cell.cell.partition("-")[0]
        told = {one.element for one in cell.elements if one.section is not None}
        for one in cell.elements:
            if one.section is not None or one.element not in told:
                key = (device, one.section, one.element, one.moved, _kind_of(cell, one))
                groups.setdefault(key, []).append((cell.cell, one))
    made = [_element(evidence, key, costs) for key, costs in groups.items()]
    return sorted(made, key=lambda one: (one.part == "whole", -len(one.cells)))


_Cost = tuple[str, ElementComparison]


def _kind_of(cell: CellVerdict, one: ElementComparison) -> Kind:
    if not one.gated:
        return "ungated"
    if one.accepted is not None:
        return "accepted"
    if cell.outcome not in (Outcome.PASS, Outcome.REGRESSION):
        return "undecided"
    return "regression" if one.moved == "grew" else "improvement"


def _element(
    evidence: Evidence, key: tuple[str, Section | None, str, str, Kind], costs: list[_Cost]
) -> Finding:
    name, section, element, moved, kind = key
    device = DEVICES.get(name, name)
    ordered = sorted((one.delta for _, one in costs), key=abs)
    # One cell's size: a middle of two would be half a register read.
    size = ordered[(len(ordered) - 1) // 2]
    sizes: dict[str, list[float]] = {}
    for _, one in costs:
        for function in one.functions:
            sizes.setdefault(function.name, []).append(function.candidate - function.base)
    changed = {f.name for _, one in costs for f in one.functions if f.changed}
    functions = [
        _placed(evidence, function, round(median(several), 2), function in changed)
        for function, several in sizes.items()
        if median(several) * (1 if moved == "grew" else -1) >= _NOTHING
    ]
    functions.sort(key=lambda one: (not one.changed, -abs(one.delta), one.name))
    verdict = evidence.verdict
    cells = verdict.cells if verdict else []
    found = Finding(
        kind=kind,
        element=element,
        device=device,
        part=section.value if section else "whole",
        size=round(size, 2),
        least=round(ordered[0], 2),
        most=round(ordered[-1], 2),
        per=_per(device, section),
        functions=functions,
        cells=[cell for cell, _ in costs],
        judged=sum(cell.cell.partition("-")[0] == name for cell in cells),
        sentence="",
    )
    where = ", ".join(f"{one.name}{_at(one)}" for one in functions[:1])
    part = _OF.get(found.part, found.part)
    words = f"{load_elements().text(element, size)} per {found.per}, {part}"
    parts = [words, *([f"in {where}"] if where else []), _where(found)]
    parts += ["shown only"] if kind == "ungated" else []
    sentence = clean(", ".join(parts)).replace(NBSP, " ")
    return found.model_copy(update={"sentence": sentence})


def _placed(evidence: Evidence, name: str, delta: float, changed: bool) -> FoundFunction:
    """A function of a count, with its place as it was explained, or as the patch has it."""
    record = evidence.explained
    for cell in record.cells if record else ():
        for part in (*cell.sections, *([cell.whole] if cell.whole else [])):
            for one in part.functions:
                if one.name == name and one.file:
                    return FoundFunction(
                        name=name, delta=delta, changed=changed, file=one.file, line=one.line
                    )
    place = in_function(evidence.hunks, [name])
    path, line = (place.path, place.line) if place else (None, None)
    return FoundFunction(name=name, delta=delta, changed=changed, file=path, line=line)


def _per(device: str, section: Section | None) -> str:
    return f"{device} {'request' if section in _REQUEST else 'I/O'}"


@dataclass(frozen=True)
class _Sizes:
    """By how much the cells of a group moved, and of what."""

    each: list[float]
    shares: list[float]
    is_net: bool

    @property
    def middle(self) -> float:
        return median(self.each)

    @property
    def ends(self) -> tuple[float, float]:
        """The size that is nearest to nothing, and the one that is farthest."""
        ordered = sorted(self.each, key=abs)
        return ordered[0], ordered[-1]


def _moved(evidence: Evidence, group: MovementGroup, views: Sequence[CellView]) -> Finding:
    by_name = {view.name.full: view for view in views}
    sizes = _sizes(group, by_name)
    names = [move.name.full for move in group.moves]
    whole = group.section is None and group.name == "whole"
    requests = _requests(evidence.sides, names) if whole else []
    found = Finding(
        kind=group.kind,
        element=unit_of(evidence).value,
        device=group.device,
        part=group.name,
        size=round(sizes.middle, 1),
        least=round(sizes.ends[0], 1),
        most=round(sizes.ends[1], 1),
        per=_per(group.device, group.section),
        share=round(median(sizes.shares), 4) if sizes.shares else None,
        is_net=sizes.is_net,
        some=_some(group.moves),
        requests=requests,
        each=_each(group, by_name, requests),
        functions=_functions(evidence, group),
        cells=names,
        judged=group.cells_of_device,
        sentence="",
    )
    return found.model_copy(update={"sentence": _sentence(found)})


def _sizes(group: MovementGroup, by_name: Mapping[str, CellView]) -> _Sizes:
    """Sizes and shares of the cells; shares of what a section costs without the recorder."""
    each, shares, is_net = [], [], True
    for move in group.moves:
        size = weight(move.comparison)
        base = move.comparison.base
        view = by_name[move.name.full]
        if not view.recorder_counted:
            row = next((row for row in view.rows if row.section is group.section), None)
            figures = row.sides.get("base") if row else None
            known = figures.corrected if figures else None
            base, is_net = (known or base), is_net and bool(known)
        each.append(size)
        if base:
            shares.append(size / base)
    return _Sizes(each, shares, is_net)


def _requests(sides: Mapping[Side, SideResult], names: Sequence[str]) -> list[int]:
    """How many requests an I/O of these cells has: each number once; empty where all have one."""
    found = set()
    side = sides.get("candidate") or sides.get("base")
    for name in names:
        for record in side.cells.get(name, [])[:1] if side else ():
            own = record.requests.get("attributed", 0) + record.requests.get("helper", 0)
            found.add(round(own / record.ios["measured"]) if record.ios.get("measured") else 1)
    return sorted(found) if found - {0, 1} else []


def _each(
    group: MovementGroup, by_name: Mapping[str, CellView], requests: Sequence[int]
) -> float | None:
    """What each request of the I/Os grew by, where that explains the whole I/O's growth."""
    if len(requests) != 1:
        return None
    parts = []
    for move in group.moves:
        rows = by_name[move.name.full].rows
        alike = [row.comparison for row in rows if row.comparison and row.section in _REQUEST]
        size = sum(weight(one) for one in alike if one.moved == move.comparison.moved)
        if abs(size * requests[0] - weight(move.comparison)) > move.comparison.threshold:
            return None
        parts.append(size)
    return round(median(parts), 1)


def _some(moves: Sequence[Movement]) -> str:
    """Which I/Os pay it, where these are not nearly all: with what most of them have."""
    beside = [(move.comparison.delta, some) for move in moves if (some := rare(move.comparison))]
    if 2 * len(beside) > len(moves):
        most, some = sorted(beside, key=lambda one: one[1].delta)[(len(beside) - 1) // 2]
        return f"{signed(most)} in most I/Os, {signed(some.delta)} in {some.share:.0%} of them"
    more = [c.delta for c in (m.comparison for m in moves) if weight(c) > c.delta + c.threshold]
    if 2 * len(more) > len(moves):
        return f"{signed(median(more))} in most I/Os"
    few = [move.comparison for move in moves if not is_of_most(move.comparison)]
    if 2 * len(few) <= len(moves):
        return ""
    return f"{median(one.share for one in few):.0%} of the I/Os moved"


def _functions(evidence: Evidence, group: MovementGroup) -> list[FoundFunction]:
    """The functions that were measured, those that have most of it first."""
    if group.name == "work":
        return _of_work(group, evidence.hunks)
    if evidence.explained is None or evidence.explained.failure is not None:
        return []
    parts = _dissected(evidence.explained, group)
    return _of_parts(parts, group.grew) if parts else []


def _dissected(record: ExplainRecord, group: MovementGroup) -> list[PartDelta]:
    moved = {move.name.full for move in group.moves}
    mine = [cell for cell in record.cells if cell.cell in moved]
    if group.section is None:
        return [cell.whole for cell in mine if cell.whole and cell.whole.functions]
    return [
        section
        for cell in mine
        for section in cell.sections
        if section.section is group.section and section.functions
    ]


def _of_parts(parts: Sequence[PartDelta], grew: bool) -> list[FoundFunction]:
    """Functions that most of the dissected cells have, with the median of what they differ by."""
    seen: dict[str, list[FunctionDelta]] = {}
    for part in parts:
        for function in part.functions:
            seen.setdefault(function.name, []).append(function)
    made = []
    for several in seen.values():
        size = median(one.effect or one.mean for one in several)
        if 2 * len(several) > len(parts) and abs(size) >= _NOTHING:
            made.append(_function(several, size))
    way = 1 if grew else -1
    # What the change's own code does is the cause; of the rest, the largest.
    return sorted(made, key=lambda one: (way * one.delta < 0, not one.changed, -abs(one.delta)))


def _function(several: Sequence[FunctionDelta], size: float) -> FoundFunction:
    """A function, or what is inlined into it and has most of its difference."""
    first = several[0]
    for inlined in first.inlined:
        if first.effect and inlined.effect / first.effect >= _MOST:
            same = [i.effect for one in several for i in one.inlined if i.name == inlined.name]
            return FoundFunction(
                name=inlined.name,
                delta=round(median(same), 1),
                changed=first.changed,
                into=first.name,
                file=inlined.file,
                line=inlined.line,
            )
    return FoundFunction(
        name=first.name,
        delta=round(size, 1),
        changed=first.changed,
        file=first.file,
        line=first.line,
    )


def _of_work(group: MovementGroup, hunks: Sequence[Hunk]) -> list[FoundFunction]:
    """The functions in which most of a device's work outside I/Os changed."""
    sizes: dict[str, list[float]] = {}
    changed: set[str] = set()
    for move in group.moves:
        assert isinstance(move.comparison, WorkComparison)
        for one in move.comparison.functions:
            sizes.setdefault(one.name, []).append(one.candidate - one.base)
            changed.update({one.name} if one.changed else ())
    way = 1 if group.grew else -1
    most = 1.02 * max(abs(move.comparison.delta) for move in group.moves)
    made = []
    for name, several in sizes.items():
        # What is larger than all of it is part of the I/Os as well.
        if _NOTHING <= way * (size := median(several)) <= most:
            place = in_function(hunks, [name])
            made.append(
                FoundFunction(
                    name=name,
                    delta=round(size, 1),
                    changed=name in changed,
                    file=place.path if place else None,
                    line=place.line if place else None,
                )
            )
    return sorted(made, key=lambda one: (not one.changed, -abs(one.delta), one.name))


_OF = {"whole": "the whole I/O", "work": "all that ran"}


def _sentence(found: Finding) -> str:
    """``+330 instructions per UFS request (+14 % of submission), 327 of them in f (a.c:9), ...``"""
    assert found.size is not None
    amount, spread = _amount(found)
    inside = f"{found.element} per {found.per}"
    if found.part == "work":
        inside += " outside of the I/Os"
    if found.some:
        inside += " on average"
    notes = [_share(found), found.some, spread, _told_requests(found)]
    told = "; ".join(note for note in notes if note)
    parts = [f"{amount} {inside}{f' ({told})' if told else ''}", *_named(found), _where(found)]
    if found.kind == "ungated":
        parts.append("shown only")
    # Plain spaces: the sentence is looked for, and copied.
    return clean(", ".join(parts)).replace(NBSP, " ")


def _amount(found: Finding) -> tuple[str, str]:
    """The size, and between which sizes of the cells it is, where these are far apart."""
    assert found.size is not None and found.least is not None and found.most is not None
    ends = [signed(found.least), signed(found.most)]
    if ends[0] == ends[1]:
        return ends[0], ""
    if abs(found.most - found.least) <= _NARROW * abs(found.size):
        return " to ".join(ends), ""
    return signed(found.size), f"{' to '.join(ends)} by workload"


def _share(found: Finding) -> str:
    if found.share is None:
        return ""
    traced = "" if found.is_net else ", recorder included"
    return f"{signed_percent(found.share)} of {_OF.get(found.part, found.part)}{traced}"


def _told_requests(found: Finding) -> str:
    if not found.requests:
        return ""
    if found.each is not None:
        return f"{plural(found.requests[0], 'request')} of {signed(found.each)} each"
    least, most = found.requests[0], found.requests[-1]
    return f"{plural(most, 'request')} per I/O" if least == most else f"{least} to {most} requests"


def _named(found: Finding) -> list[str]:
    """The functions that have nearly all of it, three at most."""
    assert found.size is not None
    told = [one for one in found.functions if abs(one.delta) >= _LEAST * abs(found.size)][:_NAMED]
    mixed = any(one.delta * found.size < 0 for one in told)
    mixed |= any(abs(one.delta) > 1.02 * abs(found.most or 0) for one in told)
    named: list[str] = []
    done = 0.0
    for one in told:
        if not mixed and done >= _ENOUGH * abs(found.size):
            break
        size = signed(one.delta) if mixed else number(abs(one.delta))
        of = "" if mixed or named else " of them"
        named.append(f"{size}{of} in {one.name}{_at(one)}")
        done += abs(one.delta)
    return named


def _at(one: FoundFunction) -> str:
    return f" ({PurePosixPath(one.file).name}:{one.line})" if one.file else ""


def _where(found: Finding) -> str:
    count = len(found.cells)
    if found.judged == 1:
        return f"in {found.cells[0]}"
    if count == found.judged:
        return f"in all {plural(count, 'workload')}"
    one = f" ({found.cells[0]})" if count == 1 else ""
    return f"in {count} of {plural(found.judged, 'workload')}{one}"
