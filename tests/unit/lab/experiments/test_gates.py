"""Experiments on the gate: their rows come from stored runs alone, and are judged again."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from iotoll_lab.experiments import gates, variants
from iotoll_lab.experiments.gates import GateRow, interval, print_rows, row_of
from iotoll_lab.experiments.variants import Variant
from rich.console import Console

from iotoll.cli import cli
from iotoll.core.errors import UsageError
from iotoll.core.lock import alone
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow
from iotoll.records import results
from iotoll.records.models import Outcome, VerdictRecord
from tests.unit.runs import CELLS, add_boots, make_run


@pytest.fixture
def gated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an experiment with one gated patch, and no tool to build or boot with."""
    run = make_run(tmp_path / "out/innocent-1")
    add_boots(run)
    flow = Flow(run, Progress(quiet=True))
    flow.collect()
    flow.judge()
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(gates, "reader", lambda *_: lambda path: "")
    monkeypatch.setattr(
        variants, "innocent", lambda seed, number, read: Variant(f"innocent-{number}", "", "x", "")
    )
    return tmp_path / "out"


def again(out: Path, *words: str) -> list[dict[str, object]]:
    command = ["--out", str(out), "--patches", "2", "--again", *words]
    done = CliRunner().invoke(gates.innocent_command, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return list(json.loads((out / "table.json").read_text()))


def test_row_is_a_function_of_the_stored_run(gated: Path) -> None:
    run = make_run(gated / "innocent-1")
    row = row_of("innocent-1", "x", run)
    assert (row.outcome, row.cells, row.alarms, row.grew, row.unsure) == ("pass", 2, 0, {}, {})
    assert row.exact == 0.872


def test_stored_runs_are_judged_again_and_those_that_are_not_there_left_out(gated: Path) -> None:
    verdict = gated / "innocent-1/verdict.json"
    before = verdict.read_bytes()
    wrong = results.read(verdict, VerdictRecord).model_copy(
        update={"outcome": Outcome.INCONCLUSIVE, "exit_code": 3}
    )
    results.write(verdict, wrong)
    (row,) = again(gated, "judge")
    assert row["name"] == "innocent-1" and row["outcome"] == "pass"
    assert verdict.read_bytes() == before


def test_boots_that_todays_rules_need_and_the_run_lacks_are_no_verdict(
    gated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iotoll.verdict.instructions.rule._open", lambda *_: CELLS[:1])
    (row,) = again(gated, "judge")
    assert row["outcome"] == "infrastructure"
    assert "does not hold all boots" in str(row["sentence"])


def test_machines_share_the_patches_by_number(gated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def make(seed: int, number: int, read: variants.Read) -> Variant:
        made.append(number)
        return Variant(f"innocent-{number}", "", "x", "")

    monkeypatch.setattr(variants, "innocent", make)
    words = ["--out", str(gated), "--patches", "2", "--again", "judge"]
    assert CliRunner().invoke(gates.innocent_command, [*words, "--first", "4"]).exit_code == 0
    assert made == [4, 5]


def test_a_run_says_how_its_kernel_alone_is_gated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its report offered `iotoll experiment`, which is no whole command, and gates all kernels."""
    flows: list[Flow] = []
    monkeypatch.setattr(gates, "execute", lambda flow, until: flows.append(flow))
    monkeypatch.setattr(gates, "row_of", lambda name, what, run: None)
    patch = "--- a/block/bio.c\n+++ b/block/bio.c\n@@ -1 +1,2 @@\n /* one */\n+/* two */\n"
    options = {"tree": "debian", "board": "virt-arm64-smp4", "matrix": "default", "again": None}
    for cells in (None, "ufs-4k-*"):
        asked = {**options, "cells": cells}
        gates.gate_variant(Variant("a", "", "x", patch), tmp_path / f"{cells}", asked, Progress())
    every, some = (flow.run.manifest for flow in flows)
    words = shlex.join(every.command).replace(f"{tmp_path}/", "")
    assert words == (
        "iotoll gate --candidate=None/patches/a.patch '--cells=*'"
        " --tree=debian --board=virt-arm64-smp4 --matrix=default"
    )
    assert "--cells=ufs-4k-*" in some.command
    known = cli.get_command(click.Context(cli), "gate")
    assert known is not None
    known.make_context("gate", list(every.command[2:]))


def test_two_at_once_do_not_work_in_one_folder(gated: Path) -> None:
    words = ["--out", str(gated), "--patches", "1", "--again", "judge"]
    with alone(gated / ".lock", UsageError("held")):
        done = CliRunner().invoke(gates.innocent_command, words)
    assert isinstance(done.exception, UsageError)
    assert "another experiment is at work there" in str(done.exception)
    assert CliRunner().invoke(gates.innocent_command, words).exit_code == 0


def test_table_has_counts_with_their_intervals() -> None:
    rows = [
        GateRow(f"planted-{n}", "y", "regression", "z", {"ufs submission": (8, 20.0)})
        for n in (1, 2)
    ]
    out = io.StringIO()
    print_rows([*rows, GateRow("planted-3", "y", "pass", "z")], Console(file=out, width=120))
    assert "regression: 2 of 3 (9.4% to 99.2%)" in out.getvalue()
    assert "ufs submission +20 in 8" in out.getvalue()


def test_interval_of_nothing_seen() -> None:
    low, high = interval(0, 60)
    assert low == 0.0 and round(high, 4) == 0.0596
