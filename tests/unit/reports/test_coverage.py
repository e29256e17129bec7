"""What ran of changed code, in one sentence; said once, and by what it was found."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from iotoll.core.paths import data_dir
from iotoll.records import results
from iotoll.records.models import CoverageRecord, ExplainRecord, FunctionCoverage, LineCoverage
from iotoll.reports.page.coverage import coverage_sentence
from iotoll.reports.page.evidence import gather
from iotoll.reports.page.terminal import print_screen
from tests.golden.runs import real

CELLS = [f"{device}-4k-rand{way}-t1-direct" for device in ("ufs", "emmc") for way in ("read", "w")]
RECORD = results.read(data_dir("results-schema") / "valid/explain.json", ExplainRecord)


def function(name: str, *cells: str) -> FunctionCoverage:
    """A function of the gate's boot; its changed code ran in ``cells``."""
    ran = len(cells)
    return FunctionCoverage(
        name=name,
        new=False,
        instructions=8,
        executed=ran,
        calls=dict.fromkeys(cells, 1.0),
        changed=4,
        changed_executed=ran,
        executions=dict.fromkeys(cells, 1.0),
    )


def line(number: int, *cells: str) -> LineCoverage:
    return LineCoverage(file="a.c", line=number, function="f", executions=dict.fromkeys(cells, 1.0))


def said(*functions: FunctionCoverage, lines: tuple[LineCoverage, ...] = (), **more: object) -> str:
    fields = {"cells": CELLS, "gone": [], "sentence": "", "changed_lines": 3, **more}
    found = {"functions": list(functions), "lines": list(lines), **fields}
    return coverage_sentence(CoverageRecord.model_validate(found))


def test_g2_10_one_changed_line_is_the_changed_line() -> None:
    assert said(function("f", *CELLS), lines=(line(7, *CELLS),)) == (
        "The changed line ran in 4 workloads: a.c:7 f(). The changed function ran: f."
    )
    assert said(function("f"), lines=(line(7),)) == (
        "The changed line never ran in 4 workloads: a.c:7 f()."
    )


def test_lines_that_never_ran_are_named_and_functions_follow() -> None:
    ran, idle = function("f", *CELLS), function("g")
    assert said(ran, idle, lines=(line(7, *CELLS), line(8))) == (
        "1 of 2 changed lines with code ran in 4 workloads, not a.c:8 f()."
        " 1 of 2 changed functions ran, not g."
    )


def test_lines_are_told_by_file_and_function() -> None:
    idle = tuple(line(number) for number in range(7, 15))
    assert said(function("f"), lines=idle) == (
        "None of the 8 changed lines with code ran in 4 workloads:"
        " a.c:7, 8, 9, 10, 11, 12 f() and 2 more."
    )
    other = function("f").model_copy(update={"executed": 3})
    assert said(other, lines=idle[:1]).endswith(": a.c:7 f(). Other code of f ran.")


def test_it_says_where_coverage_is_not_by_lines_and_why() -> None:
    found = said(function("f", *CELLS), note="files and lines are not known: no gcc")
    assert found == (
        "The changed function ran in 4 workloads: f. Found by the code that the base has not,"
        " not by lines: files and lines are not known: no gcc."
    )
    assert said(function("f", *CELLS), changed_lines=0).endswith(": the patch adds no line.")
    assert said(function("f", *CELLS)).endswith(": no changed line has code.")


def test_devices_that_ran_none_of_it_are_counted_and_not_listed() -> None:
    assert said(function("f", CELLS[0]), changed_lines=0).endswith(
        "Workloads that ran any of it: 1 of 2 UFS, none of 2 eMMC."
    )


def test_a_run_without_any_io_does_not_say_that_code_did_not_run() -> None:
    assert said(function("f"), cells=[]) == (
        "No I/O was recorded, so what of it runs is not known. Changed: f."
    )


def test_a_pass_says_once_what_ran() -> None:
    update = {"functions": [function("ufs_idle")], "cells": CELLS, "lines": [], "note": "no gcc"}
    found = RECORD.model_copy(update={"coverage": RECORD.coverage.model_copy(update=update)})
    evidence = replace(gather(real("pass")), explained=found)
    stream = io.StringIO()
    print_screen(evidence, Console(file=stream, width=80, color_system=None))
    text = stream.getvalue()
    assert text.count("ufs_idle") == 1
    assert "not by lines: no gcc" in " ".join(text.split())
