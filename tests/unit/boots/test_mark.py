"""No file system is made on a device that nobody marked: finding F3.7, by the board's own script.

The shell functions run as on a board, on files in place of block devices.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from iotoll_lab.simboard import profile
from iotoll_lab.simboard.disks import Flash

from iotoll.boards.board import load_board
from iotoll.boards.matrix import load_matrix
from iotoll.boots.job import make_batches, render_job
from iotoll.core.paths import data_dir
from iotoll.labs.lava.classify import classify, evidence
from iotoll.labs.lava.issues import load_issues
from tests.unit.labs.lava.test_classify import BEGUN, END, log_of

LIB = data_dir("lava-jobs") / "dut/lib.sh"
CELLS = ["ufs-4k-randread-t1-direct", "nvme-4k-randread-t1-direct"]


def is_marked(device: Path) -> bool:
    text = f". {shlex.quote(str(LIB))}; marked {shlex.quote(str(device))}"
    return subprocess.run(["sh", "-c", text], check=False).returncode == 0


@pytest.mark.skipif(shutil.which("mkfs.ext4") is None, reason="no mkfs.ext4: apt-get e2fsprogs")
def test_f3_7_the_label_of_a_file_system_is_the_mark(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    for label, marked in (("iotoll-scratch", True), ("iotoll-scratch2", False), ("root", False)):
        disk.write_bytes(bytes(4 << 20))
        subprocess.run(["mkfs.ext4", "-q", "-F", "-L", label, disk], check=True)
        assert is_marked(disk) is marked
    subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True)
    assert not is_marked(disk), "somebody's own file system in place of ours"


def test_f3_7_what_is_empty_short_or_missing_has_no_mark(tmp_path: Path) -> None:
    for name, data in (("zero", bytes(1 << 20)), ("short", b"x" * 1150), ("empty", b"")):
        (tmp_path / name).write_bytes(data)
        assert not is_marked(tmp_path / name)
    assert not is_marked(tmp_path / "missing")


def test_f3_7_the_script_refuses_before_it_writes(tmp_path: Path) -> None:
    """F3.7: mkfs on /dev/nvme0n1 without any check of what lies there."""
    disk = tmp_path / "disk"
    disk.write_bytes(b"somebody's data" + bytes(1 << 20))
    before = disk.read_bytes()
    dut = tmp_path / "dut"
    shutil.copytree(LIB.parent, dut)
    # In place of what finds a block device in sysfs.
    with (dut / "lib.sh").open("a") as out:
        out.write(f"target() {{ echo {shlex.quote(str(disk))}; }}\n")
    job = tmp_path / "job"
    job.mkdir()
    (job / "job.env").write_text(
        "DEVICES=nvme\nHUGE_PAGES=0\nSCHEDULER=none\nFS_UUID=x\nMKFS_OPTIONS=\nTHREADS=1\n"
    )
    words = ["sh", *map(str, (dut / "prepare.sh", job, tmp_path / "devices"))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "iotoll: FAIL prepare: nvme:" in done.stdout
    assert "is not marked as one that may be overwritten" in done.stdout
    assert "mkfs.ext4 -L iotoll-scratch" in done.stdout
    assert disk.read_bytes() == before


def test_f3_7_that_is_the_labs_to_fix_not_the_candidates() -> None:
    words = "iotoll: FAIL prepare: nvme: /dev/nvme0n1 is not marked as one that may be overwritten"
    found = evidence("Complete", "", "", log_of(*BEGUN, ("target", words), END))
    error = classify(found, load_issues([]))
    assert "[not-marked]" in str(error) and error.exit_code == 4


def prepared(tmp_path: Path, sectors: int, more: str) -> str:
    """What prepare.sh says of a disk of so many sectors; ``more`` replaces programs of a board."""
    node, job = tmp_path / "node", tmp_path / "job"
    for folder in (node / "queue", job):
        folder.mkdir(parents=True)
    (node / "size").write_text(f"{sectors}\n")
    shutil.copytree(LIB.parent, tmp_path / "dut")
    with (tmp_path / "dut/lib.sh").open("a") as out:
        out.write(
            f"target() {{ echo /dev/x; }}\nfind_real() {{ real={shlex.quote(str(node))}; }}\n"
        )
        out.write(f"alias mkfs.ext4=:\nmount() {{ :; }}\nmkdir() {{ :; }}\n{more}\n")
    (job / "job.env").write_text(
        "SCRATCH=1 DEVICES=ufs FILE_MB_ufs=4 HUGE_PAGES=0 SCHEDULER=none FS_UUID=x MKFS_OPTIONS=\n"
        "MOUNT_OPTIONS=x THREADS=1\n"
    )
    words = ["sh", *map(str, (tmp_path / "dut/prepare.sh", job, tmp_path / "devices"))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    return done.stdout


def test_why_a_file_could_not_be_written_is_said(tmp_path: Path) -> None:
    full = "dd() { command dd if=/dev/zero of=/dev/full count=1; }"
    said = prepared(tmp_path, 1 << 20, full)
    assert "FAIL prepare: writing /mnt/ufs/data failed:" in said
    assert "No space left on device" in said


def test_a_partition_that_is_too_small_is_the_labs_to_fix(tmp_path: Path) -> None:
    said = prepared(tmp_path, 8 << 11, "dd() { echo dd was called; }")
    assert "ufs: /dev/x is too small" in said
    assert "it has 8 MiB, they take 8 MiB" in said and "dd was" not in said
    found = evidence("Complete", "", "", log_of(*BEGUN, ("target", said.strip()), END))
    error = classify(found, load_issues([]))
    assert "[too-small]" in str(error) and error.exit_code == 4


@pytest.mark.parametrize(("board", "own"), [("virt-arm64", "1"), ("hikey960", "''")])
def test_f3_7_only_a_virtual_boards_disks_need_no_mark(
    tmp_path: Path, board: str, own: str
) -> None:
    matrix = load_matrix("default")
    render_job(load_board(board), matrix, make_batches(matrix, CELLS, False), tmp_path / "job")
    assert f"SCRATCH={own}\n" in (tmp_path / "job/job.env").read_text()


def test_f3_7_simulated_boards_are_marked_as_their_owner_would(tmp_path: Path) -> None:
    made = profile.load("hikey960")
    # Without the gigabytes of the other partitions' disk.
    flash = Flash(replace(made), tmp_path)
    flash.create()
    assert is_marked(tmp_path / "nvme.img")
    start = flash.partition("userdata").start
    with (tmp_path / f"{made.table_disk}.img").open("rb") as disk:
        disk.seek(start)
        (tmp_path / "userdata").write_bytes(disk.read(1 << 16))
    assert is_marked(tmp_path / "userdata")
    assert not is_marked(tmp_path / "sd.img")
