"""Starts a virtual board: QEMU, and for Debian's one nbdkit per storage device.

An exact board is the patched QEMU of tools/qemu. Its disks are in its own memory and answer on the
board's clock, as the models in the board file say, so no boot depends on the host.

A stock board is Debian's QEMU. Its devices are served by nbdkit with a delay and one thread. With
no delay a command would complete before its submitter has gone to sleep, or inside the doorbell
write itself, depending on the host's scheduling; with it, each I/O takes the same path on every
boot, and completions do not share an interrupt (docs/method.md, "What is pinned"). The SD card has
no delay: QEMU stops the board while it reads or writes the card, sector by sector, so no delay
would reach the board. It is a file of QEMU's own, which saves a trip to nbdkit and back for each
sector.
"""

from __future__ import annotations

import platform
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from iotoll.boards import patched
from iotoll.boards.board import DeviceSettings, VirtualBoard
from iotoll.core.errors import InfrastructureError
from iotoll.core.proc import require_tool, rest, stop, tail_file
from iotoll.records.models import Clock
from iotoll.records.models.run import DeviceModel

TURNS = "turns.bin"
"""In a boot's folder: which of several CPUs executed when (tools/qemu/patches/0007)."""


@dataclass(frozen=True)
class BootFiles:
    """What one boot needs and leaves; sockets go to ``work``, whose path must be short."""

    kernel: Path
    ramdisk: Path
    console: Path
    handover: Path
    log: Path
    work: Path
    turns: Path
    """Which CPU executed when; only boards with several CPUs write it."""


def qemu_binary(board: VirtualBoard) -> str:
    """The path of the board's QEMU; raises InfrastructureError when it is not there."""
    if board.qemu.patched:
        return patched.binary(board.qemu.binary)
    return require_tool(board.qemu.binary, board.qemu.package)


def kvm_works(board: VirtualBoard) -> bool:
    """Tell whether KVM can really start this board's guests: /dev/kvm may exist and not work."""
    if platform.machine() != board.qemu.kvm_host or not Path("/dev/kvm").exists():
        return False
    if board.qemu.patched:  # it is built for TCG alone
        return False
    return _kvm_starts(board.qemu.binary, tuple(board.qemu.kvm_machine))


