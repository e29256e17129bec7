"""What no instruction shows: a kernel that allows smaller or fewer requests than the base's.

Limits are facts of each boot (``lava-jobs/dut/limits.sh``). Any that differs is named first in the
verdict and is no plain pass, whichever way it went: which way is cheaper depends on the device, so
somebody must say that it is meant. Throughput is the time per I/O of cells that keep the modelled
device of an exact board busy. Fewer requests at once make it longer and no I/O's instructions more.

Pure functions of two result files and a policy, on both clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from statistics import fmean

from iotoll.records.facts import LATER
from iotoll.records.models import CellRecord, CellVerdict, Outcome, SideResult, VerdictRecord
from iotoll.records.models.verdict import LimitRecord, ThroughputRecord
from iotoll.records.text import DEVICES
from iotoll.verdict.policy import LimitsRule, Policy, ThroughputRule, TimePolicy

ABSENT = "absent"
"""The value of a limit that a kernel does not report."""
FIRST = (
    "queue.max_sectors_kb",
    "queue.max_segments",
    "host.can_queue",
    "device.queue_depth",
    "device.queue_count",
    "queue.nr_requests",
    "queue.read_ahead_kb",
    "queue.scheduler",
)
"""Limits by what they decide about a request: those that are named first, and always shown."""


def changed(base: SideResult, candidate: SideResult, rule: LimitsRule) -> list[LimitRecord]:
    """The limits that no boot of the base has as the candidate has them, what decides most first.

    Nothing where the base's boots know none (records of older versions). One that only the
    candidate reports is named and blocks nothing.
    """
    before, after = _values(base), _values(candidate)
    if not before:
        return []
    found = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, []), after.get(name, [])
        if set(new) <= set(old) and (new or not old):
            continue
        if any(fnmatchcase(name, pattern) for pattern in rule.ignore):
            continue
        found.append(
            LimitRecord(
                name=name,
                base="|".join(old) or ABSENT,
                candidate="|".join(new) or ABSENT,
                gated=bool(old),
            )
        )
    return sorted(found, key=_rank)


def _rank(one: LimitRecord) -> tuple[bool, int, bool]:
    """What only the candidate reports last, then by `FIRST`, then what changed later on."""
    name = one.name.removeprefix(LATER).partition(".")[2]
    place = FIRST.index(name) if name in FIRST else len(FIRST)
    return not one.gated, place, one.name.startswith(LATER)


def _values(side: SideResult) -> dict[str, list[str]]:
    """Each limit's values over the boots of a side, each once, in the order of the boots."""
    found: dict[str, list[str]] = {}
    for boot in side.boots:
        for name, value in boot.facts.limits.items():
            known = found.setdefault(name, [])
            known += [value] if value not in known else []
    return found


def throughput(
    base: SideResult, candidate: SideResult, cells: Iterable[str], rule: ThroughputRule
) -> list[ThroughputRecord]:
    """The time per I/O of the cells that the policy names, candidate against base, boot by boot."""
    wanted = [c for c in cells if any(fnmatchcase(c, pattern) for pattern in rule.cells)]
    return [
        _rate(name, base.cells.get(name, []), candidate.cells.get(name, []), rule)
        for name in wanted
    ]


def _rate(
    name: str, base: Sequence[CellRecord], candidate: Sequence[CellRecord], rule: ThroughputRule
) -> ThroughputRecord:
    times = [[_time(record) for record in side] for side in (base, candidate)]
    known = [[t for t in side if t] for side in times]
    if not all(known) or any(len(k) != len(t) for k, t in zip(known, times, strict=True)):
        return ThroughputRecord(
            cell=name,
            threshold=rule.at_most,
            moved="unknown",
            why="not judged: no record says from when to when the cell's I/Os took",
        )
    before, after = known
    changes = [new / old - 1 for old, new in zip(before, after, strict=False)]
    # As much as two boots of one kernel differ says nothing.
    least = max(rule.at_most, max(before) / min(before) - 1)
    grew, shrank = min(changes) > least, max(changes) < -least
    return ThroughputRecord(
        cell=name,
        base=round(fmean(before), 1),
        candidate=round(fmean(after), 1),
        relative=round(fmean(after) / fmean(before) - 1, 6),
        threshold=rule.at_most,
        moved="grew" if grew else "shrank" if shrank else "same",
    )


