"""What one trace event costs, from the calibration runs of a boot.

Each calibration run repeats the reference run (4 KiB direct reads, one thread) with one event
recorded twice, in a second ring buffer: the sections around the event then grow by exactly what it
costs. A kprobe's trap is not doubled by that, so its runs leave the event out instead. On the clock
`instructions` spectra are compared here; `iotoll.measure.calibrate_time` has the clock `time`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from iotoll.boots.job import PREFIX
from iotoll.measure.calibrate_time import time_cost
from iotoll.measure.shift import Shift, measure_shift
from iotoll.records.models import Clock, Section

LEAST = 100  # no event costs less (instructions); smaller shifts are the spectrum's own wandering
MOST = 3000  # nor more than this: a shift so large was found between the wrong peaks
LEFT_OUT = ("queue_rq_return",)
OVERLAP, RATIO = 0.4, 2.0
"""A shift is believed when the spectra overlap so well, and so many times as well as unmoved."""
OFTEN = 0.5  # an event that most I/Os do not pass cannot be calibrated by them

Runs = Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]


def event_costs(runs: Runs, clock: Clock = Clock.INSTRUCTIONS) -> dict[str, float]:
    """The clock's units per event, by name, from the analyser's (record, table) of each run.

    Events that were measured on several devices get the mean. Empty without calibration runs.
    """
    costs: dict[str, list[float]] = {}
    for name, (_, table) in runs.items():
        _, device, event = name.split("-", 2)
        reference = runs.get(f"{PREFIX}-{device}-reference")
        if event == "reference" or reference is None:
            continue
        cost = _cost(event, reference, table, clock)
        if cost is not None:
            costs.setdefault(event, []).append(cost)
    return {event: round(sum(c) / len(c), 1) for event, c in sorted(costs.items())}


def _cost(
    event: str,
    reference: tuple[Mapping[str, Any], Mapping[str, Any]],
    table: Mapping[str, Any],
    clock: Clock,
) -> float | None:
    record, before = reference
    order = list(Section)
    counts = [float(record["sections"][s.value]["probe_events"].get(event, 0.0)) for s in order]
    passed = [i for i, n in enumerate(counts) if n >= OFTEN]
    # A doubled record is written after the first one's time stamp: into the next section, if the
    # event is a section's last.
    touched = sorted({j for i in passed for j in (i, i + 1) if j < len(order)})
    if clock is Clock.TIME:
        columns = [(f"own_{order[i].value}", max(1, round(counts[i]))) for i in touched]
        return time_cost(columns, before, table, event in LEFT_OUT)
    shifts = []
    for i in touched:
        column = f"own_{order[i].value}"
        shift = measure_shift(before[column], table[column], tolerance=LEAST)
        shifts.append((shift, max(1, round(counts[i]))))
    total = _left_out(shifts) if event in LEFT_OUT else _doubled(shifts)
    return total if total is not None and LEAST <= total <= MOST else None


def _doubled(shifts: Sequence[tuple[Shift, int]]) -> float | None:
    """The cost by the section that shows it best; None when none does.

    Not the largest shift: wake-up and return of 32 I/Os mix differently in every run.
    """
    sure = [(shift.overlap, shift.delta / n) for shift, n in shifts if _is_sure(shift)]
    return max(sure)[1] if sure else None


def _left_out(shifts: Sequence[tuple[Shift, int]]) -> float | None:
    """The cost of an event that is left out: its section's end moves, so its neighbours' shifts
    belong to it, each of which must be known."""
    known = all(_is_sure(s) or (s.overlap >= OVERLAP and abs(s.delta) < LEAST) for s, _ in shifts)
    return float(abs(sum(shift.delta for shift, _ in shifts))) if known else None


def _is_sure(shift: Shift) -> bool:
    return shift.overlap >= OVERLAP and shift.overlap >= RATIO * shift.overlap_still
