"""The board's serial line on a TCP port, as ser2net gives it; it can be cut, garbled and slowed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from iotoll_lab.simboard.plug import Plug

BITS = 10
"""Bits on the line per byte: start, eight, stop."""
UNREAD_MAX = 4 << 20
"""Bytes kept for a client that does not read; then it is thrown out."""


class Uart(Plug):
    """A serial line with any number of clients. What the board says is also kept in ``log``.

    ``baud`` limits what the board can say; 0 is no limit. ``garble`` and ``drop`` are the
    probabilities with which a byte of the board gets a wrong bit, or is lost.
    """

    def __init__(
        self, log: Path, received: Callable[[bytes], None], port: int = 0, baud: int = 0
    ) -> None:
        super().__init__(self._one, port)
        self.garble = 0.0
        self.drop = 0.0
        self.baud = baud
        self.on_line: Callable[[str], None] = lambda _: None
        self._log = log
        self._received = received
        self._random = random.Random(1)
        self._line = b""

    def text(self, text: str) -> None:
        """The firmware says something."""
        self._put(text.encode())

    async def put(self, data: bytes) -> None:
        """The board says something; returns when the line's speed allows the next bytes."""
        self._put(data)
        if self.baud:
            await asyncio.sleep(len(data) * BITS / self.baud)

    def _put(self, data: bytes) -> None:
        with self._log.open("ab") as stream:
            stream.write(data)
        *lines, self._line = (self._line + data).split(b"\n")
        self._line = self._line[-4096:]
        sent = self.disturbed(data)
        for writer in list(self.clients):
            if writer.transport.get_write_buffer_size() > UNREAD_MAX:
                writer.transport.abort()
            elif not writer.is_closing():
                writer.write(sent)
        for line in lines:
            self.on_line(line.decode("utf-8", "replace"))

    def disturbed(self, data: bytes) -> bytes:
        """What arrives of ``data``, with what was wrongly sent or lost on the line."""
        if not (self.garble or self.drop):
            return data
        out = bytearray()
        for byte in data:
            if self._random.random() < self.drop:
                continue
            wrong = self._random.random() < self.garble
            out.append(byte ^ (1 << self._random.randrange(8)) if wrong else byte)
        return bytes(out)

    async def _one(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            self._received(data)
