"""What a lab calls for its simulated boards: serial line, power relay, ``fastboot``.

Boards are found as devices on a bus are, machine-wide and by name: each listens on an abstract Unix
socket, which is also seen inside another root file system. This file needs nothing but Python, so
that `install` can put copies of it onto a lab worker's PATH; the copy's name says what it does.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BUS = "iotoll-simboard/"
HOST = "127.0.0.1"
POLL_SECONDS = 0.3
WITH_VALUE = ("-S", "-c", "-b", "--cmdline", "--slot")
"""Options of fastboot that take a word; -s is read here."""
COMMANDS = ("fastboot", "simboard-power", "simboard-uart")


class ClientError(Exception):
    """The board does not run or refuses, or the words are wrong; one line."""


def address(name: str) -> str:
    """The control socket of board ``name``."""
    return f"\0{BUS}{name}"


def ask(name: str, request: dict[str, Any], timeout: float = 20) -> dict[str, Any]:
    """Send a control request to a board; returns its state. Raises ClientError."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout)
            connection.connect(address(name))
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile().readline())
    except ConnectionRefusedError as error:
        raise ClientError(f"no board {name} runs here: iotoll simboard serve {name}") from error
    except (OSError, ValueError) as error:
        raise ClientError(f"board {name} does not answer: {error}") from error
    if "error" in answer:
        raise ClientError(f"board {name}: {answer['error']}")
    return answer


def boards() -> list[dict[str, Any]]:
    """The state of every board that runs on this machine and answers."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    names = {line.rpartition(f"@{BUS}")[2] for line in lines if f" @{BUS}" in line}
    found = []
    for name in sorted(names):
        with contextlib.suppress(ClientError):
            found.append(ask(name, {"do": "state"}, timeout=5))
    return found


def fastboot(words: Sequence[str], own: str) -> None:
    """Run the real fastboot on the board that ``-s SERIAL`` names; does not return.

    Waits for the board as fastboot does, without end. ``devices`` lists what is on the bus.
    ``own`` is the path under which this was called, which is not the real one.
    """
    serial, rest = _serial(words)
    if [w for w in rest if not w.startswith("-")][:1] == ["devices"]:
        for board in boards():
            if board["usb"]:
                print(f"{board['serial']}\tfastboot")
        raise SystemExit(0)
    program = _real_fastboot(own)
    waiting = False
    while True:
        for board in boards():
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
    rest: list[str] = []
    todo = list(words)
    while todo:
        word = todo.pop(0)
        if word == "-s":
            if not todo:
                raise ClientError("fastboot -s: name a serial number")
            serial = todo.pop(0)
        elif word in WITH_VALUE and todo:
            rest += [word, todo.pop(0)]
        else:
            rest.append(word)
    return serial, rest


def _real_fastboot(own: str) -> str:
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = shutil.which("fastboot", path=folder)
        if path and not (Path(own).exists() and Path(path).samefile(own)):
            return path
    raise ClientError("fastboot is not installed: apt-get install fastboot")


def power(name: str, how: str) -> None:
    """Switch a board's relay: on, off, reset."""
    ask(name, {"do": "power", "how": how})


def uart(name: str) -> None:
    """Connect this terminal (or pipe) to a board's serial line until either side ends."""
    try:
        line = socket.create_connection((HOST, ask(name, {"do": "state"})["uart"]), 10)
    except OSError as error:
        raise ClientError(f"board {name}: no serial line: {error}") from error
    with line, selectors.DefaultSelector() as wait:
        line.settimeout(None)
        wait.register(line, selectors.EVENT_READ, 1)
        wait.register(0, selectors.EVENT_READ, 0)
        while True:
            for key, _ in wait.select():
                try:
                    data = line.recv(4096) if key.data else os.read(0, 4096)
                    if not data:
                        return
                    if key.data:
                        os.write(1, data)
                    else:
                        line.sendall(data)
                except OSError:
                    return


def install(folder: Path) -> list[Path]:
    """Write ``fastboot``, ``simboard-power`` and ``simboard-uart`` into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in COMMANDS]
    for path in paths:
        path.write_text("#!/usr/bin/python3\n" + Path(__file__).read_text())
        path.chmod(0o755)
    return paths


def main(called: str, words: Sequence[str]) -> None:
    """Do what the name under which this was called says."""
    name = Path(called).name
    try:
        if name == "fastboot":
            fastboot(words, called)
        elif name == "simboard-power" and len(words) == 2:
            power(*words)
        elif name == "simboard-uart" and len(words) == 1:
            uart(*words)
        else:
            usage = "simboard-power BOARD on|off|reset, simboard-uart BOARD"
            raise ClientError(f"wrong words: {usage}, fastboot WORDS")
    except ClientError as error:
        print(f"{name}: {error}", file=sys.stderr)
        raise SystemExit(1) from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main(sys.argv[0], sys.argv[1:])
