"""A crash is seen in a running job's log, and nothing else is taken for one."""

from __future__ import annotations

import json

import pytest

from iotoll.labs.lava.http import Http
from iotoll.labs.lava.runner import Watch
from iotoll.labs.lava.server import JobState, LavaServer
from tests.unit.labs.lava.conftest import Answer, Stub

PANIC = "[    1.9] Kernel panic - not syncing: Fatal exception"


def log(level: str, text: str) -> Answer:
    line = {"dt": "2026-11-21T20:02:00+00:00", "lvl": level, "msg": text}
    return Answer(200, f"- {json.dumps(line)}\n".encode())


def job(state: str) -> JobState:
    return JobState(7, "x", state, "Unknown", "b-01", None, None, None)


@pytest.fixture
def looking(stub: Stub) -> Watch:
    return Watch(LavaServer(Http(stub.url, retries=0)), 0.0)


def test_crash_is_told_at_the_second_look(stub: Stub, looking: Watch) -> None:
    stub.answers(log("target", PANIC))
    assert [looking.crashed(job("Running")) for _ in range(3)] == [False, True, True]


def test_what_is_no_crash_of_a_running_job(stub: Stub, looking: Watch) -> None:
    for answer in (log("target", "iotoll: cell x"), log("debug", f"expect {PANIC}"), Answer(500)):
        stub.answers(answer)
        assert not any(looking.crashed(job("Running")) for _ in range(3))
    stub.answers(log("target", PANIC))
    asked = len(stub.requests)
    assert not any(looking.crashed(job("Scheduled")) for _ in range(3))
    assert len(stub.requests) == asked


def test_logs_are_not_asked_for_all_the_time(stub: Stub, looking: Watch) -> None:
    looking.seconds = 60.0
    assert not any(looking.crashed(job("Running")) for _ in range(100))
    assert stub.requests == []