def _time(record: CellRecord) -> float:
    """Nanoseconds per I/O of a cell; 0 where it is not known."""
    ios = record.ios.get("seen", 0)
    return record.span / ios if record.span and ios and record.invalid is None else 0.0


def state(
    verdict: VerdictRecord, base: SideResult, candidate: SideResult, policy: Policy | TimePolicy
) -> VerdictRecord:
    """The verdict with limits and throughput in it: first in its sentence, and in its outcome.

    What cannot gate stays what it is, and so does what has no values.
    """
    limits = changed(base, candidate, policy.limits)
    rates = []
    if isinstance(policy, Policy):
        rates = throughput(base, candidate, (c.cell for c in verdict.cells), policy.throughput)
    verdict = verdict.model_copy(update={"limits": limits, "throughput": rates})
    told = sentence(verdict)
    unknown = [f"throughput of {r.cell} is {r.why}" for r in rates if r.moved == "unknown"]
    lines = [limit_line(one) for one in limits if one.gated]
    lines += [rate_line(one) for one in rates if one.moved == "grew"]
    update: dict[str, object] = {
        "sentence": f"{told} {verdict.sentence}".strip(),
        "regressions": [*lines, *verdict.regressions],
        "warnings": [*verdict.warnings, *unknown],
    }
    verdict = verdict.model_copy(update=update)
    if not verdict.can_gate or not lines:
        return verdict
    verdict = verdict.model_copy(update={"without_limits": verdict.outcome})
    outcome = blocked(verdict, policy.limits)
    cells = [slower_cell(cell, rates) for cell in verdict.cells]
    return verdict.model_copy(
        update={"outcome": outcome, "exit_code": outcome.exit_code, "cells": cells}
    )


def slower_cell(cell: CellVerdict, rates: Sequence[ThroughputRecord]) -> CellVerdict:
    """A cell whose throughput fell is a regression, if it was none."""
    if cell.outcome not in (Outcome.PASS, Outcome.INCONCLUSIVE):
        return cell
    for rate in rates:
        if rate.cell == cell.cell and rate.moved == "grew" and rate.accepted is None:
            return cell.model_copy(update={"outcome": Outcome.REGRESSION, "why": rate_line(rate)})
    return cell


def blocked(verdict: VerdictRecord, rule: LimitsRule) -> Outcome:
    """The outcome with what differs and nobody has accepted; never a better one."""
    # A cell without usable values may be without them for the limit: it does not hide one.
    worse = {Outcome.PASS: 0, Outcome.INCONCLUSIVE: 1, Outcome.INFRASTRUCTURE: 2}
    if verdict.without_limits is None or verdict.outcome not in worse:
        return verdict.outcome
    if any(rate.moved == "grew" and rate.accepted is None for rate in verdict.throughput):
        return Outcome.REGRESSION
    outcome = verdict.outcome
    if any(one.gated and one.accepted is None for one in verdict.limits):
        other = Outcome(rule.differ)
        outcome = other if worse.get(other, 3) > worse[outcome] else outcome
    return outcome


def sentence(verdict: VerdictRecord) -> str:
    """What differs and nobody has accepted, in one or two sentences; empty where nothing does."""
    lines = [limit_words(one) for one in verdict.limits if one.gated and one.accepted is None]
    rates = [r for r in verdict.throughput if r.moved == "grew" and r.accepted is None]
    said = [f"Limits differ: {', '.join(lines)}."] if lines else []
    said += [f"{rate_line(one)}." for one in rates]
    return " ".join(said)


def limit_words(one: LimitRecord) -> str:
    """``UFS max_sectors_kb 1024 -> 128``."""
    device, _, rest = one.name.partition(".")
    name = f"{DEVICES[device]} {rest.removeprefix('queue.')}" if device in DEVICES else one.name
    return f"{name} {one.base} -> {one.candidate}"


def limit_line(one: LimitRecord) -> str:
    """A limit's difference as a line of its own, with the name that a trailer has for it."""
    return f"limit {one.name}: {one.base} -> {one.candidate}"


def rate_line(one: ThroughputRecord) -> str:
    """``CELL: throughput on the modelled device 30,000 to 16,000 IOPS (+87.5% time per I/O)``."""
    if not (one.base and one.candidate):
        return f"{one.cell}: throughput {one.why}"
    return (
        f"{one.cell}: throughput on the modelled device {1e9 / one.base:,.0f} to"
        f" {1e9 / one.candidate:,.0f} IOPS ({one.relative:+.1%} time per I/O)"
    )
