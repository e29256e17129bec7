"""What a board's PMU counts: pmu.sh on this machine, with its own perf, and what becomes of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from iotoll.boards.board import load_board
from iotoll.boards.hardware import PMU_EVENTS, load_hardware
from iotoll.boards.matrix import load_matrix
from iotoll.boots.job import make_batches, render_job
from iotoll.core.errors import InfrastructureError
from iotoll.measure.board_records import sort
from iotoll.measure.collect import collect
from iotoll.measure.pmu import COUNTS, pmu_records, read_pmu
from iotoll.records.models import Clock
from tests.unit.runs import CELLS, add_boots, make_run

DUT = Path(__file__).parents[3] / "lava-jobs/dut"
CELL = "ufs-4k-randread-t1-direct"
FIO = """#!/bin/sh
for word; do case $word in --section=*) echo "${word#*=}" >>"$0.ran" ;; esac; done
sleep 0.05
"""
NO_PERF = "not there"


def ran(
    folder: Path,
    events: str,
    perf: str = "perf",
    first: str = "/nowhere",
    shell: tuple[str, ...] = ("sh",),
    fio: str = FIO,
) -> None:
    """Run pmu.sh for one cell; tracefs and caches are not this machine's.

    ``perf`` is the command of the workload's root, ``first`` the root of the board's first task.
    """
    dut, job, tools = folder / "dut", folder / "job", folder / "tools"
    shutil.copytree(DUT, dut)
    with (dut / "lib.sh").open("a") as lib:
        lib.write(f"TRACEFS={folder}\nclean_slate() {{ echo clean >>{folder}/slate; }}\n")
    job.mkdir()
    tools.mkdir()
    words = {PMU_EVENTS: events, "SCHEDULER": "none", "PERF": perf, "FIRST_ROOT": first}
    (job / "job.env").write_text("".join(f"{k}='{v}'\n" for k, v in words.items()))
    (job / "ufs.pmu").write_text(f"{CELL} 512\n")
    (folder / "set_event").write_text("block:block_rq_issue\n")
    (tools / "fio").write_text(fio)
    (tools / "fio").chmod(0o755)
    done = subprocess.run(
        [*shell, dut / "pmu.sh", job, folder / "pmu"],
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "set_event").read_text() == "", "events of the trace would still run code"


needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="no perf: linux-perf")
SHELLS = [("sh",), ("busybox", "sh")]


@needs_perf
@pytest.mark.parametrize("shell", [s for s in SHELLS if shutil.which(s[0])], ids=lambda s: s[0])
def test_perf_counts_each_cell_once_more(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """Software events are counted on any machine; of the others perf says what it says here."""
    ran(tmp_path, "context-switches page-faults instructions:k no_such_event", shell=shell)
    (record,) = read_pmu(tmp_path).values()
    assert record.ios == 512
    assert record.counts["context-switches"] > 0 and record.counts["page-faults"] > 0
    assert record.missing["no_such_event"] == "no such event"
    counted, missing = set(record.counts), set(record.missing)
    assert "instructions" in counted ^ missing, "one of the two, never zero by itself"
    assert (tmp_path / "tools/fio.ran").read_text() == f"{CELL}\n"
    assert (tmp_path / "slate").read_text() == "clean\n"


@needs_perf
def test_a_cell_that_fails_has_no_counts(tmp_path: Path) -> None:
    ran(tmp_path, "context-switches page-faults", fio="#!/bin/sh\nexit 3\n")
    (record,) = read_pmu(tmp_path).values()
    assert not record.counts
    assert set(record.missing.values()) == {"fio or perf failed"}


def test_a_board_without_perf_says_so(tmp_path: Path) -> None:
    """Neither here nor in the root of the first task, as on a board whose root is our image."""
    ran(tmp_path, "instructions:k", perf=NO_PERF)
    (record,) = read_pmu(tmp_path).values()
    assert (record.counts, record.missing) == ({}, {"instructions": "the board has no perf"})


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone may enter another root")
@needs_perf
def test_perf_of_the_board_s_own_root_is_taken(tmp_path: Path) -> None:
    """As on a board by ssh, whose workload has a root without perf: fio still runs in that one."""
    ran(tmp_path, "context-switches", perf=NO_PERF, first="/")
    (record,) = read_pmu(tmp_path).values()
    assert record.counts["context-switches"] > 0
    assert (tmp_path / "tools/fio.ran").read_text() == f"{CELL}\n"


@needs_perf
def test_the_workload_ends_with_it_and_keeps_the_counts_as_a_board_by_ssh_does(
    tmp_path: Path,
) -> None:
    """run.sh and keep.sh themselves; what prepares disks and measures is left out here."""
    shutil.copytree(DUT, tmp_path / "dut")
    shutil.copytree(DUT.parent / "desk", tmp_path / "desk")
    for name in ("prepare", "facts", "limits", "batch"):
        (tmp_path / f"dut/{name}.sh").write_text('mkdir -p "${3:-.}"\n')
    for script in (*tmp_path.glob("dut/*.sh"), *tmp_path.glob("desk/*.sh")):
        script.write_text(script.read_text().replace("/tmp/iotoll-", f"{tmp_path}/iotoll-"))
    with (tmp_path / "dut/lib.sh").open("a") as lib:
        lib.write(f"TRACEFS={tmp_path}\nclean_slate() {{ :; }}\n")
    job = tmp_path / "job"
    job.mkdir()
    words = f"BATCHES=ufs\nSCHEDULER=none\nHANDOVER=../desk/keep\n{PMU_EVENTS}=page-faults\n"
    (job / "job.env").write_text(words)
    (job / "ufs.pmu").write_text(f"{CELL} 512\n")
    (tmp_path / "fio").write_text("#!/bin/sh\necho fio-3\n")
    (tmp_path / "fio").chmod(0o755)
    done = subprocess.run(
        ["sh", tmp_path / "dut/run.sh", job],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [line for line in done.stdout.splitlines() if line.startswith("iotoll: ")]
    assert steps[-4:] == ["iotoll: step batch ufs", "iotoll: step pmu", f"iotoll: pmu {CELL}",
                          "iotoll: done"]  # fmt: skip
    assert read_pmu(tmp_path / "iotoll-kept")[CELL].counts["page-faults"] > 0


def test_each_boot_s_record_has_its_counts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    add_boots(run)
    counts = run.boot("base", 1) / COUNTS
    counts.parent.mkdir()
    counts.write_text("".join(lines("5120,,instructions:k,2,100.00,,")))
    side = collect(run, CELLS, Clock.INSTRUCTIONS, "base", [1])
    (direct,), (sync,) = (side.cells[cell] for cell in CELLS)
    assert direct.pmu is not None and direct.pmu.per_io == {"instructions": 10}
    assert sync.pmu is None
    assert direct.counted is not None and direct.counted["requests"] == 1


# ---------------------------------------------------------------- what perf says


def lines(*said: str) -> list[str]:
    return [f"{CELL} 512 {line}\n" for line in said]


def test_lines_of_perf_are_read_as_perf_writes_them() -> None:
    """Words of perf 6.1 on this machine, and of a board whose cores are of two kinds."""
    found = pmu_records(
        lines(
            "58,,context-switches,203231706,100.00,,",
            "<not supported>,,cycles,0,100.00,,",
            "1024,,armv8_cortex_a53/instructions/k,5000,100.00,0.5,insn per cycle",
            "4096,,armv8_cortex_a73/instructions/k,5000,100.00,,",
            "7,,armv8_cortex_a53/exc_taken/k,5000,100.00,,",
            "<not counted>,,armv8_cortex_a73/exc_taken/k,0,0.00,,",
            "99,,bus_access:k,2500,50.00,,",
        ),
        "here",
    )
    record = found[CELL]
    assert record.counts == {"context-switches": 58, "instructions": 5120}
    assert record.per_io["instructions"] == 10
    assert record.missing == {
        "cycles": "not supported",
        "exc_taken": "not counted",
        "bus_access": "estimated: counted 50 % of the time",
    }


@pytest.mark.parametrize(
    "line", ["", "x", f"{CELL} 0 1,,e,1,100,,", f"{CELL} -1 1,,e,1", "a" * 65 + " 1 1,,e,1"]
)
def test_lines_that_are_not_ours_are_refused(line: str) -> None:
    with pytest.raises(InfrastructureError, match=r"here: line 1 is not of pmu\.sh"):
        pmu_records([line], "here")


def test_counts_come_over_the_serial_line_as_well() -> None:
    text = json.dumps({"cell": "pmu", "counts": lines("58,,exc_taken:k,2,100.00,,")})
    (record,) = sort([text.replace("\\n", "")], "here").pmu.values()
    assert record.counts == {"exc_taken": 58}


def test_serial_sends_the_counts_as_a_document(tmp_path: Path) -> None:
    job, out = tmp_path / "job", tmp_path / "out/pmu"
    job.mkdir()
    out.mkdir(parents=True)
    (job / "job.env").touch()
    (out / "counts").write_text("".join(lines("<no such event>,,exc_taken:k")))
    dut = job / "iotoll-dut"
    dut.write_text('#!/bin/sh\nfor last; do :; done\ncp "$last" "$0.sent"\n')
    dut.chmod(0o755)
    subprocess.run(["sh", DUT / "serial.sh", job, out], check=True, timeout=30)
    (record,) = sort([(job / "iotoll-dut.sent").read_text()], "here").pmu.values()
    assert record.missing == {"exc_taken": "no such event"}


# ---------------------------------------------------------------- which boards ask for it


def test_only_a_board_whose_file_names_events_is_asked(tmp_path: Path) -> None:
    board = load_board("hikey960")
    events = load_hardware("hikey960").pmu
    assert events is not None
    matrix = load_matrix("hikey960")
    batches = make_batches(matrix, list(matrix.cells), calibrate=True)
    render_job(board, matrix, batches, tmp_path / "job", board.job_settings)
    asked = {path.name: path.read_text() for path in (tmp_path / "job").glob("*.pmu")}
    assert set(asked) == {"ufs.pmu", "nvme.pmu"}
    assert asked["ufs.pmu"].splitlines()[0] == f"{CELL} 512"
    assert f"{PMU_EVENTS}='{' '.join(events.events)}'" in (tmp_path / "job/job.env").read_text()
    for name in ("zedboard", "qrb5165-rb5", "virt-arm64"):
        assert PMU_EVENTS not in load_board(name).job_settings


def test_a_device_with_raw_cells_is_left_out(tmp_path: Path) -> None:
    """A raw cell leaves its disk without a file system, so nothing can run on it once more."""
    cells = [CELL, "nvme-4k-randread-t1-direct", "nvme-64k-seqtrim-t1-direct"]
    batches = make_batches(load_matrix("default"), cells, calibrate=False)
    board = load_board("virt-arm64")
    render_job(board, load_matrix("default"), batches, tmp_path / "job", {PMU_EVENTS: "cycles"})
    assert [path.name for path in (tmp_path / "job").glob("*.pmu")] == ["ufs.pmu"]
