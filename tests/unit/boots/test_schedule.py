"""Boots side by side: jobs, resuming, whose fault a failure is, and collecting figures."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from iotoll.boards import ramdisk
from iotoll.boards.board import load_board
from iotoll.boards.matrix import load_matrix
from iotoll.boards.ramdisk import Image
from iotoll.boots import base_boots, local, schedule
from iotoll.boots.job import make_batches
from iotoll.boots.local import BootPlan
from iotoll.boots.schedule import Bench, plan_boot, run_boots, step_after, with_cmdline
from iotoll.core.errors import BrokenError, HangError, InfrastructureError, ResultError
from iotoll.core.paths import data_dir
from iotoll.core.progress import Progress
from iotoll.measure.collect import collect
from iotoll.records import results
from iotoll.records.models import BootRecord, Clock, SideResult
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir
from tests.unit.runs import CELLS, EXAMPLES, add_boots, make_run

QUIET = Progress(quiet=True)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return make_run(tmp_path / "run")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    image = Image(tmp_path / "rootfs.cpio", "c" * 64, {})
    board, matrix = load_board("virt-arm64"), load_matrix("default")
    return Bench(board, matrix, image, CELLS, Clock.INSTRUCTIONS, "tcg")


def test_both_sides_run_the_same_job_and_only_the_first_boot_calibrates(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "plugin_name", lambda: "")
    plans = [plan_boot(run, bench, side, n) for n in (1, 2) for side in ("base", "candidate")]
    assert plans[0].identity() == plans[1].identity()
    assert plans[2].identity() == plans[3].identity() != plans[0].identity()
    assert plans[2].runs == len(CELLS) < plans[0].runs
    assert plans[1].cells_only and plans[1].runs == len(CELLS), "the base's calibration counts"
    assert not plans[0].cells_only
    timed = replace(bench, clock=Clock.TIME)
    assert plan_boot(run, timed, "base", 1).runs == len(CELLS), "a gate compares raw times"
    measured = replace(timed, calibrate_times=True)
    assert plan_boot(run, measured, "base", 1).runs == plans[0].runs
    fio = (run.root / "jobs/boot-1/calibration-ufs.fio").read_text()
    assert "io_size=2048k" in fio, "512 I/Os of 4 KiB: times scatter"
    plain = bench.matrix.model_copy(update={"calibrate": False})
    assert plan_boot(run, replace(bench, matrix=plain), "base", 1).runs == len(CELLS)


def test_nothing_is_calibrated_where_the_trace_s_recording_is_counted(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "plugin_name", lambda: "abc")
    assert bench.counts_tracing
    assert plan_boot(run, bench, "base", 1).runs == len(CELLS)
    image = run.build("base") / "Image"
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_bytes(b"no symbols")
    calibrated = plan_boot(run, bench, "base", 1)
    assert calibrated.runs > len(CELLS), "Linux before 6.4 does not tell what to count"
    assert plan_boot(run, bench, "candidate", 1).identity() == calibrated.identity()
    in_a_lab = replace(bench, send_times=2)
    assert not in_a_lab.counts_tracing, "a lab's boards have no plugin"
    assert not replace(bench, clock=Clock.TIME).counts_tracing


def test_a_boot_that_is_read_for_some_cells_may_end_after_them(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "plugin_name", lambda: "")
    ufs, nvme = CELLS[0], "nvme-4k-randread-t1-direct"
    both = replace(bench, cells=[ufs, nvme])
    assert step_after(both, 1, [ufs]) == "batch nvme"
    assert step_after(both, 1, [nvme]) == step_after(both, 1, [nvme, ufs])
    assert step_after(both, 1, [nvme]) == "batch calibration-ufs", "cells come before calibration"
    assert step_after(both, 2, [nvme]) == "", "nothing follows: the boot runs to its end"
    plan = plan_boot(run, both, "base", 1)
    steps = [line.split("=", 1)[1] for line in (plan.job / "job.env").read_text().splitlines()
             if line.startswith("BATCHES=")]  # fmt: skip
    assert steps[0].strip("'\"").split()[:3] == ["ufs", "nvme", "calibration-ufs"]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_many_cells_are_cut_where_the_parts_take_about_as_long(bench: Bench, parts: int) -> None:
    matrix = bench.matrix
    ufs = [cell for cell in matrix.cells if cell.startswith("ufs-")]
    for cells in (ufs, matrix.cells, matrix.cells[::-1]):
        found = schedule.divide(matrix, cells, parts)
        order = [r.name for b in make_batches(matrix, list(cells), False) for r in b.runs]
        assert [cell for part in found for cell in part] == order, (
            "each cell once, in the order of a boot"
        )
        sizes = [len(part) for part in found]
        assert len(found) == parts and min(sizes) >= max(sizes) - 5
    assert schedule.divide(matrix, ufs[:1], 1) == [ufs[:1]]


def test_further_boots_of_a_divided_gate_have_all_cells_and_begin_later(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "plugin_name", lambda: "abc")
    cells = bench.matrix.cells[:16]
    both = replace(bench, cells=cells, parts=2)
    assert bench.of(1) is bench and both.of(3) is both
    assert [both.of(1).cells, both.of(2).cells] == schedule.divide(bench.matrix, cells, 2)
    plans = schedule.open_plans(run, both, [("base", n) for n in (1, 2, 3, 4)])
    assert [plan.cells for plan in plans[2:]] == [cells, cells]
    late = []
    for plan in plans:
        texts = [path.read_text() for path in plan.job.glob("*.fio")]
        late += [set(re.findall(r"start\.sh \d+ \d+ (\d+)", "".join(texts)))]
    bit = bench.matrix.pace.perturb_us
    assert late == [{"0"}, {"0"}, {str(bit)}, {str(2 * bit)}]


@pytest.mark.parametrize("change", ["cmdline", "image", "cells"])
def test_identity_is_of_all_that_the_workload_sees(run: RunDir, bench: Bench, change: str) -> None:
    other = {
        "cmdline": with_cmdline(bench, "quiet"),
        "image": replace(bench, image=replace(bench.image, sha256="d" * 64)),
        "cells": replace(bench, cells=CELLS[:1]),
    }[change]
    known = plan_boot(run, bench, "base", 1).identity()
    assert plan_boot(run, other, "base", 1).identity() != known


def test_a_boot_with_other_scripts_or_another_command_line_is_another_boot(
    run: RunDir, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the store gives a base that an earlier version of iotoll booted."""
    known = plan_boot(run, bench, "base", 1).identity()
    data = tmp_path / "lava-jobs"
    shutil.copytree(data_dir("lava-jobs"), data)
    with (data / "dut/lib.sh").open("a") as script:
        script.write("true\n")
    with monkeypatch.context() as patched:
        patched.setattr(ramdisk, "data_dir", lambda _: data)
        assert plan_boot(run, bench, "base", 1).identity() != known
    assert plan_boot(run, bench, "base", 1).identity() == known
    monkeypatch.setattr(local, "disk_words", lambda *_: ["-device", "other"])
    assert plan_boot(run, bench, "base", 1).identity() != known


