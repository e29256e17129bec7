"""One simulated board: power, firmware, SoC, and the faults that tests inject.

::

    off --power on--> rom --rom_seconds--> fastboot --space, return, continue--> os
     ^                 ^                                                          |
     +---power off     +---------------power reset, or the system reboots---------+
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iotoll.boards.androidboot import BootImage, BootImageError, parse
from iotoll_lab.simboard.client import address
from iotoll_lab.simboard.disks import Flash, FlashError
from iotoll_lab.simboard.faults import Fault, FaultError, parse_fault
from iotoll_lab.simboard.firmware import After, Firmware
from iotoll_lab.simboard.profile import Profile
from iotoll_lab.simboard.soc import RunningSoc, device_tree, powered_off, qemu_command
from iotoll_lab.simboard.uart import Uart

QUIT_FASTBOOT = b" \r\n"


class SimulatedBoard:
    """A simulated board; `run` serves it until it is cancelled."""

    def __init__(
        self, profile: Profile, name: str, serial: str, folder: Path, port: int = 0, baud: int = 0
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.folder = folder
        self.state = "off"
        self._profile = profile
        self._serial = serial
        self._resets = 0
        self._faults: list[Fault] = []
        self._lasting: dict[str, float] = {}
        self._soc: RunningSoc | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lock = asyncio.Lock()
        self._rom: asyncio.Task[None] | None = None
        self._flash = Flash(profile, folder)
        self._uart = Uart(folder / "uart.log", self._typed, port, baud)
        self._uart.on_line = self._heard
        self._firmware = Firmware(profile, self._flash, self.serial, self._uart.text, self._leave)

    def serial(self) -> str:
        """The serial number that fastboot shows now."""
        return (
            f"{self._serial}-{self._resets}" if "serial-changes" in self._lasting else self._serial
        )

    async def run(self) -> None:
        """Serve UART and control port until cancelled; leaves no process behind."""
        # First of all: it fails when a board of this name runs, before its disks are touched.
        control = await asyncio.start_unix_server(self._controlled, address(self.name))
        try:
            self._flash.create()
            (self.folder / "uart.log").unlink(missing_ok=True)
            await self._uart.start()
            async with control:
                await control.serve_forever()
        finally:
            for task in list(self._tasks):
                task.cancel()
            await self._power(False)
            await self._uart.stop()

    # Power and states.

    async def _power(self, on: bool) -> None:
        async with self._lock:
            self.state = "off"
            if self._rom is not None:
                self._rom.cancel()
                self._rom = None
            await self._firmware.stop()
            if self._soc is not None:
                await self._soc.kill()
                self._soc = None
            if on:
                self.state = "rom"
                self._resets += 1
                self._rom = self._spawn(self._start())

    async def _start(self) -> None:
        """From power to fastboot: of boot ROM, TF-A and UEFI only the time and some words."""
        await asyncio.sleep(self._profile.rom_seconds)
        if "dead" in self._lasting:
            return
        self._uart.text("\r\nNOTICE:  BL1: Booting BL31\r\nUEFI firmware (simulated board)\r\n")
        self.state = "fastboot"
        if "fastboot-lost" not in self._lasting:
            await self._firmware.start()
        self._uart.text(
            "Android Fastboot mode - version 0.7.\r\nPress RETURN or SPACE key to quit.\r\n"
        )

    def _typed(self, data: bytes) -> None:
        if self.state == "fastboot" and any(byte in QUIT_FASTBOOT for byte in data):
            self._spawn(self._boot(None))
        elif self._soc is not None:
            self._soc.type(data)

    def _leave(self, how: After, image: bytes) -> None:
        if how == "reboot":
            self._spawn(self._power(True))
        elif how == "powerdown":
            self._spawn(self._power(False))
        else:
            self._spawn(self._boot(image or None))

    async def _boot(self, image: bytes | None) -> None:
        """Leave fastboot: start the downloaded image, or that in the boot partition."""
        async with self._lock:
            if self.state != "fastboot":
                return
            await self._firmware.stop()
            self.state = "os"
            try:
                name = self._profile.boot_partition
                data = image if image else await asyncio.to_thread(self._flash.read, name)
                await self._start_soc(self._checked(parse(data)))
            except (BootImageError, FlashError, OSError) as error:
                self.state = "stuck"
                self._uart.text(f"\r\nERROR: Image at boot partition: {error}\r\n")

    def _checked(self, image: BootImage) -> BootImage:
        """The real board needs its own device tree; here QEMU's is used, so at least ask for it."""
        if self._profile.compatible.encode() + b"\0" not in image.dtb:
            raise BootImageError(f"the device tree is not for {self._profile.compatible}")
        return image

    async def _start_soc(self, image: BootImage) -> None:
        kernel, ramdisk = self.folder / "kernel", self.folder / "ramdisk"
        kernel.write_bytes(image.kernel)
        ramdisk.write_bytes(image.ramdisk)
        self._uart.text("\r\nUEFI: starting the boot image\r\n")
        cmdline = f"{image.cmdline} androidboot.serialno={self.serial()}"
        await asyncio.to_thread(device_tree, self._profile.soc, self.folder / "soc.dtb")
        command = qemu_command(self._profile.soc, self.folder, kernel, ramdisk, cmdline)
        log = self.folder / "qemu.log"
        self._soc = await RunningSoc.start(command, self._uart.put, self._soc_ended, log)

    def _soc_ended(self, words: str) -> None:
        """The system has reset the SoC or switched itself off, or QEMU failed."""
        if words.strip():
            self._uart.text(f"\r\nsimulated board: QEMU ended: {words.strip()}\r\n")
        self._spawn(self._power(not powered_off(self.folder)))

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Faults.

    def _heard(self, line: str) -> None:
        for fault in list(self._faults):
            if fault.when and fault.when in line:
                self._faults.remove(fault)
                self._spawn(self._inject(fault))

    async def _inject(self, fault: Fault) -> None:
        name, value = fault.name, fault.value
        if name == "clear":
            self._faults.clear()
            self._lasting.clear()
            self._uart.garble = self._uart.drop = 0.0
            await self._uart.start()
            if self.state == "fastboot":
                await self._firmware.start()
        elif name == "uart-cut":
            await self._uart.stop()
            if value:
                self._spawn(self._mend_uart(value))
        elif name == "uart-garble":
            self._uart.garble = value
        elif name == "uart-drop":
            self._uart.drop = value
        elif name == "hang" and self._soc is not None:
            self._soc.hang()
        elif name == "reset":
            await self._power(True)
        elif name == "fastboot-lost":
            self._lasting[name] = value
            await self._firmware.stop()
        elif name in ("dead", "serial-changes", "relay-stuck"):
            self._lasting[name] = value

    async def _mend_uart(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._uart.start()

    # Control.

    async def _controlled(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                answer = await self._command(json.loads(await reader.readline()))
            except (ValueError, KeyError, TypeError, FaultError) as error:
                answer = {"error": str(error) or repr(error)}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def _command(self, request: dict[str, Any]) -> dict[str, Any]:
        do = request["do"]
        commands: dict[str, Callable[[dict[str, Any]], Any]] = {
            "power": self._on_power,
            "fault": self._on_fault,
            "state": lambda _: self._nothing(),
        }
        if do not in commands:
            raise FaultError(f"{do}: no such command: choose from {', '.join(commands)}")
        await commands[do](request)
        return {
            "name": self.name,
            "state": self.state,
            "serial": self.serial(),
            "uart": self._uart.port,
            "fastboot": self._firmware.port,
            "usb": self.state == "fastboot" and "fastboot-lost" not in self._lasting,
            "faults": [*self._lasting, *(f"{f.name} at {f.when!r}" for f in self._faults)],
        }

    async def _nothing(self) -> None:
        return None

    async def _on_power(self, request: dict[str, Any]) -> None:
        how = request["how"]
        if "relay-stuck" in self._lasting:
            raise FaultError("the relay does not answer")
        if how not in ("on", "off", "reset"):
            raise FaultError(f"power {how}: choose from on, off, reset")
        if how == "on" and self.state != "off":
            return
        await self._power(how != "off")

    async def _on_fault(self, request: dict[str, Any]) -> None:
        fault = parse_fault(request)
        if fault.when:
            self._faults.append(fault)
        else:
            await self._inject(fault)
