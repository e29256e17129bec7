"""QEMU as the board's SoC: boots what the firmware loaded, with the board's disks."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import struct
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

from iotoll_lab.simboard.profile import Soc

EVENTS = "events"
"""File with what QEMU's control interface says; it must be asked for it first."""


def powered_off(folder: Path) -> bool:
    """Tell whether the system switched itself off, and did not reset."""
    return "guest-shutdown" in (folder / EVENTS).read_text(errors="replace")


def device_tree(soc: Soc, target: Path) -> None:
    """Write QEMU's device tree with the board's number for its UART; raises OSError.

    The boot image's command line names the console of the real board, and is to stay as flashed.
    """
    words = list(soc.machine)
    words[words.index("-M") + 1] += f",dumpdtb={target}"
    command = [soc.binary, *words, "-nodefaults", "-display", "none", "-monitor", "none"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    tree = target.read_bytes() if done.returncode == 0 else b""
    if tree.count(b"\0serial0\0") != 1:
        raise OSError(f"{soc.binary}: no alias serial0 in its device tree {done.stderr.strip()}")
    # QEMU dumps it with 1 MiB of room, and makes more when it reads it: Linux takes 2 MiB at most.
    struct_at, strings_at = struct.unpack_from(">II", tree, 8)
    strings_size, struct_size = struct.unpack_from(">II", tree, 32)
    size = max(struct_at + struct_size, strings_at + strings_size)
    packed = tree[:4] + struct.pack(">I", size) + tree[8:size]
    target.write_bytes(packed.replace(b"\0serial0\0", f"\0serial{soc.uart}\0".encode()))


def qemu_command(soc: Soc, folder: Path, kernel: Path, ramdisk: Path, cmdline: str) -> list[str]:
    """QEMU's words. A reboot and a power-off both end it; `powered_off` tells them apart."""
    command = [soc.binary, *soc.machine, "-accel", "tcg", "-nodefaults", "-display", "none"]
    command += ["-monitor", "none", "-action", "reboot=shutdown,panic=none"]
    command += ["-chardev", f"file,id=qmp,path={folder}/{EVENTS},input-path={folder}/{EVENTS}.in"]
    command += ["-mon", "chardev=qmp,mode=control"]
    command += ["-chardev", "stdio,id=uart,signal=off", "-serial", "chardev:uart"]
    command += ["-kernel", str(kernel), "-dtb", str(folder / "soc.dtb")]
    command += ["-append", f"{cmdline} {soc.cmdline}"]
    if ramdisk.stat().st_size:
        command += ["-initrd", str(ramdisk)]
    for disk in soc.disks:
        path = folder / f"{disk.name}.img"
        command += [
            "-drive",
            f"file={path},if=none,id={disk.name}-drive,format=raw,cache=unsafe,discard=unmap",
        ]
        command += [word.replace("{drive}", f"{disk.name}-drive") for word in disk.qemu]
    return command


class RunningSoc:
    """A started QEMU. ``ended`` is called once when it ends by itself, with its last words."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        put: Callable[[bytes], Awaitable[None]],
        ended: Callable[[str], None],
        log: Path,
    ) -> None:
        self._process = process
        self._put = put
        self._ended = ended
        self._log = log
        self._pump = asyncio.create_task(self._run())

    @classmethod
    async def start(
        cls,
        command: list[str],
        put: Callable[[bytes], Awaitable[None]],
        ended: Callable[[str], None],
        log: Path,
    ) -> RunningSoc:
        """Start QEMU; raises OSError when there is none."""
        (log.parent / f"{EVENTS}.in").write_text('{"execute": "qmp_capabilities"}\n')
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        return cls(process, put, ended, log)

    def type(self, data: bytes) -> None:
        """What a client sends to the UART."""
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(data)

    def hang(self) -> None:
        """Stop all CPUs for good; only the relay helps."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGSTOP)

    async def kill(self) -> None:
        """Take the power away."""
        self._pump.cancel()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def _run(self) -> None:
        assert self._process.stdout is not None
        while data := await self._process.stdout.read(4096):
            await self._put(data)
        await self._process.wait()
        self._ended(self._log.read_text(errors="replace")[-500:])
