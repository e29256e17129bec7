"""The board that is User Mode Linux: as data, and as a process, with a script as kernel."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from iotoll.boards.board import HostBoard, OwnDisk, load_board, load_virtual_board
from iotoll.boards.cells import parse_cell
from iotoll.boards.equip import equipped, families, lacking
from iotoll.boards.matrix import load_matrix
from iotoll.boards.qemu import BootFiles
from iotoll.boards.uml import RunningHost, registers, uml_command
from iotoll.boots.job import make_batches
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import data_dir
from iotoll.kernels.kconfig import fragment_path, read_fragment
from iotoll.patch.candidate import CandidateChoice
from iotoll.records.models import Clock
from iotoll.run.manifest import Runner as RunnerName
from iotoll.run.manifest import RunRequest, accelerator_of, asked_for, clock_of

NONE = CandidateChoice("none", "debian", None, None)


@pytest.fixture
def board() -> HostBoard:
    found = load_board("host-uml")
    assert isinstance(found, HostBoard)
    return found


def request(clock: Clock | None = None, runner: RunnerName = "local") -> RunRequest:
    return RunRequest(("iotoll",), "measure", NONE, "host-uml", "host-uml", clock, runner=runner)


def test_the_board_has_what_its_matrix_needs(board: HostBoard) -> None:
    matrix = load_matrix(board.matrix)
    assert set(matrix.devices) <= set(board.devices)
    assert [lacking(board, parse_cell(cell)) for cell in matrix.cells] == [""] * len(matrix.cells)
    assert not [e for e in matrix.events["common"] if e.partition(":")[0] == "syscalls"]
    for name in board.fragments:
        assert (data_dir("kernel-configs") / f"{name}.config").is_file()


def test_the_kernel_has_no_way_to_the_hosts_files(board: HostBoard) -> None:
    wanted = {r.symbol: r.value for n in board.fragments for r in read_fragment(fragment_path(n))}
    assert wanted["HOSTFS"] == "n" and wanted["NET"] == "n"
    words = uml_command(board, files(Path("/x")))
    assert not [word for word in words if "hostfs" in word or word.startswith("root")]


def test_its_clock_is_time_and_it_runs_here_alone(board: HostBoard) -> None:
    assert clock_of(board, request()) is Clock.TIME
    assert accelerator_of(board, Clock.TIME, request()) == "none"
    with pytest.raises(UsageError, match="counts no instructions: --clock time"):
        clock_of(board, request(Clock.INSTRUCTIONS))
    with pytest.raises(UsageError, match="process of this machine: --runner local"):
        clock_of(board, request(runner="lava"))
    with pytest.raises(UsageError, match="not QEMU's, and counts no instructions"):
        load_virtual_board("host-uml")


def test_no_matrix_is_the_boards_own() -> None:
    found = asked_for("measure", NONE, board="host-uml", matrix=None, cells=None)
    assert (found.matrix, found.clock, found.policy) == ("host-uml", Clock.TIME, "time")
    assert asked_for("measure", NONE, board=None, matrix=None, cells=None).matrix == "default"
    with pytest.raises(UsageError, match="matrix default measures ufs, which board host-uml does"):
        asked_for("measure", NONE, board="host-uml", matrix="default", cells=None)


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("ubd-4k-randread-t1-direct", ""),
        ("ubd-4k-randwrite-t1-sync", ""),
        ("ubd-4k-seqread-t1-buffered", ""),
        ("ubd-4k-randwrite-t8-fsync32", ""),
        ("ubd-4k-randread-t1-direct-io_uring-qd32", ""),
        ("nvmeloop-4k-randwrite-t1-directdsync", ""),
        ("ubd-4k-randread-t1-sync-io_uring", "no event marks the begin of sync I/O by io_uring"),
        ("ubd-4k-randread-t1-direct-io_uring-sqpoll", "polling by io_uring was not tried there"),
        ("ubd-4k-randread-t1-direct-libaio", "no event marks begin and end of libaio there"),
        ("ubd-4k-randread-t1-direct-raw", "a second disk is known of virtual boards alone"),
        ("ubd-4k-randtrim-t1-direct", "no event marks begin and end of a discard there"),
    ],
)
def test_cells_whose_ios_would_not_show_are_refused(board: HostBoard, cell: str, why: str) -> None:
    assert lacking(board, parse_cell(cell)).startswith(why) and bool(why) == bool(
        lacking(board, parse_cell(cell))
    )


def files(folder: Path) -> BootFiles:
    return BootFiles(
        kernel=folder / "Image",
        ramdisk=folder / "ramdisk",
        console=folder / "console.log",
        handover=folder / "handover.tar",
        log=folder / "log",
        work=folder,
        turns=folder / "turns.bin",
    )


def kernel(folder: Path, *lines: str) -> BootFiles:
    """A script in place of the kernel; $ubda and $ubdb are the paths of its disks."""
    words = 'for w in "$@"; do case $w in ubd?=*) eval "$w" ;; esac; done'
    (folder / "Image").write_text("\n".join(("#!/bin/sh", words, *lines)) + "\n")
    return files(folder)


def wait_end(running: RunningHost) -> int | None:
    limit = time.monotonic() + 20
    while (status := running.poll()) is None and time.monotonic() < limit:
        running.rest(0.1)
    return status


def test_console_and_hand_over_are_kept(board: HostBoard, tmp_path: Path) -> None:
    found = kernel(
        tmp_path,
        "echo iotoll: done",
        "echo beside >&2",
        'printf tail | dd of="$ubdb" bs=4k seek=2 conv=notrunc 2>/dev/null',
        'stat -L -c %s "$ubda" "$ubdb"',
        'case "$*" in *"con0=null,fd:1"*) exit 3 ;; esac',
    )
    with RunningHost(board, uml_command(board, found), found) as running:
        assert wait_end(running) == 3
        assert running.log_tail() == "beside"
    said = found.console.read_text().split("\n")
    assert said[:3] == ["iotoll: done", str(128 << 20), str(1024 << 20)]
    data = found.handover.read_bytes()
    assert data[8192:].rstrip(b"\0") == b"tail" and len(data) <= 3 * 4096


def test_nothing_outlives_a_board(board: HostBoard, tmp_path: Path) -> None:
    found = kernel(tmp_path, "sleep 300 &", "echo $!", "echo up", "wait")
    with RunningHost(board, uml_command(board, found), found) as running:
        limit = time.monotonic() + 20
        while "up" not in (found.console.read_text() if found.console.exists() else ""):
            assert time.monotonic() < limit
            running.rest(0.05)
    child = int(found.console.read_text().split()[0])
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(child, 0)
            time.sleep(0.05)
    assert found.handover.read_bytes() == b""


def test_what_cannot_start_is_the_machines_fault(board: HostBoard, tmp_path: Path) -> None:
    found = files(tmp_path)
    with (
        pytest.raises(InfrastructureError, match="cannot start User Mode Linux"),
        RunningHost(board, uml_command(board, found), found),
    ):
        pass


def test_a_disk_of_the_kernels_own_is_there_for_the_cells_that_use_it(board: HostBoard) -> None:
    """Every boot's kernel would have these disks otherwise, and prepare none of them."""
    matrix = load_matrix("host-uml-all")
    assert set(matrix.devices) <= set(board.devices)
    usual = equipped(board, ["ubd-4k-randread-t1-direct"])
    assert usual.cmdline == board.cmdline and "null_blk.nr_devices=0" in board.cmdline
    found = equipped(board, matrix.cells)
    assert "null_blk.nr_devices=1" in found.cmdline and "scsi_debug.add_host=1" in found.cmdline
    assert [disk.node for disk in board.disks] == ["/dev/ubda", "/dev/ubdb"]


