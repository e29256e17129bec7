"""Reads a board's console log: how far the workload is, and whether the kernel or it failed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from iotoll.core.proc import tail

# The kernel's own words for "this went wrong for good"; oops=panic makes an oops end in a panic.
CRASH = re.compile(
    r"Kernel panic - not syncing: .*|Internal error: .*|Unable to handle kernel .*"
    r"|BUG: .*|Oops: .*|kernel BUG at .*|watchdog: BUG: .*"
)
# Signs of a hang in the kernel's own words; a virtual board whose clock jumps may say them and go
# on, so they count only where the workload did not end.
HANG = re.compile(
    r"INFO: task .* blocked for more than \d+ seconds"
    r"|rcu: INFO: rcu_\w+ (?:self-)?detected (?:stalls|expedited stalls|stall) on .*"
    r"|watchdog: .* hard LOCKUP .*"
)
# Failures of the storage stack itself that the workload may survive: its figures mean nothing.
# Not an administration command of NVMe (queue 0) that the kernel found completed when it looked:
# QEMU with two CPUs loses such an interrupt now and then while a board boots; the kernel waits a
# minute for it and goes on, and no I/O is in that queue.
IO_ERROR = re.compile(
    r"I/O error, dev .*|EXT4-fs error .*|Buffer I/O error .*|ufshcd.*: .*(abort|reset).*failed.*"
    r"|nvme nvme\d+: I/O tag (?!.* QID 0 timeout, completion polled).* timeout.*"
    r"|nvme nvme\d+: (Device not ready|controller is down).*"
    r"|mmc\d+: Timeout waiting for hardware .*"
    r"|VFS: Unable to mount root fs.*"
)
FAIL = re.compile(r"iotoll: FAIL (\w+): (.*)")
STEP = re.compile(r"iotoll: step (.*)")
CELL = re.compile(r"iotoll: cell (\S+)")


@dataclass(frozen=True)
class ConsoleState:
    """What a console log says so far.

    ``failed_at`` is ``boot`` before the workload's first line, ``workload`` after it; ``crashed``
    says that the kernel itself said so, not the workload. ``steps`` are those that began, in order.
    """

    started: bool
    done: bool
    cells: int
    failed_at: Literal["boot", "workload"] | None
    reason: str
    log_tail: str
    crashed: bool = False
    steps: tuple[str, ...] = ()


def read_console(text: str) -> ConsoleState:
    """Judge a console log (may be partial; may hold any bytes a candidate kernel printed)."""
    text = text.replace("\r", "")
    first, steps = STEP.search(text), tuple(STEP.findall(text))
    done = re.search(r"^iotoll: done$", text, re.M) is not None
    crash = CRASH.search(text) or (None if done else IO_ERROR.search(text))
    failed = FAIL.search(text)
    reason, at = "", None
    if crash:
        reason = crash[0].strip()
        at = "workload" if first and crash.start() > first.start() else "boot"
        log_tail = _around(text, crash.start())
    elif failed:
        reason, at = f"{failed[1]}: {failed[2].strip()}", "workload"
        log_tail = tail(text[: failed.end()])
    else:
        log_tail = tail(text)
    cells = len(CELL.findall(text))
    started, crashed = first is not None, crash is not None
    return ConsoleState(started, done, cells, at, reason, log_tail, crashed, steps)  # type: ignore[arg-type]


def _around(text: str, start: int, before: int = 5, after: int = 35) -> str:
    head = text[:start].splitlines()[-before:]
    return "\n".join(head + text[start:].splitlines()[:after])
