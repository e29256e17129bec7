"""The board's fastboot: Android's protocol over TCP, with the answers of HiKey960's UEFI.

Debian's own ``fastboot`` speaks to it (``fastboot -s tcp:HOST:PORT``), so splitting into sparse
pieces, getvar and reboot are those of a lab with a real board. The cable differs: TCP, not USB.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from iotoll_lab.simboard.disks import Flash, FlashError
from iotoll_lab.simboard.plug import Plug
from iotoll_lab.simboard.profile import Profile

HANDSHAKE = b"FB01"
VERSION = "0.7"
LONGEST_COMMAND = 64
SPARSE_FILES = ("system", "userdata", "cache")
After = Literal["reboot", "continue", "powerdown", "boot"]


class ProtocolError(Exception):
    """The client does not keep to the protocol; the connection is closed."""


class Firmware(Plug):
    """Serves fastboot clients in turn. ``say`` prints on the UART, ``after`` leaves fastboot."""

    def __init__(
        self,
        profile: Profile,
        flash: Flash,
        serial: Callable[[], str],
        say: Callable[[str], None],
        after: Callable[[After, bytes], None],
    ) -> None:
        super().__init__(self._one)
        self._profile = profile
        self._flash = flash
        self._serial = serial
        self._say = say
        self._after = after
        self._busy = asyncio.Lock()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # As with USB, a client that goes away leaves nothing behind.
        with contextlib.suppress(ProtocolError, asyncio.IncompleteReadError):
            async with self._busy:
                writer.write(HANDSHAKE)
                if await reader.readexactly(4) != HANDSHAKE:
                    raise ProtocolError("no FB01")
                await _Session(self).serve(reader, writer)


class _Session:
    """One client's commands, and the data that it downloaded."""

    def __init__(self, firmware: Firmware) -> None:
        self._of = firmware

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer commands until the client goes away, or the board leaves fastboot."""
        with tempfile.TemporaryDirectory(dir=self._of._flash.folder) as name:
            data = Path(name) / "download"
            while True:
                command = (await _message(reader, LONGEST_COMMAND)).decode("latin-1")
                word, _, rest = command.partition(":")
                if word == "download":
                    await self._download(rest, data, reader, writer)
                    continue
                answer, leave = await self._answer(word, rest, data)
                _send(writer, answer)
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
                if leave:
                    image = data.read_bytes() if leave == "boot" else b""
                    self._of._after(leave, image)
                    return

    async def _download(
        self, size_hex: str, data: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            size = int(size_hex, 16)
        except ValueError:
            size = 0
        if not 0 < size <= self._of._profile.max_download:
            _send(writer, "FAILFailed to get the number of bytes to download")
            return
        self._of._say(f"Downloading {size} bytes\r\n")
        _send(writer, f"DATA{size:08x}")
        left = size
        with data.open("wb") as stream:
            while left:
                piece = await _message(reader, left)
                await asyncio.to_thread(stream.write, piece)
                left -= len(piece)
        self._of._say(f"{size} bytes downloaded\r\n")
        _send(writer, "OKAY")

    async def _answer(self, word: str, rest: str, data: Path) -> tuple[str, After | None]:
        if word == "getvar":
            return self._getvar(rest), None
        if word in ("flash", "erase"):
            return await self._change(word, rest, data), None
        if word == "boot":
            return ("OKAY", "boot") if data.exists() else ("FAILNo image in memory", None)
        if word == "continue":
            self._of._say("Received 'continue' command. Exiting Fastboot mode\r\n")
            return "OKAY", "continue"
        if word in ("reboot", "reboot-bootloader"):
            return "OKAY", "reboot"  # the DIP switch leads to fastboot either way
        if word == "powerdown":
            return "OKAY", "powerdown"
        return "FAILCommand not recognised. Check Fastboot version.", None

    def _getvar(self, name: str) -> str:
        profile, known = (
            self._of._profile,
            {"version": VERSION, "product": self._of._profile.product},
        )
        known["serialno"] = self._of._serial()
        known["max-download-size"] = str(profile.max_download)
        known["erase-block-size"] = known["logical-block-size"] = f"{profile.block:#x}"
        kind, _, partition = name.partition(":")
        if kind == "partition-size":
            try:
                return f"OKAY{self._of._flash.partition(partition).size:#x}"
            except FlashError:
                return "FAILSomething went wrong when looking up the variable"
        if kind == "partition-type":
            return "OKAYext4" if partition in SPARSE_FILES else "OKAYraw"
        return "OKAY" + known.get(name, "")

    async def _change(self, word: str, partition: str, data: Path) -> str:
        self._of._say(f"{'Flashing' if word == 'flash' else 'Erasing'} partition {partition}\r\n")
        try:
            if word == "erase":
                await asyncio.to_thread(self._of._flash.erase, partition)
            elif not data.exists():
                return "FAILNo data to flash"
            else:
                await asyncio.to_thread(self._of._flash.write, partition, data)
        except FlashError as error:
            self._of._say(f"{error}\r\n")
            return f"FAIL{error}"[: LONGEST_COMMAND * 4]
        self._of._say("Done.\r\n")
        return "OKAY"


def _send(writer: asyncio.StreamWriter, text: str) -> None:
    data = text.encode("latin-1", "replace")
    writer.write(len(data).to_bytes(8, "big") + data)


async def _message(reader: asyncio.StreamReader, most: int) -> bytes:
    size = int.from_bytes(await reader.readexactly(8), "big")
    if size > most:
        raise ProtocolError(f"a message of {size} bytes")
    return await reader.readexactly(size)
