"""What a killed iotoll leaves beside a run, and the command that resumes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from iotoll.boots import sandboxed_boot
from iotoll.core.errors import InfrastructureError
from iotoll.kernels import sandbox
from iotoll.kernels.sandbox import Surroundings
from iotoll.run.opening import locked, open_run
from tests.unit.runs import boot_plan, manifest


def _left(folder: Path) -> Path:
    work = folder / "cache-0/work/work"
    work.mkdir(parents=True)
    work.chmod(0)  # as an overlay leaves it
    return folder


def test_what_a_killed_sandbox_left_is_removed_of_this_run_alone(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run[1]", manifest())
    mine, others = _left(tmp_path / ".run[1]-sandbox-x"), _left(tmp_path / ".run1-sandbox-x")
    with locked(run):
        assert not mine.exists()
    assert others.is_dir()


def test_a_boot_in_the_sandbox_leaves_nothing_below_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In there it would keep the candidate's user from opening the run that is resumed."""
    run = open_run(tmp_path / "run", manifest())
    made: list[Path] = []

    def execute(_: Sequence[str], __: Surroundings, disk: object, ___: object) -> int:
        made.extend(path.parent for path in tmp_path.rglob("view-0"))
        return 1

    monkeypatch.setattr(sandbox, "_execute", execute)
    kernel = run.build("candidate") / "Image"
    kernel.parent.mkdir(parents=True)
    plan = boot_plan(kernel, run.boot("candidate", 1), "candidate")
    with pytest.raises(InfrastructureError, match="ended with status 1"):
        sandboxed_boot.boot(plan, lambda _: None, None, lambda _: None)
    assert [path.parent for path in made] == [tmp_path]
    assert made[0].name.startswith(".run-sandbox-")
    assert not made[0].exists()
