"""Starts other programs: one place for missing tools, log files, time-outs and Ctrl-C."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from iotoll.core.errors import InfrastructureError

SANDBOXED = "IOTOLL_SANDBOXED"
"""Set in the environment of what runs in the sandbox of `iotoll.kernels.sandbox`."""
SANDBOX_TREE = "IOTOLL_SANDBOX_TREE"
"""The cached tree that a build in the sandbox is of; the user's own is not shown in there."""
THROWN_AWAY = "IOTOLL_SANDBOX_THROWN_AWAY"
"""Set where the sandbox throws away what is written to the cache."""
_PR_SET_THP_DISABLE = 41
TAIL_LINES = 20
GRACE = 10.0
"""Seconds that make has to remove half-written objects when it is asked to end."""


def require_tool(name: str, package: str) -> str:
    """Return the tool's path, or raise InfrastructureError naming the Debian package."""
    path = shutil.which(name)
    if path is None:
        raise InfrastructureError(f"{name} is not installed: apt-get install {package}")
    return path


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """The last lines of a log."""
    return "\n".join(text.splitlines()[-lines:])


def tail_file(path: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log file; empty when there is none."""
    try:
        return tail(path.read_text(errors="replace"), lines)
    except OSError:
        return ""


def run_logged(
    command: list[str],
    log: Path,
    timeout: float,
    env: dict[str, str] | None = None,
    *,
    only_env: bool = False,
    good: tuple[int, ...] = (0,),
) -> None:
    """Run a command with its output appended to ``log``; raises InfrastructureError on failure.

    ``env`` is added to the environment, or is all of it with ``only_env``; ``good`` are the exit
    codes that are no failure.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**({} if only_env else os.environ), **(env or {})},
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise InfrastructureError(
                f"{command[0]} did not end within {timeout:.0f} s (log: {log})", tail_file(log)
            ) from error
        finally:
            stop(process)
    if status not in good:
        raise InfrastructureError(
            f"{command[0]} failed with status {status} (log: {log})", tail_file(log)
        )


def stop(process: subprocess.Popen[bytes], grace: float = 3) -> None:
    """End a process and its group (it must have been started with a session of its own)."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            continue


def use_small_pages() -> None:
    """Have this process, and what it starts, use no transparent huge pages.

    QEMU asks for them. They are taken from memory that is free in one piece, and a machine that is
    virtual itself has given just that back to its host: 0.5 s of 6.5 s of a boot of 16 cells went
    into the host's page faults. How it is on a machine that is not virtual was not measured.
    """
    ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)


def rest(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Do nothing for so long, or until a process ends: `Popen.wait` would notice that late."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:  # not on this kernel, or it has been waited for
        time.sleep(seconds)
        return
    try:
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        ended.poll(seconds * 1000)
    finally:
        os.close(handle)


def end_group(process: subprocess.Popen[bytes]) -> bool:
    """End a process and all of its group; return whether they ended by themselves.

    make removes half-written objects when it is asked to end (`GRACE`), not when killed.
    """
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    # The leader is gone, but members that it did not wait for may not be.
    limit = time.monotonic() + GRACE
    while _group_lives(process.pid) and time.monotonic() < limit:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        time.sleep(0.1)
    killed = False
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
        killed = True
    process.wait()
    return not killed


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def no_programs(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment that keeps git from running what a repository's own settings name.

    A tree that was unpacked, and not cloned, brings its own ``.git/config``. ``more`` are further
    settings. Git reads them after the repository's (``GIT_CONFIG_COUNT``, since git 2.31).
    """
    settings = {
        "core.fsmonitor": "false",
        "core.hooksPath": os.devnull,
        "log.showSignature": "false",
        **(more or {}),
    }
    found = {"GIT_OPTIONAL_LOCKS": "0", "GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found
