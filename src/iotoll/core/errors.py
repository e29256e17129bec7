"""The exceptions of iotoll, one branch per outcome of a run (docs/method.md, "Verdicts").

::

    IotollError                 one line: what is wrong, where, and the fix
    ├── UsageError              exit 2: invalid arguments or input files
    ├── InfrastructureError     exit 4: a tool, the board, the disk or the network failed
    │   └── ResultError         a result file is missing, corrupt or not of its schema
    └── BrokenError             exit 5: the candidate does not apply, build, boot or run
        └── HangError           the board fell silent; blamed on a kernel only if it repeats

Nothing else is raised on purpose; any other exception that escapes is a bug in iotoll.
"""

from __future__ import annotations

import errno
from typing import Literal

BrokenStep = Literal["apply", "config", "build", "boot", "workload"]


class IotollError(Exception):
    """Base of everything iotoll raises on purpose; ``str()`` is one line for the terminal."""

    exit_code = 4


class UsageError(IotollError):
    """The command line, or a file that the user wrote, is wrong."""

    exit_code = 2


class InfrastructureError(IotollError):
    """Lab, board, network, disk or a tool failed; says nothing about the candidate.

    ``log_tail`` holds the failing tool's own last lines, newest last (may be empty).
    """

    exit_code = 4

    def __init__(self, message: str, log_tail: str = "") -> None:
        super().__init__(message)
        self.log_tail = log_tail


class ResultError(InfrastructureError):
    """A result file is missing, corrupt, or does not match its schema in results-schema/."""


class BrokenError(IotollError):
    """The candidate does not apply, configure, build, boot, or run the workload.

    ``step`` says where; ``log_tail`` holds the compiler's or kernel's own last lines.
    """

    exit_code = 5

    def __init__(self, step: BrokenStep, message: str, log_tail: str = "") -> None:
        super().__init__(message)
        self.step: BrokenStep = step
        self.log_tail = log_tail


class HangError(BrokenError):
    """The board fell silent or did not end in time, and no kernel said why.

    A stopped host, a lost serial line or a board at fault looks alike, so one such boot blames
    nobody: it is tried once more.
    """


def os_fix(error: OSError) -> str:
    """What a failed system call asks of the user: one clause for the end of a message."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some disk space"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "choose a place that you may write, or change its permissions"
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
        return "check the path, and that nothing else changes it"
    return "check the disk and the path"
