"""One boot, without a board: unpacking what it sent, time limits, judging its end."""

from __future__ import annotations

import io
import itertools
import os
import subprocess
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from iotoll.boards.qemu import BootFiles
from iotoll.boots import local
from iotoll.boots.console import read_console
from iotoll.boots.local import BootPlan, _check_limits, _judge, _portable, _reached, _watch, unpack
from iotoll.core.errors import BrokenError, InfrastructureError


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as out:
        for info, data in members:
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


def test_streams_of_a_boot_follow_each_other(tmp_path: Path) -> None:
    one = archive(tmp_path / "1.tar", (tarfile.TarInfo("boot/tools"), b"kernel 6.12\n"))
    two = archive(tmp_path / "2.tar", (tarfile.TarInfo("ufs/trace.dat"), b"trace"))
    both = tmp_path / "both.tar"
    both.write_bytes(one.read_bytes() + two.read_bytes())
    unpack(both, tmp_path / "out")
    assert (tmp_path / "out/boot/tools").read_bytes() == b"kernel 6.12\n"
    assert (tmp_path / "out/ufs/trace.dat").read_bytes() == b"trace"


@pytest.mark.parametrize(
    "info",
    [
        tarfile.TarInfo("../outside"),
        tarfile.TarInfo("a/../../outside"),
        link("a", "../outside"),
        link("a", "/etc/passwd"),
        link("a", "../outside", tarfile.LNKTYPE),
    ],
    ids=["parent", "inner-parent", "symlink", "absolute-symlink", "hardlink"],
)
def test_members_that_lead_outside_are_refused(tmp_path: Path, info: tarfile.TarInfo) -> None:
    (tmp_path / "outside").write_text("before")
    path = archive(tmp_path / "evil.tar", (info, b""))
    with pytest.raises(InfrastructureError, match=r"evil\.tar: what the board handed over"):
        unpack(path, tmp_path / "out")
    assert (tmp_path / "outside").read_text() == "before"


def test_absolute_names_land_inside(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.tar", (tarfile.TarInfo("/boot/tools"), b"x"))
    unpack(path, tmp_path / "out")
    assert (tmp_path / "out/boot/tools").read_bytes() == b"x"


def test_device_nodes_are_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("disk")
    info.type = tarfile.BLKTYPE
    with pytest.raises(InfrastructureError, match="corrupt"):
        unpack(archive(tmp_path / "x.tar", (info, b"")), tmp_path / "out")


@pytest.mark.parametrize("keep", [1, 300, 700, 3000])
def test_half_a_stream_is_corrupt(tmp_path: Path, keep: int) -> None:
    path = archive(tmp_path / "x.tar", (tarfile.TarInfo("ufs/trace.dat"), b"t" * 5000))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InfrastructureError, match=r"x\.tar: what the board handed over is corrupt"):
        unpack(path, tmp_path / "out")


def test_noise_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(bytes(range(256)) * 40)
    with pytest.raises(InfrastructureError, match="corrupt"):
        unpack(tmp_path / "x.tar", tmp_path / "out")


BOOTING = read_console("[    1.0] Booting\n")
RUNNING = read_console("iotoll: step prepare\niotoll: cell x\n")
LIMITS = {"boot_s": 120.0, "silence": 90.0, "total": 1200.0}


def test_within_all_limits() -> None:
    _check_limits(BOOTING, 119, 89, **LIMITS)
    _check_limits(RUNNING, 1199, 89, **LIMITS)


@pytest.mark.parametrize(
    ("state", "age", "quiet", "step", "words"),
    [
        (BOOTING, 121, 0, "boot", "did not reach user space in 120 s"),
        (BOOTING, 100, 91, "boot", "no sign of life for 90 s"),
        (RUNNING, 300, 91, "workload", "no sign of life for 90 s"),
        (RUNNING, 1201, 0, "workload", "did not end within 1200 s"),
    ],
)
def test_each_limit_names_itself_and_its_step(
    state: object, age: float, quiet: float, step: str, words: str
) -> None:
    with pytest.raises(BrokenError, match=words) as caught:
        _check_limits(state, age, quiet, **LIMITS)  # type: ignore[arg-type]
    assert caught.value.step == step
    assert caught.value.log_tail


