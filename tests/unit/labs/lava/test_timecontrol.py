"""The A/A control on the clock `time`: what the gate would call slower is a drift of the board."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from iotoll.core.errors import InfrastructureError
from iotoll.core.progress import Progress
from iotoll.labs.lava import timecontrol
from iotoll.labs.lava.timecontrol import control_time, judge_drift
from iotoll.records import results
from iotoll.records.models import NoiseRecord, SideResult
from iotoll.records.models.run import Side
from iotoll.verdict.policy import load_time_policy
from iotoll.verdict.time.pairs import Pairs, make_pairs
from tests.unit.verdict.time.sides import CELLS, FIGURES, noisy, side
from tests.unit.verdict.time.test_verdict import history

POLICY = load_time_policy("time")


def pairs_of(values: tuple[np.ndarray, np.ndarray]) -> Pairs:
    sides = side("base", values[0]), side("candidate", values[1])
    return make_pairs(*sides, CELLS, FIGURES, seed=4)


def slower(which: int, boots: int) -> tuple[np.ndarray, np.ndarray]:
    """Boots of one kernel; one side of each pair is 4 % slower in the first cell's submission."""
    values = noisy(1, boots)
    values[which][:, 0, 0] *= 1.04
    values[which][:, 0, 2] *= 1.04
    return values


def test_a_steady_board_is_known_after_the_first_look() -> None:
    drift = judge_drift(pairs_of(noisy(1, 3)), CELLS, POLICY, history(), 4)
    assert (drift.wanted, drift.moved, drift.steady) == (0, (), True)


@pytest.mark.parametrize(("which", "words"), [(1, ""), (0, ", the other way round")])
def test_a_board_drifts_whichever_side_is_slower(which: int, words: str) -> None:
    drift = judge_drift(pairs_of(slower(which, 16)), CELLS, POLICY, history(), 4)
    assert drift.wanted == 0
    assert not drift.steady
    assert drift.moved
    for moved in drift.moved:
        assert moved.startswith(f"{CELLS[0]}: ")
        assert moved.endswith(f"){words}")


def test_a_noisy_board_gets_more_pairs_and_is_then_not_called_steady() -> None:
    few, all_of_them = (
        judge_drift(pairs_of(noisy(2, boots, 0.08)), CELLS, POLICY, history(0.08), 4)
        for boots in (POLICY.looks[0], POLICY.looks[-1])
    )
    assert few.wanted == POLICY.looks[1]
    assert (all_of_them.wanted, all_of_them.moved, all_of_them.steady) == (0, (), False)


def test_without_figures_nothing_is_said_of_the_board() -> None:
    values = noisy(1, 3)
    bad = {(CELLS[0], n): "the governor changed" for n in range(3)}
    sides = side("base", values[0], invalid=bad), side("candidate", values[1])
    pairs = make_pairs(*sides, CELLS, FIGURES, seed=4)
    with pytest.raises(InfrastructureError, match="the governor changed"):
        judge_drift(pairs, CELLS, POLICY, history(), 4)


class Board:
    """A board whose boots have these values: stands for LAVA's jobs and the records of them."""

    def __init__(
        self, values: tuple[np.ndarray, np.ndarray], virtual: bool, patch: pytest.MonkeyPatch
    ) -> None:
        self.values, self.virtual = values, virtual
        self.noise = history()
        patch.setattr(timecontrol, "own_run", lambda run, device: run)
        patch.setattr(timecontrol, "replace", _replace)
        patch.setattr(timecontrol, "lava_runner", lambda *_: self)
        patch.setattr(timecontrol, "plan_boot", self._plan)
        patch.setattr(timecontrol, "collect", self._collect)
        self.order: list[tuple[Side, int]] = []

    def _plan(self, run: Any, bench: Any, which: Side, number: int) -> Any:
        return SimpleNamespace(name=(which, number), folder=run.root / which / str(number))

    def boots(self, plans: Sequence[Any], step: Any) -> None:
        for plan in plans:
            self.order.append(plan.name)
            plan.folder.mkdir(parents=True)
            (plan.folder / "boot.json").touch()

    def _collect(self, run: Any, cells: Any, clock: Any, which: Side, numbers: Any) -> SideResult:
        found = side(which, self.values[which == "candidate"][: len(numbers)])
        accelerator = "tcg" if self.virtual else "none"
        boots = [b.model_copy(update={"accelerator": accelerator}) for b in found.boots]
        return found.model_copy(update={"boots": boots})

    def control(self, folder: Path) -> tuple[Any, NoiseRecord]:
        path = folder / "noise.json"
        results.write(path, self.noise)
        manifest = SimpleNamespace(board="b", matrix="m", seed=4)
        run: Any = SimpleNamespace(root=folder / "own", manifest=manifest)
        bench: Any = SimpleNamespace(cells=CELLS, clock=None)
        lab: Any = None
        with Progress(quiet=True).step("control") as step:
            found = control_time(run, bench, lab, POLICY, path, "b", step)
        return found, results.read(path, NoiseRecord)


def _replace(value: Any, **changes: Any) -> Any:
    return replace(value, **changes) if isinstance(value, Pairs) else value


def test_boots_run_in_pairs_and_go_into_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Board(noisy(1, 16), False, monkeypatch)
    found, after = board.control(tmp_path)
    assert found.sentence == "b: steady (3 pairs of boots)"
    assert sorted(board.order) == [(s, n) for s in ("base", "candidate") for n in (1, 2, 3)]
    assert [number for _, number in board.order] == [1, 1, 2, 2, 3, 3]
    assert len(after.pairs) == len(board.noise.pairs) + 3


def test_a_drift_takes_more_pairs_and_is_no_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Board(slower(1, 16), False, monkeypatch)
    found, after = board.control(tmp_path)
    assert found.sentence.startswith("b: drifts, one kernel differs from itself: ufs-4k")
    assert len(board.order) > 6
    assert len(set(board.order)) == len(board.order), "no boot runs twice"
    assert len(after.pairs) == len(board.noise.pairs)


def test_a_simulated_board_s_pairs_are_no_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Board(noisy(1, 16), True, monkeypatch)
    found, after = board.control(tmp_path)
    assert not found.moved
    assert len(after.pairs) == len(board.noise.pairs)
