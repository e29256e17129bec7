"""Runs one command and measures it."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

#: A program and its arguments.
Command: TypeAlias = list[str | Path]


class BenchError(Exception):
    """Something the benchmark needs failed; the message says what and how to mend it."""


@dataclass(frozen=True)
class Sample:
    """One run: wall and CPU time (seconds), and peak resident memory (KiB)."""

    wall: float
    cpu: float
    rss: int


@dataclass
class Row:
    """A line of the table: what is run, on how many events, and what was measured."""

    key: str
    title: str
    commands: list[Command]
    events: int
    #: Peers are compared with the row of this key.
    against: str | None = None
    samples: list[Sample] = field(default_factory=list)

    @property
    def best(self) -> Sample:
        """The least of each figure over all runs, and the most memory."""
        return Sample(
            min(s.wall for s in self.samples),
            min(s.cpu for s in self.samples),
            max(s.rss for s in self.samples),
        )

    def run(self) -> None:
        """Run the commands once, one after the other."""
        parts = [_run(command) for command in self.commands]
        wall, cpu = sum(p.wall for p in parts), sum(p.cpu for p in parts)
        self.samples.append(Sample(wall, cpu, max(p.rss for p in parts)))


def _run(command: Command) -> Sample:
    words = [str(word) for word in command]
    started = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        # Read to the end first, so that the program never waits for the pipe.
        complaint = process.stderr.read() if process.stderr else b""
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        last = complaint.decode(errors="replace").strip().splitlines()[-1:]
        raise BenchError(f"{' '.join(words)}: exit code {process.returncode} {''.join(last)}")
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)


def output(command: Command) -> str:
    """Run a command that is not timed and return what it prints."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise BenchError(f"{' '.join(words)}: exit code {done.returncode} {''.join(last)}")
    return done.stdout
