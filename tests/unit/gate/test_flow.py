"""The flow without a board: verdicts from stored traces, failures as verdicts, exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from iotoll.boards.matrix import load_matrix
from iotoll.boards.ramdisk import Image
from iotoll.boots.schedule import Bench
from iotoll.core.errors import BrokenError, InfrastructureError, UsageError
from iotoll.core.proc import SANDBOXED
from iotoll.core.progress import Progress
from iotoll.gate import flow as flow_module
from iotoll.gate.conclude import MoreBoots, conclude
from iotoll.gate.flow import STEPS, Flow, execute
from iotoll.kernels import sandbox
from iotoll.records import results
from iotoll.records.models import (
    BootRecord,
    Clock,
    Outcome,
    Section,
    SideResult,
    SourceRecord,
    VerdictRecord,
)
from iotoll.records.rundir import RunDir
from iotoll.reports.page import render_report
from iotoll.run import building, sandboxed
from iotoll.verdict.instructions import rule
from tests.unit.runs import CELLS, EXAMPLES, add_boots, make_run

QUIET = Progress(quiet=True)


@pytest.fixture(autouse=True)
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No QEMU, no compiler and no cache: what is tested here needs none of them."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))


def judged(run: RunDir) -> VerdictRecord:
    flow = Flow(run, QUIET)
    flow.collect()
    flow.judge()
    return results.read(run.verdict, VerdictRecord)


def judged_only(run: RunDir) -> VerdictRecord:
    Flow(run, QUIET).judge()
    return results.read(run.verdict, VerdictRecord)


def test_two_boots_of_one_kernel_pass(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    add_boots(run)
    verdict = judged(run)
    assert verdict.outcome is Outcome.PASS
    assert verdict.exit_code == 0
    assert [c.cell for c in verdict.cells] == CELLS
    assert all(s.gated and s.moved == "same" for c in verdict.cells for s in c.sections)
    assert verdict.sentence == "No section of 2 cells grew past its threshold."
    assert verdict.warnings == []


def test_f7_7_one_source_twice_is_no_pass(tmp_path: Path) -> None:
    """F7.7: identical base and candidate revisions passed without a word."""
    image = {"base": "1" * 64, "candidate": "1" * 64}
    for name, aa in (("run", False), ("on-purpose", True)):
        run = make_run(tmp_path / name, images=image, aa=aa)
        path = run.side("candidate") / "source.json"
        base = results.read(run.side("base") / "source.json", SourceRecord)
        results.write(path, base.model_copy(update={"side": "candidate"}))
        if aa:
            add_boots(run)
            assert judged(run).outcome is Outcome.PASS
        else:
            verdict = judged_only(run)
            assert verdict.outcome is Outcome.INCONCLUSIVE
            assert "are the same source" in verdict.sentence


def test_verdict_is_derived_again_bit_for_bit(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    add_boots(run)
    judged(run)
    paths = [run.verdict, *(run.side(s) / "result.json" for s in ("base", "candidate"))]
    before = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()
    judged(run)
    assert [path.read_bytes() for path in paths] == before


def test_what_fio_contradicts_stands_in_verdict_and_report(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    add_boots(run)
    fio = run.boot("candidate", 1) / "ufs/fio.json"
    text = fio.read_text()
    mean = '"mean": 84457793.273438'
    assert mean in text
    fio.write_text(text.replace(mean, '"mean": 88457793.273438'))
    verdict = judged(run)
    assert verdict.outcome is Outcome.PASS, "a warning changes no verdict"
    (warning,) = verdict.warnings
    assert warning.startswith(f"candidate, {CELLS[0]}: fio disagrees: clat mean 88,457,793, +")
    page = render_report(run).read_text()
    assert "Cells to read with care" in page and "fio disagrees: clat mean" in page


def test_f6_a_candidates_own_clock_is_never_a_pass(tmp_path: Path) -> None:
    """Not tried on 7dcac24: half as fast a trace clock passed as 50 % cheaper."""
    run = make_run(tmp_path / "run")
    add_boots(run)
    fio = run.boot("candidate", 1) / "ufs/fio.json"
    fio.write_text(fio.read_text().replace('"mean": 84457793.273438', '"mean": 94457793.273438'))
    verdict = judged(run)
    assert verdict.outcome is Outcome.INFRASTRUCTURE
    why = {cell.cell: cell.why for cell in verdict.cells}[CELLS[0]]
    assert "the candidate's trace runs by another clock than fio" in str(why)


def test_cell_without_a_trace_is_infrastructure(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", cells=[*CELLS, "nvme-4k-randread-t1-direct"])
    add_boots(run)
    verdict = judged(run)
    assert verdict.outcome is Outcome.INFRASTRUCTURE
    assert verdict.exit_code == 4
    assert "nvme-4k-randread-t1-direct has no usable values" in verdict.sentence


def test_nothing_selected_passes_without_a_build(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", cells=[])
    flow = Flow(run, QUIET)
    for step in ("build", "boot", "collect", "judge"):
        STEPS[step](flow)
    verdict = results.read(run.verdict, VerdictRecord)
    assert verdict.outcome is Outcome.PASS
    assert verdict.sentence.startswith("Nothing to measure: ")


def test_identical_images_pass_without_a_boot(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", images={"base": "1" * 64, "candidate": "1" * 64})
    flow = Flow(run, QUIET)
    for step in ("boot", "collect", "judge"):
        STEPS[step](flow)
    verdict = results.read(run.verdict, VerdictRecord)
    assert verdict.outcome is Outcome.PASS
    assert verdict.identical_images
    assert not (run.side("base") / "boots").exists()


def test_time_cannot_gate(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", clock="time")
    flow = Flow(run, QUIET)
    flow.judge()
    verdict = results.read(run.verdict, VerdictRecord)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.exit_code == 3
    assert not verdict.can_gate


def failing(monkeypatch: pytest.MonkeyPatch, step: str, error: Exception) -> None:
    def fail(flow: Flow) -> None:
        raise error

    for name in STEPS:
        if name != "report":
            monkeypatch.setitem(STEPS, name, lambda flow: None)
    monkeypatch.setitem(STEPS, step, fail)


@pytest.mark.parametrize(
    ("error", "outcome", "code", "step", "words"),
    [
        (BrokenError("apply", "hunk 3", "tail"), Outcome.BROKEN, 5, "apply", "does not apply"),
        (BrokenError("config", "X", "tail"), Outcome.BROKEN, 5, "config", "loses a kernel option"),
        (BrokenError("build", "x.c:1", "tail"), Outcome.BROKEN, 5, "build", "does not build"),
        (BrokenError("boot", "panic", "tail"), Outcome.BROKEN, 5, "boot", "does not boot"),
        (BrokenError("workload", "fio", "tail"), Outcome.BROKEN, 5, "workload", "not survive"),
        (
            InfrastructureError("full", "tail"),
            Outcome.INFRASTRUCTURE,
            4,
            "build",
            "Nothing is said",
        ),
    ],
)
def test_failures_become_verdicts_with_a_report(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BrokenError | InfrastructureError,
    outcome: Outcome,
    code: int,
    step: str,
    words: str,
) -> None:
    run = make_run(tmp_path / "run")
    failing(monkeypatch, "build", error)
    verdict = execute(Flow(run, QUIET))
    assert verdict is not None
    assert (verdict.outcome, verdict.exit_code) == (outcome, code)
    assert words in verdict.sentence
    assert verdict.failure is not None
    assert (verdict.failure.step, verdict.failure.log_tail) == (step, "tail")
    assert "tail" in (run.report / "index.html").read_text()


def test_failure_of_the_report_itself_does_not_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    failing(monkeypatch, "report", InfrastructureError("disk full"))
    verdict = execute(Flow(run, QUIET))
    assert verdict is not None
    assert verdict.outcome is Outcome.INFRASTRUCTURE


def test_usage_errors_and_failed_measurements_are_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    failing(monkeypatch, "source", UsageError("no such tree"))
    with pytest.raises(UsageError):
        execute(Flow(run, QUIET))
    measured = make_run(tmp_path / "measure", kind="measure", candidate_kind="none")
    failing(monkeypatch, "build", InfrastructureError("no compiler"))
    with pytest.raises(InfrastructureError):
        execute(Flow(measured, QUIET))


def test_a_verdict_of_before_does_not_survive_a_new_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    add_boots(run)
    judged(run)
    failing(monkeypatch, "source", UsageError("x"))
    with pytest.raises(UsageError):
        execute(Flow(run, QUIET))
    assert not run.verdict.exists()


def test_steps_after_until_do_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def note(name: str) -> Callable[[Flow], None]:
        return lambda _: ran.append(name)

    for name in STEPS:
        monkeypatch.setitem(STEPS, name, note(name))
    assert execute(Flow(make_run(tmp_path / "run"), QUIET), "build") is None
    assert ran == ["source", "build"]
    assert list(STEPS)[-1] == "report"


def slower(run: RunDir, cost: int) -> None:
    """As if the candidate's submission cost so much more in the first cell."""
    path = run.side("candidate") / "result.json"
    result = results.read(path, SideResult)
    cell = result.cells[CELLS[0]][0]
    assert cell.in_order is not None
    column = [v and v + cost for v in cell.in_order.sections[Section.SUBMISSION]]
    sections = {**cell.in_order.sections, Section.SUBMISSION: column}
    moved = cell.in_order.model_copy(update={"sections": sections})
    cells = {**result.cells, CELLS[0]: [cell.model_copy(update={"in_order": moved})]}
    results.write(path, result.model_copy(update={"cells": cells}))


