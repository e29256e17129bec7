"""A small simulated board: the real profile with little disks and no waiting."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path

import pytest

from iotoll.simboard import profile
from iotoll.simboard.flash import Flash
from iotoll.simboard.gpt import Partition
from iotoll.simboard.profile import Disk, Profile


def free_port() -> int:
    """The first of three free ports in a row."""
    for _ in range(50):
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                for more in (1, 2):
                    with socket.socket() as other:
                        other.bind(("127.0.0.1", port + more))
            except OSError:
                continue
        return port
    raise RuntimeError("no three free ports in a row")


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