class Board:
    """Stands in for the board: these tests are about who boots when."""

    def __init__(self, failing: dict[str, Exception]) -> None:
        self.failing = failing
        self.booted: list[tuple[str, int]] = []

    def boot(self, plan: BootPlan, on_cell: object, cancelled: object) -> None:
        self.booted.append((plan.side, plan.number))
        if plan.side in self.failing:
            raise self.failing[plan.side]
        plan.folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(EXAMPLES / "boot.json", plan.folder / "boot.json")


def boot_all(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch, **failing: Exception
) -> list[tuple[str, int]]:
    board = Board(failing)
    monkeypatch.setattr(local, "boot", board.boot)
    monkeypatch.setattr(base_boots, "take", lambda plan: False)
    monkeypatch.setattr(base_boots, "keep", lambda plan: None)
    wanted = [("base", 1), ("candidate", 1)]
    try:
        run_boots(run, bench, wanted, QUIET)  # type: ignore[arg-type]
    finally:
        board.booted.sort()
    return board.booted


def test_finished_boots_are_not_repeated(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(boot_all(run, bench, monkeypatch)) == 2
    assert boot_all(run, bench, monkeypatch) == []
    (run.boot("candidate", 1) / "boot.json").unlink()
    assert boot_all(run, bench, monkeypatch) == [("candidate", 1)]


def booted(run: RunDir, bench: Bench, numbers: tuple[int, ...], cells: list[str]) -> None:
    """Both sides' boots of these numbers, as if they had just ended."""
    for side in SIDES:
        for number in numbers:
            plan = plan_boot(run, replace(bench, cells=cells), side, number)
            record = results.read(EXAMPLES / "boot.json", BootRecord)
            update: dict[str, object] = {"side": side, "number": number, "digests": {}}
            update |= {"board_sha256": plan.identity(), "cells": cells}
            results.write(plan.folder / "boot.json", record.model_copy(update=update))
            schedule.mark_done(run, plan)


def test_g1_2_further_boots_of_another_plugin_go_and_are_booted_again(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stayed: "base and candidate ran on different boards or jobs", however often it ran."""
    wanted: list[tuple[Side, int]] = [("base", 1), ("candidate", 1)]
    booted(run, bench, (1, 2, 3), CELLS[:1])
    assert schedule.drop_stale(run, bench, wanted) == []
    monkeypatch.setattr(local, "plugin_name", lambda: "another plugin")
    found = schedule.drop_stale(run, bench, wanted)
    assert found == ["base/2", "base/3", "candidate/2", "candidate/3"]
    assert all(run.boot(*one).is_dir() for one in wanted), "they are booted again anyway"
    assert not run.boot("base", 2).exists()
    booted(run, bench, (2, 3), CELLS[:1])
    assert schedule.drop_stale(run, bench, wanted) == []


def test_a_candidates_boot_goes_with_the_bases(run: RunDir, bench: Bench) -> None:
    """The base's further boots ran again with other cells, and the candidate's have not yet."""
    booted(run, bench, (1, 2), CELLS[:1])
    wanted: list[tuple[Side, int]] = [("base", 1), ("candidate", 1)]
    kept = (run.boot("candidate", 2) / "boot.json").read_text()
    booted(run, bench, (2,), CELLS)
    (run.boot("candidate", 2) / "boot.json").write_text(kept)
    schedule.mark_done(run, plan_boot(run, replace(bench, cells=CELLS[:1]), "candidate", 2))
    assert schedule.drop_stale(run, bench, wanted) == ["candidate/2"]


def test_a_failed_boot_is_repeated_and_the_other_is_not(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "PARALLEL", 1)
    with pytest.raises(InfrastructureError, match="killed"):
        boot_all(run, bench, monkeypatch, candidate=InfrastructureError("killed"))
    assert boot_all(run, bench, monkeypatch) == [("candidate", 1)]


def test_broken_candidate_is_the_patchs_fault_broken_base_is_not(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = BrokenError("boot", "panic", "last words")
    with pytest.raises(BrokenError):
        boot_all(run, bench, monkeypatch, candidate=broken)
    (run.boot("base", 1) / "boot.json").unlink()
    with pytest.raises(InfrastructureError, match="the base kernel fails") as caught:
        boot_all(run, bench, monkeypatch, base=broken, candidate=broken)
    assert caught.value.log_tail == "last words"


def test_collect_makes_checked_results_from_stored_traces(run: RunDir) -> None:
    add_boots(run)
    for side in ("base", "candidate"):
        collect(run, CELLS, Clock.INSTRUCTIONS, side, [1])
    base, candidate = (
        results.read(run.side(s) / "result.json", SideResult) for s in ("base", "candidate")
    )
    assert list(base.cells) == sorted(CELLS)
    assert base.boots[0].event_cost == candidate.boots[0].event_cost != {}
    for record in (base.cells[CELLS[0]][0], candidate.cells[CELLS[0]][0]):
        assert record.sections["submission"].corrected_median  # type: ignore[index]


def test_collect_without_a_boot_says_what_is_missing(run: RunDir) -> None:
    with pytest.raises(ResultError, match=r"boots/1/boot\.json is missing: run the step"):
        collect(run, CELLS, Clock.INSTRUCTIONS, "base", [1])


def test_f3_2_a_hang_blames_nobody_until_it_repeats(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F3.2: one boot that hung was the candidate's fault."""
    hang = HangError("workload", "the board hangs: no sign of life for 90 s")

    class Hanging(Board):
        def boot(self, plan: BootPlan, on_cell: object, cancelled: object) -> None:
            plan.folder.mkdir(parents=True, exist_ok=True)
            (plan.folder / "console.log").write_text("last words")
            self.booted.append((plan.side, plan.number))
            if self.booted.count((plan.side, plan.number)) <= times:
                raise hang
            shutil.copy(EXAMPLES / "boot.json", plan.folder / "boot.json")

    monkeypatch.setattr(base_boots, "take", lambda plan: False)
    monkeypatch.setattr(base_boots, "keep", lambda plan: None)
    for times in (1, 2):
        board = Hanging({})
        monkeypatch.setattr(local, "boot", board.boot)
        if times == 2:
            shutil.rmtree(run.boot("candidate", 1))
            with pytest.raises(HangError, match="no sign of life for 90 s, in 2 of 2 boots"):
                run_boots(run, bench, [("candidate", 1)], QUIET)
        else:
            run_boots(run, bench, [("base", 1), ("candidate", 1)], QUIET)
        assert board.booted.count(("candidate", 1)) == 2
    assert (run.boot("candidate", 1).parent / "1.hung.log").read_text() == "last words"


class Crashing(Board):
    """Boots that crash so often, by side; the base that runs beside another is no boot of a run."""

    def __init__(self, **times: int) -> None:
        super().__init__({})
        self.times = times
        self.beside = 0

    def boot(self, plan: BootPlan, on_cell: object, cancelled: object) -> None:
        if "beside" in plan.folder.parts:
            self.beside += 1
            if self.times.get("beside"):
                raise BrokenError("boot", "panic of the base")
            return
        self.booted.append((plan.side, plan.number))
        if self.booted.count((plan.side, plan.number)) <= self.times.get(plan.side, 0):
            raise BrokenError("workload", f"panic of the {plan.side}", "last words")
        plan.folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(EXAMPLES / "boot.json", plan.folder / "boot.json")


def crash(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch, board: str, **times: int
) -> Crashing:
    found = Crashing(**times)
    monkeypatch.setattr(local, "boot", found.boot)
    monkeypatch.setattr(base_boots, "take", lambda plan: False)
    monkeypatch.setattr(base_boots, "keep", lambda plan: None)
    wanted: list[tuple[Side, int]] = [("base", 1), ("candidate", 1)]
    run_boots(run, replace(bench, board=load_board(board)), wanted, QUIET)
    return found


def test_g1_a_crash_that_repeats_beside_a_base_that_runs_is_the_candidates(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "panic of the candidate, in 2 of 2 tries, and the base did not, beside it"
    with pytest.raises(BrokenError, match=words) as caught:
        crash(run, bench, monkeypatch, "virt-arm64-stock", candidate=9)
    assert caught.value.step == "workload" and caught.value.log_tail == "last words"
    # The same command again knows it: nobody rolls until it passes.
    with pytest.raises(BrokenError, match=words):
        crash(run, bench, monkeypatch, "virt-arm64-stock")


def test_g1_a_crash_that_does_not_repeat_is_kept(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = crash(run, bench, monkeypatch, "virt-arm64-stock", candidate=1)
    assert found.booted.count(("candidate", 1)) == 2 and found.beside == 1
    record = results.read(run.boot("candidate", 1) / "boot.json", BootRecord)
    assert record.died == ["panic of the candidate"]


def test_g1_a_base_that_crashes_as_well_makes_it_infrastructure(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InfrastructureError, match="the base kernel fails as well, beside"):
        crash(run, bench, monkeypatch, "virt-arm64-stock", candidate=9, beside=1)


def test_g1_a_base_that_crashes_once_is_repeated_and_twice_is_infrastructure(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = crash(run, bench, monkeypatch, "virt-arm64-stock", base=1)
    assert found.booted.count(("base", 1)) == 2 and found.beside == 0
    shutil.rmtree(run.side("base") / "boots")
    with pytest.raises(InfrastructureError, match=r"the base kernel fails: .* 2 of 2 tries"):
        crash(run, bench, monkeypatch, "virt-arm64-stock", base=9)


def test_g1_an_exact_board_does_the_same_again_so_it_boots_once(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BrokenError, match=r"^panic of the candidate$"):
        crash(run, bench, monkeypatch, "virt-arm64", candidate=1)
    assert not list(run.side("candidate").glob("boots/*.died.json"))


def test_g1_a_note_of_tries_that_is_damaged_is_one_line(
    run: RunDir, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    results.write_text(run.boot("candidate", 1).with_name("1.died.json"), "[[[")
    with pytest.raises(ResultError, match=r"1\.died\.json: is damaged .*: remove it"):
        crash(run, bench, monkeypatch, "virt-arm64-stock")