def test_growth_asks_for_the_policys_boots_of_its_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    add_boots(run)
    flow = Flow(run, QUIET)
    flow.collect()
    slower(run, 100)
    asked: list[object] = []

    def no_board(
        run: RunDir, bench: Bench, wanted: object, progress: object, abreast: int, connect: object
    ) -> None:
        asked.append((wanted, bench.cells))
        if len(asked) == 2:
            raise InfrastructureError("no board here")
        path = run.side("base") / "result.json"
        side = results.read(path, SideResult)
        cells = {name: records * 3 for name, records in side.cells.items()}
        results.write(path, side.model_copy(update={"cells": cells}))

    matrix = load_matrix("default")
    image = Image(tmp_path / "ramdisk", "0" * 64, {})
    bench = Bench(flow.board, matrix, image, CELLS, Clock.INSTRUCTIONS, "tcg")
    monkeypatch.setattr(flow_module, "run_boots", no_board)
    monkeypatch.setattr(Flow, "bench", bench)
    monkeypatch.setattr(Flow, "collect", lambda self: None)
    with pytest.raises(InfrastructureError, match="no board here"):
        flow.judge()
    # All cells of the device, so that the base's boots serve other candidates as well. They come
    # first: what the base does by itself needs no further boot of the candidate.
    assert asked == [([(side, 2), (side, 3)], CELLS) for side in ("base", "candidate")]


