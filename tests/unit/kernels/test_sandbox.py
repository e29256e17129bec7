"""The sandbox that a candidate is built and booted in, really run."""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from iotoll.core.errors import IotollError, ResultError
from iotoll.kernels import layers, overrun, sandbox
from iotoll.kernels.overrun import OverrunError
from iotoll.kernels.sandbox import Kept, Surroundings

SECRET = "glcbt-64_secret-of-the-job"


@pytest.fixture
def run_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CI_JOB_TOKEN", SECRET)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/compiled").write_text("as it was")
    root = tmp_path / "job/iotoll/run"
    root.mkdir(parents=True)
    (root / "run.json").write_text("{}")
    try:
        sandbox.check()
    except IotollError as error:
        pytest.skip(str(error))
    return root


def python(text: str) -> list[str]:
    return ["-c", text]


def test_a_candidate_sees_no_token(run_root: Path, tmp_path: Path) -> None:
    # Where a job of GitLab's has it: its environment, its shell's, the clone's remote, files.
    (tmp_path / "job/.git").mkdir()
    (tmp_path / "job/.git/config").write_text(f"url = https://ci:{SECRET}@gitlab.example.com/")
    (tmp_path / "job.tmp").mkdir()
    (tmp_path / "job.tmp/TOKEN").write_text(SECRET)
    text = """
import os, pathlib, sys
found = []
def files():
    yield from pathlib.Path("/proc").glob("[0-9]*/environ")
    yield from pathlib.Path("/proc").glob("[0-9]*/cmdline")
    for top in sys.argv[1:]:
        for folder, _, names in os.walk(top):
            yield from (pathlib.Path(folder, name) for name in names)
for path in files():
    try:
        if b"secret-of-the" + b"-job" in path.read_bytes():
            found.append(str(path))
    except OSError:
        pass
print(len(list(files())), found, file=open(sys.argv[1] + "/out", "w"))
"""
    kept = Kept(("out",))
    words = [*python(text), str(run_root), str(tmp_path), "/tmp", "/root", "/home", "/etc", "/run"]
    assert sandbox.run(words, run_root, kept) == 0
    count, _, found = (run_root / "out").read_text().strip().partition(" ")
    assert found == "[]"
    assert int(count) > 2, "it did look at something"


def test_a_lab_on_this_machine_shows_a_candidate_no_token(run_root: Path, tmp_path: Path) -> None:
    """Not seen on 7dcac24: `iotoll lab up` keeps the tokens of its users in the cache."""
    lab = tmp_path / "cache/lab/local"
    lab.mkdir(parents=True)
    (lab / "admin.token").write_text(SECRET)
    text = """
import os, pathlib
lab = pathlib.Path(os.environ["IOTOLL_CACHE"], "lab")
assert not lab.exists() or list(lab.iterdir()) == []
"""
    for trusted in (False, True):
        assert sandbox.run(python(text), run_root, Kept(()), trusted) == 0
    assert (lab / "admin.token").read_text() == SECRET


def test_a_candidate_reads_no_key_of_the_session(run_root: Path) -> None:
    """Not tried on 7dcac24: no namespace hides the session keyring that a process inherits."""
    number = layers._KEYCTL.get(os.uname().machine)
    add = {"x86_64": 248, "aarch64": 217}.get(os.uname().machine)
    assert number is not None and add is not None, "no sandbox where these are not known"
    libc = ctypes.CDLL(None, use_errno=True)
    # A keyring that this test may fill: it replaces the test's own.
    if libc.syscall(number, layers._JOIN_SESSION_KEYRING, None) < 0:
        pytest.skip(f"this machine has no keyrings: {os.strerror(ctypes.get_errno())}")
    assert libc.syscall(add, b"user", b"iotoll-test", SECRET.encode(), len(SECRET), -3) > 0
    search, read = 10, 11
    text = f"""
import ctypes
libc = ctypes.CDLL(None)
key = libc.syscall({number}, {search}, -3, b"user", b"iotoll-test", 0)
room = ctypes.create_string_buffer(99)
assert key < 0 or libc.syscall({number}, {read}, key, room, 99) < 0, room.value
"""
    assert sandbox.run(python(text), run_root, Kept(())) == 0


