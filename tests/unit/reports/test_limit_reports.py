"""Limits and throughput that differ are in every output, first and in the same words."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from iotoll.reports.page.evidence import Evidence, gather
from iotoll.reports.page.headline import headline
from iotoll.reports.page.html import page_html
from iotoll.reports.page.summary import first_screen
from iotoll.reports.page.terminal import print_report
from iotoll.reports.publish.checks import Status, checks
from iotoll.reports.publish.codequality import codequality
from iotoll.reports.publish.junit import junit
from iotoll.reports.publish.kcidb import kcidb
from iotoll.reports.publish.note import note
from tests.unit.reports.test_report_answer import edited

LIMIT = {
    "name": "ufs.queue.max_sectors_kb",
    "base": "1024",
    "candidate": "128",
    "gated": True,
}
RATE = {
    "cell": "ufs-1024k-randread-t1-direct-libaio-qd32",
    "base": 50000.0,
    "candidate": 80000.0,
    "relative": 0.6,
    "threshold": 0.02,
    "moved": "grew",
}


def run(folder: Path, **changes: Any) -> Evidence:
    """A pass of a measured run whose limits differ."""

    def change(data: dict[str, Any]) -> None:
        data |= {
            "outcome": "regression",
            "exit_code": 1,
            "sentence": "Limits differ: UFS max_sectors_kb 1024 -> 128. No section grew.",
            "limits": [LIMIT],
            "without_limits": "pass",
            **changes,
        }

    return gather(edited(folder, change, "pass"))


def test_g1_3_limits_stand_in_the_first_line_of_every_output(tmp_path: Path) -> None:
    evidence = run(tmp_path / "run")
    words = "limit UFS max_sectors_kb 1024 -> 128"
    assert headline(evidence).sentence.startswith(words)
    assert headline(evidence).kind == "regression"
    assert "max_sectors_kb" in page_html(evidence)
    assert "max" in note(evidence, [])
    assert "limit ufs.queue.max_sectors_kb: 1024 -&gt; 128" in junit(evidence)
    assert "limit ufs.queue.max_sectors_kb: 1024 -> 128" in kcidb(evidence, [], "iotoll")
    first, second = checks(evidence)[:2]
    assert first.status is second.status is Status.FAILURE
    commands = [command for f in first_screen(evidence) for _, command in f.commands]
    assert "Iotoll-Accept: ufs.queue.max_sectors_kb 1024 -> 128 REASON" in commands


def test_g1_3_limits_come_before_what_grew(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data |= {"limits": [LIMIT], "without_limits": "regression"}

    head = headline(gather(edited(tmp_path / "run", change)))
    assert head.sentence == "limit UFS max_sectors_kb 1024 -> 128"
    assert "instructions per UFS request" in head.more[0]


def test_code_quality_names_the_patch_where_requests_are_made(tmp_path: Path) -> None:
    evidence = run(tmp_path / "run", throughput=[RATE])
    found = json.loads(codequality(evidence))
    assert all(row["check_name"] == "iotoll/limit" for row in found)
    for row in found:
        assert "1024 -> 128" in row["description"] and "IOPS" in row["description"]


def test_g1_3_throughput_that_is_not_judged_is_no_pass(tmp_path: Path) -> None:
    unknown = {**RATE, "base": None, "candidate": None, "moved": "unknown", "why": "not judged: x"}
    passes = {"outcome": "pass", "exit_code": 0}
    evidence = run(tmp_path / "run", throughput=[unknown], limits=[], **passes)
    (check,) = [c for c in checks(evidence) if c.figure == "throughput"]
    assert check.status is Status.SKIPPED and "not judged" in check.reason


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"accepted": "erratum"}, Status.PASSED),
        ({"gated": False, "base": "absent"}, Status.SKIPPED),
        ({}, Status.FAILURE),
    ],
)
def test_a_limits_check_says_what_the_verdict_does(
    tmp_path: Path, changes: dict[str, Any], status: Status
) -> None:
    passes = {"outcome": "pass", "exit_code": 0} if changes else {}
    evidence = run(tmp_path / "run", limits=[{**LIMIT, **changes}], **passes)
    (check,) = [c for c in checks(evidence) if c.figure == "limit"]
    assert check.status is status


def test_the_terminal_has_them(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=100)
    print_report(run(tmp_path / "run"), console)
    assert isinstance(console.file, io.StringIO)
    told = " ".join(console.file.getvalue().split())
    assert "limit UFS max_sectors_kb 1024 -> 128" in told
