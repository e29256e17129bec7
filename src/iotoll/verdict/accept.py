"""Accepting a regression: what the candidate's trailers name is checked against what grew.

A trailer in a commit message of the candidate asks for it::

    Iotoll-Accept: ufs-* submission +350 checks each tag, needed for CVE-2026-1234

that is: cells (a glob), a section (or ``overhead`` on the clock `time`, ``whole`` for the I/O from
call to return), the most that it may grow in each of these cells, in the verdict's unit or in
percent (``+6.5%``), and the reason. An element of cost (``pipelines/elements.toml``) stands in the
place of a section, with the most that an I/O may have more of it in any section (``ufs-* dsb +1
...``). ``throughput`` is the time per I/O of a cell that has one. A
limit that differs (`iotoll.verdict.limits`) is named with both of its values, in globs as well::

    Iotoll-Accept: ufs.queue.max_sectors_kb 1024 -> 512 the controller's erratum 17

Another section, another cell and a larger growth still block;
so does what a few I/Os pay beside the growth that most of them have
(`iotoll.verdict.growth.weight`).
Whose word it takes is the policy's to say (`iotoll.verdict.policy.AcceptRule`): a trailer is text
of the candidate's author, and never enough where the policy asks for an approver.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from iotoll.measure.elements import load_elements
from iotoll.records.models import CellVerdict, Outcome, Section, VerdictRecord
from iotoll.records.models.verdict import AcceptRecord, ElementComparison, LimitRecord
from iotoll.verdict.growth import is_covered, share, weight
from iotoll.verdict.limits import blocked
from iotoll.verdict.policy import AcceptRule, LimitsRule, Policy, TimePolicy

FORM = (
    "write CELLS SECTION +SIZE REASON, such as: ufs-* submission +350 checks each tag;"
    " or LIMIT OLD -> NEW REASON"
)
FIGURES = ("overhead", "whole", "work", "throughput", *(s.value for s in Section))
_FORM = re.compile(
    r"(?P<cells>[\w*?.\[\]!-]{1,100})\s+(?P<figure>[a-z_]+)\s+\+(?P<size>\d{1,9}(?:\.\d{1,3})?)"
    r"(?P<share>%?)\s+(?P<reason>\S.*)"
)


_LIMIT = re.compile(
    r"(?P<name>[\w*?.\[\]+-]{1,100})\s+(?P<base>\S{1,200}?)\s*->\s*(?P<candidate>\S{1,200})\s+"
    r"(?P<reason>\S.*)"
)


@dataclass(frozen=True)
class Wish:
    """One trailer: ``size`` is in the verdict's unit, or a share where ``share`` is set."""

    cells: str
    figure: str
    size: float
    share: bool
    reason: str


@dataclass(frozen=True)
class Grown:
    """One gated figure of a cell that grew; ``delta`` is None where only its share is known."""

    cell: str
    figure: str
    delta: float | None
    relative: float
    counted: bool = False  # no share of anything

    @property
    def name(self) -> str:
        """``CELL: SECTION``, as verdicts name it."""
        return f"{self.cell}: {self.figure}"


def parse(trailer: str) -> Wish:
    """Read a trailer's value; raises ValueError saying what is wrong with it."""
    found = _FORM.fullmatch(trailer.strip())
    if found is None:
        raise ValueError(f"not understood: {FORM}")
    known = (*FIGURES, *load_elements().elements)
    if found["figure"] not in known:
        raise ValueError(f"{found['figure']} is not a section: {', '.join(known)}")
    size = float(found["size"]) / (100 if found["share"] else 1)
    return Wish(found["cells"], found["figure"], size, bool(found["share"]), found["reason"])


def apply(
    verdict: VerdictRecord,
    trailers: Sequence[str],
    policy: Policy | TimePolicy,
    approved_by: str | None,
) -> VerdictRecord:
    """Return the verdict with the growth accepted that trailers name and the policy allows.

    Every trailer is recorded with what it accepts, or why it accepts nothing. Only growth and
    limits are accepted: a broken, inconclusive or infrastructure verdict stays what it is.
    """
    if not trailers:
        return verdict
    grown = [g for cell in verdict.cells for g in _grown(cell)] + _slower(verdict)
    reasons: dict[str, str] = {}
    records = []
    for trailer in trailers:
        record = _judge(trailer, grown, verdict.limits, policy.accept, approved_by)
        records.append(record)
        reasons |= {name: record.reason for name in record.moves if name not in reasons}
    verdict = verdict.model_copy(update={"accepted": records})
    blocks = verdict.outcome is Outcome.REGRESSION or (
        verdict.outcome is Outcome.INCONCLUSIVE and verdict.without_limits is not None
    )
    if not blocks or not reasons:
        return verdict
    return _with(verdict, reasons, policy.limits, approved_by)


