"""Cells that are tried where changed code ran in no selected one."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest

from iotoll.boards.board import load_board
from iotoll.boards.cells import parse_cell
from iotoll.boards.matrix import load_matrix
from iotoll.core.progress import Progress
from iotoll.explain import gate_coverage
from iotoll.gate import reach
from iotoll.gate.conclude import tried_notes
from iotoll.gate.flow import Flow
from iotoll.records import results
from iotoll.records.models import (
    CellChoice,
    CoverageRecord,
    FunctionCoverage,
    LineCoverage,
    SelectionRecord,
    TriedRecord,
    VerdictRecord,
)
from iotoll.records.rundir import RunDir
from tests.unit.explain.kernels import NOP, RET
from tests.unit.explain.test_unseen import kernel
from tests.unit.runs import add_boots, make_run

NVME = "nvme-4k-randread-t1-direct"


def coverage(
    functions: dict[str, bool], lines: list[tuple[str, bool]] | None = None
) -> CoverageRecord:
    return CoverageRecord(
        cells=[NVME],
        functions=[
            FunctionCoverage(
                name=name,
                new=False,
                instructions=9,
                executed=9,
                calls={},
                changed=4,
                changed_executed=4 * ran,
            )
            for name, ran in functions.items()
        ],
        gone=[],
        sentence="",
        lines=[
            LineCoverage(file="a.c", line=n, function=name, executions={NVME: 1.0} if ran else {})
            for n, (name, ran) in enumerate(lines or [])
        ],
    )


def test_a_function_is_idle_where_none_of_its_changed_code_ran() -> None:
    assert reach.idle_functions(coverage({"ran": True, "idle": False})) == ["idle"]
    lines = [("ran", True), ("ran", False), ("inlined", False)]
    # An error path of a function that runs is no reason to boot; what was inlined is told apart.
    assert reach.idle_functions(coverage({"ran": True}, lines)) == ["inlined"]


def test_g1_4_what_leads_to_idle_code_is_followed_to_the_first_that_ran() -> None:
    traced = kernel(
        io_uring_enter=[NOP, "submit", RET],
        submit=[NOP, "batch", RET],
        pread=[NOP, "common", RET],
        common=[NOP, "batch", RET],
        batch=[NOP, RET],
    )
    found = reach.leading_to(traced, ["batch"], {"pread", "common"})
    assert found == {"batch", "submit", "io_uring_enter", "common"}
    assert reach.leading_to(traced, ["inlined"], set()) == {"inlined"}


class Setup:
    def __init__(self, root: Path, cells: list[str], board: str = "virt-arm64") -> None:
        self.run, self.progress = RunDir(root), Progress(quiet=True)
        self.board, self.matrix = load_board(board), load_matrix("default")
        chosen = [CellChoice(cell=cell, why="x") for cell in cells]
        self.record = SelectionRecord(
            changed_paths=["a.c"], rules=[], cells=chosen, full_matrix=False, why="x"
        )
        results.write(self.run.selection, self.record)


def chosen(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, leading: set[str]
) -> tuple[dict[str, list[str]], list[str]]:
    monkeypatch.setattr(reach, "read_windows", lambda folder: None)
    monkeypatch.setattr(gate_coverage, "symbols_of", lambda run, side: None)
    monkeypatch.setattr(reach, "Traced", lambda symbols: None)
    monkeypatch.setattr(reach, "leading_to", lambda traced, idle, ran: leading)
    found = reach._choose(setup, setup.record, sorted(leading))  # type: ignore[arg-type]
    return {name: list(cells) for name, cells in found.cells.items()}, list(found.left)


def test_g1_4_families_are_chosen_by_the_functions_that_lead_to_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(tmp_path, [NVME])
    cells, left = chosen(setup, monkeypatch, {"__blk_mq_alloc_requests_batch"})
    assert list(cells) == ["io_uring", "libaio"] and not left
    assert all(cell.startswith("nvme-") for several in cells.values() for cell in several)
    cells, left = chosen(setup, monkeypatch, {"nvme_setup_discard"})
    assert list(cells) == ["discard"]


def test_without_a_family_for_it_the_deepest_cell_of_each_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, _ = chosen(Setup(tmp_path, [NVME]), monkeypatch, {"some_condition"})
    assert {"io_uring", "libaio", "fsync", "discard"} <= set(cells)
    assert all(len(several) == 1 for several in cells.values())
    assert parse_cell(cells["io_uring"][0]).depth == 32
    assert not {"kyber", "bfq"} & set(cells), "they need another kernel"


def test_a_family_that_needs_another_kernel_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, left = chosen(Setup(tmp_path, [NVME]), monkeypatch, {"bfq_dispatch_request"})
    assert not cells and left == ["bfq"]


def test_the_verdict_says_what_was_tried_and_what_no_cell_runs(tmp_path: Path) -> None:
    setup = Setup(tmp_path, [NVME])
    assert tried_notes(setup.record) == []
    tried = TriedRecord(
        functions=["a", "b"], families=["libaio", "fsync"], left=["bfq"], unreached=["b"]
    )
    assert tried_notes(setup.record.model_copy(update={"tried": tried})) == [
        "a(), b() ran in no selected cell: tried families libaio, fsync",
        "no cell that was tried runs b()",
        "family bfq was not tried, as it needs another kernel: --cells bfq",
    ]


def test_every_function_of_a_family_is_a_glob_of_a_name() -> None:
    families = load_matrix("default").families
    assert sum(bool(one.runs) for one in families.values()) >= 10
    for one in families.values():
        assert all(fnmatch.translate(glob) and " " not in glob for glob in one.runs)


@pytest.mark.parametrize("stored", [False, True])
def test_a_command_that_resumes_says_what_no_tried_cell_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    """45.2: killed behind the choice of further cells, a run never said what these did not run."""
    run = make_run(tmp_path / "run")
    add_boots(run)
    tried = TriedRecord(functions=["a", "b"], families=["libaio"])
    selected = results.read(run.selection, SelectionRecord)
    results.write(run.selection, selected.model_copy(update={"tried": tried}))
    monkeypatch.setattr(reach, "_idle", lambda setup: ["b"])
    flow = Flow(run, Progress(quiet=True), stored=stored)
    flow.collect()
    flow.judge()
    told = results.read(run.verdict, VerdictRecord).warnings
    assert told[0] == "a(), b() ran in no selected cell: tried family libaio"
    assert told[1:] == ([] if stored else ["no cell that was tried runs b()"])
