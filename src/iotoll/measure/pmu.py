"""What a board's PMU counted: the lines of lava-jobs/dut/pmu.sh become a record of each cell."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from iotoll.core.errors import InfrastructureError
from iotoll.records.models.analysis import PmuRecord
from iotoll.records.text import clean

COUNTS = "pmu/counts"
"""Of a boot's folder, where the board handed over files."""

_LINE = re.compile(
    r"(?P<cell>\S{1,64}) (?P<ios>\d{1,9}) (?P<said>[^,]*),[^,]*,(?P<event>[^,]+)(?P<more>.*)"
)
_EVENT = re.compile(r"(?:[^/]+/)?([^/:]+)(?:[/:]\w*)?")
_COUNT = re.compile(r"\d{1,18}")
_LIMIT = 65_536  # lines of one boot
_WORDS = 60  # characters of a reason
_ALL = 100.0


def read_pmu(folder: Path) -> dict[str, PmuRecord]:
    """The records of a boot's folder, by cell; none where the board handed over no counts."""
    path = folder / COUNTS
    if not path.is_file():
        return {}
    with path.open(errors="replace") as lines:
        return pmu_records(lines, str(path))


def pmu_records(lines: Iterable[str], where: str) -> dict[str, PmuRecord]:
    """The record of each cell from lines "CELL IOS LINE", a line as ``perf stat -x,`` has it.

    Of a board with two kinds of cores perf has a line for each kind, which are added up. A count
    that perf estimated, since there were too few counters, is none. Raises InfrastructureError for
    a line that is not ours.
    """
    found: dict[str, PmuRecord] = {}
    for number, line in enumerate(lines):
        match = _LINE.fullmatch(line.rstrip("\n"))
        if match is None or number >= _LIMIT or not int(match["ios"]):
            raise InfrastructureError(f"{where}: line {number + 1} is not of pmu.sh: {line[:60]!r}")
        record = found.setdefault(
            match["cell"], PmuRecord(ios=int(match["ios"]), counts={}, missing={})
        )
        event, why = _name(match["event"]), _uncounted(match["said"], match["more"])
        if why or event in record.missing:
            record.counts.pop(event, None)
            record.missing.setdefault(event, why)
        else:
            record.counts[event] = record.counts.get(event, 0) + int(match["said"])
    return found


def _name(event: str) -> str:
    """``armv8_cortex_a53/instructions/k`` and ``instructions:k`` are one event."""
    match = _EVENT.fullmatch(event.strip())
    name = clean(match[1] if match else event)
    return name[:_WORDS]


def _uncounted(said: str, more: str) -> str:
    """Why a line has no count; empty where it has one."""
    if not _COUNT.fullmatch(said):
        return clean(said.strip("<> "))[:_WORDS] or "no count"
    ran = more.split(",")[2:3]
    try:
        share = float(ran[0]) if ran else _ALL
    except ValueError:
        share = _ALL
    return "" if share >= _ALL else f"estimated: counted {share:g} % of the time"
