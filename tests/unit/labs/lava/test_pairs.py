"""Which boot is submitted when, where both boots of a pair are to run on one board."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iotoll.boards.board import load_board
from iotoll.boards.ramdisk import Image
from iotoll.boots.local import BootPlan
from iotoll.labs.lava.config import Lab, load_lab
from iotoll.labs.lava.http import Http
from iotoll.labs.lava.journal import Attempt
from iotoll.labs.lava.runner import LavaRunner, Running
from iotoll.labs.lava.server import FileStore, JobState, LavaServer, Servers
from iotoll.records.models import Clock, RunManifest
from iotoll.records.models.run import Side
from iotoll.records.results import write
from iotoll.records.rundir import RunDir


def plan(side: Side, number: int) -> BootPlan:
    here = Path()
    board = load_board("virt-arm64")
    image = Image(here, "1a", {})
    clock = Clock.INSTRUCTIONS
    return BootPlan(side, number, board, clock, "tcg", here, image, here, "2b", [], 1, here)


def lab(same_board: bool, limit: int = 16) -> Lab:
    found = load_lab("local")
    board = found.boards["virt-arm64"].model_copy(update={"same_board": same_board})
    jobs = found.jobs.model_copy(update={"queue_limit": limit})
    return found.model_copy(update={"boards": {"virt-arm64": board}, "jobs": jobs})


class Scene:
    """A runner whose submissions are noted and not sent."""

    def __init__(self, folder: Path, lab: Lab) -> None:
        manifest = RunManifest(
            command=[],
            created="",
            kind="gate",
            board="virt-arm64",
            clock=Clock.INSTRUCTIONS,
            matrix="default",
            policy="instructions",
            candidate_kind="patch",
        )
        write(folder / "run.json", manifest)
        client = Http("http://127.0.0.1:1")
        servers = Servers(LavaServer(client), FileStore(client))
        self.runner = LavaRunner(RunDir(folder), lab, servers, lambda _: None)
        self.runner.submitter.begin = self._begin  # type: ignore[method-assign,assignment]
        self.submitted: list[tuple[str, str | None]] = []
        self.running: list[Running] = []
        self.waiting: list[BootPlan] = []

    def _begin(self, _: Any, plan: BootPlan, device: str | None = None) -> Attempt:
        self.submitted.append((plan.name, device))
        return Attempt(plan.name, plan.name, "", number=len(self.submitted))

    def fill(self) -> list[tuple[str, str | None]]:
        """What is submitted now."""
        before = len(self.submitted)
        self.runner._fill(None, self.waiting, self.running)  # type: ignore[arg-type]
        return self.submitted[before:]

    def runs_on(self, name: str, device: str | None) -> None:
        one = next(r for r in self.running if r.plan.name == name)
        one.state = JobState(1, "", "Running", "Unknown", device, None, None, None)


ALL = [plan(side, n) for n in (1, 2) for side in ("base", "candidate")]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, lab(same_board=True))


def test_pairs_are_turned_about(scene: Scene) -> None:
    names = [p.name for p in scene.runner._ordered(list(ALL))]
    assert names == ["base/1", "candidate/1", "candidate/2", "base/2"]


def test_second_of_a_pair_waits_for_the_board_and_asks_for_it(scene: Scene) -> None:
    scene.waiting = scene.runner._ordered(list(ALL))
    assert scene.fill() == [("base/1", None), ("candidate/2", None)]
    scene.runs_on("base/1", None)
    assert scene.fill() == []
    scene.runs_on("base/1", "b-02")
    assert scene.fill() == [("candidate/1", "b-02")]
    scene.runs_on("candidate/2", "b-01")
    assert scene.fill() == [("base/2", "b-01")]


def test_where_it_is_not_asked_for_all_go_at_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path, lab(same_board=False))
    scene.waiting = scene.runner._ordered(list(ALL))
    assert [name for name, _ in scene.fill()] == [p.name for p in ALL]
    assert {device for _, device in scene.submitted} == {None}


def test_queue_limit(tmp_path: Path) -> None:
    scene = Scene(tmp_path, lab(same_board=False, limit=3))
    scene.waiting = list(ALL)
    assert len(scene.fill()) == 3
    assert scene.fill() == []
    scene.running.pop()
    assert len(scene.fill()) == 1
