"""The ramdisk's second archive: the same tree gives the same bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from iotoll.boards.ramdisk import _needed, _without_remote, job_cpio, tools, write_cpio
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


PROGRAM = """
#include <stdio.h>
extern int nbd_one(void), nbd_old(void);
int main(int count, char **words)
{
	puts("started");
	return count > 1 ? nbd_one() + nbd_old() : 0;
}
"""
VERSIONS = "NBD_1.0 { global: nbd_old; }; NBD_2.0 { global: nbd_one; } NBD_1.0;"


def bound_program(tree: Path, program: str, library: str) -> tuple[Path, Path]:
    """A program that is bound when it starts, and the name of the library that it needs."""
    folder = tree / "usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    for name, text in {"p.c": program, "l.c": library, "l.map": VERSIONS}.items():
        (tree / name).write_text(text)
    real, link, made = folder / "libnbd.so.0.9", folder / "libnbd.so.0", tree / "p"
    words = ["-shared", "-fPIC", "-Wl,-soname,libnbd.so.0", "-Wl,--version-script", tree / "l.map"]
    subprocess.run(["gcc", *map(str, words), "-o", real, tree / "l.c"], check=True)
    link.symlink_to(real.name)
    subprocess.run(["gcc", "-Wl,-z,now", "-o", made, tree / "p.c", real], check=True)
    return made, link


def started(program: Path, library: Path, *words: str) -> tuple[int, str, str]:
    path = {"LD_LIBRARY_PATH": str(library.parent)}
    done = subprocess.run([program, *words], env=path, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_program_starts_with_stand_ins_for_remote_libraries(tmp_path: Path) -> None:
    text = "int nbd_one(void) { return 1; } int nbd_old(void) { return 3; }"
    program, library = bound_program(tmp_path, PROGRAM, text)
    assert started(program, library, "call")[0] == 4
    _without_remote("gcc", tmp_path, program, tmp_path / "log")
    assert started(program, library) == (0, "started\n", "")
    assert started(program, library, "call")[0] < 0  # ended by a signal
    assert _needed(library) == []


def test_data_of_a_remote_library_has_no_stand_in(tmp_path: Path) -> None:
    text = "extern int nbd_one; int main(void) { return nbd_one; }"
    program, _ = bound_program(tmp_path, text, "int nbd_one = 4; void nbd_old(void) {}")
    with pytest.raises(InfrastructureError, match=r"p takes nbd_one@NBD_2\.0 of libnbd\.so\.0"):
        _without_remote("gcc", tmp_path, program, tmp_path / "log")
