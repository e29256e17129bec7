"""The machine of the second analyser: what each event does to I/Os, bios and requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from tests.trace.independent import (
    CALLS,
    HELPERS,
    WRITES,
    Bio,
    Event,
    Frame,
    Io,
    Request,
    Task,
    operation,
)

ASYNC = ("io_submit", "io_uring")
Slot = tuple[int, tuple[int, int] | None, str, bool]
"""A completion read from an NVMe queue: when, in which interrupt, the disk, whether polled."""


class Analyser:
    """Feed it all events; ``done`` has the I/Os with requests."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.names = {event.name for event in events}
        self.returns = any(name.startswith("queue_rq") for name in self.names)
        self.done: list[Io] = []
        self.tasks: dict[tuple[int, int], Task] = defaultdict(Task)
        self.open: list[Io] = []
        self.bios: list[Bio] = []
        self.requests: list[Request] = []
        self.tags: dict[tuple[str, ...], Request] = {}
        self.entries: dict[str, Io] = {}
        self.frames: dict[int, list[Frame]] = defaultdict(list)
        self.left: dict[int, tuple[int, int] | None] = {}
        self.slots: dict[int, list[Slot]] = defaultdict(list)
        self.ended: dict[int, list[Io]] = defaultdict(list)
        self.disks: dict[int, int] = {}
        self.starts: list[tuple[int, int]] = []
        self.followed: dict[int, set[int]] = {}
        self.last_done: dict[int, Io | None] = {}
        self.handlers = self._learn_handlers()
        keyed = ("io_uring_submit_sqe", "io_uring_submit_req", "io_uring_complete")
        self.by_request = all("req" in e.fields for e in events if e.name in keyed)

    def _learn_handlers(self) -> dict[int, set[int]]:
        """Numbers of the interrupts whose handlers enclose completions of a device, or (under 0) a
        driver's reports of any."""
        found: dict[int, set[int]] = defaultdict(set)
        stack: dict[int, list[int]] = defaultdict(list)
        for event in self.events:
            here = stack[event.cpu]
            if event.name == "irq_handler_entry":
                here.append(event.number("irq"))
            elif event.name == "softirq_entry":
                here.append(-1)
            elif event.name in ("irq_handler_exit", "softirq_exit"):
                del here[-1:]
            elif here and here[-1] >= 0 and self._completes(event):
                found[event.number("dev")].add(here[-1])
        return found

    @staticmethod
    def _completes(event: Event) -> bool:
        ufs_done = event.name == "ufshcd_command" and event.number("str_t") == 1
        names = ("block_rq_complete", "nvme_sq", "nvme_complete_rq", "mmc_request_done")
        return ufs_done or event.name in (*names, "scsi_dispatch_cmd_done")

    def run(self) -> list[Io]:
        """All I/Os that have requests, in the order of their ends."""
        for event in self.events:
            self.settle(event)
            name = event.name
            if event.pid:
                self.task(event).comm = event.comm
            if name.startswith("sys_enter_"):
                self.enter(event, name.removeprefix("sys_enter_"))
            elif name.startswith("sys_exit_"):
                self.exit(event, name.removeprefix("sys_exit_"))
            elif name.startswith("queue_rq"):
                self.queue_return(event)
            elif method := getattr(self, f"on_{name}", None):
                method(event)
            ends = ("irq_handler_exit", "softirq_exit", "sched_waking")
            if self.is_known(name) and name not in ends:
                self.left.pop(event.cpu, None)
        return self.done

    def is_known(self, name: str) -> bool:
        """Whether an event tells anything here; others may stand between any two that do."""
        return name.startswith(("sys_", "queue_rq")) or hasattr(self, f"on_{name}")

    def task(self, event: Event) -> Task:
        """The current task; idle tasks differ by CPU."""
        return self.tasks[event.pid, 0 if event.pid else event.cpu]

    # Of independent_drivers.
    settle: Callable[[Event], None]
    queue_return: Callable[[Event], None]
    close: Callable[[Io, int], None]
    close_if_over: Callable[[Io, Event], None]
    device_span: Callable[[Event, Request], tuple[int, int, int]]

    # System calls and io_uring.

    def enter(self, event: Event, call: str) -> None:
        """A call begins; I/Os whose call did not end are forgotten."""
        task = self.task(event)
        asked = {"io_submit": "nr", "io_uring_enter": "to_submit"}.get(call)
        if asked is None and call not in CALLS:
            return
        if task.call is None and task.io:
            self.open.remove(task.io)
        task.io, task.call = None, None
        if asked is None:
            task.io = self.begin(Io(event.pid, call, event.ts))
            return
        task.call, task.call_name, task.marked = [], call, False
        wakes = call == "io_uring_enter" and event.number("flags") & 2
        task.asked = 0 if wakes else event.number(asked) & 0xFFFFFFFF
        if task.asked:
            self.begin_entry(event, "io_uring" if "uring" in call else call)

    def begin(self, io: Io) -> Io:
        """Keep an I/O as open."""
        self.open.append(io)
        return io

    def begin_entry(self, event: Event, op: str) -> Io:
        """The current task begins to submit the next entry."""
        task = self.task(event)
        old = task.io
        task.io = self.begin(Io(event.pid, op, event.ts, submitting=True))
        if task.call is not None:
            task.call.append(task.io)
        elif old:
            old.submitting = False
            self.close_if_over(old, event)
        return task.io

    def exit(self, event: Event, call: str) -> None:
        """A call ends."""
        task = self.task(event)
        if call in ("io_submit", "io_uring_enter"):
            ios, task.call, task.io = task.call or [], None, None
            count = event.number("ret")
            unclear = not task.marked and task.asked > 1 and 0 < count != len(ios)
            for io in ios:
                io.submitting, io.ambiguous = False, unclear
                self.close_if_over(io, event)
        elif call in CALLS and task.io:
            io, task.io = task.io, None
            if io.op == call:
                self.close(io, event.ts)
            else:
                self.open.remove(io)

    def on_io_uring_submit_req(self, event: Event) -> None:
        """An entry is taken up."""
        task = self.task(event)
        fresh = task.io if task.io and task.io.op == "io_uring" and not task.io.posts else None
        io = fresh or self.begin_entry(event, "io_uring")
        io.posts = task.marked = True
        key = self.entry(event)
        if old := self.entries.get(key):
            self.open.remove(old)
        self.entries[key] = io

    on_io_uring_submit_sqe = on_io_uring_submit_req

    def entry(self, event: Event) -> str:
        """What the events of an entry call it."""
        fields = event.fields
        key = str(event.number("user_data")) if "user_data" in fields else ""
        return (
            fields["req"] if self.by_request else f"{fields.get('ctx') or fields.get('ring')} {key}"
        )

    def on_io_uring_complete(self, event: Event) -> None:
        """An entry ends."""
        if io := self.entries.pop(self.entry(event), None):
            task = self.tasks.get((io.pid, 0))
            io.submitting = io.submitting and bool(task and task.call is not None)
            self.close(io, max(event.ts, io.last_done))

    # The block layer.

    def on_iomap_dio_rw_begin(self, event: Event) -> None:
        """Direct I/O begins: of a call with several entries perhaps the next one."""
        task = self.task(event)
        if task.io and (task.io.begun or task.io.bios) and self.takes_next(task):
            self.begin_entry(event, task.io.op)
        if task.io:
            task.io.begun = True

    @staticmethod
    def takes_next(task: Task) -> bool:
        """Whether the current call has several entries that no own event tells apart."""
        return task.call is not None and task.asked > 1 and not task.marked

    def on_block_bio_queue(self, event: Event) -> None:
        """A bio."""
        dev, sector, count, rwbs = event.span()
        task = self.task(event)
        io, helper = task.io, False
        if io and io.op in ASYNC and io.bios and not io.begun and self.takes_next(task):
            io = self.begin_entry(event, io.op)
        if io is None:
            io = task.serves = self.helped(event, dev, rwbs)
            helper = io is not None
        sectors = set(range(sector, sector + count))
        queued, above = event.ts, task.remapped
        task.remapped = None
        if above and (above.dev, above.first) == (dev, sector):
            # Another one goes on for the bio of a stacked device.
            queued = above.queued
            self.bios.remove(above)
            if above.io:
                above.io.bios.remove(above)
        bio = Bio(
            dev, rwbs, queued, event.pid, io, helper, set(sectors), sectors, sector, dev, count
        )
        bio.preflush = rwbs[:1] == "F" and len(rwbs) > 1
        self.bios.append(bio)
        if io:
            io.bios.append(bio)

    def on_block_bio_remap(self, event: Event) -> None:
        """A bio that was queued becomes one of the device below."""
        old = event.number("old_dev"), event.number("old_sector")
        waiting = [b for b in self.bios if (b.dev, b.first) == old and not b.issued and not b.over]
        if waiting and old[0] != event.number("dev"):
            bio = waiting[-1] if not waiting[0].to_finish else waiting[0]
            shift = event.number("sector") - bio.first
            bio.dev, bio.first = event.number("dev"), event.number("sector")
            bio.to_issue = {at + shift for at in bio.to_issue}
            bio.to_finish = {at + shift for at in bio.to_finish}
            self.task(event).remapped = bio

    def helped(self, event: Event, dev: int, rwbs: str) -> Io | None:
        """The I/O that a helper submits for."""
        task = self.task(event)
        if operation(rwbs) == "R" or not event.comm.startswith(HELPERS):
            return None
        if "sched_switch" not in self.names:
            return None
        if task.woken_for and self.may_wait(task.woken_for, dev):
            return task.woken_for
        sleepers = [io for io in self.open if io.asleep and self.may_wait(io, dev)]
        if task.serves in sleepers:
            return task.serves
        sleepers = [io for io in sleepers if io.bios]
        if len(sleepers) == 1:
            sleepers[0].unproven = event.pid
            return sleepers[0]
        return None

    def may_wait(self, io: Io, dev: int) -> bool:
        """Whether an I/O may wait for a helper: nothing of its own at a device, no other."""
        own = [bio for bio in io.bios if not bio.helper]
        at_device = any(b.io is io and not b.helper for r in io.live for b in r.bios)
        fits = not own or any(dev in (bio.dev, bio.asked) for bio in own)
        return io in self.open and io.op in WRITES and not at_device and fits

    def on_block_rq_issue(self, event: Event) -> None:
        """A request goes to the driver; each of its sectors comes from one bio."""
        dev, sector, count, rwbs = event.span()
        task, op = self.task(event), operation(rwbs)
        key = (event.pid, 0 if event.pid else event.cpu)
        again = self.find(dev, sector, count, op, lambda r: r.requeued)
        bios = [] if again else self.carried(dev, sector, count, rwbs, event.pid)
        if not bios and count and not again:
            again = self.find(dev, sector, count, op, lambda _: True)
        if again:
            request = again
            request.issued, request.task, request.requeued = event.ts, key, False
            request.setup = request.sent = request.returned = None
        else:
            request = Request(dev, sector, count, op, event.ts, key, bios)
            self.requests.append(request)
        for bio in bios:
            bio.issued = True
            if bio.io and bio.io in self.open and request not in bio.io.live:
                bio.io.live.append(request)
        task.last = request
        task.awaiting.append(request)
        if task.setup:
            request.setup, tag = task.setup
            self.tags[tag], task.setup = request, None
            self.disks[dev] = 1

    def carried(self, dev: int, sector: int, count: int, rwbs: str, pid: int) -> list[Bio]:
        """The bios of a request: for each sector the issuing task's oldest, else the oldest."""
        here = [bio for bio in self.bios if bio.dev == dev and not bio.over]
        if not here and not any(bio.dev == dev for bio in self.bios):
            # What turned a partition's bios into the disk's was not recorded.
            used = {request.dev for request in self.requests}
            here = [bio for bio in self.bios if bio.dev not in used and sector in bio.to_issue]
        if not count:
            return self.flushed(here) if operation(rwbs) == "F" else []
        same = [b for b in here if operation(b.rwbs) == operation(rwbs)]
        same.sort(key=lambda bio: bio.pid != pid)
        found: list[Bio] = []
        for at in range(sector, sector + count):
            if bio := next((b for b in same if at in b.to_issue), None):
                bio.to_issue.discard(at)
                found += [] if bio in found else [bio]
        return found

    @staticmethod
    def flushed(here: list[Bio]) -> list[Bio]:
        """The bios that wait for a flush: before their data, else after them."""
        waiting = [b for b in here if b.preflush and not b.flushing]
        after = [b for b in here if "F" in b.rwbs[2 if b.rwbs[:1] == "F" else 1 :]]
        after = [b for b in after if not b.preflush and not b.flushing and not b.to_finish]
        waiting = waiting or after
        for bio in waiting:
            bio.flushing = True
        return waiting

    def find(self, dev: int, sector: int, count: int, op: str, wanted: object) -> Request | None:
        """The oldest open request of this place, length and operation that is wanted."""
        assert callable(wanted)
        for r in self.requests:
            same = (r.dev, r.op, r.sectors) == (dev, op, count)
            if same and (r.sector == sector or not count) and wanted(r):
                return r
        return None

    def on_block_rq_requeue(self, event: Event) -> None:
        """A request is back in the block layer."""
        dev, sector, count, rwbs = event.span()
        found = self.find(dev, sector, count, operation(rwbs), lambda r: not r.requeued)
        if found:
            found.requeued = True

    def on_block_rq_complete(self, event: Event) -> None:
        """A request, or its first sectors, are done."""
        dev, sector, count, rwbs = event.span()
        op = operation(rwbs)
        request = self.find(dev, sector, count, op, lambda r: not r.requeued)
        if request is None and count:
            longer = [r for r in self.requests if (r.dev, r.sector, r.op) == (dev, sector, op)]
            request = next((r for r in longer if r.sectors > count), None)
        request = request or self.find(dev, sector, count, op, lambda _: True)
        if request is None:
            if not count:
                self.flush_end(event, dev, sector, op)
            return
        part = request.sectors > count
        if not part:
            self.requests.remove(request)
        span = None if part else self.device_span(event, request)
        if part:
            request.sector, request.sectors = sector + count, request.sectors - count
        ended = []
        for bio in request.bios:
            bio.to_finish -= set(range(sector, sector + count))
            if not count:
                bio.preflush = bio.flushing = False
            bio.ended = event.ts
            over = not bio.to_finish and not bio.to_issue and not bio.preflush
            fua = "F" in bio.rwbs[1:] or bio.rwbs[:1] == "F"
            bio.over = over and not fua
            if bio.io and bio.io in self.open and span and bio.io not in ended:
                ended.append(bio.io)
        for io in ended:
            assert span
            io.spans.append(list(span))
            io.frame = self.frames[event.cpu][-1] if self.frames[event.cpu] else None
            io.last_done = event.ts
            io.live = [r for r in io.live if r is not request]
            self.ended[event.cpu] += [] if io in self.ended[event.cpu] else [io]

    def flush_end(self, event: Event, dev: int, sector: int, op: str) -> None:
        """The end of a bio that went through the flush machinery."""
        for bio in self.bios:
            flush = bio.rwbs[:1] == "F" or "F" in bio.rwbs[1:]
            fits = bio.dev == dev and operation(bio.rwbs) == op and flush
            fits = fits and (bio.asked_sectors == 0 or bio.first == sector)
            if fits and not bio.over and not bio.preflush and not bio.to_finish:
                bio.over, bio.ended = True, event.ts
                if bio.io and bio.io in self.open:
                    here = self.frames[event.cpu]
                    if bio.io.spans and here and bio.io.frame is here[-1]:
                        bio.io.spans[-1][2] = event.ts
                    bio.io.last_done = event.ts
                    self.ended[event.cpu].append(bio.io)
                return
