"""QEMU's command line, and what happens when a tool is absent or dies."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotoll.boards.board import VirtualBoard, load_virtual_board
from iotoll.boards.qemu import BootFiles, RunningBoard, kvm_works, qemu_command, tool_versions
from iotoll.core.errors import InfrastructureError
from iotoll.records.models import Clock

STOCK = ["virt-arm64-stock", "virt-x86_64-stock"]
EXACT = ["virt-arm64", "virt-x86_64"]


def load(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> VirtualBoard:
    """A board whose patched QEMU seems to be there, if it needs one."""
    board = load_virtual_board(name)
    if board.qemu.patched:
        (folder / "cache/bin").mkdir(parents=True)
        executable(folder / "cache/bin" / board.qemu.binary, 'echo "QEMU version 10 $*"')
        monkeypatch.setattr("iotoll.boards.patched.folder", lambda: folder / "cache")
    return board


@pytest.fixture(params=STOCK)
def stock(request: pytest.FixtureRequest) -> VirtualBoard:
    return load_virtual_board(request.param)


@pytest.fixture(params=EXACT)
def exact(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> VirtualBoard:
    return load(request.param, monkeypatch, tmp_path)


@pytest.fixture(params=[*EXACT, *STOCK])
def board(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> VirtualBoard:
    return load(request.param, monkeypatch, tmp_path)


@pytest.fixture
def files(tmp_path: Path) -> BootFiles:
    image, ramdisk, console, handover, log = (
        tmp_path / name for name in ("Image", "ramdisk", "console.log", "handover.tar", "qemu.log")
    )
    return BootFiles(image, ramdisk, console, handover, log, tmp_path, tmp_path / "turns")


def after(command: list[str], option: str) -> list[str]:
    return [command[i + 1] for i, word in enumerate(command) if word == option]


def test_instructions_clock(board: VirtualBoard, files: BootFiles) -> None:
    command = qemu_command(board, Clock.INSTRUCTIONS, "tcg", files)
    assert Path(command[0]).name == board.qemu.binary
    own = ",bh-delay=500" if board.qemu.patched else ""
    assert after(command, "-icount") == [f"shift=0,sleep=off{own}"]
    assert after(command, "-accel") == ["tcg,thread=single"]
    assert after(command, "-rtc") == ["base=2026-01-01T00:00:00,clock=vm"]
    assert after(command, "-smp") == ["1"]
    assert "nokaslr" in after(command, "-append")[0].split()


def test_several_cpus_take_turns_in_virtual_time(
    files: BootFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    four = load("virt-arm64-smp4", monkeypatch, tmp_path)
    command = qemu_command(four, Clock.INSTRUCTIONS, "tcg", files)
    (icount,) = after(command, "-icount")
    assert icount.startswith("shift=0,sleep=off,bh-delay=500,slice=10000,turns=")
    assert after(command, "-smp") == ["4"]


@pytest.mark.parametrize("accelerator", ["tcg", "kvm"])
def test_time_clock_has_no_icount(board: VirtualBoard, files: BootFiles, accelerator: str) -> None:
    command = qemu_command(board, Clock.TIME, accelerator, files)
    assert "-icount" not in command
    assert after(command, "-accel") == [accelerator]
    machine = board.qemu.kvm_machine if accelerator == "kvm" else board.qemu.time_machine
    assert command[1 : 1 + len(machine)] == machine


def test_every_device_is_served_and_named_once(board: VirtualBoard, files: BootFiles) -> None:
    command = qemu_command(board, Clock.INSTRUCTIONS, "tcg", files)
    drives = after(command, "-blockdev" if board.qemu.patched else "-drive")
    assert len(drives) == len(board.devices) == 3
    for name in board.devices:
        assert f"{name}-drive" in "".join(drives)
        assert sum(f"drive={name}-drive" in word for word in command) == 1
    assert not any("{" in word for word in command)


def test_nothing_of_the_host_reaches_the_board(board: VirtualBoard, files: BootFiles) -> None:
    command = qemu_command(board, Clock.INSTRUCTIONS, "tcg", files)
    assert "-nodefaults" in command
    assert not any(word.startswith(("-net", "-fsdev", "-virtfs")) for word in command)


def test_disks_of_an_exact_board_are_the_models_and_no_file(
    exact: VirtualBoard, files: BootFiles
) -> None:
    command = qemu_command(exact, Clock.INSTRUCTIONS, "tcg", files)
    assert Path(command[0]) == files.work / "cache/bin" / exact.qemu.binary
    disks = {d.split("node-name=")[1].split(",")[0]: d for d in after(command, "-blockdev")}
    for name, device in exact.devices.items():
        words = dict(word.split("=") for word in disks[f"{name}-drive"].split(","))
        assert device.model is not None
        assert words["driver"] == "timed-ram"
        assert int(words["size"]) == device.size_mb << 20
        assert int(words["units"]) == device.model.units
        assert int(words["read-latency-ns"]) == device.model.read_ns
        assert int(words["write-ns-per-kib"]) == device.model.write_ns_per_kib
    assert not [word for word in command if ".sock" in word or ".img" in word]
    assert after(command, "-device")[0] == "virtio-serial-pci,ioeventfd=off"


def test_version_of_an_exact_board_is_its_own_qemu(exact: VirtualBoard) -> None:
    assert tool_versions(exact) == {exact.qemu.binary: "QEMU version 10 --version"}


@pytest.mark.parametrize(("missing", "package"), [("qemu", None), ("nbdkit", "nbdkit")])
def test_missing_tool_names_its_package(
    stock: VirtualBoard,
    files: BootFiles,
    missing: str,
    package: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    if missing != "qemu":
        executable(tools / stock.qemu.binary, "exit 0")
    monkeypatch.setenv("PATH", str(tools))
    words = f"is not installed: apt-get install {package or stock.qemu.package}"
    with pytest.raises(InfrastructureError, match=words), RunningBoard(stock, ["x"], files):
        pass
    with pytest.raises(InfrastructureError, match=words):
        tool_versions(stock)


def executable(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_device_server_that_dies_is_infrastructure_and_leaves_no_process(
    stock: VirtualBoard, files: BootFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    pids = tmp_path / "pids"
    first = next(iter(stock.devices))
    executable(
        tools / "nbdkit",
        f'echo $$ >>{pids}\ncase "$*" in */{first}.sock*) exec sleep 100;; esac\n'
        'echo "nbdkit: out of luck" >&2; exit 1',
    )
    executable(tools / stock.qemu.binary, f"echo $$ >>{pids}; exec sleep 100")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    (tmp_path / f"{first}.sock").touch()
    with (
        pytest.raises(InfrastructureError, match="nbdkit did not serve the nvme device") as caught,
        RunningBoard(stock, [stock.qemu.binary], files),
    ):
        pass
    assert "out of luck" in caught.value.log_tail
    for pid in pids.read_text().split():
        assert not alive(int(pid))


def test_leaving_the_block_ends_qemu_and_the_servers(
    stock: VirtualBoard, files: BootFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    pids = tmp_path / "pids"
    for name in ("nbdkit", stock.qemu.binary):
        executable(tools / name, f"trap '' INT\necho $$ >>{pids}; exec sleep 100")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    processes = 1 + len(served(stock))
    for name in served(stock):
        (tmp_path / f"{name}.sock").touch()
    with pytest.raises(RuntimeError), RunningBoard(stock, [stock.qemu.binary], files) as running:
        assert running.poll() is None
        running.rest(0.01)
        while not pids.is_file() or len(pids.read_text().split()) < processes:
            pass
        raise RuntimeError
    assert len(pids.read_text().split()) == processes == 3
    assert not any(alive(int(pid)) for pid in pids.read_text().split())


def served(board: VirtualBoard) -> list[str]:
    return [name for name, device in board.devices.items() if device.delay_ms]


def alive(pid: int) -> bool:
    return (
        subprocess.run(["kill", "-0", str(pid)], capture_output=True, check=False).returncode == 0
    )


def test_kvm_is_for_the_hosts_own_machine_alone(
    board: VirtualBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert not kvm_works(board)


def test_only_a_device_with_a_delay_is_served_with_one(
    stock: VirtualBoard, files: BootFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    words = tmp_path / "words"
    executable(tools / "nbdkit", f'echo "$*" >>{words}; exec sleep 100')
    executable(tools / stock.qemu.binary, "exec sleep 100")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    for name in served(stock):
        (tmp_path / f"{name}.sock").touch()
    with RunningBoard(stock, [stock.qemu.binary], files):
        while not words.is_file() or len(words.read_text().splitlines()) < len(served(stock)):
            pass
    found = {}
    for line in words.read_text().splitlines():
        (name,) = [name for name in stock.devices if f"/{name}.sock" in line]
        assert "--filter=delay" in line and f"rdelay={stock.devices[name].delay_ms}ms" in line
        found[name] = line
    assert sorted(found) == sorted(served(stock)), "in any order: they start side by side"
    drives = after(qemu_command(stock, Clock.INSTRUCTIONS, "tcg", files), "-drive")
    for name, drive in zip(stock.devices, drives, strict=True):
        image = tmp_path / f"{name}.img"
        assert (f"{name}.sock" in drive) == (name in found) == (not image.exists())
        if name not in found:
            assert f"file={image}," in drive
            assert image.stat().st_size == stock.devices[name].size_mb << 20


def test_qemu_ends_with_an_iotoll_that_was_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    program = tmp_path / "qemu"
    executable(program, f"echo $$ >{pid_file}; exec sleep 100")
    start = (
        "import sys, time; from pathlib import Path; from iotoll.boards.qemu import start_process"
    )
    start += "; start_process([sys.argv[1]], open('/dev/null', 'wb')); time.sleep(100)"
    iotoll = subprocess.Popen([sys.executable, "-c", start, str(program)])
    while not (pid_file.exists() and pid_file.read_text()):
        assert iotoll.poll() is None
        time.sleep(0.05)
    iotoll.kill()
    iotoll.wait()
    qemu = int(pid_file.read_text())
    for _ in range(100):
        if not alive(qemu):
            return
        time.sleep(0.1)
    raise AssertionError("QEMU outlives iotoll")


def test_qemu_is_asked_to_end_and_waited_for(
    stock: VirtualBoard, files: BootFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tools, wrote = tmp_path / "bin", tmp_path / "wrote"
    tools.mkdir()
    monkeypatch.setattr(RunningBoard, "_serve_all", lambda *_: None)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    for trap, ends in ((f"sleep 0.3; echo all >{wrote}; exit", True), ("", False)):
        body = f"trap '{trap}' TERM\ntouch {tmp_path}/ready\nwhile :; do sleep 0.05; done"
        executable(tools / stock.qemu.binary, body)
        with RunningBoard(stock, [stock.qemu.binary], files) as board:
            while not (tmp_path / "ready").exists():
                time.sleep(0.02)
            if ends:
                board.end()
                assert wrote.read_text() == "all\n", "its last file is there"
            else:
                with pytest.raises(InfrastructureError, match=r"did not end within 0 s"):
                    board.end(0.2)
        (tmp_path / "ready").unlink()
