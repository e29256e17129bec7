"""A small simulated board: the real profile with little disks and no waiting."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from iotoll_lab.simboard import client, profile
from iotoll_lab.simboard.disks import Flash
from iotoll_lab.simboard.gpt import Partition
from iotoll_lab.simboard.machine import SimulatedBoard
from iotoll_lab.simboard.profile import Disk, Profile


@pytest.fixture
def small() -> Profile:
    """Partitions boot (1 MiB), system (8 MiB) and userdata (4 MiB) on a disk of 16 MiB."""
    kind = profile.load("hikey960")
    names = (("boot", 1), ("system", 8), ("userdata", 4))
    at, parts = 1, []
    for name, size in names:
        parts.append(Partition(name, at << 20, size << 20))
        at += size
    disks = tuple(
        Disk(d.name, 16 << 20 if d.name == "lu3" else 1 << 20, d.qemu) for d in kind.soc.disks
    )
    soc = dataclasses.replace(kind.soc, disks=disks)
    return dataclasses.replace(
        kind, partitions=tuple(parts), soc=soc, rom_seconds=0.05, max_download=3 << 20
    )


@pytest.fixture
def flash(small: Profile, tmp_path: Path) -> Flash:
    """Disks as from the factory."""
    made = Flash(small, tmp_path / "board")
    made.create()
    return made


class Running:
    """A board that runs in a thread of its own, and what a lab would do with it."""

    def __init__(self, kind: Profile, folder: Path) -> None:
        self.folder = folder
        # The bus is the machine's, and other tests may run.
        self.name = f"test-{secrets.token_hex(6)}"
        self.serial = self.name.upper()
        self.board = SimulatedBoard(kind, self.name, self.serial, folder / self.name)
        self.tools = folder / "bin"
        client.install(self.tools)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        self._task = self._loop.create_task(self.board.run())
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)

    def __enter__(self) -> Running:
        self._thread.start()
        self.until(lambda: self.name in [board["name"] for board in client.boards()])
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(20)
        assert not self._thread.is_alive()

    def ask(self, do: str, **more: object) -> dict[str, Any]:
        """A control request."""
        return client.ask(self.name, {"do": do, **more})

    def until(self, true: Callable[[], object], seconds: float = 20) -> None:
        """Wait until something holds."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f"waited {seconds} s in state {self.board.state}"
            time.sleep(0.02)

    def to_fastboot(self) -> None:
        """Reset the board and wait for its fastboot."""
        self.ask("power", how="reset")
        self.until(lambda: self.ask("state")["usb"])

    def tool(self, name: str, *words: str) -> list[str]:
        """A lab's command line."""
        return [sys.executable, str(self.tools / name), *words]

    def fastboot(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the lab's fastboot, which runs the real one."""
        command = self.tool("fastboot", "-s", self.serial, *words)
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def uart(self) -> socket.socket:
        """Connect to the serial line."""
        return socket.create_connection(("127.0.0.1", self.ask("state")["uart"]), 10)

    def heard(self) -> str:
        """Everything that the board said."""
        path = self.folder / self.name / "uart.log"
        return path.read_bytes().decode() if path.exists() else ""


@pytest.fixture
def running(small: Profile, tmp_path: Path) -> Iterator[Running]:
    """A running small board, powered off."""
    with Running(small, tmp_path / "boards") as started:
        yield started
