"""A socket of the board: a TCP port that a cable is plugged into, and pulled out of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from iotoll_lab.simboard.client import HOST

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Plug:
    """Serves any number of clients at a time; ``serve`` talks to one of them until it returns."""

    def __init__(self, serve: Serve, port: int = 0) -> None:
        self.port = port
        """TCP port; 0 is any free one, chosen at the first `start` and kept from then on."""
        self.clients: set[asyncio.StreamWriter] = set()
        self._serve = serve
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Plug the cable in, unless it is in already."""
        if self._server is None:
            self._server = await asyncio.start_server(self._client, HOST, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Pull the cable: clients are thrown out, and nobody gets in."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self.clients):
            writer.transport.abort()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.clients.add(writer)
        try:
            await self._serve(reader, writer)
        except ConnectionError:
            pass  # a client that goes away leaves nothing behind
        finally:
            self.clients.discard(writer)
            writer.close()
