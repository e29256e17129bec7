"""What a pass does not cover stands on its page, in one line made from the run's data."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from iotoll.core.paths import data_dir
from iotoll.records import results
from iotoll.records.models import Clock, VerdictRecord
from iotoll.records.text import NBSP
from iotoll.reports.page.evidence import Evidence, gather
from iotoll.reports.page.html import page_html
from iotoll.reports.page.summary import not_covered
from iotoll.reports.page.terminal import print_report
from iotoll.reports.publish.note import note
from tests.golden.runs import real

COUNTED = "what instructions do not show: register accesses, barriers"


def evidence(case: str) -> Evidence:
    return gather(real(case))


def test_g1_a_pass_that_nobody_looked_into_says_that() -> None:
    (line,) = not_covered(replace(evidence("pass"), explained=None, hunks=()))
    assert line.startswith("which of the changed code ran; " + COUNTED)


@pytest.mark.parametrize("case", ["regression", "broken", "infrastructure", "smoke"])
def test_g1_no_other_outcome_has_that_line(case: str) -> None:
    assert not list(not_covered(evidence(case)))


def test_g1_the_line_is_on_page_terminal_and_note() -> None:
    found = evidence("pass")
    (line,) = not_covered(found)
    for text in (page_html(found), note(found, []), terminal_text(found)):
        plain = " ".join(text.replace("\u2060", "").replace("\\", "").split())
        assert line[:60] in plain


def terminal_text(found: Evidence) -> str:
    stream = io.StringIO()
    print_report(found, Console(file=stream, width=200, color_system=None))
    return stream.getvalue()


def test_g1_on_boards_time_it_is_another_line() -> None:
    found = evidence("pass")
    assert found.verdict is not None
    timed = found.verdict.model_copy(update={"clock": Clock.TIME})
    (line,) = not_covered(replace(found, verdict=timed))
    assert line.startswith("growth below what the policy calls unacceptable")


def test_g1_2_work_outside_ios_is_named_where_it_was_not_counted() -> None:
    found = evidence("pass")
    (line,) = not_covered(found)
    assert line.endswith("; work outside I/Os (the boots left no counts)")
    known = results.read(data_dir("results-schema") / "valid/verdict.json", VerdictRecord)
    (work,) = [cell.work for cell in known.cells if cell.work]
    assert found.verdict is not None
    first, *rest = found.verdict.cells
    for cells, words in (
        ([first.model_copy(update={"work": work}), *rest], f"work outside I/Os in {len(rest)} of"),
        ([c.model_copy(update={"work": work}) for c in (first, *rest)], ""),
    ):
        verdict = found.verdict.model_copy(update={"cells": cells})
        (line,) = not_covered(replace(found, verdict=verdict))
        line = line.replace(NBSP, " ")
        assert words in line and ("outside" in line) == bool(words)


def test_g1_2_the_reason_is_the_boots_own() -> None:
    found = evidence("pass")
    why = "boards with several CPUs are not counted yet"
    sides = {
        name: side.model_copy(
            update={"boots": [b.model_copy(update={"uncounted": why}) for b in side.boots]}
        )
        for name, side in found.sides.items()
    }
    (line,) = not_covered(replace(found, sides=sides))
    assert line.endswith(f"; work outside I/Os ({why})")
