"""What a run found, as data and in one sentence each: the one source of every output's numbers.

Terminal, page, note, mail, JUnit, Allure, code quality and trailers say what `findings` returns, so
that none of them can say another number. Nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from iotoll.patch.diff import Hunk
from iotoll.records.models import (
    ExplainRecord,
    Finding,
    FindingsRecord,
    FoundFunction,
    FunctionDelta,
    Outcome,
    PartDelta,
    PoolRecord,
    SideResult,
    VerdictRecord,
    WorkComparison,
)
from iotoll.records.models.base import REQUEST_SECTIONS
from iotoll.records.models.finding import Kind
from iotoll.records.models.run import Side
from iotoll.records.models.verdict import LimitRecord, ThroughputRecord
from iotoll.records.text import DEVICES, clean, signed_percent
from iotoll.reports.page.blame import in_function
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.functions import never_ran, ran_outside
from iotoll.reports.page.sure import how_sure
from iotoll.reports.page.view import CellView, cells, unit_of
from iotoll.verdict.accept import proposed
from iotoll.verdict.findings import (
    NOTHING,
    in_order,
    of_elements,
    of_group,
    of_native,
    of_pool,
    told,
    with_time,
)
from iotoll.verdict.growth import weight
from iotoll.verdict.limits import rate_line
from iotoll.verdict.moved import MovementGroup, movements

_MOST = 0.5
"""The share of a function's difference from which what is inlined into it is named for it."""


def findings(evidence: Evidence, views: Sequence[CellView] | None = None) -> list[Finding]:
    """Return what changed, by kind: limits, throughput, other costs, then counts by their size."""
    verdict = evidence.verdict
    if verdict is None:
        return []
    views = cells(evidence) if views is None else views
    found = [*_limits(verdict), *_rates(verdict.throughput), *_grown(verdict)]
    found += [_element(evidence, one) for one in of_elements(verdict.cells, verdict.can_gate)]
    if not verdict.sequential:
        found += [_moved(evidence, group, views) for group in groups_of(verdict)]
        found += of_native(verdict.cells, verdict.other)
        found += [_pooled(pool, views) for pool in verdict.pools]
    return in_order(found)


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


SIGNS = {
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
            lines.append(f"{SIGNS[one.kind]}{one.sentence}")
        elif words := limits.pop(one.kind, []):
            name = "limit" if len(words) == 1 else "limits"
            lines.append(f"{SIGNS[one.kind]}{name} {', '.join(words)}")
    return lines


def groups_of(verdict: VerdictRecord | None) -> list[MovementGroup]:
    """What moved of a verdict, grouped."""
    return movements(verdict.cells, verdict.can_gate) if verdict else []


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
    return of_pool(pool, sum(view.name.device == pool.device for view in views))


def _element(evidence: Evidence, found: Finding) -> Finding:
    """Another cost, with the places of its functions."""
    placed = [_placed(evidence, one) for one in found.functions]
    return told(found.model_copy(update={"functions": placed}))


def _placed(evidence: Evidence, function: FoundFunction) -> FoundFunction:
    """A function of a count, with its place as it was explained, or as the patch has it."""
    record = evidence.explained
    for cell in record.cells if record else ():
        for part in (*cell.sections, *([cell.whole] if cell.whole else [])):
            for one in part.functions:
                if one.name == function.name and one.file:
                    return function.model_copy(update={"file": one.file, "line": one.line})
    place = in_function(evidence.hunks, [function.name])
    if place is None:
        return function
    return function.model_copy(update={"file": place.path, "line": place.line})


def _moved(evidence: Evidence, group: MovementGroup, views: Sequence[CellView]) -> Finding:
    """A group with what its size is a share of, its requests and its functions."""
    by_name = {view.name.full: view for view in views}
    found = of_group(group, unit_of(evidence).value)
    whole = group.section is None and group.name == "whole"
    requests = _requests(evidence.sides, found.cells) if whole else []
    shares, is_net = _shares(group, by_name)
    known = {
        "share": round(median(shares), 4) if shares else None,
        "is_net": is_net,
        "requests": requests,
        "each": _each(group, by_name, requests),
        "functions": _functions(evidence, group),
    }
    other = evidence.verdict.other if evidence.verdict else None
    return told(with_time(found.model_copy(update=known), other))


def _shares(group: MovementGroup, by_name: Mapping[str, CellView]) -> tuple[list[float], bool]:
    """Shares of what a section costs without the recorder, and whether that is known of all."""
    shares, is_net = [], True
    for move in group.moves:
        base = move.comparison.base
        view = by_name[move.name.full]
        if not view.recorder_counted:
            row = next((row for row in view.rows if row.section is group.section), None)
            figures = row.sides.get("base") if row else None
            known = figures.corrected if figures else None
            base, is_net = (known or base), is_net and bool(known)
        if base:
            shares.append(weight(move.comparison) / base)
    return shares, is_net


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
        alike = [
            row.comparison for row in rows if row.comparison and row.section in REQUEST_SECTIONS
        ]
        size = sum(weight(one) for one in alike if one.moved == move.comparison.moved)
        if abs(size * requests[0] - weight(move.comparison)) > move.comparison.threshold:
            return None
        parts.append(size)
    return round(median(parts), 1)


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
        if 2 * len(several) > len(parts) and abs(size) >= NOTHING:
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
        if NOTHING <= way * (size := median(several)) <= most:
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
