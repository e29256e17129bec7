"""A lab that is taken down leaves nothing behind."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from iotoll_lab.local.lifecycle import LocalLab
from iotoll_lab.simboard import client

from iotoll.core.progress import Progress
from iotoll.labs.lava.config import load_lab

pytestmark = pytest.mark.lab


def processes(words: str) -> list[int]:
    """The processes of this machine that have ``words`` on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if words.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def listens(url: str) -> bool:
    at = urlsplit(url)
    with socket.socket() as one:
        return one.connect_ex((at.hostname, at.port)) == 0


@pytest.mark.usefixtures("lab_root")
def test_down_leaves_no_process_mount_port_or_file() -> None:
    lab = load_lab("local")
    boards = {n: b.model_copy(update={"count": min(b.count, 1)}) for n, b in lab.boards.items()}
    folder = Path(tempfile.mkdtemp(prefix="iotoll-down-"))
    local = LocalLab(folder / "lab")
    try:
        state = local.up(lab.model_copy(update={"boards": boards}), Progress())
        (board,) = state.simulated.values()
        assert listens(state.url)
        assert listens(state.files_url)
        assert board in [found["name"] for found in client.boards()]
        assert len(processes(str(folder))) > 3
        serial_line = client.ask(board, {"do": "state"})["uart"]
    finally:
        was_up = local.down()
        left = [str(path) for path in folder.iterdir()]
        shutil.rmtree(folder)
    assert was_up
    assert left == []
    assert processes(str(folder)) == []
    assert str(folder) not in Path("/proc/mounts").read_text()
    assert board not in [found["name"] for found in client.boards()]
    for url in (state.url, state.files_url, f"http://{client.HOST}:{serial_line}"):
        assert not listens(url)
    assert not local.down(), "nothing is up any more"
