"""The name that was probably meant, in every message that does not know one; finding G2.11."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iotoll.boards.board import load_board
from iotoll.boards.matrix import load_matrix
from iotoll.core.errors import UsageError
from iotoll.core.nearest import meant, nearest
from iotoll.records.rundir import RunDir
from iotoll.studies.data import load_study
from iotoll.verdict.policy import load_policy
from tests.golden.runs import real


def test_the_name_that_is_most_alike_or_alone_begins_so() -> None:
    assert nearest("GAT", ["gate", "report"]) == "gate"
    assert nearest("sub", ["submission", "completion"]) == "submission"
    assert nearest("x", []) == ""
    assert meant("nothing-like-it", ["gate"]) == ""
    assert meant("gatee", ["gate"]) == ": did you mean gate?"


@pytest.mark.parametrize(
    ("load", "word", "near"),
    [
        (load_board, "virt-arm46", "virt-arm64"),
        (load_matrix, "defaults", "default"),
        (load_policy, "instruction", "instructions"),
        (load_study, "ufs-nvm", "ufs-nvme"),
    ],
)
def test_g2_11_the_nearest_name_is_offered(load: object, word: str, near: str) -> None:
    assert callable(load)
    with pytest.raises(UsageError) as told:
        load(word)
    said = str(told.value)
    assert f"{word!r}: did you mean {near}?" in said
    assert "/" not in said, "no path of ours"


def test_g2_11_of_a_run_as_well(tmp_path: Path) -> None:
    shutil.copytree(real("pass").root, tmp_path / "example")
    with pytest.raises(UsageError, match=r"did you mean .*/example\?"):
        RunDir.open(tmp_path / "examples")


def test_g2_11_and_of_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "iotoll", "gat"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "Did you mean gate?" in done.stderr
