"""An event's cost on the clock `time`: believed only where it stands out of the noise."""

from __future__ import annotations

import numpy as np
import pytest

from iotoll.measure.calibrate import event_costs
from iotoll.measure.calibrate_time import LEAST_IOS, time_cost
from iotoll.records.models import Clock

IOS = 512


def times(seed: int, median: float, spread: float, ios: int = IOS) -> list[int]:
    """Times of a section in ns: a bell with a tail, as interrupts and caches make it."""
    random = np.random.default_rng(seed)
    tail = random.exponential(10 * spread, ios) * (random.random(ios) < 0.05)
    return [int(v) for v in random.normal(median, spread, ios) + tail]


def test_a_doubled_event_costs_what_its_section_grew_by() -> None:
    before, after = {"own_a": times(1, 9_000, 400)}, {"own_a": times(2, 9_350, 400)}
    cost = time_cost([("own_a", 1)], before, after, left_out=False)
    assert cost == pytest.approx(350, abs=90)
    two = time_cost([("own_a", 2)], before, after, left_out=False)
    assert two == pytest.approx(175, abs=45)


def test_an_event_that_is_left_out_costs_what_all_its_sections_shrank_by() -> None:
    before = {"own_a": times(1, 9_000, 300), "own_b": times(2, 5_000, 300)}
    after = {"own_a": times(3, 8_000, 300), "own_b": times(4, 4_800, 300)}
    columns = [("own_a", 1), ("own_b", 1)]
    assert time_cost(columns, before, after, left_out=True) == pytest.approx(1_200, abs=120)
    assert time_cost([*columns, ("own_c", 1)], before, after, left_out=True) is None


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_no_cost(seed: int) -> None:
    before, after = {"a": times(seed, 9_000, 900)}, {"a": times(seed + 100, 9_000, 900)}
    assert time_cost([("a", 1)], before, after, left_out=False) is None


def test_a_cost_within_the_noise_is_not_believed() -> None:
    before, after = {"a": times(1, 90_000, 9_000)}, {"a": times(2, 90_350, 9_000)}
    assert time_cost([("a", 1)], before, after, left_out=False) is None


def test_too_few_ios_and_absurd_costs_are_none() -> None:
    few = LEAST_IOS - 1
    before, after = {"a": times(1, 9_000, 10, few)}, {"a": times(2, 9_500, 10, few)}
    assert time_cost([("a", 1)], before, after, left_out=False) is None
    before, after = {"a": times(1, 9_000, 10)}, {"a": times(2, 99_000, 10)}
    assert time_cost([("a", 1)], before, after, left_out=False) is None
    assert time_cost([("a", 1)], {}, {}, left_out=False) is None


def test_the_clock_decides_how_a_boots_runs_are_read() -> None:
    sections = {
        s: {"probe_events": {"block_rq_issue": 1.0} if s == "submission" else {}}
        for s in ("vfs_fs", "submission", "hardware", "completion", "return")
    }
    tables = [
        {f"own_{s}": times(n * 10 + i, 9_000 + n * 400 * (s == "submission"), 300)}
        for n in range(2)
        for i, s in enumerate(sections)
    ]
    merged = [dict(p for t in tables[n * 5 : n * 5 + 5] for p in t.items()) for n in range(2)]
    runs = {
        "calibration-ufs-reference": ({"sections": sections}, merged[0]),
        "calibration-ufs-block_rq_issue": ({"sections": sections}, merged[1]),
    }
    found = event_costs(runs, Clock.TIME)
    assert found["block_rq_issue"] == pytest.approx(400, abs=90)
