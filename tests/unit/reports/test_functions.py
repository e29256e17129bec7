"""The first screen's lines of what `iotoll explain` found."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from iotoll.core.paths import data_dir
from iotoll.explain.terminal import print_explained
from iotoll.patch.diff import Hunk
from iotoll.records import results
from iotoll.records.models import (
    BuildRecord,
    CoverageRecord,
    ExplainRecord,
    FunctionCoverage,
    FunctionDelta,
    LineCoverage,
    Outcome,
    SectionDelta,
)
from iotoll.records.rundir import SIDES, RunDir
from iotoll.records.text import NBSP
from iotoll.reports.page import findings, render_report, terminal_report
from iotoll.reports.page.evidence import gather
from iotoll.reports.page.functions import coverage_of, never_ran, not_looked_at
from iotoll.reports.page.headline import headline
from iotoll.reports.publish.note import note
from tests.golden.runs import real

GOLDEN = Path(__file__).parents[2] / "golden/data/report"

RECORD = results.read(data_dir("results-schema") / "valid/explain.json", ExplainRecord)


def coverage(executed: int) -> ExplainRecord:
    function = FunctionCoverage(
        name="driver", new=False, instructions=8, executed=executed, calls={}
    )
    found = CoverageRecord(cells=["a"], functions=[function], gone=[], sentence="None ran.")
    return RECORD.model_copy(update={"coverage": found})


def with_line(found: ExplainRecord, **executions: float) -> ExplainRecord:
    line = LineCoverage(file="a.c", line=7, function="inlined", executions=executions)
    lines = found.coverage.model_copy(update={"lines": [line]})
    return found.model_copy(update={"coverage": lines})


def test_a_pass_on_code_that_never_ran_says_so() -> None:
    assert never_ran(coverage(0)) == ("This pass says nothing about the patch: its code never ran.")
    assert never_ran(coverage(3)) == ""
    assert never_ran(coverage(0), {"driver": 2.0}) == "", "it ran outside I/Os"
    (said,) = coverage_of(coverage(0))
    assert said.startswith(
        "None of the changed code ran in the I/Os of 1 workload: it is in driver."
    )


def test_g1_4_a_caller_that_ran_does_not_stand_for_a_changed_line() -> None:
    """+1,000 turns of a loop in an inlined function that nothing entered was "all of it ran"."""
    found = coverage(3)
    function = found.coverage.functions[0].model_copy(update={"changed": 2})
    idle = found.coverage.model_copy(update={"functions": [function]})
    found = with_line(found.model_copy(update={"coverage": idle}))
    said = "This pass says nothing about the patch: none of its changed lines ran."
    assert never_ran(found) == said
    assert never_ran(with_line(found, cell=0.5)) == ""
    passed = replace(gather(real("pass")), explained=found)
    told = findings.findings(passed)
    assert findings.headline_of(passed, told).startswith(said)
    assert headline(passed, told).sentence.startswith(said)
    failed = replace(gather(real("regression")), explained=found)
    assert said not in headline(failed).sentence


def test_f1_4_a_pass_that_nobody_explained_names_what_it_may_not_have_run() -> None:
    """+401 in nvme_poll(), which no cell ran, was a pass that said nothing of it."""
    path = "drivers/nvme/host/pci.c"
    poll = Hunk(path, "static int nvme_poll(struct blk_mq_hw_ctx *hctx)", 1227, 6)
    (line,) = not_looked_at([poll, poll])
    assert line == f"not looked at: whether these cells run nvme_poll() in {path}"
    (line,) = not_looked_at([Hunk(path, "", 1, 1)])
    assert line.endswith(f"run {path}")
    (line,) = not_looked_at([Hunk(path, f"int f{n}(void)", n, 1) for n in range(9)])
    assert line.endswith(f"f3(), f4() in {path} and 4{NBSP}more places")
    assert not_looked_at([]) == []


def test_every_report_of_a_pass_says_what_it_covered(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    shutil.copytree(GOLDEN / "pass", run.root)
    said = "The changed function ran in the I/Os of 1 workload: driver."
    found = coverage(3).coverage
    builds = [gather(run).builds[side] for side in SIDES]
    images = [build.image_sha256 for build in builds if isinstance(build, BuildRecord)]
    update = {"cells": [], "coverage": found, "images": images, "outcome": Outcome.PASS}
    results.write(run.explained, RECORD.model_copy(update=update))
    terminal = io.StringIO()
    terminal_report(run, Console(file=terminal, width=200))
    pages = [terminal.getvalue(), render_report(run).read_text(), note(gather(run), [])]
    for page in pages:
        assert "What ran" in page and said in page.replace("\\", ""), "markdown escapes some"


def test_nothing_is_said_of_what_could_not_be_explained() -> None:
    failed = RECORD.model_copy(update={"failure": "the plugin was not built"})
    assert coverage_of(failed) == [] and never_ran(failed) == ""


def with_functions(*others: FunctionDelta) -> ExplainRecord:
    """The example with more functions in its section."""
    (cell,) = RECORD.cells
    section = cell.sections[0]
    more = SectionDelta(**{**dict(section), "functions": [*others, *section.functions]})
    return RECORD.model_copy(update={"cells": [cell.model_copy(update={"sections": [more]})]})


def other(name: str, delta: int, mean: float, *, changed: bool) -> FunctionDelta:
    (first, *_) = RECORD.cells[0].sections[0].functions
    update = {"name": name, "delta": delta, "share": 0.9, "mean": mean, "changed": changed}
    return first.model_copy(update={**update, "file": None, "inlined": []})


def test_changed_functions_are_named_before_larger_ones() -> None:
    same = other("get_page", -900, -900.0, changed=False)
    rare = other("slow_path", 0, 12.5, changed=True)
    pages = io.StringIO()
    print_explained(with_functions(same, rare), Console(file=pages, width=200))
    text = pages.getvalue()
    places = [
        text.index(f"  {name}") for name in ("ufshcd_queuecommand (", "slow_path", "get_page")
    ]
    assert places == sorted(places)
