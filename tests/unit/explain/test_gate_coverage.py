"""What ran of the change, from the windows of the gate's boot; tests/vm has real ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotoll.boards.plugin import WINDOWS
from iotoll.core.errors import InfrastructureError
from iotoll.core.progress import Progress
from iotoll.explain import automatic, gate_coverage
from iotoll.explain.coverage import ChangedCode, in_words, of_boot, with_data
from iotoll.explain.functions import Lines
from iotoll.explain.pieces import make_pieces
from iotoll.explain.tables import io_tables
from iotoll.gate import prefetch
from iotoll.gate.flow import Flow
from iotoll.kernels.debuginfo import Frame, FunctionLines
from iotoll.kernels.symbols import Symbols
from iotoll.measure import windows as stored
from iotoll.measure.iotable import IoTable
from iotoll.measure.windows import _KINDS, Windows
from iotoll.records import results
from iotoll.records.models import CoverageRecord, ExplainRecord, Outcome
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from tests.unit.explain.kernels import NOP, RET, symbols
from tests.unit.explain.test_automatic import judged
from tests.unit.runs import CELLS, add_boots, make_run

ADD = 0x8B000000
BEFORE = symbols({"same": [NOP, RET], "ufs_one": [ADD, RET], "idle": [NOP, RET]})
AFTER = symbols({"same": [NOP, RET], "ufs_one": [ADD, RET, RET, RET], "idle": [RET, RET]})
SAID = (
    "1 of 2 changed functions ran in 2 workloads, not idle. Found by the code that the base has"
    " not, not by lines: the kernels were given as images: files and lines are not known."
    " Workloads that ran any of it: 1 of 2 UFS."
)


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Symbols for both sides."""

    def read(_: RunDir, side: Side) -> Symbols:
        return BEFORE if side == "base" else AFTER

    monkeypatch.setattr(gate_coverage, "symbols_of", read)
    gate_coverage._remembered.clear()


def gate(root: Path, *, explains: bool = True, **changes: Any) -> Flow:
    run = make_run(root / "run", **changes)
    return Flow(run, Progress(quiet=True), explains=explains)


@pytest.mark.parametrize(
    ("explains", "changes"),
    [
        (False, {}),
        (True, {"board": "virt-arm64-stock"}),
        (True, {"board": "virt-x86_64-stock"}),
        (True, {"runner": "lava"}),
    ],
)
def test_other_runs_note_nothing(tmp_path: Path, explains: bool, changes: dict[str, Any]) -> None:
    assert prefetch.is_counted(gate(tmp_path / "usual"))
    other = gate(tmp_path / "other", explains=explains, **changes)
    assert not prefetch.is_counted(other)
    assert not gate_coverage.is_asked_for(other), "its boots left no windows"


def boot(blocks: list[tuple[int, int]], often: list[int]) -> Windows:
    """A boot of one window for each block; each is executed so often, one mark each time."""
    rows = [(number, stored.CLOCK, 0) for number, n in enumerate(often) for _ in range(n)]
    return Windows(
        blocks=np.array([(*block, 0) for block in blocks], _KINDS[1][1]),
        special=np.zeros(0, _KINDS[2][1]),
        devices=(),
        accesses=np.zeros(0, _KINDS[4][1]),
        contents=np.arange(len(blocks), dtype=np.uint32),
        windows=np.array([(1, 1, size) for _, size in blocks], _KINDS[6][1]),
        marks=np.array(rows, _KINDS[7][1]),
        switches=np.zeros(0, _KINDS[8][1]),
        times=np.arange(len(rows)),
        symbols=AFTER,
    )


