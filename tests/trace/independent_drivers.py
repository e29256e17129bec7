"""The rest of the second analyser: drivers, interrupts, tasks, and the ends of I/Os."""

from __future__ import annotations

from pathlib import Path

from tests.trace.independent import HELPERS, WRITES, Event, Frame, Io, Request, report
from tests.trace.independent_engine import ASYNC, Analyser


class Machine(Analyser):
    """All of it."""

    # Drivers.

    def on_nvme_setup_cmd(self, event: Event) -> None:
        """A command is set up, before its issue."""
        self.task(event).setup = event.ts, self.nvme(event)

    @staticmethod
    def nvme(event: Event) -> tuple[str, ...]:
        fields = event.fields
        tag = str(event.number("cid") & 0xFFF)
        return "nvme", fields.get("disk", ""), fields.get("ctrl_id", ""), fields["qid"], tag

    def on_nvme_complete_rq(self, event: Event) -> None:
        """The driver completes a command."""
        request = self.tags.pop(self.nvme(event), None)
        slots = self.slots[event.cpu]
        disk = event.fields.get("disk", "")
        slot = next((slot for slot in slots if slot[2] == disk), None)
        if slot:
            slots.remove(slot)
            slot = None if slot[3] else slot
        if request and request.reported is None:
            request.reported = (*slot[:2], False) if slot else self.reporting(event)

    def on_nvme_sq(self, event: Event) -> None:
        """A completion is read from a queue."""
        if self.disks:
            irq = self.irq(event.cpu)
            polled = not self.frames[event.cpu]
            self.slots[event.cpu].append((event.ts, irq, event.fields.get("disk", ""), polled))

    def on_ufshcd_command(self, event: Event) -> None:
        """UFS sends or completes."""
        fields = event.fields
        phase = fields.get("str_t", {"send": "0", "complete": "1"}.get(fields.get("str", ""), "9"))
        host = fields.get("sdev") or fields.get("dev_name", "")
        tag = ("ufs", host, fields.get("hwq_id", ""), fields["tag"])
        if int(phase, 0) == 0:
            self.send(event, tag)
        elif int(phase, 0) == 1:
            self.complete(event, tag)

    def on_mmc_request_start(self, event: Event) -> None:
        """A card gets a request, or is asked whether it is busy with the last one."""
        tag = "mmc", event.fields.get("name", ""), event.fields["mrq"]
        task = self.task(event)
        card = self.tags.get(("card", tag[1]))
        if task.last is None and card in self.requests and card is not None:
            self.tags[tag] = card
        else:
            self.send(event, tag)

    def on_mmc_request_done(self, event: Event) -> None:
        """It is done."""
        tag = "mmc", event.fields.get("name", ""), event.fields["mrq"]
        if request := self.tags.pop(tag, None):
            request.reported = self.reporting(event)
            self.tags["card", tag[1]] = request

    @staticmethod
    def scsi(event: Event) -> tuple[str, ...]:
        names = ("host_no", "channel", "id", "lun", "driver_tag", "scheduler_tag")
        return "scsi", *(event.fields.get(name, "") for name in names)

    def on_scsi_dispatch_cmd_start(self, event: Event) -> None:
        """SCSI hands a command to its host's driver."""
        task = self.task(event)
        last = task.last
        self.send(event, self.scsi(event))
        task.last = last

    def on_scsi_dispatch_cmd_done(self, event: Event) -> None:
        """It is done."""
        if "driver_tag" in event.fields:
            self.complete(event, self.scsi(event))

    def send(self, event: Event, tag: tuple[str, ...]) -> None:
        """The driver sends the request that the task issued last."""
        task = self.task(event)
        request, task.last = task.last, None
        if request:
            request.sent, self.tags[tag] = event.ts, request
        else:
            self.tags.pop(tag, None)

    def complete(self, event: Event, tag: tuple[str, ...]) -> None:
        """The driver has a completion."""
        request = self.tags.pop(tag, None)
        if request and request.reported is None:
            request.reported = self.reporting(event)

    def reporting(self, event: Event) -> tuple[int, tuple[int, int] | None, bool]:
        """Time, interrupt, and whether in a softirq."""
        frames = self.frames[event.cpu]
        irq = self.irq(event.cpu)
        if irq is None and event.comm.startswith("irq/"):
            woken = self.task(event).woken_by
            irq = None if woken is None else (woken, -1)
        return event.ts, irq, bool(frames) and not frames[-1].hard

    def queue_return(self, event: Event) -> None:
        """The queue function returns."""
        for request in self.task(event).awaiting:
            request.returned = event.ts
        self.task(event).awaiting.clear()

    # Interrupts.

    def irq(self, cpu: int) -> tuple[int, int] | None:
        """The innermost hard interrupt: being handled, or directly before the softirq."""
        return next((f.irq for f in reversed(self.frames[cpu]) if f.irq), None)

    def on_irq_handler_entry(self, event: Event) -> None:
        """A hard interrupt."""
        if not self.frames[event.cpu]:
            self.slots[event.cpu].clear()
        irq = event.ts, event.number("irq")
        self.starts.append(irq)
        self.frames[event.cpu].append(Frame(True, irq))

    def on_softirq_entry(self, event: Event) -> None:
        """A softirq, perhaps directly after an interrupt."""
        self.frames[event.cpu].append(Frame(False, self.left.get(event.cpu)))

    def on_irq_handler_exit(self, event: Event) -> None:
        """The end of either."""
        frames = self.frames[event.cpu]
        frame = frames.pop() if frames else None
        if frame and frame.hard != (event.name == "irq_handler_exit"):
            frames.clear()
            frame = None
        self.left[event.cpu] = frame.irq if frame else None

    on_softirq_exit = on_irq_handler_exit

    def device_span(self, event: Event, request: Request) -> tuple[int, int, int]:
        """Hand-over, interrupt and completion."""
        reported = request.reported
        slots = self.slots[event.cpu]
        read = slots and "nvme_complete_rq" not in self.names
        if reported is None and request.setup is not None and read:
            slot = slots.pop(0)
            reported = slot[0], slot[1], False
        now = self.reporting(event)
        at, irq, softirq = reported or now
        irq = irq or now[1]
        numbers = self.handlers[request.dev] | (self.handlers[0] if reported else set())
        numbers = numbers or self.follows(request.dev)
        if irq and irq[1] in (*numbers, -1) and irq[0] >= request.issued:
            interrupt = irq[0]
        else:
            starts = [ts for ts, number in self.starts if number in numbers]
            late = [ts for ts in starts if request.issued <= ts <= at]
            interrupt = max(late, default=at) if softirq else at
        inside = (event.pid, 0 if event.pid else event.cpu) if now[1] else None
        start = request.start(interrupt, inside, self.returns)
        return start, max(interrupt, start), event.ts

    def follows(self, dev: int) -> set[int]:
        """Of a device that completes in softirqs only: the number that most of them follow."""
        if dev not in self.followed:
            self.followed[dev] = self.follow(dev)
        return self.followed[dev]

    def follow(self, dev: int) -> set[int]:
        """That number, looked up in the whole trace."""
        counts: dict[int | None, int] = {}
        last: dict[int, int | None] = {}
        inside: dict[int, int | None] = {}
        for event in self.events:
            if event.name == "irq_handler_entry":
                last[event.cpu] = event.number("irq")
            elif event.name == "softirq_entry":
                inside[event.cpu] = last.pop(event.cpu, None)
            elif event.name == "block_rq_complete" and event.cpu in inside:
                if event.number("dev") != dev:
                    continue
                number = inside[event.cpu]
                counts[number] = counts.get(number, 0) + 1
            elif event.name == "softirq_exit":
                last[event.cpu] = inside.pop(event.cpu, None)
            elif event.name not in ("irq_handler_exit", "softirq_raise", "sched_waking"):
                last.pop(event.cpu, None) if event.cpu not in inside else None
        best = max(counts, key=lambda n: counts[n], default=None)
        most = best is not None and counts[best] * 2 >= sum(counts.values())
        return {best} if best is not None and most else set()

    # Tasks.

    def on_sched_waking(self, event: Event) -> None:
        """A task is woken: by an interrupt, or by a task in its I/O."""
        pid = event.number("pid")
        task, waker = self.tasks[pid, 0], self.task(event)
        irq = self.irq(event.cpu) or self.left.get(event.cpu)
        task.woken_by = irq[0] if irq else None
        if irq is None:
            chain = waker.woken_for if event.comm.startswith(HELPERS) else None
            asks = waker.io or chain
            helps = event.fields["comm"].startswith(HELPERS)
            task.woken_for = asks if asks and asks.op in WRITES and helps else None
        io = task.io
        if io and io.asleep:
            io.asleep = False
            if io.unproven:
                shown = irq is None and event.pid == io.unproven
                shown = shown or (irq is not None and self.last_done.get(event.cpu) is io)
                io.ambiguous, io.unproven = io.ambiguous or not shown, 0

    def on_sched_switch(self, event: Event) -> None:
        """One task goes, another one comes."""
        if io := self.task(event).io:
            io.asleep = event.number("prev_state") & 0xFF != 0
        following = self.tasks[event.number("next_pid"), 0]
        if event.number("next_pid") and following.io:
            following.io.asleep = False
        self.slots[event.cpu].clear()

    # Ends.

    def on_block_rq_complete(self, event: Event) -> None:
        """As above; who was completed last is remembered."""
        super().on_block_rq_complete(event)
        self.last_done[event.cpu] = next(iter(self.ended[event.cpu]), None)

    def on_iomap_dio_complete(self, event: Event) -> None:
        """The file system ends a direct I/O, in the interrupt that completed it."""
        current = self.task(event).io
        if current and current.op not in ASYNC:
            return
        if self.ended[event.cpu]:
            io = self.ended[event.cpu].pop(0)
            if io in self.open and self.is_over(io) and not io.posts:
                self.close(io, event.ts)

    @staticmethod
    def is_over(io: Io) -> bool:
        """An asynchronous one of which no more is to come."""
        waits = io.op not in ASYNC or io.submitting
        finished = all(not b.to_finish and not b.to_issue and not b.preflush for b in io.bios)
        return not waits and finished and not any(b.flushing for b in io.bios)

    def settle(self, event: Event) -> None:
        """The next event of a CPU: what was completed there has no later end."""
        if not self.is_known(event.name) or event.name == "iomap_dio_complete":
            return
        for io in self.ended.pop(event.cpu, []):
            self.close_if_over(io, event)

    def close_if_over(self, io: Io, event: Event) -> None:
        """Close an asynchronous I/O with its last completion."""
        posts = io.posts and "io_uring_complete" in self.names
        if io in self.open and self.is_over(io) and not posts and io.bios:
            self.close(io, io.last_done)

    def close(self, io: Io, end: int) -> None:
        """Measure an I/O. A helper's request that is still at the device counts for nobody."""
        if io not in self.open:
            return
        self.open.remove(io)
        io.end = max(end, io.start)
        for request in io.live:
            if any(bio.io is io and not bio.helper for bio in request.bios):
                start = request.start(io.end, None, self.returns)
                io.spans.append([start, io.end, io.end])
        if io.spans and not io.ambiguous:
            io.lengths = io.sections()
            self.done.append(io)


def analysed(path: Path) -> list[Io]:
    """The I/Os of a trace that have requests, in the order of their ends."""
    return Machine(list(report(path))).run()