def proposed(verdict: VerdictRecord) -> list[str]:
    """The trailers, but for their reasons, that ask for all growth of cells that still blocks.

    One for each device and figure: what few cells have behind the others, the largest first. Whole
    I/Os are named where their growth is more than that of their sections: `apply` lets them grow
    by as much.
    """
    done = {name: "" for record in verdict.accepted or () for name in record.moves}
    asked: dict[tuple[str, str], list[Grown]] = {}
    wholes: set[str] = set()
    for cell in verdict.cells:
        device = cell.cell.partition("-")[0]
        found = [g for g in _grown(cell) if g.name not in done and not math.isinf(g.relative)]
        for grown in found:
            asked.setdefault((device, grown.figure), []).append(grown)
        if not _whole_accepted(cell, done | {g.name: "" for g in found if g.figure != "whole"}):
            wholes.add(device)
    kept = [(key, found) for key, found in asked.items() if key[1] != "whole" or key[0] in wholes]
    widest = max((len(found) for _, found in kept), default=0)

    def place(one: tuple[tuple[str, str], list[Grown]]) -> tuple[bool, bool, float]:
        (_, figure), found = one
        return figure == "whole", 2 * len(found) < widest, -max(g.delta or 0.0 for g in found)

    kept.sort(key=place)
    lines = [_wish(device, figure, found, verdict) for (device, figure), found in kept]
    for grown in _slower(verdict):
        if grown.name not in done:
            most = math.ceil(round(grown.relative * 1000, 6)) / 10
            lines.append(f"{grown.cell} throughput +{most:.1f}%")
    return [*lines, *_limit_wishes(verdict)]


def _limit_wishes(verdict: VerdictRecord) -> list[str]:
    """One trailer for each attribute and its values, whichever disks have it."""
    asked: dict[tuple[str, str, str], list[str]] = {}
    for one in verdict.limits:
        if one.gated and one.accepted is None:
            attribute = one.name.partition(".")[2] or one.name
            asked.setdefault((attribute, one.base, one.candidate), []).append(one.name)
    return [
        f"{names[0] if len(names) == 1 else f'*.{attribute}'} {base} -> {candidate}"
        for (attribute, base, candidate), names in asked.items()
    ]


def _slower(verdict: VerdictRecord) -> list[Grown]:
    """The throughput that fell, as growth of the time per I/O."""
    return [
        Grown(rate.cell, "throughput", rate.candidate - rate.base, rate.relative)
        for rate in verdict.throughput
        if rate.moved == "grew" and rate.base is not None and rate.candidate is not None
    ]


def _wish(device: str, figure: str, found: Sequence[Grown], verdict: VerdictRecord) -> str:
    """What `parse` reads, without a reason. Rounded up: it must cover what grew."""
    names = {grown.cell for grown in found}
    cells = f"{device}-*" if len(names) > 1 else names.pop()
    if verdict.sequential:
        most = max(grown.relative for grown in found)
        return f"{cells} {figure} +{math.ceil(round(most * 1000, 6)) / 10:.1f}%"
    return f"{cells} {figure} +{math.ceil(max(grown.delta or 0.0 for grown in found))}"


def _grown(cell: CellVerdict) -> Iterator[Grown]:
    for growth in cell.growth:
        if growth.state == "grew":
            yield Grown(cell.cell, growth.figure, None, growth.growth)
    judged = {growth.figure for growth in cell.growth}
    for found in cell.sections:
        name = found.section.value
        if found.gated and found.moved == "grew" and name not in judged:
            yield Grown(cell.cell, name, weight(found), share(found))
    if cell.whole and cell.whole.gated and cell.whole.moved == "grew":
        yield Grown(cell.cell, "whole", weight(cell.whole), share(cell.whole))
    if cell.work and cell.work.gated and cell.work.moved == "grew":
        yield Grown(cell.cell, "work", cell.work.delta, share(cell.work))
    sizes: dict[str, float] = {}
    for one in cell.elements:
        if one.gated and one.moved == "grew":
            name = _element(one)
            sizes[name] = max(one.delta, sizes.get(name, 0.0))
    for name, delta in sizes.items():
        yield Grown(cell.cell, name, delta, 0.0, counted=True)


