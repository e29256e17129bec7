"""Commits of strangers: who is trusted, what comes out, and what a failure is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iotoll.bisect import sandboxed_commits
from iotoll.bisect.log import NAME, Log
from iotoll.bisect.meter import Meter
from iotoll.bisect.setting import Setting
from iotoll.core.errors import BrokenError, InfrastructureError
from iotoll.core.progress import Progress
from iotoll.kernels import sandbox
from iotoll.records import results
from iotoll.records.models import CellRecord, FailureRecord, Outcome
from iotoll.records.rundir import RunDir
from iotoll.run import sandboxed
from tests.unit.runs import EXAMPLES, manifest

CELL = "ufs-4k-randread-t1-direct"


class Flow:
    """What `apart` needs of a run's flow; nothing builds."""

    def __init__(self, root: Path, done: bool = False) -> None:
        self.run = RunDir(root)
        self.progress = Progress(quiet=True)
        self.board = SimpleNamespace(arch="arm64")
        self.sides = ("base", "candidate")
        self.done = done

    def source(self) -> None:
        """Both sides' sources."""

    kernel_spec = None

    def build_job(self, side: str) -> Any:
        return SimpleNamespace(is_done=self.done)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool | None, int]]:
    """(side, trusted, hidden folders) of each build in a sandbox; (warm, …) for a warm one."""
    seen: list[tuple[str, bool | None, int]] = []

    def build(run: Any, side: str, spec: Any, progress: Any, hidden: Any, trusted: Any) -> Outcome:
        seen.append((side, trusted, len(hidden)))
        return Outcome.PASS

    def warm(run: Any, spec: Any) -> int:
        seen.append(("warm", True, 0))
        return 0

    monkeypatch.setattr(sandboxed, "build", build)
    monkeypatch.setattr(sandboxed, "warm", warm)
    monkeypatch.setattr(sandboxed_commits, "_refuse", lambda flow: None)
    monkeypatch.setattr(sandboxed_commits, "get_image", lambda arch, progress: None)
    monkeypatch.setattr(results, "read", lambda path, model: path.name)
    return seen


def test_a_is_trusted_and_every_other_commit_is_not(
    tmp_path: Path, built: list[tuple[str, bool | None, int]]
) -> None:
    sandboxed_commits.build(Flow(tmp_path), "base")  # type: ignore[arg-type]
    assert built == [("base", True, 0)]
    built.clear()
    sandboxed_commits.build(Flow(tmp_path), "candidate")  # type: ignore[arg-type]
    assert built == [("base", True, 0), ("warm", True, 0), ("candidate", False, 1)]


@pytest.mark.parametrize(
    ("outcome", "raised"),
    [(Outcome.BROKEN, BrokenError), (Outcome.INFRASTRUCTURE, InfrastructureError)],
)
def test_a_boot_that_fails_says_whose_fault_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, raised: type[Exception]
) -> None:
    run = RunDir(tmp_path / "run")
    results.write(run.root / "run.json", manifest())
    record = FailureRecord(outcome=outcome, step="boot", message="Kernel panic", log_tail="")

    def ran(words: Sequence[str], root: Path, kept: Any, around: Any) -> int:
        assert kept is None, "it writes its own run directory alone"
        results.write(root / sandboxed_commits.FAILURE, record)
        return outcome.exit_code

    monkeypatch.setattr(sandboxed, "check_build", lambda run, side: None)
    monkeypatch.setattr(sandbox, "run", ran)
    with pytest.raises(raised, match="Kernel panic"):
        sandboxed_commits.boot(run, "candidate", [CELL], tmp_path / "records")
    assert not (tmp_path / "records/done").exists()


def test_only_records_by_their_schema_come_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDir(tmp_path / "run")
    results.write(run.root / "run.json", manifest())
    record = results.read(EXAMPLES / "cell.json", CellRecord)

    def ran(words: Sequence[str], root: Path, kept: Any, around: Any) -> int:
        assert words[-3:] == [str(root), "candidate", CELL]
        results.write(root / sandboxed_commits.RECORDS / f"{CELL}.json", record)
        (root / sandboxed_commits.RECORDS / "more.json").write_text("a stranger's")
        return 0

    monkeypatch.setattr(sandboxed, "check_build", lambda run, side: None)
    monkeypatch.setattr(sandbox, "run", ran)
    sandboxed_commits.boot(run, "candidate", [CELL], tmp_path / "records")
    names = {path.name for path in (tmp_path / "records").iterdir()}
    assert names == {f"{CELL}.json", "done"}


def test_at_a_desk_one_line_says_that_makefiles_run_as_you(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = Setting("tree", "virt-arm64", "default", "instructions")
    meter = Meter(tmp_path, setting, "a" * 40, Log(tmp_path / NAME, {}), Progress())
    monkeypatch.setattr(Meter, "_run", lambda self, commit: pytest.fail("no build here"))
    for commit in ("b" * 40, "c" * 40):
        with pytest.raises(pytest.fail.Exception):
            meter._build(commit, [CELL])
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("--sandbox runs them apart") == 1
