"""The run directory: stamps say what is done, and only for the same inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.records.rundir import RunDir
from tests.unit.runs import make_run


def test_only_a_run_directory_opens(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a run directory: it has no run\.json"):
        RunDir.open(tmp_path)
    make_run(tmp_path / "run")
    assert RunDir.open(tmp_path / "run").manifest.board == "virt-arm64"


def test_once_runs_once_for_the_same_inputs(tmp_path: Path) -> None:
    run, done = RunDir(tmp_path), list[int]()
    assert run.once("build/base", {"a": 1}, lambda: done.append(1))
    assert not run.once("build/base", {"a": 1}, lambda: done.append(2))
    assert run.once("build/candidate", {"a": 1}, lambda: done.append(3))
    assert run.once("build/base", {"a": 2}, lambda: done.append(4))
    assert done == [1, 3, 4]


def test_work_that_fails_leaves_no_stamp(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.mark_done("boot", 1)

    def fail() -> None:
        raise InfrastructureError("no")

    with pytest.raises(InfrastructureError):
        run.once("boot", 2, fail)
    assert not run.is_done("boot", 1), "what the first run left may be half overwritten"
    assert not run.is_done("boot", 2)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"inputs": 3}'])
def test_damaged_stamp_counts_as_not_done(tmp_path: Path, text: str) -> None:
    run = RunDir(tmp_path)
    run.mark_done("boot", 1)
    (stamp,) = (tmp_path / ".steps").iterdir()
    stamp.write_text(text)
    assert not run.is_done("boot", 1)


def test_layout(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    assert run.boot("candidate", 2) == run.root / "sides/candidate/boots/2"
    assert run.build("base").parent == run.side("base")
    assert {p.parent for p in (run.selection, run.verdict, run.report)} == {run.root}