def _element(found: ElementComparison) -> str:
    """What a trailer calls it: the element of any device."""
    return found.element.partition(".")[0]


def _judge(
    trailer: str,
    grown: Sequence[Grown],
    limits: Sequence[LimitRecord],
    rule: AcceptRule,
    approved_by: str | None,
) -> AcceptRecord:
    def refused(why: str, reason: str = "") -> AcceptRecord:
        return AcceptRecord(trailer=trailer, reason=reason, moves=[], why=why)

    limit = _LIMIT.fullmatch(trailer.strip())
    try:
        wish = parse(trailer) if limit is None else None
    except ValueError as error:
        return refused(str(error))
    reason = wish.reason if wish else limit["reason"] if limit else ""
    if rule.who == "nobody":
        return refused("the policy lets nobody accept a regression", reason)
    if rule.who == "approver" and not approved_by:
        return refused("nobody who may approve it has done so: --approved-by", reason)
    by = (approved_by or "") if rule.who == "approver" else ""
    if wish is None:
        moves = [f"limit {one.name}" for one in limits if limit and _is_named(one, limit)]
        if not moves:
            return refused("no limit that it names differs so", reason)
        return AcceptRecord(trailer=trailer, reason=reason, by=by, moves=moves)
    named = [g for g in grown if g.figure == wish.figure and fnmatchcase(g.cell, wish.cells)]
    if not named:
        return refused("nothing that it names grew", wish.reason)
    beyond = {g.name: why for g in named if (why := _beyond(g, wish, rule))}
    kept = [g.name for g in named if g.name not in beyond]
    name, why = next(iter(beyond.items()), ("", ""))
    more = f", and {len(beyond) - 1} more" if len(beyond) > 1 else ""
    return AcceptRecord(
        trailer=trailer,
        reason=wish.reason,
        by=by,
        moves=kept,
        why=f"not accepted: {name} {why}{more}" if beyond else "",
    )


def _is_named(one: LimitRecord, limit: re.Match[str]) -> bool:
    """Whether a trailer names a limit that differs, with the values that it has."""
    values = one.base, one.candidate
    return fnmatchcase(one.name, limit["name"]) and values == (limit["base"], limit["candidate"])


def _beyond(grown: Grown, wish: Wish, rule: AcceptRule) -> str:
    """Why a growth is more than the trailer or the policy allows; empty where it is not."""
    if math.isinf(grown.relative):
        return "was nothing in the base: no policy allows a share of that"
    if grown.relative > rule.at_most:
        return f"grew by {grown.relative:.1%}: the policy allows {rule.at_most:.1%}"
    if wish.share and grown.counted:
        return "is a count: give the number for an I/O"
    if wish.share:
        over = grown.relative > wish.size
        return f"grew by {grown.relative:.1%}, not {wish.size:.1%} at most" if over else ""
    if grown.delta is None:
        return "is judged as a share: give the size in percent"
    return (
        f"grew by {grown.delta:.0f}, not {wish.size:g} at most" if grown.delta > wish.size else ""
    )


def _with(
    verdict: VerdictRecord, reasons: dict[str, str], rule: LimitsRule, approved_by: str | None
) -> VerdictRecord:
    rates = [
        one.model_copy(update={"accepted": reasons.get(f"{one.cell}: throughput")})
        for one in verdict.throughput
    ]
    allowed = [
        one.model_copy(update={"accepted": reasons.get(f"limit {one.name}")})
        for one in verdict.limits
    ]
    slow = {r.cell for r in rates if r.moved == "grew" and r.accepted is None}
    fell = {f"{r.cell}: throughput" for r in rates if r.accepted is not None}
    cells = [_cell(cell, reasons, fell, cell.cell in slow) for cell in verdict.cells]
    order = (Outcome.REGRESSION, Outcome.INFRASTRUCTURE, Outcome.BROKEN, Outcome.INCONCLUSIVE)
    outcome = next((o for o in order if any(c.outcome is o for c in cells)), Outcome.PASS)
    if outcome is Outcome.PASS and verdict.without_limits is Outcome.INCONCLUSIVE:
        outcome = Outcome.INCONCLUSIVE
    # What grows over several cells together has no cell that a trailer could name.
    if any(pool.moved == "grew" for pool in verdict.pools):
        outcome = Outcome.REGRESSION
    changed = verdict.model_copy(
        update={"cells": cells, "outcome": outcome, "limits": allowed, "throughput": rates}
    )
    outcome = blocked(changed, rule)
    left = [t for t in verdict.regressions if not t.startswith(_begins(reasons))]
    return changed.model_copy(
        update={
            "outcome": outcome,
            "exit_code": outcome.exit_code,
            "sentence": _accepted_sentence(verdict, outcome, reasons, approved_by),
            "regressions": left,
        }
    )


