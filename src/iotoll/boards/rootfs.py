"""The DUT's root file system for boards in a lab: as a ramdisk, or as ext4 for a partition.

It is the virtual boards' image (`iotoll.boards.ramdisk`) with the DUT's scripts, ``iotoll-dut``
and a job. Same packages and job, same bytes: times, owners, ids and order are fixed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from iotoll.boards.ramdisk import EPOCH, dut_scripts, get_image, write_cpio
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.proc import require_tool
from iotoll.core.progress import Progress
from iotoll.core.scratch import scratch

UUID = "6f1d2c44-3b1e-4c0a-9a57-1072600d0960"
FEATURES = (
    "none,has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,"
    "huge_file,dir_nlink,extra_isize,metadata_csum"
)
"""Named one by one: mke2fs' defaults differ between Debian releases."""
FIRST_INODE = 11  # lost+found; those before it are ext4's own
_FULL = re.compile("No space left|Could not allocate|Disk quota exceeded")
FAKE_TIME = {"E2FSPROGS_FAKE_TIME": str(EPOCH), "MKE2FS_CONFIG": os.devnull}


def make_tree(
    arch: str, dut: Path | None, job: Path | None, root: Path, progress: Progress
) -> dict[str, str]:
    """Make the root file system's tree in the new folder ``root``; returns package versions.

    ``dut`` is the static ``iotoll-dut`` for ``arch``, ``job`` the folder of a rendered job.
    """
    require_tool("cpio", "cpio")
    image = get_image(arch, progress)
    root.mkdir(parents=True)
    with image.path.open("rb") as stream:
        done = subprocess.run(
            ["cpio", "-idm", "--quiet", "--no-absolute-filenames"],
            stdin=stream,
            cwd=root,
            capture_output=True,
            check=False,
        )
    if done.returncode:
        raise InfrastructureError(f"cpio: {done.stderr.decode(errors='replace').strip()}")
    scripts = dut_scripts()
    shutil.copytree(scripts, root / "iotoll/dut")
    for path in (root / "init", root / "usr/sbin/init"):  # a ramdisk's, and a disk's
        shutil.copy(scripts / "init", path)
        path.chmod(0o755)
    if dut is not None:
        if not dut.is_file():
            raise UsageError(f"{dut}: no such file: build iotoll-dut with 'make dut'")
        shutil.copy(dut, root / "usr/bin/iotoll-dut")
        (root / "usr/bin/iotoll-dut").chmod(0o755)
    if job is not None:
        shutil.copytree(job, root / "iotoll/job")
    return image.packages


def write_ramdisk(root: Path, target: Path) -> None:
    """Pack a tree as an uncompressed newc cpio archive."""
    write_cpio(root, target)


def write_ext4(root: Path, target: Path, size_mb: int) -> None:
    """Write a tree as an ext4 image of ``size_mb`` MiB with 4 KiB blocks: same tree, same bytes."""
    require_tool("mke2fs", "e2fsprogs")
    with scratch() as folder:
        # Fixes the tree's modes and times; the archive itself is not needed.
        write_cpio(root, folder / "tree.cpio")
    target.unlink(missing_ok=True)
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256", "-m", "0"]
    command += ["-O", FEATURES, "-U", UUID, "-L", "iotoll", "-d", str(root)]
    command += ["-E", f"hash_seed={UUID},root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0"]
    _run([*command, str(target), f"{size_mb}M"], "")
    _fix_times(target, sum(1 for _ in root.rglob("*")))


def _fix_times(image: Path, entries: int) -> None:
    """mke2fs copies the moment when each file was made here: set it, in every inode it used."""
    inodes = [2, *range(FIRST_INODE, FIRST_INODE + entries + 1)]
    fields = ("ctime", "crtime", "atime", "mtime")
    lines = [f"sif <{inode}> {field} @{EPOCH}" for inode in inodes for field in fields]
    extra = ("ctime_extra", "crtime_extra", "atime_extra", "mtime_extra")
    lines += [f"sif <{inode}> {field} 0" for inode in inodes for field in extra]
    _run(["debugfs", "-w", "-f", "-", str(image)], "\n".join(lines) + "\n")


def _run(command: list[str], text: str) -> None:
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        env={**os.environ, **FAKE_TIME},
        check=False,
    )
    words = done.stderr.replace("debugfs 1.", "").strip().splitlines()
    if done.returncode:
        last = words[-1] if words else f"status {done.returncode}"
        fix = "free some disk space" if _FULL.search(done.stderr) else "see the log"
        raise InfrastructureError(f"{command[0]}: {last}: {fix}", done.stderr)
