"""The gate on the `instructions` clock: candidate against base, I/O by I/O, on an exact board.

A pure function of two result files and a policy. Each I/O is compared with its pair of the other
kernel (`iotoll.verdict.instructions.pairing`) by one rule
(`iotoll.verdict.instructions.decide`): per cell and section, for the whole I/O, and over the cells
of a device together, where a cost may show that is too rare for a cell alone.

One boot of each side is enough for a pass. Where it shows something, `Judgement.open` names the
cells, and the policy says how many boots there must be: each begins its cells a stated bit later on
both sides, so that the kernels meet other timers, and what moved must have moved in all of them. No
further boot is needed where the changed functions have most of what grew
(`iotoll.verdict.instructions.evidence`).
The thresholds are data (pipelines/policies/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from iotoll.boards.cells import parse_cell
from iotoll.core.errors import InfrastructureError
from iotoll.records.models import (
    CellRecord,
    CellVerdict,
    Clock,
    Comparison,
    Outcome,
    PoolRecord,
    Section,
    SectionComparison,
    SideResult,
)
from iotoll.verdict.elements import compare_elements
from iotoll.verdict.findings import lines_of, sentence_of
from iotoll.verdict.instructions import pairing
from iotoll.verdict.instructions.decide import Asked, find
from iotoll.verdict.instructions.evidence import Evidence, blocks, of_changed
from iotoll.verdict.instructions.pairing import PairedIos
from iotoll.verdict.instructions.pooling import pools
from iotoll.verdict.instructions.record import distribution, how_sure, size_of
from iotoll.verdict.policy import CountRule, Policy
from iotoll.verdict.words import moved_lines
from iotoll.verdict.work import compare_work


@dataclass(frozen=True)
class Judgement:
    """What a run's figures say: the outcome, and every cell's comparisons.

    ``open`` are the cells that need further boots before this may be the verdict.
    """

    outcome: Outcome
    cells: list[CellVerdict]
    regressions: list[str]
    improvements: list[str]
    sentence: str
    pools: list[PoolRecord] = field(default_factory=list)
    headline: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)


def judge(
    base: SideResult,
    candidate: SideResult,
    policy: Policy,
    cells: Sequence[str],
    by_evidence: bool = False,
) -> Judgement:
    """Judge all boots of both sides; ``cells`` are those that were selected.

    ``by_evidence``: first boots decide a device where functions tell enough (`evidence`).
    Raises InfrastructureError when the two sides cannot be compared: another clock or board.
    """
    check_comparable(base, candidate, policy)
    return judge_cells(base, candidate, policy, cells, by_evidence)


def judge_cells(
    base: SideResult,
    candidate: SideResult,
    policy: Policy,
    cells: Sequence[str],
    by_evidence: bool = False,
) -> Judgement:
    """As `judge`, for sides that are known to be comparable (experiments)."""
    policy = fitting(base, candidate, policy)
    judged = [_cell(name, base, candidate, policy) for name in cells]
    paired = {verdict.cell: found for verdict, found in judged if found}
    verdicts = [verdict for verdict, _ in judged]
    grown = pools(paired, verdicts, policy)
    incomparable = [
        v.cell
        for v, found in judged
        if v.outcome is Outcome.INCONCLUSIVE
        and any(_lack(t, policy) or (not t.own and _differ(t, policy)) for t in found.values())
    ]
    few = _few(verdicts, candidate, policy)
    if by_evidence:
        told = _decided(few, incomparable, partial(Evidence.of, base, candidate, policy.perturb))
        verdicts = [told.get(v.cell, v) for v in verdicts]
        few = [v for v in few if v.cell not in told]
        devices = {_device(v) for v in told.values()}
        grown = [pool for pool in grown if pool.device not in devices]
    return conclude(verdicts, grown, _open(few, grown, incomparable))


def fitting(base: SideResult, candidate: SideResult, policy: Policy) -> Policy:
    """The policy for the boards of both sides: CPUs that take turns have other thresholds."""
    shared = any(boot.shares_clock for side in (base, candidate) for boot in side.boots)
    return policy.on_shared_clock() if shared else policy


def conclude(
    verdicts: list[CellVerdict],
    grown: Sequence[PoolRecord] = (),
    unsettled: Sequence[str] = (),
) -> Judgement:
    """The outcome of a run from its cells': the worst of them, and partial results never pass."""
    outcomes = {v.outcome for v in verdicts}
    if any(pool.moved == "grew" for pool in grown):
        outcomes.add(Outcome.REGRESSION)
    order = (Outcome.REGRESSION, Outcome.INFRASTRUCTURE, Outcome.INCONCLUSIVE)
    outcome = next((o for o in order if o in outcomes), Outcome.PASS)
    lines = {how: moved_lines(verdicts, grown, how) for how in ("grew", "shrank")}
    return Judgement(
        outcome,
        verdicts,
        lines["grew"],
        lines["shrank"],
        sentence_of(outcome, verdicts, grown),
        list(grown),
        lines_of(verdicts, grown),
        list(unsettled),
    )