def test_board_that_is_not_exact_is_not_judged(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", board="virt-arm64-stock")
    add_boots(run)
    verdict = judged(run)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert not verdict.can_gate
    assert "virt-arm64-stock is not exact" in verdict.sentence


def test_a_desks_sandbox_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Flow(make_run(tmp_path / "run"), QUIET)
    tried: list[str] = []

    def why_not(run: RunDir, spec: object) -> str:
        tried.append("with all that a build sees")
        return ""

    monkeypatch.delenv(SANDBOXED, raising=False)
    monkeypatch.setattr(sandbox, "why_not", lambda *_: tried.append("bare"))
    monkeypatch.setattr(sandboxed, "why_not", why_not)
    monkeypatch.setattr(sandboxed, "job_of", lambda *_: SimpleNamespace(is_done=False))
    monkeypatch.setattr(sandboxed, "at_desk", lambda *_: None)
    monkeypatch.setattr(building, "build_side", lambda *_, **__: None)
    flow.build()
    assert flow.boots_in_sandbox == ("candidate",)
    assert tried == ["with all that a build sees"]


def test_further_boots_that_are_of_another_iotoll_are_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program was changed while it ran: what the sandbox booted was removed as stale."""
    run = make_run(tmp_path / "run")
    flow = Flow(run, QUIET)
    monkeypatch.setattr(Flow, "bench", SimpleNamespace(cells=CELLS, parts=1))
    monkeypatch.setattr(flow_module, "run_boots", lambda *_: None)
    monkeypatch.setattr(flow_module, "drop_stale", lambda *_: ["candidate/2"])
    more = MoreBoots("", [("candidate", 2)], 1)
    with pytest.raises(InfrastructureError, match="candidate/2: iotoll was changed while it ran"):
        flow._boot_more(more)


@pytest.mark.parametrize(
    ("boots", "cells", "further"),
    [
        (1, [CELLS], [2, 3]),
        (1, [CELLS[:1], CELLS[1:]], [3, 4]),
        (2, [CELLS, CELLS], [3]),
    ],
)
def test_further_boots_are_numbered_behind_the_first_ones(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    boots: int,
    cells: list[list[str]],
    further: list[int],
) -> None:
    """Three of each cell in all, also where two first boots have half of the cells each."""
    run = make_run(tmp_path / "run", boots=boots)
    record = results.read(EXAMPLES / "boot.json", BootRecord)
    for number, own in enumerate(cells, 1):
        results.write(
            run.boot("base", number) / "boot.json", record.model_copy(update={"cells": own})
        )
    values = SimpleNamespace(cells={cell: [None] * boots for cell in CELLS})
    monkeypatch.setattr(Flow, "result", lambda *_: values)
    monkeypatch.setattr(rule, "judge", lambda *_, **__: SimpleNamespace(open=CELLS[:1]))
    found = conclude(Flow(run, QUIET))
    assert isinstance(found, MoreBoots) and found.cells == CELLS[:1]
    assert found.boots == [("base", number) for number in further]
