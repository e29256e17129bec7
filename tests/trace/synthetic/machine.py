"""A simulated machine: one time line, a ring buffer per CPU, I/Os with their true sections."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from .container import Layout, Record, trace_dat
from .formats import Event, events

SECTIONS = ("vfs_fs", "submission", "hardware", "completion", "return")
IDLE = 0


@dataclass
class Io:
    """One I/O; ``cut`` says where one section ends and the next begins."""

    pid: int
    op: str
    start: int
    end: int = 0
    sections: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SECTIONS, 0))
    _at: int = 0
    _now: str = "vfs_fs"

    def __post_init__(self) -> None:
        self._at = self.start

    def cut(self, section: str, at: int) -> None:
        """From ``at`` on time belongs to ``section``."""
        self.sections[self._now] += at - self._at
        self._at, self._now = at, section


class Machine:
    """Records events at the current time, which `run` moves on."""

    def __init__(self, layout: Layout, kernel: str, cpus: int = 1, seed: int = 1) -> None:
        self.layout, self.kernel = layout, kernel
        numbered = enumerate(events(kernel).items(), 60)
        self.events = {
            name: Event(layout, system, name, number, fields)
            for number, ((system, name), fields) in numbered
        }
        self.records: list[list[Record]] = [[] for _ in range(cpus)]
        self.tasks = [IDLE] * cpus
        self.comms: dict[int, str] = {}
        self.now = 1_000_000_000
        self.ios: list[Io] = []
        self._random = random.Random(seed)

    def has(self, event: str) -> bool:
        """Whether this kernel has the event."""
        return event in self.events

    def run(self, least: int = 200, most: int = 4000) -> int:
        """Let some nanoseconds pass; returns the new time."""
        self.now += self._random.randint(least, most)
        return self.now

    def emit(self, cpu: int, event: str, /, **values: object) -> int:
        """Record an event in the task that the CPU runs, after some time; returns its time."""
        at = self.run()
        data = self.events[event].record(self.tasks[cpu], values)
        self.records[cpu].append(Record(at, data))
        return at

    def switch(self, cpu: int, pid: int, state: int = 0) -> None:
        """Run another task on the CPU; the old one is runnable (state 0) or waits (1, 2)."""
        old = self.tasks[cpu]
        self.emit(
            cpu,
            "sched_switch",
            prev_comm=self.comm(old),
            prev_pid=old,
            prev_prio=120,
            prev_state=state,
            next_comm=self.comm(pid),
            next_pid=pid,
            next_prio=120,
        )
        self.tasks[cpu] = pid

    def comm(self, pid: int) -> str:
        """The task's name."""
        return self.comms.setdefault(pid, "swapper" if pid == IDLE else f"task{pid}")

    def enter(self, cpu: int, op: str, **arguments: int) -> Io:
        """A system call begins."""
        io = Io(self.tasks[cpu], op, self.emit(cpu, f"sys_enter_{op}", **arguments))
        self.ios.append(io)
        return io

    def exit(self, cpu: int, io: Io, ret: int) -> None:
        """The I/O's system call ends."""
        io.end = self.emit(cpu, f"sys_exit_{io.op}", ret=ret)
        io.cut("", io.end)

    def file(self, clock: str = "local", options: Mapping[int, bytes] | None = None) -> bytes:
        """The trace.dat of all that happened, with more options of the file."""
        formats: dict[str, list[str]] = {}
        for event in self.events.values():
            formats.setdefault(event.system, []).append(event.format())
        comms = {pid: comm for pid, comm in self.comms.items() if pid != IDLE}
        return trace_dat(self.layout, formats, comms, self.records, clock, options)