def recorded(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a boot leaves in which ``ufs_one`` ran once in each I/O of the first cell."""
    add_boots(flow.run)
    folder = flow.run.boot("candidate", 1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WINDOWS).touch()
    table = io_tables(folder, CELLS)[CELLS[0]]
    low, _ = AFTER.span("ufs_one") or (0, 0)
    found = boot([(low, 4)], [len(table) + 2])
    last = [int(table.end.max()), np.iinfo(np.int64).max]
    times = np.array([*sorted(table["start"].tolist()), *last], np.int64)
    monkeypatch.setattr(gate_coverage, "read_windows", lambda _: replace(found, times=times))


@pytest.mark.parametrize("outcome", [Outcome.PASS, Outcome.INCONCLUSIVE])
def test_a_pass_says_what_it_covered(
    tmp_path: Path, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = gate(tmp_path)
    before = judged(flow.run, outcome)
    recorded(flow, monkeypatch)
    automatic.after_verdict(flow)
    record = results.read(flow.run.explained, ExplainRecord)
    assert record.coverage.sentence == SAID and record.cells == []
    one, idle = record.coverage.functions
    assert (one.calls, one.executions) == ({CELLS[0]: 1.0}, {CELLS[0]: 1.0})
    assert (one.executed, one.changed, one.changed_executed) == (4, 2, 2)
    assert (idle.executed, idle.changed, idle.changed_executed) == (0, 1, 0)
    assert flow.run.verdict.read_bytes() == before
    assert automatic.is_of(flow.run) and not automatic.is_current(flow.run)
    # Judged again from the stored files: it is still there.
    automatic.after_verdict(flow)
    assert results.read(flow.run.explained, ExplainRecord) == record


def test_g1_4_a_caller_does_not_stand_for_what_was_inlined_into_it() -> None:
    """batch-loop.patch: the loop's line never ran, and its caller ran in each I/O."""
    low, _ = AFTER.span("ufs_one") or (0, 0)
    own = Frame("ufs_one", "a.c", 9)
    loop = (Frame("inlined", "a.c", 3), Frame("ufs_one", "a.c", 8))
    lines = FunctionLines("a.c", 9, ((own,), (own,), loop, loop))
    pieces = make_pieces(AFTER, {"ufs_one": lines})
    places = {"ufs_one": np.array([1, 2, 3])}  # other registers in the second one
    code = ChangedCode(AFTER, places, frozenset(AFTER.names), pieces, {"a.c": [2, 3]})
    columns = {"start": np.array([0, 5]), "end": np.array([4, 8])}
    ios = {"c": IoTable(columns, 2)}
    cells = gate_coverage.executions(boot([(low, 2)], [9]), ios, code.addresses)
    found = of_boot(cells, code)
    assert [(line.line, line.function, line.executions) for line in found.lines] == [
        (3, "inlined", {})
    ]
    (function,) = found.functions
    assert (function.executed, function.changed, function.changed_executed) == (2, 2, 0)
    assert not function.did_change_run
    assert in_words(found).sentence.startswith(
        "The changed line never ran in 1 workload: a.c:3 inlined()."
    )
    ran = gate_coverage.executions(boot([(low, 4)], [9]), ios, code.addresses)
    found = of_boot(ran, code)
    assert found.lines[0].executions == {"c": 4.0}, "8 marks between the first one and the last"
    assert in_words(found).sentence.startswith("The changed line ran in 1 workload: a.c:3")


def test_a_patch_that_changes_no_code_is_said_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_coverage, "symbols_of", lambda *_: BEFORE)
    flow = gate(tmp_path)
    judged(flow.run, Outcome.PASS)
    recorded(flow, monkeypatch)
    automatic.after_verdict(flow)
    record = results.read(flow.run.explained, ExplainRecord)
    assert record.coverage.sentence == "No function's machine code changed."


def test_g1_3_a_patch_that_changes_data_alone_is_not_said_to_change_nothing() -> None:
    found = CoverageRecord(cells=[], functions=[], gone=[], sentence="Nothing changed.")
    assert with_data(found, BEFORE, BEFORE) == found
    other = replace(BEFORE, image=BEFORE.image + b"1024")
    said = with_data(found, BEFORE, other).sentence
    assert "the images differ in data, such as limits" in said


def test_a_record_that_is_not_whole_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = gate(tmp_path)
    judged(flow.run, Outcome.PASS)
    recorded(flow, monkeypatch)

    def fail(_: Path) -> None:
        raise InfrastructureError("windows.bin: it is cut off")

    monkeypatch.setattr(gate_coverage, "read_windows", fail)
    flow.progress = Progress(quiet=False)
    automatic.after_verdict(flow)
    assert not flow.run.explained.exists()
    assert "which changed code ran is not known: windows.bin" in capsys.readouterr().err


def test_lines_of_ready_made_images_are_not_known(tmp_path: Path) -> None:
    lines = Lines(gate(tmp_path, tree=None))
    assert lines.read_changed(AFTER, ["idle"]) == {}
    assert lines.note and "given as images" in lines.note
