"""Whose boots divide the cells among them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from iotoll.boards.matrix import load_matrix
from iotoll.boots import schedule
from iotoll.boots.schedule import LEAST_DIVIDED, PARTS
from iotoll.core.progress import Progress
from iotoll.patch.candidate import CandidateChoice
from iotoll.records.models import Clock
from iotoll.run import setup
from iotoll.run.manifest import RunRequest, new_manifest
from iotoll.run.setup import Setup
from tests.unit.runs import make_run

NONE = CandidateChoice("none", None, None, None)
GATE = RunRequest(("iotoll",), "gate", NONE, "virt-arm64", matrix="default")


@pytest.mark.parametrize(
    ("request_", "parts"),
    [
        (GATE, PARTS),
        (replace(GATE, board="virt-x86_64"), PARTS),
        (replace(GATE, board="virt-arm64-smp4"), PARTS),
        (replace(GATE, kind="measure"), 1),
        (replace(GATE, boots=3), 1),
        (replace(GATE, clock=Clock.TIME), 1),
        (replace(GATE, board="virt-arm64-stock"), 1),
        (replace(GATE, runner="lava", lab="local"), 1),
    ],
    ids=lambda one: f"{one.board}-{one.kind}-{one.boots}" if isinstance(one, RunRequest) else "",
)
def test_gates_on_exact_boards_of_this_machine(request_: RunRequest, parts: int) -> None:
    assert new_manifest(request_).parts == parts


@pytest.mark.parametrize("has_recorder", [True, False])
@pytest.mark.parametrize("count", [LEAST_DIVIDED - 1, LEAST_DIVIDED])
def test_many_cells_of_kernels_that_need_no_calibration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, has_recorder: bool
) -> None:
    monkeypatch.setattr(setup, "get_image", lambda *_: None)
    monkeypatch.setattr(schedule, "plugin_name", lambda: "abc")
    monkeypatch.setattr(schedule, "tells_tracing", lambda _: has_recorder)
    cells = load_matrix("default").cells[:count]
    run = make_run(tmp_path / "run", cells, parts=PARTS)
    (run.build("base") / "Image").touch()
    parts = PARTS if has_recorder and count == LEAST_DIVIDED else 1
    found = Setup(run, Progress(quiet=True))
    assert found.bench.parts == parts
    numbers = range(1, parts + 1)
    assert found.wanted == [(side, n) for n in numbers for side in ("base", "candidate")]


def test_a_run_of_before_is_of_one_part(tmp_path: Path) -> None:
    assert make_run(tmp_path / "run").manifest.parts == 1