def test_a_candidate_reaches_no_network(run_root: Path) -> None:
    text = """
import socket
names = [name for _, name in socket.if_nameindex()]
try:
    socket.create_connection(("192.0.2.1", 80), 2)
except OSError as error:
    names.append(error.strerror)
assert names in (["lo", "Network is unreachable"],), names
"""
    assert sandbox.run(python(text), run_root, Kept(())) == 0


def test_f6_1_a_candidate_writes_no_setting_of_the_kernel(run_root: Path) -> None:
    """F6.1: uid 0 without capabilities could write /proc/sys; now nothing below /proc and /sys."""
    text = f"""
import os
open_ones = []
for top in ("/proc", "/sys"):
    for folder, folders, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                # A write of nothing changes no setting, but is refused where writing is.
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
                open_ones.append(path)
            except OSError:
                pass
seen = os.path.exists("/proc/sys/kernel/core_pattern")
status = open("/proc/self/status").read()
caps = [line for line in status.splitlines() if line.startswith(("CapEff", "CapPrm", "CapAmb"))]
first = open("/proc/self/uid_map").read().split()
real = int(first[1]) + os.getuid() - int(first[0])
mounts = open("/proc/mounts").read()
print(seen, open_ones[:5], caps, real, "/.run-" in mounts, sep="\\n", file=open(
    {str(run_root)!r} + "/out", "w"))
"""
    assert sandbox.run(python(text), run_root, Kept(("out",))) == 0
    seen, writable, caps, user, scratch = (run_root / "out").read_text().splitlines()
    assert seen == "True", "it did look at the settings"
    assert writable == "[]"
    assert caps.count("\\t0000000000000000") == 3
    assert int(user) != 0, "a capability is not all that root has"
    assert scratch == "False", "where the host keeps what it writes is nobody's business"


def test_every_folder_on_the_way_can_be_entered(run_root: Path) -> None:
    """QEMU ended where it could not look into /etc for a file that is not there."""
    text = """
import os
for folder in ("/", "/etc", "/tmp", os.environ["IOTOLL_CACHE"]):
    assert os.access(folder, os.R_OK | os.X_OK), folder
"""
    assert sandbox.run(python(text), run_root, Kept(())) == 0


def test_f6_3_what_is_hidden_is_empty_and_may_be_filled(run_root: Path, tmp_path: Path) -> None:
    """F6.3: the base's images are none of a candidate's business."""
    images, built = tmp_path / "cache/images", run_root / "base"
    for folder in (images, built):
        (folder / "base").mkdir(parents=True)
    text = f"""
import pathlib
images, built = pathlib.Path({str(images)!r}), pathlib.Path({str(built)!r})
assert not images.exists()
assert list(built.iterdir()) == []
for folder in (images, built):
    (folder / "own").mkdir(parents=True)
"""
    around = Surroundings(hidden=[built])
    assert sandbox.run(python(text), run_root, Kept(()), around=around) == 0
    for folder in (images, built):
        assert [path.name for path in folder.iterdir()] == ["base"]


def test_g1_6_of_the_cache_a_candidate_sees_what_it_is_given_alone(
    run_root: Path, tmp_path: Path
) -> None:
    """G1.6: it read other projects' sources, boots and consoles, and its log is an artifact."""
    cache = tmp_path / "cache"
    for name in ("trees/own/work/a", "trees/own/other", "trees/another", "boots", "qemu"):
        (cache / name).mkdir(parents=True)
        (cache / name / "file").write_text("x")
    text = f"""
import os, pathlib
cache = pathlib.Path({str(cache)!r})
found = sorted(str(p.relative_to(cache)) for p in cache.rglob("*") if p.is_file())
assert found == ["qemu/file", "trees/own/work/a/file"], found
"""
    around = Surroundings(cache=[*sandbox.tools(), cache / "trees/own/work/a"])
    assert sandbox.run(python(text), run_root, Kept(()), around=around) == 0
    assert sandbox.run(python(text), run_root, None, around=around) == 0, "a boot's as well"