def files(folder: Path) -> BootFiles:
    image, ramdisk, console, handover, log = (
        folder / name for name in ("Image", "ramdisk", "console.log", "handover.tar", "qemu.log")
    )
    return BootFiles(image, ramdisk, console, handover, log, folder / "work", folder / "turns")


def test_hand_over_must_have_come(tmp_path: Path) -> None:
    state = read_console("iotoll: step prepare\niotoll: done\n")
    with pytest.raises(InfrastructureError, match="handed over nothing"):
        _judge(state, files(tmp_path))
    (tmp_path / "handover.tar").write_bytes(b"x")
    _judge(state, files(tmp_path))


def test_failed_state_is_the_kernels_or_the_workloads(tmp_path: Path) -> None:
    state = read_console("iotoll: step prepare\niotoll: FAIL prepare: ufs: mkfs.ext4 failed\n")
    with pytest.raises(BrokenError, match=r"prepare: ufs: mkfs\.ext4 failed") as caught:
        _judge(state, files(tmp_path))
    assert caught.value.step == "workload"


def test_command_is_kept_without_this_machines_folders(tmp_path: Path) -> None:
    f = files(tmp_path)
    assert _portable(f"file:{f.console}", f) == "file:console.log"
    assert _portable(str(f.kernel), f) == "Image"
    assert _portable(f"nbd+unix:///?socket={f.work}/ufs.sock", f) == "nbd+unix:///?socket=ufs.sock"
    assert _portable("-icount", f) == "-icount"


class Flooding:
    """A board whose kernel writes its console without end."""

    def __init__(self, console: Path) -> None:
        self.console = console
        self.pid = os.getpid()

    def poll(self) -> None:
        with self.console.open("ab") as out:
            out.write(b"flood " * (1 << 16))

    def rest(self, seconds: float) -> None:
        pass


def test_f6_9_a_console_without_end_is_the_kernels_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F6.9: a console flood was read whole at each change."""
    files = BootFiles(*[tmp_path / name for name in ("k", "r", "console", "h", "q", "w", "t")])
    files.console.write_text("iotoll: step prepare\n")
    read: list[int] = []

    def reading(text: str) -> object:
        read.append(len(text))
        return read_console(text)

    # A clock of this test's own: on a busy machine each poll takes as long as it likes.
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks) / 100)
    monkeypatch.setattr(local, "time", clock)
    monkeypatch.setattr(local, "read_console", reading)
    monkeypatch.setattr(local, "CONSOLE_LIMIT", 2 << 20)
    limits = SimpleNamespace(boot=60, silence=60, total=60)
    machine = SimpleNamespace(limits=limits)
    plan: BootPlan = SimpleNamespace(local=machine, until="")  # type: ignore[assignment]
    board = Flooding(files.console)
    with pytest.raises(BrokenError, match="over 2 MiB: the kernel floods it") as caught:
        _watch(plan, files, board, lambda _: None, None)  # type: ignore[arg-type]
    assert caught.value.step == "workload"
    assert max(read) <= (2 << 20) + 1, "never more than the limit"
    size = files.console.stat().st_size
    assert len(read) < size // (6 << 16), "and not at each change"


class Pouring(Flooding):
    """A board whose kernel hands over without end."""

    def poll(self) -> None:
        with self.console.with_name("h").open("ab") as out:
            out.write(bytes(1 << 18))


def test_f6_9_a_handover_without_end_is_the_kernels_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not tried on 7dcac24: the file grew until the disk was full or the board's time was over."""
    files = BootFiles(*[tmp_path / name for name in ("k", "r", "console", "h", "q", "w", "t")])
    files.console.write_text("iotoll: step prepare\n")
    monkeypatch.setattr(local, "HANDOVER_LIMIT", 1 << 20)
    machine = SimpleNamespace(limits=SimpleNamespace(boot=60, silence=60, total=60))
    plan: BootPlan = SimpleNamespace(local=machine, until="")  # type: ignore[assignment]
    board = Pouring(files.console)
    with pytest.raises(BrokenError, match="handed over more than") as caught:
        _watch(plan, files, board, lambda _: None, None)  # type: ignore[arg-type]
    assert caught.value.step == "workload"


