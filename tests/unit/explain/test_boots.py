"""Recorded boots of both sides: side by side, and none is left when one fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from iotoll.boots.local import BootPlan
from iotoll.core.errors import BrokenError, InfrastructureError
from iotoll.core.progress import Progress
from iotoll.explain import explainer
from iotoll.explain.explainer import boot_recorded

QUIET = Progress(quiet=True)
Boot = Callable[[Any, Callable[[int], None], threading.Event], None]


def plan(side: str) -> BootPlan:
    board = SimpleNamespace(name="virt-arm64")
    found: BootPlan = SimpleNamespace(side=side, runs=3, board=board)  # type: ignore[assignment]
    return found


PLANS = [plan("base"), plan("candidate")]


def test_both_boots_run_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2, timeout=20)
    booted = []

    def boot(one: Any, on_cell: Callable[[int], None], cancelled: threading.Event) -> None:
        on_cell(1)
        together.wait()
        booted.append(one.side)

    monkeypatch.setattr(explainer, "boot", boot)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    boot_recorded(PLANS, QUIET, "recorded")
    assert sorted(booted) == ["base", "candidate"]


def test_with_one_cpu_they_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most, booted = 0, 0, []

    def boot(one: Any, on_cell: Callable[[int], None], cancelled: threading.Event) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        cancelled.wait(0.1)
        booted.append(one.side)
        running -= 1

    monkeypatch.setattr(explainer, "boot", boot)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    boot_recorded(PLANS, QUIET, "recorded")
    assert (most, booted) == (1, ["base", "candidate"])


def test_a_boot_that_fails_ends_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    def boot(one: Any, on_cell: Callable[[int], None], cancelled: threading.Event) -> None:
        if one.side == "candidate":
            raise BrokenError("boot", "it panics", "")
        assert cancelled.wait(20), "nobody told the base's boot to end"
        ended.append(one.side)
        raise InfrastructureError("interrupted")

    monkeypatch.setattr(explainer, "boot", boot)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with pytest.raises(BrokenError, match="it panics"):
        boot_recorded(PLANS, QUIET, "recorded")
    assert ended == ["base"]
