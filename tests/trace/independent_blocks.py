"""A second reader of requests and bios, of other parentage than the crates.

It reads the text of ``trace-cmd report -R``.

A dictionary of sectors for every device says when each was queued; a list of issues says which
completion is whose. Where several requests of one place are in flight it says nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tests.trace.independent import Event, operation, report

Key = tuple[str, int, int]
NOWHERE = 2**64 - 1
"""Where passthrough requests and flushes complete; at their issue they have no sectors."""


@dataclass
class Request:
    """A request from its issue on; ``queued`` is None where no bio shows."""

    queued: int | None
    pid: int
    done: int | None = None
    told: bool = True


@dataclass
class Reader:
    """The requests by device, issue and sector; the bios by device, queue and sector."""

    requests: dict[Key, Request] = field(default_factory=dict)
    bios: dict[Key, int | None] = field(default_factory=dict)
    issued_on: set[int] = field(default_factory=set)
    waiting: dict[tuple[int, str, int], list[list[int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    live: dict[tuple[int, int, int, str], list[Key]] = field(
        default_factory=lambda: defaultdict(list)
    )
    above: set[int] = field(default_factory=set)
    announced: dict[tuple[int, int], list[list[int]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def read(self, event: Event) -> None:
        """Take the next event."""
        act = getattr(self, event.name.removeprefix("block_"), None)
        if event.name.startswith("block_") and callable(act):
            act(event)

    def _wait(self, event: Event, stamp: list[int]) -> None:
        dev, sector, sectors, rwbs = event.span()
        for place in range(sector, sector + sectors):
            self.waiting[dev, operation(rwbs), place].append(stamp)

    def bio_remap(self, event: Event) -> None:
        """What goes on elsewhere is queued there now, unless its own queue event follows."""
        old = event.number("old_dev"), event.number("old_sector")
        stamp = [event.ts, event.pid]
        if not self.announced[old]:
            # To a partition: announced by the disk's number, at the place on the partition.
            told = self.announced[event.number("dev"), old[1]]
            if told and told[0][1] == event.pid and old[0] not in self.above:
                old = event.number("dev"), old[1]
        if self.announced[old]:
            stamp = self.announced[old].pop(0)
            for stamps in self.waiting.values():
                if stamp in stamps:
                    stamps[:] = [one for one in stamps if one is not stamp]
        dev, sector, *_ = event.span()
        self.announced[dev, sector].append(stamp)
        self._wait(event, stamp)

    def bio_queue(self, event: Event) -> None:
        """A bio is queued, one that a remap has announced or a new one."""
        dev, sector, *_ = event.span()
        self.bios[name(dev), event.ts, sector] = None
        if self.announced[dev, sector]:
            self.announced[dev, sector].pop(0)[0] = event.ts
        else:
            self._wait(event, [event.ts, event.pid])
        self.above.add(dev)

    def rq_issue(self, event: Event) -> None:
        """A request goes to the driver."""
        dev, sector, sectors, rwbs = event.span()
        self.issued_on.add(dev)
        queued = []
        for place in range(sector, sector + sectors):
            stamps = self.waiting[dev, operation(rwbs), place]
            if stamps:
                queued.append(stamps.pop(0))
        self.announced[dev, sector] = [
            one for one in self.announced[dev, sector] if one not in queued
        ]
        where = (dev, sector, sectors, operation(rwbs))
        if sectors == 0:
            where = (dev, NOWHERE, event.number("bytes") >> 9, operation(rwbs))
        key = (name(dev), event.ts, sector)
        first = min(queued, default=[None, event.pid], key=lambda one: one[0])
        self.requests[key] = Request(*first)
        self.live[where].append(key)
        if len(self.live[where]) > 1:
            for one in self.live[where]:
                self.requests[one].told = False

    def rq_complete(self, event: Event) -> None:
        """A request is complete."""
        dev, sector, sectors, rwbs = event.span()
        found = self.live[dev, sector if sectors else NOWHERE, sectors, operation(rwbs)]
        if found:
            self.requests[found.pop(0)].done = event.ts

    def bio_complete(self, event: Event) -> None:
        """A bio is over; those that requests carry are looked at by ``rq_complete``."""
        dev, sector, *_ = event.span()
        open_ = [k for k, end in self.bios.items() if k[::2] == (name(dev), sector) and end is None]
        if len(open_) == 1:
            self.bios[open_[0]] = event.ts


def name(dev: int) -> str:
    """A device's number as the product prints it."""
    return f"{dev >> 20}:{dev & 0xFFFFF}"


def read(path: Path) -> Reader:
    """Read a trace."""
    reader = Reader()
    for event in report(path):
        reader.read(event)
    return reader
