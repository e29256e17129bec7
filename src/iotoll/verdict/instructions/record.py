"""What a verdict stores and says of paired I/Os: their distribution, the size, how sure it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from iotoll.records.models import Cluster, PairedIosRecord, TrialRecord
from iotoll.verdict.amount import rounded
from iotoll.verdict.instructions.decide import Asked, Trial, trials
from iotoll.verdict.instructions.pairing import PairedIos
from iotoll.verdict.policy import CountRule

SHOWN = 6
"""Clusters of a record; the others are in the traces."""


def size_of(found: PairedIos, moved: Trial | None, count: CountRule) -> tuple[float, float]:
    """The base's value of the I/Os, and by how much they moved; there must be at least one.

    Medians, where the median I/O moved, or none did. Else means: those of what moved.
    """
    middle = float(np.quantile(found.differences, 0.5, method="lower"))
    if moved is None:
        return float(np.median(found.base)), middle if abs(middle) <= count.threshold else 0.0
    way = way_of(moved)
    if way * middle > moved.size:
        return float(np.median(found.base)), middle
    return round(float(found.base.mean()), 1), rounded(way * moved.cost, 1)


def way_of(moved: Trial) -> int:
    """1 where it grew, else -1."""
    return 1 if moved.grew else -1


def distribution(found: PairedIos, moved: Trial | None, asked: Asked) -> PairedIosRecord:
    """The distribution of differences, as the verdict stores it; there must be at least one."""
    counts = Counter(found.differences.tolist())
    total = len(found.differences)
    # Of equally common differences the smallest one, so that the record is a function of the data.
    ranked = sorted(counts.items(), key=lambda item: (-item[1], abs(item[0]), item[0]))
    size = asked.count.threshold if moved is None else moved.size
    own = [float(np.mean(one > size) - np.mean(one < -size)) for one in found.own if len(one)]
    return PairedIosRecord(
        pairs=total,
        exact=round(counts[0] / total, 4),
        commonest=ranked[0][0],
        commonest_share=round(ranked[0][1] / total, 4),
        mean=round(float(found.differences.mean()), 2),
        above=int((found.differences > size).sum()),
        below=int((found.differences < -size).sum()),
        size=size,
        noise=round(max(map(abs, own)), 4) if own else None,
        clusters=[
            Cluster(delta=d, ios=n, opposite=counts.get(-d, 0), share=round(n / total, 4))
            for d, n in [item for item in ranked if item[0] != 0][:SHOWN]
        ],
        rare=_rest(found, moved, asked) if moved else None,
        unpaired=found.unpaired,
        trial=None if moved is None else trial_record(moved),
    )


def trial_record(one: Trial) -> TrialRecord:
    """A trial as verdicts store it."""
    return TrialRecord(
        of="rounds" if one.rounds else "I/Os",
        size=one.size,
        above=one.above,
        below=one.below,
        total=one.total,
        own=round(one.own, 4),
        moved=one.moved,
        agree=one.agree,
        typical=round(one.typical, 1),
        boots=[round(share, 4) for share in one.boots],
    )


def _rest(found: PairedIos, moved: Trial, asked: Asked) -> Cluster | None:
    """What some I/Os have beside what most of them do: +5,000 in every 8th, where all have +8.

    The same rule, asked of what is left when the median difference is taken off; of its answers
    the one that costs most.
    """
    middle = int(np.quantile(found.differences, 0.5, method="lower"))
    left = replace(found, differences=found.differences - middle)
    wanted = replace(asked, share=asked.rule.pool_share)
    some = [
        one
        for one in trials(left, wanted)
        if not one.rounds and one.grew == moved.grew and not wanted.lacks(one)
    ]
    best = max(some, key=lambda one: one.cost, default=None)
    if way_of(moved) * middle <= moved.size or best is None or best.cost <= asked.count.threshold:
        return None
    ios, opposite = (best.above, best.below) if best.grew else (best.below, best.above)
    delta = middle + round(best.typical if best.grew else -best.typical)
    return Cluster(delta=delta, ios=ios, opposite=opposite, share=round(ios / best.total, 4))


def how_sure(record: PairedIosRecord, moved: Trial | None) -> str:
    """What the verdict rests on, in plain words, from the rule's own numbers."""
    if moved is None or record.trial is None:
        return f"{record.exact:.0%} of {record.pairs} I/Os cost exactly what their pair does."
    name = "rounds of I/Os" if moved.rounds else "I/Os"
    most, others = (moved.above, moved.below) if moved.grew else (moved.below, moved.above)
    verbs = ("grew", "shrank") if moved.grew else ("shrank", "grew")
    if most == moved.total:
        told = f"All {most} {name} {verbs[0]}"
    else:
        rest = f" and {others} {verbs[1]}" if others else ""
        each = " on average" if moved.rounds else ""
        told = f"{most} of {moved.total} {name} {verbs[0]}{rest} by more than {moved.size}{each}"
    same = record.commonest if moved.grew else -record.commonest
    if same > moved.size:
        told += f", {record.commonest_share:.0%} of the I/Os by exactly {same:,}."
    else:
        told += f", typically by {moved.typical:,.0f}."
    if record.noise is None:
        return told
    if not moved.own:
        return f"{told} No two boots of the base differ so."
    return f"{told} Two boots of the base differ so in {moved.own:.1%} of the {name}."
