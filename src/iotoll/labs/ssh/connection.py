"""Commands on a board by OpenSSH's client.

The client is used as it is, and no library: the user's own keys, agent, known hosts and
~/.ssh/config hold, jump hosts included, and nothing is added to what iotoll depends on.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO

from iotoll.core.errors import InfrastructureError
from iotoll.core.plain import plain
from iotoll.core.proc import require_tool, tail
from iotoll.labs.ssh.config import SshBoard

LOST = 255
"""ssh's own exit status: no connection, or one that ended."""
_OWN_STATUS = 'sh -c "$0" iotoll "$@"; status=$?; [ $status != 255 ] || status=254; exit $status'
"""Runs a script whose own 255 is not taken for ssh's: kexec ends so."""
ALIVE_SECONDS, ALIVE_TIMES = 5, 3
CONNECT_SECONDS = 10
AGAIN_SECONDS = 2.0
OUTPUT_LIMIT = 32 << 20
"""Bytes that are read of what a command prints: a board is not trusted."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class LostError(InfrastructureError):
    """The board does not answer, or a connection to it ended."""


class Connection:
    """Runs commands on one board; one connection serves all of them until it is lost."""

    def __init__(self, board: SshBoard) -> None:
        self.board = board
        self._ssh = require_tool("ssh", "openssh-client")
        self._folder = tempfile.TemporaryDirectory(prefix="iotoll-")

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.forget()
        self._folder.cleanup()

    def _words(self) -> list[str]:
        options = {
            "BatchMode": "yes",  # nobody is there to be asked for a password
            "ConnectTimeout": CONNECT_SECONDS,
            "ServerAliveInterval": ALIVE_SECONDS,
            "ServerAliveCountMax": ALIVE_TIMES,
            "ControlMaster": "auto",
            "ControlPath": f"{self._folder.name}/%C",
            "ControlPersist": 60,
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return [self._ssh, *words, *self.board.options]

    def run(
        self,
        script: str,
        *arguments: str,
        data: IO[bytes] | None = None,
        out: IO[bytes] | None = None,
        most: int = OUTPUT_LIMIT,
        seconds: float = 60,
    ) -> bytes:
        """Run a shell script on the board, with ``data`` as its input; returns what it printed.

        What it prints, ``most`` bytes, goes to ``out`` where that is given. Raises LostError where
        the board does not answer within ``seconds``, InfrastructureError where the script fails.
        """
        remote = shlex.join(["sh", "-c", _OWN_STATUS, script, *arguments])
        printed = out or io.BytesIO()
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [*self._words(), "--", self.board.host, remote],
                stdin=data or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            late = threading.Timer(seconds, process.kill)
            late.start()
            try:
                size = _copied(process, printed, most)
                status = process.wait()
            finally:
                process.kill()
                process.wait()
                late.cancel()
            errors.seek(0)
            said = plain(errors.read(most).decode(errors="replace")).strip()
        if size > most:
            raise InfrastructureError(f"{self.board.host} sent more than {most >> 20} MiB: refused")
        if status == -signal.SIGKILL:
            self.forget()
            raise LostError(f"{self.board.host} did not answer within {seconds:.0f} s")
        if status == LOST:
            self.forget()
            why = tail(said, 1) or "the connection ended"
            raise LostError(f"{self.board.host} cannot be reached: {why}", tail(said))
        if status:
            why = tail(said, 1) or f"status {status}"
            raise InfrastructureError(f"{self.board.host}: {why}", tail(said))
        return printed.getvalue() if isinstance(printed, io.BytesIO) else b""

    def send(self, source: Path, target: str, seconds: float = 600) -> None:
        """Copy a file to the board, whole or not at all."""
        with source.open("rb") as stream:
            self.run('cat >"$1.part" && mv "$1.part" "$1"', target, data=stream, seconds=seconds)

    def boot_id(self) -> str:
        """What tells one boot of the board from another."""
        return self.run(f"cat {BOOT_ID}", seconds=30).decode(errors="replace").strip()

    def reach(self, seconds: float, is_it: Callable[[str], bool] = bool) -> str:
        """Wait until the board answers with a boot that ``is_it``; returns its id.

        Raises LostError when that does not happen within ``seconds``.
        """
        limit = time.monotonic() + seconds
        while True:
            try:
                found = self.boot_id()
                if is_it(found):
                    return found
                why = "it still runs the kernel from before"
            except LostError as error:
                why = str(error)
            if time.monotonic() > limit:
                raise LostError(f"{self.board.host} did not answer within {seconds:.0f} s: {why}")
            time.sleep(AGAIN_SECONDS)

    def forget(self) -> None:
        """End the connection, which the board may have left behind."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*self._words(), "-O", "exit", "--", self.board.host],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=5,
                check=False,
            )


def _copied(process: subprocess.Popen[bytes], target: IO[bytes], most: int) -> int:
    """Copy what a process prints, until it ends or has printed more than ``most`` bytes."""
    size = 0
    assert process.stdout is not None
    with process.stdout as stream:
        while size <= most and (piece := stream.read1(1 << 16)):  # type: ignore[attr-defined]
            size += len(piece)
            target.write(piece)
    return size
