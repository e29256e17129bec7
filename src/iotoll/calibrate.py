"""What one trace event costs on the instructions clock, from the calibration runs of a boot.

Each calibration run repeats the reference run (4 KiB direct reads, one thread) with one event
recorded twice, in a second ring buffer: the sections around the event then grow by exactly what it
costs. A kprobe's trap is not doubled by that, so its runs leave the event out instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iotoll.models import Section
from iotoll.render import PREFIX
from iotoll.shift import measure_shift

LEAST = 100  # no event costs less (instructions); smaller shifts are the comb's own wandering
MOST = 3000  # nor more than this: a shift so large was found between the wrong teeth
LEFT_OUT = ("queue_rq_return",)
OFTEN = 0.5  # an event that most I/Os do not pass cannot be calibrated by them

Runs = Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]


def is_calibration(name: str) -> bool:
    """Tell whether a run's name is a calibration run's."""
    return name.startswith(f"{PREFIX}-")


def event_costs(runs: Runs) -> dict[str, float]:
    """Instructions per event, by name, from the analyser's (record, table) of each run.

    Events that were measured on several devices get the mean. Empty without calibration runs.
    """
    costs: dict[str, list[float]] = {}
    for name, (_, table) in runs.items():
        _, device, event = name.split("-", 2)
        reference = runs.get(f"{PREFIX}-{device}-reference")
        if event == "reference" or reference is None:
            continue
        cost = _cost(event, reference, table)
        if cost is not None:
            costs.setdefault(event, []).append(cost)
    return {event: round(sum(c) / len(c), 1) for event, c in sorted(costs.items())}


def _cost(
    event: str, reference: tuple[Mapping[str, Any], Mapping[str, Any]], table: Mapping[str, Any]
) -> float | None:
    record, before = reference
    order = list(Section)
    counts = [float(record["sections"][s.value]["probe_events"].get(event, 0.0)) for s in order]
    passed = [i for i, n in enumerate(counts) if n >= OFTEN]
    # A doubled record is written after the first one's time stamp: into the next section, if the
    # event is a section's last.
    touched = sorted({j for i in passed for j in (i, i + 1) if j < len(order)})
    shifts = []
    for i in touched:
        column = f"own_{order[i].value}"
        delta = measure_shift(before[column], table[column], tolerance=LEAST).delta
        shifts.append((abs(delta) / max(1, round(counts[i])), delta))
    if event in LEFT_OUT:  # its section's end moves too, so the neighbours' shifts belong to it
        total = float(abs(sum(delta for _, delta in shifts)))
    else:
        total = max((size for size, _ in shifts), default=0.0)
    return total if LEAST <= total <= MOST else None
