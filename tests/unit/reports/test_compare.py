"""Two runs side by side: values, changes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from iotoll.core.errors import UsageError
from iotoll.records import results
from iotoll.records.models import Clock, Section, SideResult
from iotoll.records.models.run import FactRecord
from iotoll.records.rundir import RunDir
from iotoll.reports.compare import compare_command, open_side, remarks, rows
from tests.unit.runs import CELLS, make_run, side_result

COUNTS = {Section.VFS_FS: [100] * 8}


def measured(cell: str, submission: int) -> SideResult:
    """Results of one cell, whose submission has this median of own instructions."""
    side = side_result("candidate", {cell: COUNTS})
    [record] = side.cells[cell]
    section = record.sections[Section.SUBMISSION]
    own = section.own.model_copy(update={"median": submission})
    sections = {
        **record.sections,
        Section.SUBMISSION: section.model_copy(update={"own": own}),
    }
    changed = record.model_copy(update={"sections": sections})
    return side.model_copy(update={"cells": {cell: [changed]}})


def finished(root: Path, submission: int) -> RunDir:
    """A run whose candidate's submission takes so many instructions in the first cell."""
    run = make_run(root)
    results.write(run.side("candidate") / "result.json", measured(CELLS[0], submission))
    return run


def change(run: RunDir, **fields: object) -> None:
    """Write the manifest again with other fields."""
    results.write(run.root / "run.json", RunDir(run.root).manifest.model_copy(update=fields))


def test_limits_that_differ_are_named(tmp_path: Path) -> None:
    runs = [finished(tmp_path / name, 2000) for name in ("a", "b")]
    for run, value in zip(runs, ("1024", "128"), strict=True):
        path = run.side("candidate") / "result.json"
        side = results.read(path, SideResult)
        facts = FactRecord(limits={"ufs.queue.max_sectors_kb": value})
        boots = [side.boots[0].model_copy(update={"facts": facts})]
        results.write(path, side.model_copy(update={"boots": boots}))
    notes = remarks(*(open_side(run.root, None) for run in runs))
    assert "limit ufs.queue.max_sectors_kb: 1024 -> 128" in notes


def test_sections_stand_side_by_side(tmp_path: Path) -> None:
    first, second = finished(tmp_path / "a", 2000), finished(tmp_path / "b", 2300)
    found = rows(open_side(first.root, None), open_side(second.root, None))
    by_section = {row.section: row for row in found if row.cell == CELLS[0]}
    submission = by_section[Section.SUBMISSION]
    assert (submission.first, submission.second, submission.delta) == (2000, 2300, 300)
    assert submission.relative == pytest.approx(0.15)
    assert Section.HARDWARE not in by_section  # no measure on this clock
    shown = CliRunner().invoke(compare_command, [str(first.root), str(second.root)])
    assert "+300" in shown.output and "+15" in shown.output
    assert "Not judged" in shown.output
    data = json.loads(
        CliRunner().invoke(compare_command, [str(first.root), str(second.root), "--json"]).output
    )
    assert data["judged"] is False
    assert {"cell": CELLS[0], "section": "submission", "first": 2000, "second": 2300}.items() <= (
        next(r for r in data["rows"] if r["section"] == "submission").items()
    )


def test_a_cell_of_one_run_alone_has_no_change_and_says_why(tmp_path: Path) -> None:
    first, second = finished(tmp_path / "a", 2000), finished(tmp_path / "b", 2300)
    path = second.side("candidate") / "result.json"
    results.write(path, measured(CELLS[1], 2300))
    found = rows(open_side(first.root, None), open_side(second.root, None))
    assert {row.delta for row in found} == {None}
    assert {row.why for row in found} == {
        "b (candidate) did not run it",
        "a (candidate) did not run it",
    }


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [("board", "virt-x86_64", "boards"), ("accelerator", "kvm", "accelerators")],
)
def test_other_boards_are_refused(tmp_path: Path, field: str, value: str, what: str) -> None:
    first, second = finished(tmp_path / "a", 2000), finished(tmp_path / "b", 2300)
    change(second, **{field: value})
    with pytest.raises(UsageError, match=f"a and b have different {what}: .* and {value}"):
        rows(open_side(first.root, None), open_side(second.root, None))


def test_other_clocks_are_refused(tmp_path: Path) -> None:
    first, second = finished(tmp_path / "a", 2000), finished(tmp_path / "b", 2300)
    path = second.side("candidate") / "result.json"
    known = results.read(path, SideResult)
    results.write(path, known.model_copy(update={"clock": Clock.TIME}))
    with pytest.raises(UsageError, match="different clocks: instructions and time"):
        rows(open_side(first.root, None), open_side(second.root, None))


def test_values_with_the_recorder_are_not_compared_with_others(tmp_path: Path) -> None:
    first, second = finished(tmp_path / "a", 5142), finished(tmp_path / "b", 2409)
    path = second.side("candidate") / "result.json"
    known = results.read(path, SideResult)
    [record] = known.cells[CELLS[0]]
    counted = {CELLS[0]: [record.model_copy(update={"tracing": 2904})]}
    results.write(path, known.model_copy(update={"cells": counted}))
    found = rows(open_side(first.root, None), open_side(second.root, None))
    assert {row.delta for row in found} == {None}
    why = "only the values of b (candidate) are without the recorder: run the other again"
    assert {row.why for row in found} == {why}


def test_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    with pytest.raises(UsageError, match="no results of its candidate: the run is not finished"):
        open_side(run.root, None)


def test_what_else_differs_is_remarked(tmp_path: Path) -> None:
    first, second = finished(tmp_path / "a", 2000), finished(tmp_path / "b", 2300)
    change(second, matrix="small")
    notes = remarks(open_side(first.root, None), open_side(second.root, None))
    assert "matrices differ: default and small" in notes
    assert "both ran the same kernel image" in notes
