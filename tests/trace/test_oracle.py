"""The native module against trace-cmd's own reading and a plain second implementation."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from iotoll import _native
from tests.trace.native import table_of

DATA = Path(__file__).with_name("data")
LINE = re.compile(r"^\s*(.+)-(\d+)\s+\[(\d+)\]\s+(\d+)\.(\d{9}): +(\S+?): +(.*)$")
SPAN = re.compile(r"(\d+),(\d+) (\S+) (?:\d+ )?(?:\(.*?\) )?(\d+) \+ (\d+)")


@dataclass
class Line:
    """One event as trace-cmd prints it."""

    pid: int
    cpu: int
    ts: int
    name: str
    text: str

    def span(self) -> tuple[str, int, int]:
        """Letters, first sector and number of sectors of a block event."""
        found = SPAN.search(self.text)
        assert found, self.text
        return found[3], int(found[4]), int(found[5])


def report(trace_cmd: str, path: Path) -> Iterator[Line]:
    """All events of a trace."""
    command = [trace_cmd, "report", "-t", "-i", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        if found := LINE.match(line):
            seconds, nanoseconds = int(found[4]), int(found[5])
            ts = seconds * 1_000_000_000 + nanoseconds
            yield Line(int(found[2]), int(found[3]), ts, found[6], found[7])


def test_event_counts(trace_cmd: str, trace: str) -> None:
    printed = Counter(line.name for line in report(trace_cmd, Path(trace)))
    assert json.loads(_native.trace_info(trace))["events"] == printed


def test_durations(trace_cmd: str, trace: str) -> None:
    entered: dict[int, int] = {}
    durations: dict[tuple[int, int], int] = {}
    for line in report(trace_cmd, Path(trace)):
        if line.name.startswith("sys_enter_"):
            entered[line.pid] = line.ts
        elif line.name.startswith("sys_exit_") and line.pid in entered:
            start = entered.pop(line.pid)
            durations[line.pid, start] = line.ts - start
    table = table_of(trace)
    assert table["start"]
    for row, key in enumerate(zip(table["pid"], table["start"], strict=True)):
        elapsed = [column[row] for name, column in table.items() if name.startswith("elapsed_")]
        assert sum(elapsed) == durations[key]


@pytest.mark.parametrize("arguments", [["6", "none"], ["7", "none"], ["7", "zstd"]])
def test_versions_and_packings(
    trace_cmd: str, trace: str, arguments: list[str], tmp_path: Path
) -> None:
    version, packing = arguments
    target = tmp_path / "converted.dat"
    command = [trace_cmd, "convert", "-i", trace, "-o", str(target), "--file-version", version]
    command += [] if version == "6" else ["--compression", packing]
    subprocess.run(command, capture_output=True, check=True)
    info = json.loads(_native.trace_info(str(target)))
    assert (info["version"], info["compression"]) == (int(version), packing)
    assert table_of(target) == table_of(trace)


@dataclass
class Io:
    """One system call, with its bios and requests: times of hand-over, interrupt and end."""

    start: int
    queued: list[int] = field(default_factory=list)
    sectors: list[tuple[int, int]] = field(default_factory=list)
    ended: int = 0
    requests: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    def holds(self, sector: int, flush: bool) -> bool:
        """Whether a request of this first sector is ours."""
        own = (0, 0) if flush else None
        return any(s == own or s[0] <= sector < s[1] for s in self.sectors)

    def sections(self, end: int) -> list[int]:
        """Lengths of the five sections, by looking at every stretch between two times."""
        spans = list(self.requests.values())
        edges = {self.start, end, *self.queued, *(t for span in spans for t in span)}
        cuts, lengths = sorted(edges), [0] * 5
        for left, right in pairwise(cuts):
            if any(d <= left < i for d, i, _ in spans):
                section = 2
            elif any(i <= left < c for _, i, c in spans):
                section = 3
            elif left >= self.ended:
                section = 4
            elif left >= self.queued[0]:
                section = 1
            else:
                section = 0
            lengths[section] += right - left
        return lengths


def second_opinion(lines: Iterator[Line]) -> dict[tuple[int, int], list[int]]:
    """Sections by (task, entry) of I/Os without helpers whose bios are all queued up front."""
    open_ios: dict[int, Io] = {}
    irqs: dict[int, int] = {}
    left: dict[int, int] = {}
    last: dict[int, list[int]] = {}
    done: dict[tuple[int, int], list[int]] = {}
    for line in lines:
        io = open_ios.get(line.pid)
        interrupt = left.pop(line.cpu, None)
        if line.name.startswith("sys_enter_"):
            open_ios[line.pid] = Io(line.ts)
        elif line.name.startswith("sys_exit_"):
            if io and io.requests:
                done[line.pid, io.start] = io.sections(line.ts)
            open_ios.pop(line.pid, None)
        elif line.name == "block_bio_queue" and io:
            _, sector, count = line.span()
            io.queued.append(line.ts)
            io.sectors.append((sector, sector + count))
        elif line.name == "block_rq_issue":
            rwbs, sector, _ = line.span()
            for owner in [*([io] if io else []), *open_ios.values()]:
                if owner.holds(sector, rwbs == "FF"):
                    last[line.pid] = [line.ts] * 3
                    owner.requests[rwbs, 0 if rwbs == "FF" else sector] = last[line.pid]
                    break
        elif line.name == "ufshcd_command" and "str_t=0" in line.text and line.pid in last:
            last.pop(line.pid)[0] = line.ts
        elif line.name == "irq_handler_entry":
            irqs[line.cpu] = line.ts
        elif line.name in ("irq_handler_exit", "softirq_exit"):
            left[line.cpu] = irqs.pop(line.cpu, 0)
        elif line.name == "softirq_entry" and interrupt:
            irqs[line.cpu] = interrupt
        elif line.name == "block_rq_complete":
            rwbs, sector, _ = line.span()
            key = (rwbs, 0 if rwbs == "FF" else sector)
            for owner in open_ios.values():
                if key in owner.requests and owner.requests[key][2] == owner.requests[key][1]:
                    owner.requests[key][1:] = [irqs.get(line.cpu, line.ts), line.ts]
                    owner.ended = line.ts
                    break
    return done


@pytest.mark.parametrize("name", ["ufs-read", "virtio-split-flush"])
def test_sections(trace_cmd: str, name: str) -> None:
    path = DATA / f"{name}.dat"
    expected = second_opinion(report(trace_cmd, path))
    table = table_of(path)
    columns = [table[f"elapsed_{s}"] for s in ("vfs_fs", "submission", "hardware")]
    columns += [table[f"elapsed_{s}"] for s in ("completion", "return")]
    compared = 0
    for row, key in enumerate(zip(table["pid"], table["start"], strict=True)):
        if "WS4" not in table["path"][row]:
            assert [column[row] for column in columns] == expected[key], key
            compared += 1
    assert compared > 70