def _begins(reasons: Iterable[str]) -> tuple[str, ...]:
    """How lines begin that tell what is accepted."""
    return tuple(f"{name}:" if name.startswith("limit ") else f"{name} " for name in reasons)


def _accepted_sentence(
    verdict: VerdictRecord, outcome: Outcome, reasons: dict[str, str], approved_by: str | None
) -> str:
    names = [name for name in reasons if not name.startswith("limit ")]
    limits = len(reasons) - len(names)
    touched = len({name.partition(": ")[0] for name in names})
    by = f" by {approved_by}" if approved_by else ""
    what = [f"growth in {touched} of {len(verdict.cells)} cells"] if touched else []
    if limits:
        what.append(f"{limits} {'limit that differs' if limits == 1 else 'limits that differ'}")
    verb = "is" if touched + limits == 1 or not limits else "are"
    accepted = f"{' and '.join(what)} {verb} accepted{by}"
    if outcome is Outcome.PASS:
        why = "; ".join(dict.fromkeys(reasons.values()))
        return f"No {'growth' if touched else 'limit'} blocks: {accepted}: {why}."
    return f"{verdict.sentence} ({accepted[0].upper()}{accepted[1:]}.)"


def _cell(
    cell: CellVerdict, reasons: dict[str, str], fell: Collection[str], slow: bool
) -> CellVerdict:
    """``fell`` is throughput that may have fallen; ``slow`` tells that this cell's may not."""
    if not any(g.name in reasons for g in _grown(cell)) and f"{cell.cell}: throughput" not in fell:
        return cell
    left = slow or any(g.name not in reasons for g in _grown(cell) if g.figure != "whole")
    left = left or not _whole_accepted(cell, reasons)
    sections = [
        s.model_copy(update={"accepted": reasons[name]})
        if (name := f"{cell.cell}: {s.section.value}") in reasons and s.moved == "grew" and s.gated
        else s
        for s in cell.sections
    ]
    growth = [
        g.model_copy(update={"accepted": reasons[name]})
        if (name := f"{cell.cell}: {g.figure}") in reasons and g.state == "grew"
        else g
        for g in cell.growth
    ]
    update: dict[str, object] = {"sections": sections, "growth": growth}
    if cell.whole and (reason := reasons.get(f"{cell.cell}: whole")):
        update["whole"] = cell.whole.model_copy(update={"accepted": reason})
    update["elements"] = [
        one.model_copy(update={"accepted": reasons[name]})
        if (name := f"{cell.cell}: {_element(one)}") in reasons and one.moved == "grew"
        else one
        for one in cell.elements
    ]
    if cell.work and (reason := reasons.get(f"{cell.cell}: work")):
        update["work"] = cell.work.model_copy(update={"accepted": reason})
    if not left and cell.outcome is Outcome.REGRESSION:
        undecided = any(g.state in ("open", "alarm") for g in cell.growth)
        undecided |= any(s.gated and s.moved == "unknown" for s in cell.sections)
        update["outcome"] = Outcome.INCONCLUSIVE if undecided else Outcome.PASS
        update["why"] = cell.why or ("other values of it are undecided" if undecided else "")
    return cell.model_copy(update=update)


def _whole_accepted(cell: CellVerdict, reasons: dict[str, str]) -> bool:
    """Whether the whole I/O did not grow, may grow, or grew by no more than accepted sections."""
    whole = cell.whole
    if whole is None or not whole.gated or whole.moved != "grew":
        return True
    if f"{cell.cell}: whole" in reasons:
        return True
    return is_covered(
        whole, [s for s in cell.sections if f"{cell.cell}: {s.section.value}" in reasons]
    )
