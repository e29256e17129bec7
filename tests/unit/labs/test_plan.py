"""The plan of boards: its queue against what queueing theory knows, and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from iotoll.core.errors import UsageError
from iotoll.labs.plan import SCAN, arrivals, plan_command, simulate


def asked(*words: str) -> dict[str, float]:
    found = CliRunner().invoke(plan_command, [*words, "--json"], catch_exceptions=False)
    answer: dict[str, float] = json.loads(found.output)
    return answer


def test_a_job_alone_waits_for_the_schedulers_next_look() -> None:
    queued = simulate(np.array([5.0]), 1, 100, 0, 1, np.random.default_rng(1))
    assert queued.waits.tolist() == [SCAN - 5]
    assert queued.turnarounds.tolist() == [SCAN - 5 + 100]


def test_jobs_of_one_request_share_the_boards() -> None:
    queued = simulate(np.array([0.0]), 4, 100, 0, 2, np.random.default_rng(1))
    assert queued.waits.tolist() == [0, 0, 100, 100]
    assert queued.turnarounds.tolist() == [200]


def test_waits_are_those_of_an_md1_queue() -> None:
    """One board at 70 % with constant times: M/D/1's mean wait is rho s / (2 (1 - rho))."""
    rng = np.random.default_rng(3)
    moments = np.cumsum(rng.exponential(1000 / 0.7, 200_000))
    queued = simulate(moments, 1, 1000, 0, 1, rng)
    expected = 0.7 * 1000 / (2 * 0.3)
    # The scheduler's looks add some seconds to each job.
    assert np.mean(queued.waits) == pytest.approx(expected + SCAN / 2, rel=0.1)


def test_arrivals_have_their_rate_and_their_peak() -> None:
    moments = arrivals(1000, 20, 1.8, np.random.default_rng(4))
    assert len(moments) == pytest.approx(20_000, rel=0.03)
    hour = (moments // 3600 % 24).astype(int)
    assert np.bincount(hour, minlength=24).argmax() in range(12, 17)


def test_more_boards_wait_less_and_enough_are_found() -> None:
    few = asked("--requests", "40", "--boards", "6")
    many = asked("--requests", "40", "--boards", "12")
    assert few["wait_95"] > many["wait_95"]
    enough = asked("--requests", "40", "--wait", "20")
    assert enough["wait_95"] <= 20
    less = asked("--requests", "40", "--boards", str(int(enough["boards"]) - 1))
    assert less["wait_95"] > 20


def test_a_thousand_requests_and_two_hundred_boards() -> None:
    found = asked("--requests", "1000", "--boards", "200", "--boots", "8")
    assert found["jobs_a_day"] == 8000
    assert 0 < found["busy"] < 1


def test_more_than_it_simulates_is_refused() -> None:
    found = CliRunner().invoke(plan_command, ["--requests", "10000", "--boots", "200"])
    assert isinstance(found.exception, UsageError)