def test_a_board_cannot_say_itself_which_cpu_executed_when(tmp_path: Path) -> None:
    handover = tmp_path / "handover.tar"
    for name in ("turns.bin", "./turns.bin", "/turns.bin"):
        with tarfile.open(handover, "w") as archive:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO(b""))
        with pytest.raises(InfrastructureError, match="may not be unpacked"):
            unpack(handover, tmp_path / "boot")


def test_a_handover_is_never_larger_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed, sparse, or of a million empty files: a board's few bytes fill no disk or memory."""
    packed, sparse, many = (tmp_path / name for name in ("packed.tar", "sparse.tar", "many.tar"))
    with tarfile.open(packed, "w:gz") as archive:
        head = tarfile.TarInfo("zero")
        head.size = 1 << 20
        archive.addfile(head, io.BytesIO(bytes(1 << 20)))
    (tmp_path / "hole").write_bytes(b"")
    os.truncate(tmp_path / "hole", 1 << 30)
    words = ["tar", "--sparse", "-C", str(tmp_path), "-cf", str(sparse), "hole"]
    subprocess.run(words, check=True)
    assert sparse.stat().st_size < 1 << 20
    with tarfile.open(many, "w") as archive:
        for number in range(11):
            archive.addfile(tarfile.TarInfo(f"file{number}"))
    monkeypatch.setattr(local, "MEMBERS_LIMIT", 10)
    for path, why in ((packed, "corrupt"), (sparse, "may not be"), (many, "more than 10 files")):
        with pytest.raises(InfrastructureError, match=why):
            local.unpack(path, tmp_path / "unpacked")
    assert not (tmp_path / "unpacked").exists()


@pytest.mark.parametrize(
    ("said", "ended"),
    [
        ("iotoll: step batch ufs\niotoll: step batch nvme\n", True),
        ("iotoll: step batch ufs\niotoll: step batch nvme\niotoll: step batch emmc\n", True),
        ("iotoll: step batch ufs\niotoll: step batch nvme-kyber\n", False),
        ("iotoll: step batch ufs\n", False),
    ],
)
def test_a_boot_ends_at_the_step_that_its_plan_names(
    tmp_path: Path, said: str, ended: bool
) -> None:
    files = BootFiles(*[tmp_path / name for name in ("k", "r", "console", "h", "q", "w", "t")])
    files.console.write_text(said)
    machine = SimpleNamespace(limits=SimpleNamespace(boot=60, silence=60, total=0.3))
    plan: BootPlan = SimpleNamespace(local=machine, until="batch nvme")  # type: ignore[assignment]
    board = SimpleNamespace(poll=lambda: None, rest=time.sleep, pid=os.getpid())
    if ended:
        state = _watch(plan, files, board, lambda _: None, None)  # type: ignore[arg-type]
        assert not state.done and _reached(plan, state)
    else:
        with pytest.raises(BrokenError, match="did not end within"):
            _watch(plan, files, board, lambda _: None, None)  # type: ignore[arg-type]


def test_a_kernel_that_crashed_has_not_reached_the_step() -> None:
    plan: BootPlan = SimpleNamespace(until="batch nvme")  # type: ignore[assignment]
    said = "iotoll: step batch ufs\nKernel panic - not syncing: x\niotoll: step batch nvme\n"
    assert not _reached(plan, read_console(said))
    whole: BootPlan = SimpleNamespace(until="")  # type: ignore[assignment]
    assert not _reached(whole, read_console("iotoll: step batch ufs\n"))
