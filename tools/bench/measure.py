"""Runs one command and measures it."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parents[2]
#: Where the C programs beside this file are compiled to.
PROGRAMS = ROOT / ".cache/bench/bin"

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
        """The least of each time over all runs, and the most memory."""
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


def build_programs() -> None:
    """Compile the C programs beside this file."""
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    flags = output(["pkg-config", "--cflags", "--libs", "libtracecmd"]).split()
    libraries: dict[str, list[str]] = {"libtracecmd_reader": flags, "headroom": [], "run": []}
    for name, needed in libraries.items():
        source = Path(__file__).with_name(f"{name}.c")
        output(["gcc", "-O2", "-Wall", "-o", PROGRAMS / name, source, *needed])


def _run(command: Command) -> Sample:
    result = PROGRAMS / "result"
    # btt leaves files where it runs, whatever its options say.
    with tempfile.TemporaryDirectory() as folder:
        output([PROGRAMS / "run", result, *command], Path(folder))
    wall, cpu, rss = result.read_text().split()
    return Sample(float(wall), float(cpu), int(rss))


def output(command: Command, folder: Path = ROOT) -> str:
    """Run a command in a folder and return what it prints; paths may be relative to this one's."""
    words = [str(word.resolve()) if isinstance(word, Path) else word for word in command]
    done = subprocess.run(
        words, capture_output=True, text=True, errors="replace", check=False, cwd=folder
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise BenchError(f"{' '.join(words)}: exit code {done.returncode} {''.join(last)}")
    return done.stdout
