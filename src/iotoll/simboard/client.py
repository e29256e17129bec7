"""What a lab calls: the power relay, and ``fastboot``, which finds the board by its serial number.

A real fastboot looks for a USB device with that serial number. Here the boards' state folder is the
bus: every running board has STATE/NAME/board.json. The rest is done by the real fastboot, over TCP.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iotoll.errors import InfrastructureError, UsageError
from iotoll.simboard.board import CONTROL, HOST

POLL_SECONDS = 0.3
WITH_VALUE = ("-S", "-c", "-b", "--cmdline", "--slot")
"""Options of fastboot that take a word; -s is read here."""


def ask(folder: Path, request: dict[str, Any], timeout: float = 20) -> dict[str, Any]:
    """Send a control request to the board with state folder ``folder``; returns its state.

    Raises InfrastructureError when the board does not run or refuses.
    """
    path = folder / "board.json"
    try:
        port = int(json.loads(path.read_text())["port"]) + CONTROL
        with socket.create_connection((HOST, port), timeout) as connection:
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile().readline())
    except FileNotFoundError as error:
        raise InfrastructureError(
            f"no board {folder.name} runs here ({path}): iotoll simboard serve {folder.name}"
        ) from error
    except (OSError, ValueError, KeyError) as error:
        raise InfrastructureError(f"board {folder.name} does not answer: {error}") from error
    if "error" in answer:
        raise InfrastructureError(f"board {folder.name}: {answer['error']}")
    return answer


def boards(state: Path) -> list[dict[str, Any]]:
    """The state of every board that runs and answers."""
    found = []
    for path in sorted(state.glob("*/board.json")):
        try:
            found.append(ask(path.parent, {"do": "state"}, timeout=5))
        except InfrastructureError:
            continue
    return found


def fastboot(state: Path, words: Sequence[str], real: str = "fastboot") -> None:
    """Run the real fastboot on the board that ``-s SERIAL`` names; does not return.

    Waits for the board as fastboot does, without end. ``devices`` lists what is on the bus.
    """
    serial, rest = _serial(words)
    if [w for w in rest if not w.startswith("-")][:1] == ["devices"]:
        for board in boards(state):
            if board["usb"]:
                print(f"{board['serial']}\tfastboot")
        raise SystemExit(0)
    program = _real(real)
    waiting = False
    while True:
        for board in boards(state):
            if board["usb"] and serial in (None, board["serial"]):
                target = f"tcp:{HOST}:{board['fastboot']}"
                os.execv(program, [program, "-s", target, *rest])
        if not waiting:
            print(f"< waiting for {serial or 'any device'} >", file=sys.stderr, flush=True)
        waiting = True
        time.sleep(POLL_SECONDS)


def _serial(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Take ``-s SERIAL`` out of fastboot's words."""
    serial: str | None = os.environ.get("ANDROID_SERIAL") or None
    rest, todo = [], list(words)
    while todo:
        word = todo.pop(0)
        if word == "-s":
            if not todo:
                raise UsageError("fastboot -s: name a serial number")
            serial = todo.pop(0)
        elif word in WITH_VALUE and todo:
            rest += [word, todo.pop(0)]
        else:
            rest.append(word)
    return serial, rest


def _real(name: str) -> str:
    """The real fastboot: a path, or the first on PATH that is not the script that called this."""
    own = os.environ.get("IOTOLL_FASTBOOT_WRAPPER", "")
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders:
        path = shutil.which(name, path=folder)
        if path and not (own and Path(path).samefile(own)):
            return path
    raise InfrastructureError(f"{name} is not installed: apt-get install fastboot")
