"""The ramdisk's second archive: the same tree gives the same bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from iotoll.boards.ramdisk import job_cpio, tools, write_cpio
from iotoll.core.errors import InfrastructureError

pytestmark = pytest.mark.skipif(
    shutil.which("cpio") is None, reason="cpio is not installed (apt-get install cpio)"
)


def tree(root: Path, order: int) -> Path:
    """The same tree, made in either order, with other times and modes."""
    names = ["usr/bin/a", "usr/bin/b", "etc/c", "z"]
    for name in names[::order]:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"this is {name}\n")
        path.chmod(0o700 if name == "usr/bin/a" and order > 0 else 0o640)
    (root / "usr/bin/a").chmod(0o711)
    (root / "bin").symlink_to("usr/bin")
    os.utime(root / "z", (order + 5, order + 5))
    return root


def test_same_tree_same_bytes(tmp_path: Path) -> None:
    write_cpio(tree(tmp_path / "1", 1), tmp_path / "1.cpio")
    time.sleep(0.01)
    write_cpio(tree(tmp_path / "2", -1), tmp_path / "2.cpio")
    assert (tmp_path / "1.cpio").read_bytes() == (tmp_path / "2.cpio").read_bytes()


def test_archive_holds_the_tree(tmp_path: Path) -> None:
    write_cpio(tree(tmp_path / "1", 1), tmp_path / "1.cpio")
    out = tmp_path / "out"
    out.mkdir()
    with (tmp_path / "1.cpio").open("rb") as stream:
        command = ["cpio", "-id", "--quiet"]
        subprocess.run(command, stdin=stream, cwd=out, check=True)
    assert (out / "usr/bin/b").read_text() == "this is usr/bin/b\n"
    assert (out / "bin").readlink() == Path("usr/bin")
    assert os.access(out / "usr/bin/a", os.X_OK)
    assert not os.access(out / "etc/c", os.X_OK)


def test_job_archive_carries_scripts_job_and_init(tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    (job / "job.env").write_text("BATCHES=ufs\n")
    job_cpio(job, tmp_path / "job.cpio")
    with (tmp_path / "job.cpio").open("rb") as stream:
        listed = subprocess.run(
            ["cpio", "-it", "--quiet"], stdin=stream, capture_output=True, text=True, check=True
        ).stdout.split()
    assert {"init", "iotoll/job/job.env", "iotoll/dut/run.sh", "iotoll/dut/lib.sh"} <= set(listed)


def test_full_disk_is_infrastructure(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this machine has no /dev/full")
    with pytest.raises(InfrastructureError, match="cannot write /dev/full: No space left"):
        write_cpio(tree(tmp_path / "1", 1), Path("/dev/full"))


def test_versions_are_as_the_programs_say_them() -> None:
    packages = {"fio": "3.39-1", "trace-cmd": "1:3.3.1-1+b2", "dash": "0.5.12-12"}
    assert tools(packages) == "fio fio-3.39\ntrace-cmd 3.3.1\n"
    assert tools({"fio": "3.39"}) == "fio fio-3.39\ntrace-cmd unknown\n"