def check_comparable(base: SideResult, candidate: SideResult, policy: Policy) -> None:
    """Raise InfrastructureError unless both sides ran the same jobs on the same board."""
    clocks = {base.clock, candidate.clock, policy.clock}
    if clocks != {Clock.INSTRUCTIONS}:
        raise InfrastructureError("the deterministic gate judges the clock 'instructions' only")
    boards = [[boot.board_sha256 for boot in side.boots] for side in (base, candidate)]
    # The base may have booted more often: it shows how much it differs from itself.
    if boards[0][: len(boards[1])] != boards[1]:
        raise InfrastructureError("base and candidate ran on different boards or jobs: run again")


Paired = dict[Section | None, PairedIos]


def _cell(
    name: str, base: SideResult, candidate: SideResult, policy: Policy
) -> tuple[CellVerdict, Paired]:
    sides = (base.cells.get(name, []), candidate.cells.get(name, []))
    why = _unusable(sides)
    if why:
        return CellVerdict(cell=name, outcome=Outcome.INFRASTRUCTURE, sections=[], why=why), {}
    paired, found = _instructions(name, *sides, policy)
    sections = [
        SectionComparison(section=part, **fields)
        for part in policy.sections
        if (fields := found[part])
    ]
    if policy.moved_between == "allow":
        sections = _balanced(sections)
    whole = Comparison(**fields) if (fields := found[None]) else None
    changed = frozenset(candidate.changed or ())
    work = compare_work(*sides, (sections, whole), policy.work, changed)
    elements = compare_elements(*sides, policy, partial(compare_counts, policy, name), changed)
    parts_of = (*sections, whole, work, *elements)
    gated = [part for part in parts_of if part is not None and part.gated]
    outcome, why = Outcome.PASS, ""
    if unknown := [part for part in gated if part.moved == "unknown"]:
        outcome, why = Outcome.INCONCLUSIVE, unknown[0].why
    if not any(s.gated for s in sections):
        outcome, why = Outcome.INCONCLUSIVE, "no section of this cell can be judged"
    if any(part.moved == "grew" for part in gated):
        outcome, why = Outcome.REGRESSION, ""
    verdict = CellVerdict(
        cell=name,
        outcome=outcome,
        sections=sections,
        whole=whole,
        work=work,
        elements=elements,
        why=why,
    )
    return verdict, paired


Fields = dict[str, Any] | None


def _instructions(
    name: str, base: Sequence[CellRecord], candidate: Sequence[CellRecord], policy: Policy
) -> tuple[Paired, dict[Section | None, Fields]]:
    """The paired I/Os of each part of a cell, and what the rule says of them."""
    parts: list[Section | None] = [*policy.sections, None]
    paired = pairing.pair(base, candidate, parts, parse_cell(name).depth, policy.moved)
    counts = {part: per_io(policy.rule(name, part), base) for part in parts}
    found = {part: compare(paired[part], counts[part], policy) for part in parts}
    for part, one in affected(name, base, candidate, counts, policy).items():
        fields = compare(one, affected_count(counts[part]), policy)
        if fields and _tells(fields, found[part], counts[part]):
            found[part] = {**fields, "confidence": f"{fields['confidence']} {AFFECTED}"}
    return paired, found