@cache
def _kvm_starts(binary: str, machine: tuple[str, ...]) -> bool:
    command = [
        binary,
        *machine,
        "-accel",
        "kvm",
        "-display",
        "none",
        "-nodefaults",
        "-S",
        "-monitor",
        "stdio",
    ]
    try:
        done = subprocess.run(
            command, input=b"cont\nquit\n", capture_output=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and b"failed" not in done.stderr


def tool_versions(board: VirtualBoard) -> dict[str, str]:
    """Versions of the programs that make up the virtual board."""
    programs = {board.qemu.binary: qemu_binary(board)}
    if not board.qemu.patched:
        programs["nbdkit"] = require_tool("nbdkit", "nbdkit")
    versions = {}
    for name, path in programs.items():
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        lines = (done.stdout or done.stderr).splitlines() if done.returncode == 0 else []
        versions[name] = lines[0] if lines else ""
    return versions


def qemu_command(
    board: VirtualBoard, clock: Clock, accelerator: str, files: BootFiles
) -> list[str]:
    """The QEMU command line of a local boot; no shell is involved."""
    command = [qemu_binary(board), *board_words(board, clock, accelerator)]
    if board.qemu.patched and board.qemu.cpus > 1 and "-icount" in command:
        at = command.index("-icount") + 1
        command[at] += f",turns={str(files.turns).replace(',', ',,')}"
    command += ["-kernel", str(files.kernel), "-initrd", str(files.ramdisk)]
    command += ["-append", kernel_words(board), "-serial", f"file:{files.console}"]
    # ioeventfd=off: a notification is handled inside the register write, not when the host can.
    command += ["-device", "virtio-serial-pci,ioeventfd=off"]
    command += ["-chardev", f"file,id=handover,path={files.handover}"]
    command += ["-device", "virtserialport,chardev=handover,name=org.iotoll.handover"]
    return command + disk_words(board, str(files.work))


def kernel_words(board: VirtualBoard) -> str:
    """The kernel's command line."""
    return f"console={board.console} {board.cmdline}"


def board_words(board: VirtualBoard, clock: Clock, accelerator: str) -> list[str]:
    """QEMU's arguments that make the machine: all but kernel, console and disks."""
    q = board.qemu
    if clock is Clock.INSTRUCTIONS:
        # icount needs one TCG thread. sleep=off: an idling board's clock jumps to its next timer.
        icount = "shift=0,sleep=off"
        if q.patched:
            icount += f",bh-delay={q.bh_delay_ns}"
            # Where there is one CPU, the end of a turn only costs time; the boot is the same.
            icount += f",slice={q.slice_ns}" if q.cpus > 1 else ""
        command = [*q.machine, "-accel", "tcg,thread=single", "-icount", icount]
        command += ["-rtc", "base=2026-01-01T00:00:00,clock=vm", "-seed", "1"]
    elif accelerator == "kvm":
        command = [*q.kvm_machine, "-accel", "kvm"]
    else:
        command = [*q.time_machine, "-accel", "tcg"]
    command += ["-smp", str(q.cpus), "-m", str(board.memory_mb), "-nodefaults"]
    return [*command, *q.network, "-display", "none", "-monitor", "none", "-no-reboot"]


def disk_words(board: VirtualBoard, folder: str) -> list[str]:
    """The storage devices: in QEMU's memory, on ``DEVICE.sock`` of nbdkit, or ``DEVICE.img``."""
    words = []
    for name, device in board.devices.items():
        words += _disk(name, device, folder)
        words += [word.replace("{drive}", f"{name}-drive") for word in device.qemu]
    return words


def _disk(name: str, device: DeviceSettings, folder: str) -> list[str]:
    if device.model is not None:
        return ["-blockdev", _modelled(f"{name}-drive", device.size_mb << 20, device.model)]
    served = f"nbd+unix:///?socket={folder}/{name}.sock"
    source = served if device.delay_ms else f"{folder}/{name}.img"
    return ["-drive", f"file={source},if=none,id={name}-drive,format=raw,cache=unsafe"]


def _modelled(node: str, size: int, model: DeviceModel) -> str:
    options = {
        "driver": "timed-ram",
        "node-name": node,
        "size": size,
        "units": model.units,
        "read-latency-ns": model.read_ns,
        "read-ns-per-kib": model.read_ns_per_kib,
        "write-latency-ns": model.write_ns,
        "write-ns-per-kib": model.write_ns_per_kib,
        "flush-latency-ns": model.flush_ns,
        "discard-latency-ns": model.discard_ns,
    }
    return ",".join(f"{key}={value}" for key, value in options.items())


class RunningBoard:
    """A started virtual board; use as a context manager, so that nothing outlives it."""

    def __init__(self, board: VirtualBoard, command: list[str], files: BootFiles) -> None:
        self._board = board
        self._command = command
        self._files = files
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        self._qemu: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RunningBoard:
        qemu_binary(self._board)
        try:
            with self._files.log.open("wb") as log:
                if not self._board.qemu.patched:
                    self._serve_all(log)
                self._qemu = start_process(self._command, log)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in [self._qemu, *self._servers.values()]:
            if process is not None:
                stop(process)

    def end(self, seconds: float = 120) -> None:
        """Ask QEMU to end, and wait for it: a plugin writes its last file then.

        Raises InfrastructureError when QEMU takes longer than ``seconds``.
        """
        assert self._qemu is not None
        self._qemu.terminate()
        try:
            self._qemu.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise InfrastructureError(
                f"QEMU did not end within {seconds:.0f} s of being asked to", self.log_tail()
            ) from error

    def poll(self) -> int | None:
        """QEMU's exit status, or None while it runs."""
        assert self._qemu is not None
        return self._qemu.poll()

    def rest(self, seconds: float) -> None:
        """Do nothing for so long, or until QEMU ends."""
        assert self._qemu is not None
        rest(self._qemu, seconds)

    @property
    def pid(self) -> int:
        """QEMU's process."""
        assert self._qemu is not None
        return self._qemu.pid

    def log_tail(self) -> str:
        """The last lines that QEMU and nbdkit wrote."""
        return tail_file(self._files.log)

    def _serve_all(self, log: IO[bytes]) -> None:
        require_tool("nbdkit", "nbdkit")
        for name, device in self._board.devices.items():
            if device.delay_ms:
                self._servers[name] = self._serve(name, device, log)
            else:
                with _image(self._files, name).open("wb") as image:
                    image.truncate(device.size_mb << 20)
        self._await_sockets()

    def _serve(self, name: str, device: DeviceSettings, log: IO[bytes]) -> subprocess.Popen[bytes]:
        delay = f"{device.delay_ms}ms"
        command = ["nbdkit", "--foreground", "--exit-with-parent", "--threads", "1"]
        command += ["--unix", str(_socket(self._files, name)), "--filter=delay"]
        command += ["memory", f"{device.size_mb}M", f"rdelay={delay}", f"wdelay={delay}"]
        return start_process(command, log)

    def _await_sockets(self, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        for name, server in self._servers.items():
            while not _socket(self._files, name).exists():
                if server.poll() is not None or time.monotonic() > end:
                    raise InfrastructureError(
                        f"nbdkit did not serve the {name} device", self.log_tail()
                    )
                time.sleep(0.02)


def _socket(files: BootFiles, name: str) -> Path:
    return files.work / f"{name}.sock"


def _image(files: BootFiles, name: str) -> Path:
    return files.work / f"{name}.img"


def start_process(command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start QEMU or nbdkit, in a session of its own; it is killed when this thread ends."""
    return subprocess.Popen(
        [require_tool("setpriv", "util-linux"), "--pdeathsig", "KILL", "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
