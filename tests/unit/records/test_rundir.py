"""The run directory: stamps say what is done, and only for the same inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.errors import ResultError, UsageError
from iotoll.records import results
from iotoll.records.models import BootRecord
from iotoll.records.rundir import RunDir
from tests.unit.runs import EXAMPLES, make_run


def test_only_a_run_directory_opens(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a run directory: it has no run\.json"):
        RunDir.open(tmp_path)
    make_run(tmp_path / "run")
    assert RunDir.open(tmp_path / "run").manifest.board == "virt-arm64"


def test_the_manifest_is_read_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    known = run.manifest
    (run.root / "run.json").unlink()
    assert run.manifest is known
    with pytest.raises(ResultError, match=r"run\.json is missing"):
        _ = RunDir(run.root).manifest


def test_a_step_is_done_for_its_own_inputs_alone(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    assert not run.is_done("build/base", {"a": 1})
    run.mark_done("build/base", {"a": 1})
    assert run.is_done("build/base", {"a": 1})
    assert not run.is_done("build/candidate", {"a": 1})
    assert not run.is_done("build/base", {"a": 2})


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"inputs": 3}'])
def test_damaged_stamp_counts_as_not_done(tmp_path: Path, text: str) -> None:
    run = RunDir(tmp_path)
    run.mark_done("boot", 1)
    (stamp,) = (tmp_path / ".steps").iterdir()
    stamp.write_text(text)
    assert not run.is_done("boot", 1)


def test_first_boots_are_those_that_have_a_cell_first(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    assert run.first_boots("base") == {}
    record = results.read(EXAMPLES / "boot.json", BootRecord)
    for number, cells in {1: ["a", "b"], 2: ["c"], 3: ["a", "c"], 10: ["d"]}.items():
        boot = record.model_copy(update={"boot": number, "cells": cells})
        results.write(run.boot("base", number) / "boot.json", boot)
    assert run.first_boots("base") == {1: ["a", "b"], 2: ["c"], 10: ["d"]}


def test_layout(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    assert run.boot("candidate", 2) == run.root / "sides/candidate/boots/2"
    assert run.build("base").parent == run.side("base")
    assert {p.parent for p in (run.selection, run.verdict, run.report)} == {run.root}
