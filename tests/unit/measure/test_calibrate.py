"""An event's cost, from runs that recorded it twice, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from iotoll.boots.job import is_calibration
from iotoll.measure.calibrate import LEAST, MOST, event_costs
from iotoll.records.models import Section

PEAKS = [5000, 5000, 5000, 5130, 5130, 5420, 5420, 5420] * 8
Run = tuple[Mapping[str, Any], Mapping[str, Any]]


def run(
    moved: Mapping[Section, int] | None = None,
    events: Mapping[str, tuple[Section, float]] | None = None,
) -> Run:
    """Record and table of one run; ``events`` says in which section each one is recorded."""
    sections: dict[str, dict[str, Any]] = {s.value: {"probe_events": {}} for s in Section}
    for event, (section, count) in (events or {}).items():
        sections[section.value]["probe_events"][event] = count
    table = {f"own_{s.value}": [v + (moved or {}).get(s, 0) for v in PEAKS] for s in Section}
    return {"sections": sections}, table


def costs(event: str, moved: Mapping[Section, int], where: Section, count: float = 1) -> object:
    runs = {
        "calibration-ufs-reference": run(events={event: (where, count)}),
        f"calibration-ufs-{event}": run(moved),
    }
    return event_costs(runs).get(event)


def test_doubled_event_costs_what_its_section_grew_by() -> None:
    assert costs("block_rq_issue", {Section.SUBMISSION: 620}, Section.SUBMISSION) == 620


def test_event_at_the_end_of_a_section_is_seen_in_the_next() -> None:
    assert costs("block_bio_queue", {Section.SUBMISSION: 640}, Section.VFS_FS) == 640


def test_event_that_fires_twice_costs_half() -> None:
    assert costs("sched_switch", {Section.HARDWARE: 1200}, Section.HARDWARE, 2) == 600


def scattered(step: int) -> list[int]:
    """A section whose counts are another mixture in every run, as the way back of few I/Os is."""
    return [4000 + (i * step) % 1997 for i in range(len(PEAKS))]


@pytest.mark.parametrize("left_out", [False, True])
def test_section_that_does_not_repeat_says_nothing(left_out: bool) -> None:
    event = "queue_rq_return" if left_out else "nvme_sq"
    moved = -1500 if left_out else 609
    before = run(events={event: (Section.COMPLETION, 1.0)})
    after = run({Section.COMPLETION: moved})
    assert isinstance(before[1], dict) and isinstance(after[1], dict)
    before[1]["own_return"], after[1]["own_return"] = scattered(617), scattered(1201)
    runs = {"calibration-nvme-reference": before, f"calibration-nvme-{event}": after}
    # What leaving an event out did to the neighbour cannot be told: no cost is better than a guess.
    assert event_costs(runs) == ({} if left_out else {event: 609})


def test_left_out_probe_counts_what_both_neighbours_lost() -> None:
    moved = {Section.SUBMISSION: -400, Section.HARDWARE: -1100}
    assert costs("queue_rq_return", moved, Section.SUBMISSION) == 1500


@pytest.mark.parametrize("cost", [0, LEAST - 20, MOST + 500])
def test_implausible_costs_are_none(cost: int) -> None:
    assert costs("block_rq_issue", {Section.SUBMISSION: cost}, Section.SUBMISSION) is None


def test_event_that_few_ios_pass_cannot_be_calibrated() -> None:
    assert costs("softirq_entry", {Section.SUBMISSION: 600}, Section.SUBMISSION, 0.3) is None


def test_two_devices_give_the_mean_and_no_reference_gives_nothing() -> None:
    place = {"block_rq_issue": (Section.SUBMISSION, 1.0)}
    runs = {
        "calibration-ufs-reference": run(events=place),
        "calibration-ufs-block_rq_issue": run({Section.SUBMISSION: 600}),
        "calibration-nvme-reference": run(events=place),
        "calibration-nvme-block_rq_issue": run({Section.SUBMISSION: 650}),
    }
    assert event_costs(runs) == {"block_rq_issue": 625.0}
    for device in ("ufs", "nvme"):
        del runs[f"calibration-{device}-reference"]
    assert event_costs(runs) == {}
    assert event_costs({}) == {}


def test_names() -> None:
    assert is_calibration("calibration-ufs-reference")
    assert not is_calibration("ufs-4k-randread-t1-direct")
