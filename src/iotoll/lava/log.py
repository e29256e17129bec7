"""Reads a LAVA job's log: the console's own lines, what LAVA said, and when its phases were.

A log is a YAML list with one entry per line; the console's part of it is a board's, so hostile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import yaml

LINE_LIMIT = 1 << 20  # characters; LAVA itself splits a console's text at line ends
PHASES = ("deploy", "boot", "workload")
_START = re.compile(r"start: (\d+) (\S+) ")


@dataclass
class JobLog:
    """What a log says. ``console`` is the serial line's text, ``lava`` LAVA's own messages.

    ``phases`` gives the time at which each phase began; ``damaged`` counts unreadable lines.
    """

    console: str = ""
    lava: list[str] = field(default_factory=list)
    phases: dict[str, datetime] = field(default_factory=dict)
    damaged: int = 0


def read_log(data: bytes) -> JobLog:
    """Read a job's log (may be partial)."""
    log = JobLog()
    console: list[str] = []
    for line in data.decode(errors="replace").split("\n"):
        if not line.startswith("- "):
            continue
        entry = _entry(line[2:])
        if entry is None:
            log.damaged += 1
        elif entry["lvl"] == "target":
            console.append(str(entry["msg"]))
        elif isinstance(entry["msg"], str):
            _note(log, entry)
    log.console = "".join(f"{text}\n" for text in console)
    return log


def _entry(text: str) -> dict[str, Any] | None:
    if len(text) > LINE_LIMIT:
        return None
    try:
        entry = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return None
    good = isinstance(entry, dict) and {"lvl", "msg", "dt"} <= entry.keys()
    return entry if good else None


def _note(log: JobLog, entry: dict[str, Any]) -> None:
    if entry["lvl"] in ("error", "warning", "exception"):
        log.lava.append(f"{entry['lvl']}: {entry['msg']}")
    if match := _START.match(entry["msg"]):
        number = int(match[1])
        if 1 <= number <= len(PHASES):
            log.phases.setdefault(PHASES[number - 1], _time(entry["dt"]))
        elif match[2] == "finalize":
            log.phases.setdefault("finish", _time(entry["dt"]))


def _time(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return datetime.fromisoformat(str(value)).replace(tzinfo=None)
