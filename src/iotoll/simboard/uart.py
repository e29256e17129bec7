"""The board's serial line on a TCP port, as ser2net gives it; it can be cut, garbled and slowed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from iotoll.simboard.client import HOST

BITS = 10
"""Bits on the line per byte: start, eight, stop."""
UNREAD_MAX = 4 << 20
"""Bytes kept for a client that does not read; then it is thrown out."""


class Uart:
    """A serial line with any number of clients. What the board says is also kept in ``log``.

    ``baud`` limits what the board can say; 0 is no limit. ``garble`` and ``drop`` are the
    probabilities with which a byte of the board gets a wrong bit, or is lost.
    """

    def __init__(
        self, log: Path, received: Callable[[bytes], None], port: int = 0, baud: int = 0
    ) -> None:
        self.port = port
        self.garble = 0.0
        self.drop = 0.0
        self.baud = baud
        self.on_line: Callable[[str], None] = lambda _: None
        self._log = log
        self._received = received
        self._random = random.Random(1)
        self._clients: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._line = b""

    async def start(self) -> None:
        """Listen at `port`, unless that is done already; 0 is any free one, kept from then on."""
        if self._server is None:
            self._server = await asyncio.start_server(self._client, HOST, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Cut the line: clients are thrown out, and nobody gets in."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._clients):
            writer.transport.abort()

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
        sent = self._disturbed(data)
        for writer in list(self._clients):
            if writer.transport.get_write_buffer_size() > UNREAD_MAX:
                writer.transport.abort()
            elif not writer.is_closing():
                writer.write(sent)
        for line in lines:
            self.on_line(line.decode("utf-8", "replace"))

    def _disturbed(self, data: bytes) -> bytes:
        if not (self.garble or self.drop):
            return data
        out = bytearray()
        for byte in data:
            if self._random.random() < self.drop:
                continue
            wrong = self._random.random() < self.garble
            out.append(byte ^ (1 << self._random.randrange(8)) if wrong else byte)
        return bytes(out)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        try:
            while data := await reader.read(4096):
                self._received(data)
        except ConnectionError:
            pass
        finally:
            self._clients.discard(writer)
            writer.close()
