"""Which boots note what runs, and what becomes of it; test_explain.py of tests/vm has real ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from iotoll.boards.ramdisk import Image
from iotoll.boots.local import BootPlan
from iotoll.core.errors import InfrastructureError
from iotoll.core.progress import Progress
from iotoll.explain import automatic, gate_coverage
from iotoll.explain.coverage import with_data
from iotoll.explain.tables import io_tables
from iotoll.gate.flow import Flow
from iotoll.kernels.symbols import Symbols
from iotoll.records import results
from iotoll.records.models import CoverageRecord, ExplainRecord, Outcome
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from tests.unit.explain.kernels import NOP, RET, symbols
from tests.unit.explain.test_automatic import judged
from tests.unit.runs import CELLS, add_boots, make_run

BEFORE = symbols({"same": [NOP, RET], "ufs_one": [NOP, RET], "idle": [NOP, RET]})
AFTER = symbols({"same": [NOP, RET], "ufs_one": [RET, RET, RET], "idle": [RET, RET]})
SAID = (
    "1 of 2 changed functions ran in the I/Os of 2 recorded cells; not idle."
    f" Nothing of it ran in 1 of them: {CELLS[1]}."
)


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Symbols for both sides, and a plugin that need not be built."""

    def read(_: RunDir, side: Side) -> Symbols:
        return BEFORE if side == "base" else AFTER

    monkeypatch.setattr(gate_coverage, "symbols_of", read)
    monkeypatch.setattr(gate_coverage, "probes", lambda _: "0x10:0+0x20:1")
    monkeypatch.setattr(
        gate_coverage, "coverage_words", lambda *words: ("-plugin", *map(str, words))
    )


def gate(root: Path, *, explains: bool = True, **changes: Any) -> Flow:
    run = make_run(root / "run", **changes)
    return Flow(run, Progress(quiet=True), explains=explains)


def plans(flow: Flow) -> list[BootPlan]:
    """Boots of both sides; what a board would see of them plays no part here."""
    boots: list[tuple[Side, int]] = [("base", 1), ("candidate", 1), ("candidate", 2)]
    return [
        BootPlan(
            side=side,
            number=number,
            board=flow.board,
            clock=flow.run.manifest.clock,
            accelerator="tcg",
            kernel=flow.run.build(side) / "Image",
            image=cast(Image, None),
            job=flow.run.root / "jobs/boot-1",
            job_sha256="0",
            cells=list(CELLS),
            runs=2,
            folder=flow.run.boot(side, number),
        )
        for side, number in boots
    ]


def prefix(flow: Flow) -> Path:
    return flow.run.side("candidate") / "boots/ran"


def test_the_candidates_first_boot_notes_the_changed_functions(tmp_path: Path) -> None:
    flow = gate(tmp_path)
    before = plans(flow)
    found = gate_coverage.watched(flow, before)
    only = prefix(flow).with_name("ran.only")
    assert found[1].words == ("-plugin", str(prefix(flow)), "0x10:0", str(only))
    assert [found[0], found[2]] == [before[0], before[2]]
    assert before[1].words == ()
    spans = np.fromfile(only, "<u8").reshape(-1, 2).tolist()
    assert spans == [list(span) for name in ("ufs_one", "idle") if (span := AFTER.span(name))]


@pytest.mark.parametrize(
    ("explains", "changes"),
    [
        (False, {}),
        (True, {"board": "virt-arm64-stock"}),
        (True, {"board": "virt-x86_64"}),
        (True, {"board": "virt-arm64-smp4"}),
        (True, {"runner": "lava"}),
    ],
)
def test_other_runs_note_nothing(tmp_path: Path, explains: bool, changes: dict[str, Any]) -> None:
    assert gate_coverage.can_watch(gate(tmp_path / "usual"))
    assert not gate_coverage.can_watch(gate(tmp_path / "other", explains=explains, **changes))


def test_without_a_plugin_the_boots_are_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise InfrastructureError("gcc is not installed")

    monkeypatch.setattr(gate_coverage, "coverage_words", fail)
    flow = gate(tmp_path)
    flow.progress = Progress(quiet=False)
    assert gate_coverage.watched(flow, plans(flow)) == plans(flow)
    assert "will not be said: gcc is not installed" in capsys.readouterr().err


def recorded(flow: Flow, *, whole: bool = True) -> None:
    """What a boot leaves in which ``ufs_one`` ran once in each I/O of the first cell."""
    add_boots(flow.run)
    flow.run.boot("candidate", 1).mkdir(parents=True, exist_ok=True)
    table = io_tables(flow.run.boot("candidate", 1), CELLS)[CELLS[0]]
    starts = sorted(table["start"].tolist())
    low, _ = AFTER.span("ufs_one") or (0, 0)
    marks = [[number, 0, 0, start] for number, start in enumerate(starts)]
    np.array([[low, 3]], "<u8").tofile(prefix(flow).with_name("ran.blocks"))
    np.array([3] * len(starts), "<u4").tofile(prefix(flow).with_name("ran.runs"))
    np.array(marks, "<u8").tofile(prefix(flow).with_name("ran.marks"))
    counts = {"blocks": 1, "runs": len(starts) + (not whole), "marks": len(starts), "lines": 0}
    prefix(flow).with_name("ran.json").write_text(json.dumps(counts))


@pytest.mark.parametrize("outcome", [Outcome.PASS, Outcome.INCONCLUSIVE])
def test_a_pass_says_what_it_covered(tmp_path: Path, outcome: Outcome) -> None:
    flow = gate(tmp_path)
    before = judged(flow.run, outcome)
    recorded(flow)
    automatic.after_verdict(flow)
    record = results.read(flow.run.explained, ExplainRecord)
    assert record.coverage.sentence == SAID and record.cells == []
    assert record.coverage.functions[0].calls == {CELLS[0]: 1.0}
    assert flow.run.verdict.read_bytes() == before
    assert automatic.is_of(flow.run) and not automatic.is_current(flow.run)
    assert not list(prefix(flow).parent.glob("ran.*"))
    # Judged again from the stored files: it is still there.
    automatic.after_verdict(flow)
    assert results.read(flow.run.explained, ExplainRecord) == record


def test_a_patch_that_changes_no_code_is_said_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_coverage, "symbols_of", lambda *_: BEFORE)
    flow = gate(tmp_path)
    judged(flow.run, Outcome.PASS)
    assert gate_coverage.watched(flow, plans(flow)) == plans(flow)
    automatic.after_verdict(flow)
    record = results.read(flow.run.explained, ExplainRecord)
    assert record.coverage.sentence == "No function's machine code changed."


def test_g1_3_a_patch_that_changes_data_alone_is_not_said_to_change_nothing() -> None:
    found = CoverageRecord(cells=[], functions=[], gone=[], sentence="Nothing changed.")
    assert with_data(found, BEFORE, BEFORE) == found
    other = replace(BEFORE, image=BEFORE.image + b"1024")
    said = with_data(found, BEFORE, other).sentence
    assert "the images differ in data, such as limits" in said


def test_a_record_that_is_not_whole_says_nothing(tmp_path: Path) -> None:
    flow = gate(tmp_path)
    judged(flow.run, Outcome.PASS)
    recorded(flow, whole=False)
    automatic.after_verdict(flow)
    assert not flow.run.explained.exists()
