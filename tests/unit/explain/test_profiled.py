"""Which runs are profiled, with which kernels and job; the boots are tests/vm and tests/lab."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from iotoll.boards.board import load_board
from iotoll.boards.matrix import load_matrix
from iotoll.boots.job import make_batches, render_job
from iotoll.boots.local import BootPlan
from iotoll.cli import cli
from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.explain import profiled
from iotoll.explain.profile import NAME
from iotoll.explain.profiled import FRAGMENT, Profiler, profile_job
from iotoll.kernels import kconfig
from iotoll.records import results
from iotoll.records.models import ProfileRecord
from iotoll.records.rundir import RunDir
from iotoll.run.building import Building
from tests.unit.explain.kernels import BASE, NOP, RET, call, symbols
from tests.unit.runs import CELLS, make_run

KERNEL = {"f": [NOP, NOP, call(BASE + 8, BASE + 16), RET], "inner": [RET]}
"""A traced function, and one without a place for the tracer that it calls."""


def profiler(run: RunDir) -> Profiler:
    return Profiler(run, Progress(quiet=True))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "measure"}, "only a gate has two kernels"),
        ({"tree": None}, "were given as images"),
    ],
)
def test_other_runs_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        profiler(make_run(tmp_path, **{"tree": "debian", **changes}))


def test_a_run_without_kernels_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path, tree="debian")
    (run.build("candidate") / "build.json").unlink()
    with pytest.raises(UsageError, match="no kernel of the candidate: run the gate first"):
        profiler(run)


def test_cells_are_those_asked_for_or_the_first(tmp_path: Path) -> None:
    found = profiler(make_run(tmp_path, tree="debian"))
    assert found.choose([CELLS[1]]) == [CELLS[1]]
    assert found.choose([]) == CELLS, "there is no verdict yet"
    with pytest.raises(UsageError, match="--cell typo: the run has no such cell"):
        found.choose(["typo"])


def test_the_option_stands_alone(tmp_path: Path) -> None:
    run = make_run(tmp_path, tree="debian")
    for words in (["--untraced"], ["--cache"], ["--all"], ["--io", "1", "--cell", CELLS[0]]):
        done = CliRunner().invoke(cli, ["explain", str(run.root), "--profile", *words])
        assert isinstance(done.exception, UsageError) and "--profile: give no" in str(
            done.exception
        )


@pytest.mark.parametrize("board", ["virt-arm64", "hikey960"])
def test_the_jobs_own_scripts_mark_and_send(tmp_path: Path, board: str) -> None:
    matrix = load_matrix("default")
    pace = matrix.pace.model_copy(update={"round_us": 0})
    matrix = matrix.model_copy(update={"pace": pace})
    batches = make_batches(matrix, CELLS, False)
    render_job(load_board(board), matrix, batches, tmp_path / "job", {"HANDOVER": "serial"})
    profile_job(tmp_path / "job", "serial")
    lines = (tmp_path / "job/job.env").read_text().splitlines()
    assert lines[-2:] == ["HANDOVER=../job/send", "SENDER=serial"], "the last one counts"
    for batch in batches:
        text = (tmp_path / f"job/{batch.name}.fio").read_text()
        assert "/iotoll/dut/mark.sh" not in text
        assert text.count("sh /iotoll/job/mark.sh") == len(batch.runs) + 1
        assert text.rstrip().endswith("exec_prerun=sh /iotoll/job/mark.sh"), "the last one ends"
    assert (tmp_path / "job/send.sh").is_file() and (tmp_path / "job/mark.sh").is_file()


def test_the_kernels_have_the_profiler_and_are_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, tree="debian", board="virt-arm64-stock")
    seen: list[Building] = []

    def boot(inner: RunDir, plans: list[BootPlan], *_: object) -> None:
        for plan, calls in zip(plans, (256, 512), strict=True):
            folder = plan.folder / "ufs"
            folder.mkdir(parents=True)
            for number, cell in enumerate(CELLS):
                row = {"cell": f"{NAME}.{number}", "of": cell, "functions": [["f", calls, 1.0]]}
                with (folder / NAME).open("a") as out:
                    out.write(json.dumps(row) + "\n")

    monkeypatch.setattr(Building, "build", lambda self: seen.append(self))
    monkeypatch.setattr(profiled, "run_plans", boot)
    monkeypatch.setattr(profiled, "read_symbols", lambda path: symbols(KERNEL))
    monkeypatch.setattr(profiled, "changed_functions", lambda base, candidate: ["inner"])
    before = sorted(p.name for p in run.root.iterdir())
    record = profiler(run).measure(CELLS)
    (flow,) = seen
    assert (
        flow.fragments[-1] == FRAGMENT
        and flow.fragments[:-1] == Building(run, Progress()).fragments
    )
    assert flow.run.root == run.root / "explain/profile"
    assert not (flow.run.root / "run.json").exists(), "no command takes it for a run to judge"
    assert record == results.read(run.root / "profile.json", ProfileRecord)
    (function,) = record.cells[0].functions
    assert (function.name, function.holds, record.approximate) == ("f", ["inner"], True)
    (unseen,) = record.cells[0].unseen
    assert (unseen.name, unseen.why, unseen.holders) == ("inner", "untraced", ["f"])
    assert function.candidate_calls == 2 * function.base_calls
    assert {p.name for p in run.root.iterdir()} - set(before) == {"explain", "profile.json"}


def test_the_fragment_undoes_what_the_fragment_tracing_leaves_out() -> None:
    asked = {
        r.symbol: r.value
        for name in ("tracing", FRAGMENT)
        for r in kconfig.read_fragment(kconfig.fragment_path(name))
    }
    assert asked["FUNCTION_TRACER"] == asked["FUNCTION_PROFILER"] == "y"
