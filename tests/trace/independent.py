"""A second analyser: slow, simple, and of other parentage than the crates.

It reads the text of ``trace-cmd report -R`` and applies the section rules of docs/method.md, one
event after the other, with a dictionary for everything and a set of sectors for every bio. It knows
less than the product: no own times, no workers of io_uring. Where both speak of an I/O they must
agree.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

LINE = re.compile(r"^\s*(.+)-(\d+)\s+\[(\d+)\]\s+(\d+)\.(\d{9}): +(\S+?): +(.*)$")
FIELD = re.compile(r"(\w+)=(\S+)")
CALLS = (
    *("read", "pread64", "readv", "preadv", "preadv2"),
    *("write", "pwrite64", "writev", "pwritev", "pwritev2"),
    *("fsync", "fdatasync", "sync_file_range", "msync", "syncfs", "sync"),
    *("splice", "sendfile64", "copy_file_range", "ioctl", "fallocate"),
)
WRITES = CALLS[5:19]
HELPERS = (
    "jbd2/",
    "kworker",
    "kjournald",
    "f2fs_",
    "xfs",
    "btrfs",
    "kdmflush",
    "dmcrypt",
    "flush-",
)


@dataclass
class Event:
    """One line of the report; fields as text."""

    ts: int
    cpu: int
    pid: int
    comm: str
    name: str
    fields: dict[str, str]

    def number(self, field_name: str, default: int = 0) -> int:
        """A field as a number."""
        text = self.fields.get(field_name)
        return default if text is None else int(text, 0)

    def span(self) -> tuple[int, int, int, str]:
        """Device, first sector, sectors and rwbs of a block event."""
        sector = self.number("sector")
        return self.number("dev"), sector, self.number("nr_sector"), self.fields.get("rwbs", "")


def report(path: Path) -> Iterator[Event]:
    """All events of a trace, by trace-cmd."""
    command = ["trace-cmd", "report", "-R", "-t", "-i", str(path)]
    text = subprocess.run(command, capture_output=True, check=True).stdout
    for line in text.decode(errors="replace").split("\n"):
        if m := LINE.match(line):
            ts = int(m[4]) * 1_000_000_000 + int(m[5])
            yield Event(ts, int(m[3]), int(m[2]), m[1], m[6], dict(FIELD.findall(m[7])))


def operation(rwbs: str) -> str:
    """The letter of the operation: a leading F of several letters is a flush before it."""
    return rwbs[1] if rwbs[:1] == "F" and len(rwbs) > 1 else rwbs[:1]


@dataclass(eq=False)
class Bio:
    """A bio: which of its sectors are still to be issued, and to be finished."""

    dev: int
    rwbs: str
    queued: int
    pid: int
    io: Io | None
    helper: bool
    to_issue: set[int]
    to_finish: set[int]
    first: int
    asked: int
    asked_sectors: int
    ended: int | None = None
    issued: bool = False
    preflush: bool = False
    flushing: bool = False
    over: bool = False


@dataclass(eq=False)
class Request:
    """A request from its issue on."""

    dev: int
    sector: int
    sectors: int
    op: str
    issued: int
    task: tuple[int, int]
    bios: list[Bio]
    setup: int | None = None
    sent: int | None = None
    returned: int | None = None
    reported: tuple[int, tuple[int, int] | None, bool] | None = None
    requeued: bool = False

    def start(self, interrupt: int, inside: tuple[int, int] | None, returns: bool) -> int:
        """When it was handed to the device."""
        if returns and self.returned is not None:
            return min(self.returned, interrupt)
        if returns and inside == self.task:
            return interrupt
        if self.sent is not None:
            return self.sent
        return max(self.setup or 0, self.issued)


@dataclass(eq=False)
class Io:
    """An I/O while it is open, and its sections after that."""

    pid: int
    op: str
    start: int
    bios: list[Bio] = field(default_factory=list)
    live: list[Request] = field(default_factory=list)
    spans: list[list[int]] = field(default_factory=list)
    frame: object = None
    begun: bool = False
    submitting: bool = False
    posts: bool = False
    ambiguous: bool = False
    asleep: bool = False
    unproven: int = 0
    last_done: int = 0
    end: int | None = None
    lengths: tuple[int, ...] = ()

    def sections(self) -> tuple[int, ...]:
        """Lengths of the five sections, each instant looked at by itself."""
        end = self.end or self.start
        bios = []
        for bio in self.bios:
            if bio.helper and bio.ended is None:
                continue
            open_end = end if bio.issued else bio.queued
            bios.append((bio.queued, open_end if bio.ended is None else bio.ended))
        last_bio = max((from_ for from_, _ in bios), default=self.start)
        cuts = {self.start, end}
        for pair in (*bios, *self.spans):
            cuts.update(pair)
        inside = sorted(cut for cut in cuts if self.start <= cut <= end)
        sums = [0] * 5
        for at, until in pairwise(inside):
            if any(start <= at < max(start, irq) for start, irq, _ in self.spans):
                place = 2
            elif any(irq <= at < done for _, irq, done in self.spans):
                place = 3
            elif any(from_ <= at < to for from_, to in bios):
                place = 1
            else:
                place = 0 if at < last_bio else 4
            sums[place] += until - at
        return tuple(sums)


@dataclass
class Frame:
    """A hard interrupt or a softirq being handled; ``irq`` is (start, number)."""

    hard: bool
    irq: tuple[int, int] | None


@dataclass
class Task:
    """What a task is in."""

    io: Io | None = None
    call: list[Io] | None = None
    call_name: str = ""
    asked: int = 0
    marked: bool = False
    last: Request | None = None
    awaiting: list[Request] = field(default_factory=list)
    setup: tuple[int, tuple[str, ...]] | None = None
    woken_by: int | None = None
    woken_for: Io | None = None
    serves: Io | None = None
    remapped: Bio | None = None
    comm: str = ""
