"""When a desk's build is sandboxed, and what is said when it is not: finding F6.4."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.errors import BrokenError, InfrastructureError
from iotoll.core.progress import Progress
from iotoll.kernels.kernel_job import KernelJob
from iotoll.records import results
from iotoll.records.models import FailureRecord, Outcome, SourceRecord
from iotoll.records.rundir import RunDir
from iotoll.run import sandboxed
from tests.unit.runs import manifest

QUIET = Progress(quiet=True)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelJob:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sandboxed, "_refused", lambda: "")
    monkeypatch.setattr(sandboxed.shutil, "which", lambda name: f"/usr/bin/{name}")
    source = SourceRecord(side="candidate", tree="debian", version="6.12", tree_sha256="0")
    return KernelJob(source, "arm64", (), "gcc", "4b" * 8)


def run_of(folder: Path, **more: str) -> RunDir:
    results.write(folder / "run.json", manifest(**{"tree": "debian", **more}))
    return RunDir.open(folder)


def test_f6_4_a_desk_of_debians_source_is_sandboxed(tmp_path: Path, job: KernelJob) -> None:
    assert sandboxed.why_not(run_of(tmp_path / "run"), job) == ""


@pytest.mark.parametrize("field", ["tree", "board", "matrix", "policy"])
def test_f6_4_files_of_the_users_are_not_shown_and_that_is_said(
    tmp_path: Path, job: KernelJob, field: str
) -> None:
    mine = str(tmp_path / "mine.toml")
    assert mine in sandboxed.why_not(run_of(tmp_path / "run", **{field: mine}), job)


def test_f6_4_a_compiler_elsewhere_and_a_machine_that_refuses(
    tmp_path: Path, job: KernelJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(tmp_path / "run")
    monkeypatch.setattr(sandboxed, "_refused", lambda: "bwrap is not installed")
    assert sandboxed.why_not(run, job) == "bwrap is not installed"
    monkeypatch.setattr(sandboxed.shutil, "which", lambda name: f"/opt/gcc/{name}")
    assert "/opt/gcc/aarch64-linux-gnu-gcc is not visible" in sandboxed.why_not(run, job)


def left_by(monkeypatch: pytest.MonkeyPatch, outcome: Outcome) -> None:
    """What the sandbox left, in place of a kernel build of minutes."""

    def build(run: RunDir, *_: object) -> Outcome:
        folder = run.build("candidate")
        folder.mkdir(parents=True)
        if outcome is Outcome.PASS:
            for name in ("Image", "config", "build.json"):
                (folder / name).write_text(name)
            return outcome
        record = FailureRecord(outcome=outcome, step="build", message="no", log_tail="last words")
        results.write(run.build_failure("candidate"), record)
        return outcome

    monkeypatch.setattr(sandboxed, "build", build)


def test_f6_4_its_image_is_kept_under_its_own_key(
    tmp_path: Path, job: KernelJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(tmp_path / "run")
    left_by(monkeypatch, Outcome.PASS)
    sandboxed.at_desk(run, job, QUIET)
    assert job.is_done
    assert {p.name for p in job.cached.iterdir()} == {"Image", "config", "digests.json"}


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [(Outcome.BROKEN, BrokenError), (Outcome.INFRASTRUCTURE, InfrastructureError)],
)
def test_f6_4_why_it_failed_is_raised(
    tmp_path: Path,
    job: KernelJob,
    monkeypatch: pytest.MonkeyPatch,
    outcome: Outcome,
    kind: type[BrokenError] | type[InfrastructureError],
) -> None:
    left_by(monkeypatch, outcome)
    with pytest.raises(kind, match="no") as caught:
        sandboxed.at_desk(run_of(tmp_path / "run"), job, QUIET)
    assert caught.value.log_tail == "last words"
    assert not job.is_done
