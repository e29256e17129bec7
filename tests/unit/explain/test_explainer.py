"""Which runs and cells can be explained; the boots themselves are tests/vm/test_explain.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from iotoll.boards.plugin import load_caches
from iotoll.cli import cli
from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.explain.explainer import Explainer
from iotoll.explain.tables import io_tables
from iotoll.explain.untraced import Untraced
from iotoll.records import results
from iotoll.records.models import CellVerdict, Outcome, VerdictRecord
from iotoll.records.rundir import RunDir
from tests.unit.runs import BOOTS, CELLS, EXAMPLES, agreeing, make_run


def explainer(run: RunDir) -> Explainer:
    return Explainer(run, Progress(quiet=True))


def judged(run: RunDir, moved: dict[str, str]) -> None:
    """Give a run a verdict whose cells moved like this."""
    example = results.read(EXAMPLES / "verdict.json", VerdictRecord)
    part = example.cells[0].sections[0].model_copy(update={"gated": True})
    cells = [
        CellVerdict(
            cell=cell,
            outcome=Outcome.REGRESSION if how == "grew" else Outcome.PASS,
            sections=[part.model_copy(update={"moved": how})],
        )
        for cell, how in moved.items()
    ]
    results.write(run.verdict, agreeing(example.model_copy(update={"cells": cells})))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "measure"}, "only a gate"),
        ({"clock": "time"}, "only a gate"),
        ({"runner": "lava"}, "a lab booted it"),
        ({"board": "virt-x86_64-stock"}, "only virtual arm64 boards"),
        ({"board": "virt-arm64-smp4"}, "board with several CPUs"),
    ],
)
def test_other_runs_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    run = make_run(tmp_path, **changes)
    with pytest.raises(UsageError, match=words):
        explainer(run)


def test_lines_of_cache_of_x86_64_are_the_gate_s(tmp_path: Path) -> None:
    run = make_run(tmp_path, board="virt-x86_64")
    with pytest.raises(UsageError, match="gate with --lines"):
        Explainer(run, Progress(quiet=True), caches=load_caches("cortex-a73"))


def test_cells_that_moved_are_explained_else_all(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    with pytest.raises(UsageError, match="has no verdict"):
        explainer(run).choose([])
    judged(run, {CELLS[0]: "same", CELLS[1]: "shrank"})
    assert explainer(run).choose([]) == [CELLS[1]], "an improvement, likewise"
    assert explainer(run).choose([CELLS[0]]) == [CELLS[0]]
    assert explainer(run).choose([], everything=True) == CELLS
    with pytest.raises(UsageError, match=r"--cell typo: the run has no such cell: it has .*$"):
        explainer(run).choose(["typo"])
    judged(run, dict.fromkeys(CELLS, "same"))
    assert explainer(run).choose([]) == CELLS, "a pass may be on code that never ran"


def test_ios_of_a_boot_are_in_the_order_in_which_the_gate_pairs_them() -> None:
    tables = io_tables(BOOTS / "base", CELLS)
    assert set(tables) == set(CELLS)
    for table in tables.values():
        pids, starts = table["pid"].tolist(), table["start"].tolist()
        assert list(zip(pids, starts, strict=True)) == sorted(zip(pids, starts, strict=True))
    assert io_tables(BOOTS / "absent", CELLS) == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--untraced", "--io", "3", "--cell", CELLS[0]], "--untraced: give no --io"),
        (["--untraced", "--cache"], "--untraced: give no --io"),
        (["--io", "3", "--slowest"], "give one of them"),
        (["--slowest"], "--slowest needs one --cell"),
        (["--cache-model", "absent"], "no cache model 'absent'. There are: cortex-a53, cortex-a73"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, words: list[str], message: str
) -> None:
    run = make_run(tmp_path, board="virt-arm64")
    done = CliRunner().invoke(cli, ["explain", str(run.root), *words])
    # The entry point prints the one line of it, and ends with 2.
    assert isinstance(done.exception, UsageError) and message in str(done.exception)


def test_only_calls_of_pread_and_pwrite_are_cut_without_events(tmp_path: Path) -> None:
    run = make_run(tmp_path, board="virt-arm64")
    judged(run, {"ufs-4k-randread-t1-direct-libaio": "grew"})
    with pytest.raises(UsageError, match="only cells of pread and pwrite"):
        Untraced(explainer(run)).measure(["ufs-4k-randread-t1-direct-libaio"])
