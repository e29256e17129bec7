"""What traces count, in the reports of a run on the clock `time`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from iotoll.core.progress import Progress
from iotoll.gate import flow as flow_module
from iotoll.gate.flow import Flow
from iotoll.records import results
from iotoll.records.models import Outcome, SideResult, VerdictRecord
from iotoll.records.models.analysis import PmuRecord
from iotoll.records.rundir import SIDES, RunDir
from iotoll.reports.page import render_report
from iotoll.reports.page.evidence import gather
from iotoll.reports.page.findings import record_of
from iotoll.reports.page.terminal import print_screen
from iotoll.reports.publish.note import note
from tests.unit.verdict.time.test_elements import boots
from tests.unit.verdict.time.test_flow import timed

COUNTED = "counted in the trace"
LINE = f"+1 interrupt per UFS I/O in the whole I/O, in ufs-4k-randread-t1-direct, {COUNTED}"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A judged run of a real board whose candidate has an interrupt more for each I/O."""
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    made = timed(tmp_path / "run", accelerator="none", experiment=False)
    for side, interrupts in zip(SIDES, (1.0, 2.0), strict=True):
        found = boots(side, {"interrupts": [interrupts] * 16, "requests": [1.0] * 16})
        results.write(made.side(side) / "result.json", found)
    monkeypatch.setattr(flow_module, "run_boots", None)
    Flow(made, Progress(quiet=True)).judge()
    return made


def test_every_output_says_that_the_trace_counted_it(run: RunDir) -> None:
    verdict = results.read(run.verdict, VerdictRecord)
    assert verdict.outcome is Outcome.PASS and not verdict.regressions
    evidence = gather(run)
    record = record_of(evidence)
    sentences = [one.sentence for one in record.findings]
    assert f"{LINE}, shown only" in sentences
    assert [one.counted for one in record.findings] == [COUNTED] * len(sentences)
    written = json.loads(run.verdict.read_text())["cells"][0]["elements"][0]
    assert written["why"] == f"shown only: {COUNTED}"
    console = Console(record=True, width=120)
    print_screen(evidence, console)
    assert COUNTED in " ".join(console.export_text().split())


def test_the_page_has_all_counts_and_what_could_not_be_counted(run: RunDir) -> None:
    page = " ".join(render_report(run).read_text().split())
    assert f"{LINE}, shown only" in page
    uncounted = "not counted: context switches, wake-ups, KiB handed to the driver"
    for side, words in (("base", "1 interrupt"), ("candidate", "2 interrupts")):
        assert f"{COUNTED} ({side}): {words}, 1 request per I/O; {uncounted}" in page
    assert COUNTED in note(gather(run), [])


def test_the_page_has_what_the_pmu_counted_and_why_it_did_not(run: RunDir) -> None:
    found = PmuRecord(
        ios=512, counts={"instructions": 512 * 5_000}, missing={"cycles": "not supported"}
    )
    for side in SIDES:
        result = results.read(run.side(side) / "result.json", SideResult)
        for records in result.cells.values():
            records[:] = [record.model_copy(update={"pmu": found}) for record in records]
        results.write(run.side(side) / "result.json", result)
    page = " ".join(render_report(run).read_text().split())
    words = "instructions 5,000 per I/O; not counted: cycles (not supported)"
    assert f"PMU, a separate run: {words}" in page