def test_f6_2_nothing_runs_when_results_are_copied(
    run_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F6.2: processes lived up to 138 ms longer than bubblewrap, and exchanged what was copied."""
    text = f"""
import os, pathlib
path = pathlib.Path({str(run_root)!r}, "build")
path.mkdir()
for number in range(40):
    if os.fork() == 0:
        os.setsid()
        while True:
            (path / f"link{{number}}").symlink_to("/etc/shadow")
            os.replace(path / f"link{{number}}", path / f"config{{number}}")
while len(list(path.glob("config*"))) < 40:
    pass
"""
    alive: list[bool] = []

    def look(upper: Path, *_: object) -> None:
        def state() -> list[int]:
            return [os.lstat(p).st_mtime_ns for p in sorted((upper / "build").iterdir())]

        for _turn in range(20):
            alive.append(state() != state())

    monkeypatch.setattr(sandbox, "_bring_out", look)
    assert sandbox.run(python(text), run_root, Kept(("build/config0",))) == 0
    assert len(alive) == 20
    assert not any(alive)


def test_a_candidate_cannot_change_the_cache(run_root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    text = f"""
import pathlib
cache = pathlib.Path({str(cache)!r})
assert (cache / "compiled").read_text() == "as it was"
(cache / "compiled").write_text("poisoned")
(cache / "more").write_text("poisoned")
assert (cache / "compiled").read_text() == "poisoned"
"""
    around = Surroundings(cache=[cache])
    assert sandbox.run(python(text), run_root, Kept(()), around=around) == 0
    assert [p.name for p in cache.iterdir()] == ["compiled"]
    assert (cache / "compiled").read_text() == "as it was"
    # The base is the project's own code.
    assert sandbox.run(python(text), run_root, Kept(()), trusted=True) == 0
    assert (cache / "compiled").read_text() == "poisoned"


def test_a_build_brings_out_its_own_files_only(run_root: Path) -> None:
    text = f"""
import pathlib
root = pathlib.Path({str(run_root)!r})
for name in ("Image", "verdict.json", "run.json"):
    (root / name).write_text("from inside")
"""
    assert sandbox.run(python(text), run_root, Kept(("Image",))) == 0
    assert (run_root / "Image").read_text() == "from inside"
    assert (run_root / "run.json").read_text() == "{}"
    assert not (run_root / "verdict.json").exists()
    for thread in threading.enumerate():
        if thread.name == "sandbox":  # it removes what was written, while the run goes on
            thread.join()
    assert [p.name for p in run_root.parent.iterdir()] == ["run"], "nothing is left beside it"


@pytest.mark.parametrize(
    "act",
    [
        "os.symlink('/etc/shadow', root / 'build/Image')",
        "os.mkfifo(root / 'build/Image')",
        "os.makedirs(root / 'build/Image')",
        "os.rmdir(root / 'build'); os.symlink('/etc', root / 'build')",
    ],
)
def test_what_a_build_leaves_is_a_plain_file_or_refused(run_root: Path, act: str) -> None:
    text = f"""
import os, pathlib
root = pathlib.Path({str(run_root)!r})
(root / 'build').mkdir()
{act}
"""
    names = ("build/Image", "build/shadow")
    with pytest.raises(ResultError, match="not a plain file: refused"):
        sandbox.run(python(text), run_root, Kept(names))


def test_processes_end_with_the_sandbox(run_root: Path) -> None:
    seconds = f"4242.{os.getpid()}"  # nobody else's
    text = f"import subprocess; subprocess.Popen(['sleep', '{seconds}'], start_new_session=True)"
    assert sandbox.run(python(text), run_root, Kept(())) == 0
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended meanwhile
            lines.append(path.read_bytes())
    assert not any(f"sleep\0{seconds}".encode() in line for line in lines)


def test_a_boot_that_fills_the_disk_is_ended(
    run_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a step writes into its own run directory counts, too: a boot brings nothing out."""
    text = f"""
import time
with open({str(run_root)!r} + "/handover.tar", "wb") as out:
    for _ in range(500):
        out.write(bytes(4 << 20))
        out.flush()
        time.sleep(0.1)
"""
    (run_root / "before").write_bytes(bytes(1 << 20))
    room = 48 << 20
    monkeypatch.setattr(overrun.Disk, "_free", lambda disk: room - disk._size())
    with pytest.raises(OverrunError, match="of the disk free: it was ended"):
        sandbox.run(python(text), run_root, None)
