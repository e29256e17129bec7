"""A result as text for a commit log: plain ASCII, 75 columns, units, what was not measured."""

from __future__ import annotations

import re
import shlex
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from iotoll.cli import cli
from iotoll.core.errors import UsageError
from iotoll.records.rundir import RunDir
from iotoll.reports.page.evidence import gather
from iotoll.reports.page.plain_text import (
    COLUMNS,
    commit_text,
    cover_text,
    mail_text,
    repeat_with,
)
from tests.golden.runs import CASES, DATA, IDS, hostile, real

SCREENS = DATA / "screens"
WITHOUT = {"broken", "broken-build", "infrastructure", "documentation"}
"""Cases without a value to quote."""


@pytest.mark.parametrize("text", [commit_text, cover_text])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_kind_of_run_fits_a_mail_or_says_why_not(case: Path, text: object) -> None:
    evidence = gather(RunDir.open(case))
    assert callable(text)
    if case.name in WITHOUT:
        with pytest.raises(UsageError, match="no values to quote"):
            text(evidence)
        return
    found = text(evidence)
    assert found.isascii()
    assert max(map(len, found.splitlines())) <= COLUMNS
    assert "Kernel: Linux" in found and "Board: " in found
    assert "Not measured:" in found and "Repeat with:" in found


def test_the_numbers_are_those_of_the_verdict_each_with_its_unit() -> None:
    found = commit_text(gather(real("regression")))
    words = "+327 to +329 instructions per UFS request (+14 % of submission), in both workloads"
    assert words in " ".join(found.split())
    # Without a finding, a table: median, its share, the largest change, and where it grew.
    found = commit_text(gather(real("pass")))
    assert re.search(r"\[instr\] +\[%\] +\[instr\] +\[workloads\]", found)
    found = commit_text(gather(real("regression")))
    assert "not judged in 1 workload: completion: fewer than 24 I/Os" in found


def test_further_boots_are_counted() -> None:
    evidence = gather(real("regression"))
    assert "2 boots a side" in commit_text(evidence)
    base, candidate = (
        side.model_copy(update={"boots": side.boots * 3}) for side in evidence.sides.values()
    )
    both = replace(evidence, sides={"base": base, "candidate": candidate})
    assert "6 boots a side" in commit_text(both)
    one = replace(evidence, sides={**evidence.sides, "candidate": candidate})
    assert "2 boots of the base, 6 of the candidate" in " ".join(commit_text(one).split())


def test_cells_that_boots_divide_are_counted_once() -> None:
    evidence = gather(real("regression"))
    halves = {}
    for side, result in evidence.sides.items():
        names = list(result.cells)
        parts = (names[:1], names[1:])
        boots = [result.boots[0].model_copy(update={"cells": part}) for part in parts]
        halves[side] = result.model_copy(update={"boots": boots})
    manifest = evidence.manifest.model_copy(update={"parts": 2})
    said = " ".join(commit_text(replace(evidence, sides=halves, manifest=manifest)).split())
    assert "1 boot a side, cells divided over 2 boots" in said


def test_a_cover_letter_has_every_workload_in_full() -> None:
    evidence = gather(real("regression"))
    found = cover_text(evidence)
    for cell in evidence.manifest.cells or []:
        assert re.search(rf"^  {cell} +\d+ +\d+", found, re.M)


def test_names_that_differ_at_their_end_stay_apart() -> None:
    evidence = gather(real("regression"))
    assert evidence.verdict is not None
    first, *others = evidence.verdict.cells
    long = "ufs-128k-randwrite-t8-direct-io_uring-qd32-mq-deadline-tags"
    cells = [
        first.model_copy(update={"cell": f"{long}4"}),
        first.model_copy(update={"cell": f"{long}8"}),
        *others,
    ]
    verdict = evidence.verdict.model_copy(update={"cells": cells})
    found = cover_text(replace(evidence, verdict=verdict))
    assert max(map(len, found.splitlines())) <= COLUMNS
    for end in "48":
        assert re.search(rf"^  {long}{end}\n +\d+ +\d+ +\S+ +\S+$", found, re.M)


def test_one_kernel_has_its_workloads_in_a_cover_letter() -> None:
    evidence = gather(RunDir.open(DATA / "report/measured"))
    rows = re.findall(r"^  (\w+-\d+k-\S+) +\d+$", cover_text(evidence), re.M)
    assert sorted(rows) == sorted(evidence.sides["base"].cells) and len(rows) == 4


def test_the_command_is_one_command_for_a_shell() -> None:
    evidence = gather(real("regression"))
    text = commit_text(evidence).partition("Repeat with:\n")[2]
    assert shlex.split(text.replace("\\\n", "")) == evidence.manifest.command


def test_hostile_text_cannot_leave_its_line(tmp_path: Path) -> None:
    found = commit_text(gather(hostile(tmp_path / "run")))
    assert found.isascii()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", found)
    assert not re.search(r"^/merge", found, re.M)


def test_command_line() -> None:
    run = str(real("regression").root)
    asked = CliRunner().invoke(cli, ["report", run, "--commit"])
    assert asked.exit_code == 0 and asked.output == commit_text(gather(real("regression")))
    both = CliRunner().invoke(cli, ["report", run, "--commit", "--cover"])
    assert isinstance(both.exception, UsageError)


@pytest.mark.parametrize(
    "word",
    [
        "--cells=*-4k-randread-t1-direct,*-4k-randwrite-t1-sync,*-128k-seqread-t8-direct,*-x",
        "--cells=" + "ufs-4k-randread-t1-direct," * 9,
        "/a/path/of/" + "one-long-name-" * 12 + "end",
        "with a space and more than a line of words that a shell must see as one word, *",
    ],
)
def test_the_command_is_the_same_to_a_shell_in_lines_of_75(word: str) -> None:
    command = ["iotoll", "gate", word, "--candidate", "a b.patch", word]
    text = repeat_with(command).removeprefix("Repeat with:\n")
    assert max(map(len, text.splitlines())) <= 75
    done = subprocess.run(
        ["sh", "-c", text.replace("iotoll", "printf '%s\\n' iotoll", 1)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == command


def test_g2_6_lines_about_long_functions_fit(tmp_path: Path) -> None:
    """A gate whose function is inlined: its line had 78 columns."""
    with tarfile.open(SCREENS / "checksum-two-cells.tar.gz") as tar:
        tar.extractall(tmp_path / "run", filter="data")
    evidence = gather(RunDir.open(tmp_path / "run"))
    for text in (commit_text(evidence), cover_text(evidence), mail_text(evidence)):
        lines = [line for line in text.splitlines() if not line.startswith("Subject: ")]
        assert max(map(len, lines)) <= 75
        assert "ufshcd_request_checksum, inlined into ufshcd_queuecommand" in text
