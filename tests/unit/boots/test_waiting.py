"""Limits on a boot are not counted while QEMU waits for a processor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from iotoll.boots.local import LONGEST_PAUSE, GivenTime

SPIN = "while True: pass"


@contextmanager
def spinning(count: int) -> Iterator[list[int]]:
    """Processes that share one processor, and want all of it."""
    cpu = min(os.sched_getaffinity(0))
    with ExitStack() as stack:
        pids = []
        for _ in range(count):
            one = stack.enter_context(subprocess.Popen([sys.executable, "-c", SPIN]))
            stack.callback(one.wait)
            stack.callback(one.kill)
            os.sched_setaffinity(one.pid, {cpu})
            pids.append(one.pid)
        time.sleep(0.5)
        yield pids


def given(pid: int, seconds: float) -> float:
    given, end = GivenTime(pid), time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.1)
        given.seconds()
    return given.seconds()


def test_a_process_that_gets_a_fifth_is_given_a_fifth() -> None:
    with spinning(5) as pids:
        assert given(pids[0], 3) < 1.5


def test_a_stopped_process_is_given_all_time() -> None:
    with spinning(1) as pids:
        os.kill(pids[0], signal.SIGSTOP)
        assert given(pids[0], 1) > 0.8


def test_a_pause_of_who_asks_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-Z for two minutes made a board hang that had been stopped as well."""
    with spinning(1) as pids:
        asked = GivenTime(pids[0])
        later = time.monotonic() + 120
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert asked.seconds() <= LONGEST_PAUSE


def test_a_process_that_is_gone_is_given_all_time() -> None:
    with spinning(1) as pids:
        pass
    assert given(pids[0], 0.5) > 0.4
