"""What a script sees of a command whose output cannot be written: never 0 or 1, never a bug."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRACE = Path(__file__).parents[1] / "trace/data/ufs-read.dat"
COMMANDS = {
    "analyze": ("analyze", str(TRACE)),
    "analyze --json": ("analyze", str(TRACE), "--json"),
    "list": ("list", "cells"),
    "list --json": ("list", "cells", "--json"),
    "help": ("gate", "--help"),
    "version": ("--version",),
    "completion": ("completion", "bash"),
    "record": ("record", "--for", "1"),
}


def started(words: tuple[str, ...], **streams: object) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    command = [sys.executable, "-m", "iotoll", *words]
    return subprocess.run(command, text=True, check=False, **streams)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("name", COMMANDS)
def test_g4_9_a_full_disk_is_no_bug(name: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = started(COMMANDS[name], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 4
    assert done.stderr == ("iotoll: cannot write: No space left on device: free some disk space\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_g4_9_a_closed_pipe_is_no_regression(name: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = started(COMMANDS[name], stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    # As of a process that SIGPIPE ended: 128 + 13.
    assert (done.returncode, done.stderr) == (141, "")


def test_g4_9_an_error_that_cannot_be_said_keeps_its_code() -> None:
    with Path("/dev/full").open("w") as full:
        done = started(("analyze", "no-such-file"), stdout=full, stderr=full)
    assert done.returncode == 2


def test_g4_9_an_invalid_trace_is_told_by_the_exit_code(tmp_path: Path) -> None:
    words = ("analyze", str(TRACE), "--device", "99:99")
    done = started(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "! invalid: " in done.stdout
    assert done.returncode == 3
    whole = started(("analyze", str(TRACE)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert whole.returncode == 0