def _tells(fields: dict[str, Any], every: Fields, count: CountRule) -> bool:
    """Whether what affected functions differ by stands for what ``every`` function does.

    That is where it moved, and the total as well by as much, but for its threshold, or not at all.
    """
    if every is None or fields["moved"] not in ("grew", "shrank"):
        return False
    if every["moved"] != fields["moved"]:
        return bool(every["moved"] == "same")
    return bool(abs(every["delta"] - fields["delta"]) <= count.threshold)


def compare_counts(
    policy: Policy,
    cell: str,
    base: Sequence[CellRecord],
    candidate: Sequence[CellRecord],
    part: Section | None,
    counts: Sequence[CountRule],
) -> dict[str, Any] | None:
    """As `compare`, for records that have other counts in the place of instructions.

    By the first of ``counts`` by which they moved; None where they did by none.
    """
    paired = pairing.pair(base, candidate, [part], parse_cell(cell).depth, policy.moved)
    tried = (compare(paired[part], count, policy) for count in counts)
    return next((one for one in tried if one and one["moved"] in ("grew", "shrank")), None)


def _unusable(sides: Sequence[Sequence[Any]]) -> str:
    if not all(sides):
        return "no values of one side"
    if len(sides[0]) < len(sides[1]):
        return "the candidate has more boots of it than the base"
    return next((r.invalid for side in sides for r in side if r.invalid), "")


def per_io(count: CountRule, base: Sequence[CellRecord]) -> CountRule:
    """The count with its threshold for the cell's mean I/O, where it is one for each request."""
    if not count.per_request:
        return count
    ios = sum(path.ios for record in base for path in record.paths)
    requests = sum(path.ios * path.requests for record in base for path in record.paths)
    times = max(round(requests / ios), 1) if ios else 1
    update = {"threshold": count.threshold * times}
    if count.affected is not None:
        update["affected"] = count.affected * times
    return count.model_copy(update=update)


AFFECTED = "Counted in the functions that the candidate affects."
"""What the verdict rests on where the CPUs share a clock, and a smaller threshold holds."""


def affected(
    cell: str,
    base: Sequence[CellRecord],
    candidate: Sequence[CellRecord],
    counts: Mapping[Section | None, CountRule],
    policy: Policy,
) -> Paired:
    """The parts of a cell of which differences of the functions are judged that the patch affects.

    None where one threshold holds for all functions, or where a boot did not count them apart.
    """
    records = (*base, *candidate)
    if any(one.vector is None for one in records) or not any(one.affected for one in records):
        return {}
    parts = [part for part, count in counts.items() if count.affected is not None]
    return pairing.pair(base, candidate, parts, parse_cell(cell).depth, policy.moved, affected=True)


def affected_count(count: CountRule) -> CountRule:
    """The same count with the threshold of functions that the candidate affects."""
    return count.model_copy(update={"threshold": count.affected, "affected": None})


def asked(policy: Policy, count: CountRule, boots: int) -> Asked:
    """What the rule asks of a cell that has so many boots of each side."""
    return Asked(policy.moved, count, policy.moved.share, boots < policy.perturb.boots)


def compare(found: PairedIos, count: CountRule, policy: Policy) -> dict[str, Any] | None:
    """The fields of a `Comparison`; None where neither side has any such count."""
    pairs = len(found.differences)
    if not pairs and not found.foreign and not found.unpaired:
        return None
    least = policy.min_ios * max(found.boots, 1)
    few = f"fewer than {policy.min_ios} I/Os" if pairs < least else ""
    # So few that no share of them says anything, whether they are paired or not.
    why = few if found.ios < least else incomparable(found, policy)
    if why or not pairs:
        middle = float(np.median(found.base)) if pairs else 0.0
        gated = count.gated and found.ios >= least
        return _fields(middle, 0.0, count, "unknown", "not compared", why, gated)
    wanted = asked(policy, count, found.boots)
    moved = find(found, wanted)
    base, delta = size_of(found, moved, count)
    record = distribution(found, moved, wanted)
    values = _fields(
        base,
        delta,
        count,
        "same" if moved is None else "grew" if moved.grew else "shrank",
        how_sure(record, moved),
        few or count.why,
        gated=count.gated and not few,
    )
    return {**values, "share": round(moved.share, 4) if moved else 1.0, "paired": record}


