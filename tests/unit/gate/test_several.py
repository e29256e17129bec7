"""Several candidates by one command: each has its own end, and the order is that of the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from iotoll.cli import cli
from iotoll.core.cli_support import Output
from iotoll.core.errors import UsageError
from iotoll.gate import several
from tests.repository import kernel_tree

DOCUMENT = """--- a/Documentation/a.rst
+++ b/Documentation/a.rst
@@ -1 +1 @@
-one
+two
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A tree that is no kernel: its base, which would confirm documentation, cannot be built."""
    kernel_tree(tmp_path / "linux", {"Documentation/a.rst": "one\n"})
    (tmp_path / "good.patch").write_text(DOCUMENT)
    (tmp_path / "other.patch").write_text(DOCUMENT.replace("two", "three"))
    (tmp_path / "bad.patch").write_text("no patch\n")
    return tmp_path


def gate(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    candidates = [word for one in words if one.endswith(".patch") for word in ("--candidate", one)]
    others = [word for word in words if not word.endswith(".patch")]
    return subprocess.run(
        [sys.executable, "-m", "iotoll", "gate", *candidates, "--tree", "linux", *others],
        cwd=place,
        env={**os.environ, "IOTOLL_CACHE": str(place / "cache")},
        capture_output=True,
        text=True,
    )


def test_each_candidate_has_its_own_end_in_the_order_given(place: Path) -> None:
    done = gate(place, "bad.patch", "good.patch", "other.patch", "--out", "all", "--json")
    assert done.returncode == 4, done.stderr
    found = json.loads(done.stdout)
    assert [one["candidate"] for one in found] == ["bad.patch", "good.patch", "other.patch"]
    assert [one["exit_code"] for one in found] == [2, 4, 4]
    assert "holds no change" in found[0]["sentence"]
    assert {one["outcome"] for one in found[1:]} == {"infrastructure"}
    for name in ("good", "other"):
        verdict = json.loads((place / "all" / name / "verdict.json").read_text())
        assert verdict["outcome"] == "infrastructure"
        asked = json.loads((place / "all" / name / "run.json").read_text())
        assert asked["candidate"].endswith(f"{name}.patch")
    assert not (place / "all/bad/verdict.json").exists()


def test_words_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        several.Gated("good.patch", 0, {"outcome": "pass", "sentence": "fine", "run": "a"}),
        several.Gated("other.patch", 2, {"sentence": "holds no change"}),
    ]
    several._print(rows, Output(quiet=False, as_json=False))
    assert capsys.readouterr().out.splitlines() == [
        "good.patch: pass: fine",
        "    run: a",
        "other.patch: error: holds no change",
    ]
    several._print(rows, Output(quiet=True, as_json=False))
    quiet = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in quiet] == ["good.patch", "other.patch"]


@pytest.mark.parametrize("second", ["good.patch", "./good.patch"])
def test_two_of_one_name_are_refused(
    place: Path, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    words = ["--candidate", "good.patch", "--candidate", second, "--tree", "linux", "--out", "all"]
    with pytest.raises(UsageError, match=r"^--candidate: two are named"):
        cli.main(["gate", *words], standalone_mode=False)
    assert not (place / "all").exists()


def test_a_candidate_whose_process_was_killed_is_no_pass(place: Path) -> None:
    (place / "0.out").write_text('{"outcome": "pass"}')
    (place / "0.err").touch()
    found = several._end_of("good.patch", -9, place / "0")
    assert (found.code, found.outcome) == (4, "error")
    assert "signal 9" in found.verdict["sentence"]
