"""The exact board: its boots are the same beside a busy host, and its QEMU refuses bad options."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from iotoll.boards.board import load_virtual_board
from iotoll.boards.qemu import qemu_binary
from tests.vm.conftest import command, environment, needs_board

pytestmark = pytest.mark.vm
BOARD = "virt-arm64"
DISK = "driver=timed-ram,node-name=disk"


@pytest.mark.parametrize(
    ("board", "calibrate"),
    [
        (BOARD, False),
        pytest.param("virt-x86_64", False, marks=pytest.mark.long),
        pytest.param(BOARD, True, marks=pytest.mark.long),
    ],
)
def test_boots_beside_a_busy_host_are_the_same(board: str, calibrate: bool, tmp_path: Path) -> None:
    needs_board(board)
    matrix = tmp_path / "own.toml"
    matrix.write_text(f'extends = "small"\ncalibrate = {json.dumps(calibrate)}\n')
    words = ["--boots", "2", "--load", "--board", board, "--matrix", str(matrix)]
    done = subprocess.run(
        command("experiment", "exact", *words, "--out", tmp_path / "run"),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "all traces are the same" in done.stdout
    found = json.loads((tmp_path / "run/exact.json").read_text())
    assert found["same"] and [row["load"] for row in found["rows"]] == [False, True]
    record = json.loads((tmp_path / "run/sides/base/boots/1/boot.json").read_text())
    assert record["qemu"]
    assert record["models"]["ufs"]["source"].startswith("published")


@pytest.mark.parametrize(
    ("icount", "disk", "words"),
    [
        (
            "shift=0,bh-delay=500,rr=record,rrfile=x",
            "size=1048576",
            "bh-delay and rr are incompatible",
        ),
        ("shift=0,slice=500,rr=record,rrfile=x", "size=1048576", "slice and rr are incompatible"),
        ("shift=0,bh-delay=200000000", "size=1048576", "bh-delay must not exceed 100000000 ns"),
        ("bh-delay=500", "size=1048576", "Please specify shift option"),
        ("shift=0", "units=1", "'size' is missing"),
        ("shift=0", "size=1000", "size must be a multiple of 512 bytes"),
        ("shift=0", "size=1048576,units=0", "units must be between 1 and 1024"),
        (
            "shift=0",
            "size=1048576,read-latency-ns=9999999999999",
            "read-latency-ns must not exceed",
        ),
        ("shift=0", "size=1048576,image=/nowhere", "Could not open '/nowhere'"),
        ("shift=0", "size=512,image=/proc/self/exe", "is larger than the disk (512 bytes)"),
    ],
)
def test_bad_options_of_the_patched_qemu_are_one_line(
    tmp_path: Path, icount: str, disk: str, words: str
) -> None:
    needs_board(BOARD)
    machine = [qemu_binary(load_virtual_board(BOARD)), "-M", "none", "-display", "none"]
    machine += ["-nodefaults", "-accel", "tcg"]
    done = subprocess.run(
        [*machine, "-icount", icount, "-blockdev", f"{DISK},{disk}"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert words in done.stderr.strip().splitlines()[-1]
