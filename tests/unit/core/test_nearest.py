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
from iotoll.core.nearest import meant, near_path, nearest
from iotoll.records.rundir import RunDir
from iotoll.studies.data import load_study
from iotoll.verdict.policy import load_policy
from tests.golden.runs import real

ROOT = Path(__file__).parents[3]
PATCH = str(min((ROOT / "examples/patches").glob("*.patch")))
RUN = str(real("regression").root)
UFS = "ufs-4k-randread-t1-direct"


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


def test_g2_11_a_file_that_is_not_there_is_told_with_the_one_beside_it(tmp_path: Path) -> None:
    (tmp_path / "boards").mkdir()
    (tmp_path / "boards/my.patch").touch()
    near = f": did you mean {tmp_path}/boards/my.patch?"
    assert near_path(tmp_path / "boards/my.ptach") == near
    assert near_path(tmp_path / "bords/my.patch") == f": did you mean {tmp_path}/boards?"
    assert near_path(tmp_path / "boards/other") == ""
    for words in (
        ["gate", "--candidate", f"{tmp_path}/boards/my.ptach"],
        ["gate", "--candidate-image", "ok", "--base-image", f"{tmp_path}/boards/my.ptach"],
    ):
        assert refusal(*words).endswith(near), words


def refusal(*words: str) -> str:
    """What iotoll says of a wrong word, on one line; exit code 2, no traceback, no path of ours."""
    done = subprocess.run(
        [sys.executable, "-m", "iotoll", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and str(ROOT) not in done.stderr
    assert done.stdout == ""
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (
            ("gate", "--candidate", "README.md", "--tree", "debain"),
            "did you mean debian?",
        ),
        (("gate", "--candidate", PATCH, "--board", "virt-arm46"), "did you mean virt-arm64?"),
        (
            ("gate", "--candidate", PATCH, "--matrix", "defalt"),
            "did you mean default?",
        ),
        (("gate", "--candidate", PATCH, "--policy", "instructoins"), "did you mean instructions?"),
        (("gate", "--candidate", PATCH, "--cells", "ufs-4k-randraed-*"), "nearest is ufs-4k-rand"),
        (("gate", "--candidate", PATCH, "--beside", "runs/none"), "is not a run directory"),
        (("gate", "--candidate", PATCH, "--comit"), "No such option '--comit'"),
        (("report", "README.m"), "is not a run directory"),
        (("judge", RUN, "--explain", UFS, "submision"), "did you mean submission"),
        (("explain", RUN, "--cell", UFS[:-1]), f"did you mean {UFS}?"),
        (("study", "ufs-nvm"), "did you mean ufs-nvme?"),
        (("bisect", "--tree", "lniux", "--good", "A", "--section", "x"), "no such folder"),
        (("lst",), "Did you mean list?"),
        (("analyze", "nosuch.dat"), "no such file"),
    ],
)
def test_g2_11_each_kind_of_wrong_word_has_one_line(words: tuple[str, ...], near: str) -> None:
    assert near in refusal(*words)