def test_a_disk_that_a_script_makes_is_made_where_cells_use_it(board: HostBoard) -> None:
    disk = board.devices["nvmeloop"]
    assert isinstance(disk, OwnDisk)
    assert (data_dir("lava-jobs") / "dut" / disk.script).is_file()
    assert board.job_settings["MAKE_nvmeloop"] == f"{disk.script} {disk.size_mb}"
    assert board.job_settings["TARGET_nvmeloop"] == disk.node
    # The kernel's command line says nothing of it.
    assert equipped(board, ["nvmeloop-4k-randread-t1-direct"]).cmdline == board.cmdline
    for both in ({"words": "x=1", "script": "x.sh"}, {}):
        with pytest.raises(ValidationError, match="either words or a script"):
            OwnDisk.model_validate({"size_mb": 1, "node": "/dev/x", **both})


def test_cells_of_families_have_disks_that_the_matrix_itself_does_without(
    board: HostBoard,
) -> None:
    matrix = load_matrix("host-uml")
    known = families(board, matrix)
    assert list(known) == list(matrix.families)
    batches = make_batches(matrix, known["nvme-loop"] + known["page-cache"], calibrate=False)
    assert [batch.name for batch in batches] == ["ubd", "nvmeloop"]
    assert "filemap:mm_filemap_get_pages" in batches[0].events
    assert "nvme:nvme_complete_rq" in batches[1].events
    assert not [event for event in batches[1].events if event.startswith("filemap")]


def test_its_verdicts_inform(board: HostBoard) -> None:
    assert not board.can_gate and "can_gate" not in board.model_dump()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the registers are x86-64's")
def test_registers_that_it_keeps_can_be_given_back_on_any_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AMX has more than its 2,696 bytes, of which Linux took back the whole alone: init died."""
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path))
    words = [sys.executable, "-c", GIVES_BACK, str(registers())]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    kept, whole, same = done.stdout.split()
    assert kept == "0" and same == "True", done
    assert int(whole) > 512


GIVES_BACK = """
import ctypes, os, signal, sys

class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

TRACEME, KILL, GET, SET, STATE = 0, 8, 0x4204, 0x4205, 0x202
child = os.fork()
if not child:
    ctypes.CDLL(None).ptrace(TRACEME, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
os.waitpid(child, 0)
ptrace = ctypes.CDLL(sys.argv[1]).ptrace
ptrace.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]

def move(request, size):
    vector = Vector(ctypes.addressof(data), size)
    return ptrace(request, child, STATE, ctypes.addressof(vector)), vector.size

data = ctypes.create_string_buffer(1 << 16)
_, whole = move(GET, 1 << 16)
before = data.raw[:whole]
data = ctypes.create_string_buffer(1 << 16)
move(GET, 2696)
failed, _ = move(SET, 2696)
move(GET, 1 << 16)
print(failed, whole, data.raw[:whole] == before)
ptrace(KILL, child, None, None)
"""
