"""The I/Os: each scenario makes a machine do some, and knows where their sections begin and end.

The rules (docs/method.md): an instant is `hardware` while one of the I/O's requests is at the
device, from its last hand-over to its interrupt; a requeued request's first hand-over does not
count; of requests that complete one after another the last one's interrupt and completion count.
"""

from __future__ import annotations

from collections.abc import Callable

from .container import Layout
from .drivers import DRIVERS, FLUSH, READ, WRITE, Driver, Request
from .machine import IDLE, Io, Machine

FIO = 1000
LONG_IDLE = 300_000_000  # more than the 27 bits of a record's time delta


class Bench:
    """A driver on a machine, and the steps that all scenarios share."""

    def __init__(self, machine: Machine, driver: Driver) -> None:
        self.m, self.d = machine, driver
        self.tag = 0

    def request(self, sector: int, sectors: int, rwbs: str) -> Request:
        """A new request, with the next tag of 32."""
        self.tag = (self.tag + 1) % 32
        return Request(sector, sectors, rwbs, self.tag)

    def task(self, cpu: int, pid: int) -> None:
        """The CPU runs this fio thread."""
        self.m.comms[pid] = "fio"
        if self.m.tasks[cpu] != pid:
            self.m.switch(cpu, pid)

    def enter(self, cpu: int, request: Request) -> Io:
        """The system call of a read or write."""
        op = "pread64" if request.rwbs == READ else "pwrite64"
        return self.m.enter(
            cpu, op, fd=7, buf=0x10000, count=request.sectors * 512, pos=request.sector * 512
        )

    def wait(self, cpu: int) -> None:
        """The running task sleeps until the device answers."""
        self.m.switch(cpu, IDLE, state=2)
        self.m.run(50_000, 200_000)

    def finish(self, io: Io, requests: list[Request], result: int) -> None:
        """The last interrupt of an I/O of the first thread, and the end of its system call."""
        irq, done = self.d.complete(0, requests)
        io.cut("completion", irq)
        io.cut("return", done[-1])
        self.wake(0, FIO)
        self.m.exit(0, io, result)

    def wake(self, cpu: int, pid: int) -> None:
        """The I/O's task runs again."""
        self.m.switch(cpu, pid, state=1 if self.m.tasks[cpu] != IDLE else 0)


def single(b: Bench, count: int = 24) -> None:
    """Direct I/O of one request each, reads and writes, with idle stretches."""
    for number in range(count):
        b.task(0, FIO)
        request = b.request(2048 + number * 64, 8, READ if number % 3 else WRITE)
        io = b.enter(0, request)
        io.cut("submission", b.d.bio(0, request))
        b.d.bio(0, request, "block_getrq")
        io.cut("hardware", b.d.issue(0, request))
        b.wait(0)
        b.finish(io, [request], request.sectors * 512)
        b.m.now += LONG_IDLE if number % 8 == 7 else 0


def two(b: Bench, count: int = 8) -> None:
    """Two requests under one plug, completed by an interrupt each."""
    for number in range(count):
        b.task(0, FIO)
        place = 4096 + number * 1024
        parts = [b.request(place, 256, READ), b.request(place + 256, 256, READ)]
        io = b.enter(0, Request(place, 512, READ, 0))
        bios = [b.d.bio(0, part) for part in parts]
        io.cut("submission", bios[0])
        io.cut("hardware", min([b.d.issue(0, part) for part in parts]))
        b.wait(0)
        b.d.complete(0, parts[:1])
        b.m.run(20_000, 90_000)
        b.finish(io, parts[1:], 512 * 512)


def merge(b: Bench, count: int = 8) -> None:
    """Two bios of one call in one request: back merges and front merges in turn."""
    for number in range(count):
        b.task(0, FIO)
        place = 8192 + number * 256
        halves = [Request(place, 8, WRITE, 0), Request(place + 8, 8, WRITE, 0)]
        front = number % 2 == 1
        first, second = halves[::-1] if front else halves
        request = b.request(place, 16, WRITE)
        io = b.enter(0, request)
        io.cut("submission", b.d.bio(0, first))
        b.d.bio(0, first, "block_getrq")
        b.m.emit(0, "block_plug", comm="fio")
        b.d.bio(0, second)
        b.d.bio(0, second, "block_bio_frontmerge" if front else "block_bio_backmerge")
        b.m.emit(0, "block_unplug", nr_rq=1, comm="fio")
        b.d.rq(0, "block_rq_insert", request)
        io.cut("hardware", b.d.issue(0, request))
        b.wait(0)
        b.finish(io, [request], 16 * 512)


def requeue(b: Bench, count: int = 8) -> None:
    """The device refuses the request once."""
    for number in range(count):
        b.task(0, FIO)
        request = b.request(16384 + number * 64, 8, READ)
        io = b.enter(0, request)
        io.cut("submission", b.d.bio(0, request))
        b.d.rq(0, "block_rq_issue", request)
        b.d.requeue(0, request)
        b.m.run(5_000, 20_000)
        io.cut("hardware", b.d.issue(0, request))
        b.wait(0)
        b.finish(io, [request], request.sectors * 512)


def flush(b: Bench, count: int = 6) -> None:
    """fsync of a disk: an empty bio, for which the block layer sends a flush of its own."""
    for _ in range(count):
        b.task(0, FIO)
        empty = Request(0, 0, "FWS", 0)
        io = b.m.enter(0, "fsync", fd=7)
        io.cut("submission", b.d.bio(0, empty))
        b.d.bio(0, empty, "block_getrq")
        command = b.request(0, 0, FLUSH)
        io.cut("hardware", b.d.issue(0, command))
        b.wait(0)
        b.finish(io, [command], 0)


def shared(b: Bench, count: int = 8) -> None:
    """Two threads on two CPUs; one interrupt on the first CPU completes both I/Os."""
    for number in range(count):
        requests = [b.request(32768 + number * 64 + cpu * 16, 8, READ) for cpu in (0, 1)]
        ios = []
        for cpu, request in enumerate(requests):
            b.task(cpu, FIO + cpu)
            io = b.enter(cpu, request)
            io.cut("submission", b.d.bio(cpu, request))
            io.cut("hardware", b.d.issue(cpu, request))
            b.wait(cpu)
            ios.append(io)
        irq, done = b.d.complete(0, requests)
        for cpu, io in enumerate(ios):
            io.cut("completion", irq)
            io.cut("return", done[cpu])
            b.wake(cpu, FIO + cpu)
            b.m.exit(cpu, io, 8 * 512)


SCENARIOS: dict[str, Callable[[Bench], None]] = {
    f.__name__: f for f in (single, two, merge, requeue, flush, shared)
}


def possible(driver: str, scenario: str, kernel: str) -> bool:
    """Whether the scenario can happen on that driver of that kernel."""
    if driver == "ufs":
        return kernel not in ("4.4", "4.9")  # no ufshcd_command there
    if driver == "emmc":
        return scenario in ("single", "merge")  # the host works on one request at a time
    return True


def machine(layout: Layout, kernel: str, driver: str, scenario: str) -> Machine:
    """Run a scenario on a machine with two CPUs."""
    made = Machine(layout, kernel, cpus=2)
    SCENARIOS[scenario](Bench(made, DRIVERS[driver](made)))
    return made
