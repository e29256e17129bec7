"""Reads a LAVA job's log: the console's own lines, what LAVA said, and when its phases were.

A log is a YAML list with one entry per line; the console's part of it is a board's, so hostile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

import yaml

LINE_LIMIT = 1 << 20  # characters; LAVA itself splits a console's text at line ends
PHASES = ("deploy", "boot", "workload")
_START = re.compile(r"start: (\d{1,4}) (\S+) ")


@dataclass(frozen=True)
class LogLine:
    """A line of the log: of the board's console, or LAVA's own; ``phase`` is where in the job."""

    phase: str
    board: bool
    text: str


@dataclass
class JobLog:
    """What a log says. ``lines`` is all of it; ``lava`` holds LAVA's own warnings and errors.

    ``phases`` gives the time at which each phase began; ``damaged`` counts unreadable lines.
    """

    lines: list[LogLine] = field(default_factory=list)
    lava: list[str] = field(default_factory=list)
    phases: dict[str, datetime] = field(default_factory=dict)
    damaged: int = 0

    @property
    def console(self) -> str:
        """What the board said."""
        return "".join(f"{line.text}\n" for line in self.lines if line.board)


def read_log(data: bytes) -> JobLog:
    """Read a job's log (may be partial)."""
    log = JobLog()
    for line in data.decode(errors="replace").split("\n"):
        if not line.startswith("- "):
            continue
        entry = _entry(line[2:])
        if entry is None:
            log.damaged += 1
            continue
        board = entry["lvl"] == "target"
        if not board:
            _note(log, entry)
        phase = next(reversed(log.phases), "start")
        log.lines.append(LogLine(phase, board, entry["msg"]))
    return log


def _entry(text: str) -> dict[str, str] | None:
    """A line's words; all are text, since a board chose some of them."""
    if len(text) > LINE_LIMIT:
        return None
    try:
        entry = yaml.load(text, Loader=yaml.CBaseLoader)
    except yaml.YAMLError:
        return None
    if not isinstance(entry, dict) or not {"lvl", "msg", "dt"} <= entry.keys():
        return None
    if entry["lvl"] == "results":  # an object; results are read by REST
        return {**entry, "msg": ""}
    return entry if all(isinstance(value, str) for value in entry.values()) else None


def _note(log: JobLog, entry: dict[str, str]) -> None:
    if entry["lvl"] in ("error", "warning", "exception"):
        log.lava.append(f"{entry['lvl']}: {entry['msg']}")
    match = _START.match(entry["msg"])
    moment = read_time(entry["dt"])
    if match is None or moment is None:
        return
    number = int(match[1])
    if match[2] == "finalize":
        log.phases.setdefault("finish", moment)
    elif 1 <= number <= len(PHASES):
        log.phases.setdefault(PHASES[number - 1], moment)


def read_time(text: str | None) -> datetime | None:
    """A server's time (ISO 8601, UTC), or None for what is none."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None) if text else None
    except ValueError:
        return None