def _fields(
    base: float,
    delta: float,
    count: CountRule,
    moved: str,
    confidence: str,
    why: str,
    gated: bool,
) -> dict[str, Any]:
    return {
        "base": base,
        "candidate": base + delta,
        "delta": delta,
        "relative": delta / base if base else 0.0,
        "threshold": float(count.threshold),
        "gated": gated,
        "moved": moved,
        "confidence": confidence,
        "why": why,
    }


def incomparable(found: PairedIos, policy: Policy) -> str:
    """Why a part cannot be compared; empty where it can."""
    if _differ(found, policy):
        base, candidate = found.kinds
        return f"not comparable: marks differ ({base} in base, {candidate} in candidate)"
    if _lack(found, policy):
        return f"not comparable: {found.unpaired} of {found.ios} I/Os have no pair"
    return ""


def _differ(found: PairedIos, policy: Policy) -> bool:
    """Whether more I/Os have other marks than the policy allows, and than the base itself shows.

    Which of two CPUs is first decides the mark of a few I/Os. Most of them differ by the patch.
    """
    return _is_more(found.foreign, found.ios, policy.marks, found.own_foreign, policy)


def _lack(found: PairedIos, policy: Policy) -> bool:
    """Whether more I/Os are unpaired than the policy allows, and than the base itself shows."""
    return _is_more(found.unpaired, found.ios, policy.unpaired, found.own_unpaired, policy)


def _is_more(count: int, ios: int, allowed: float, own: float, policy: Policy) -> bool:
    """One more is none: of few I/Os, each is several percent."""
    return count > max(allowed, policy.moved.own * own) * ios + 1


def _balanced(sections: list[SectionComparison]) -> list[SectionComparison]:
    """What grew counts as moved when the sections of the I/O together did not grow."""
    if sum(s.delta for s in sections if s.has_moved) > 0:
        return sections
    return [
        s.model_copy(update={"moved": "same", "why": f"moved between sections: {s.delta:+.0f}"})
        if s.moved == "grew"
        else s
        for s in sections
    ]


def _few(
    verdicts: Sequence[CellVerdict], candidate: SideResult, policy: Policy
) -> list[CellVerdict]:
    """The cells of which the candidate has fewer boots than the policy asks for."""
    boots = policy.perturb.boots
    return [v for v in verdicts if len(candidate.cells.get(v.cell, [])) < boots]


def _decided(
    few: Sequence[CellVerdict],
    incomparable: Sequence[str],
    evidence: Callable[[str], Evidence],
) -> dict[str, CellVerdict]:
    """The cells of devices that need no further boot: the changed functions grew by themselves.

    They do so in a cell at least, and in each that moved they have most of something that moved.
    """
    told = {v.cell: of_changed(v, evidence(v.cell)) for v in few if _moved(v)}
    decided = {_device(v) for v in told.values() if blocks(v)}
    decided -= {_device(v) for v in few if v.cell in incomparable}
    decided -= {_device(v) for v in told.values() if not _moved(v)}
    return {v.cell: told.get(v.cell, v) for v in few if _device(v) in decided}


def _open(
    few: Sequence[CellVerdict], found: Sequence[PoolRecord], incomparable: Sequence[str]
) -> list[str]:
    """The cells of each device that moved in ``few`` boots.

    Or whose I/Os lack pairs or have other marks, where the base's own boots have not yet shown how
    many do by themselves. All of a device's cells, so that the base's further boots are the same
    for most candidates and come from the store of earlier boots.
    """
    devices = {pool.device for pool in found}
    devices |= {_device(v) for v in few if v.cell in incomparable or _moved(v)}
    return [v.cell for v in few if _device(v) in devices]


def _moved(cell: CellVerdict) -> bool:
    """Whether anything moved that is gated."""
    parts = (*cell.sections, cell.whole, cell.work, *cell.elements)
    return any(part is not None and part.gated and part.has_moved for part in parts)


def _device(verdict: CellVerdict) -> str:
    return verdict.cell.partition("-")[0]
