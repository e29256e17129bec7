"""What the storage drivers of Linux 4.4 to 5.4 do, as their trace events tell it.

A driver's ``issue`` returns the time at which its device has the request: the doorbell, or the last
event before it. Its ``complete`` returns the time of the interrupt (or of the driver's completion
event where no interrupt encloses it) and, for each request, of its ``block_rq_complete``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .machine import Machine

BLOCK_SOFTIRQ, TASKLET_SOFTIRQ = 4, 6
READ, WRITE, FLUSH = "R", "WS", "FF"


@dataclass
class Request:
    """A request at the block layer; ``tag`` is its place in the driver's queue."""

    sector: int
    sectors: int
    rwbs: str
    tag: int


class Driver:
    """A disk whose driver has no events: virtio, or an old kernel's."""

    dev = 253 << 20
    irq, irq_name = 27, "virtio0-req.0"

    def __init__(self, machine: Machine) -> None:
        self.m = machine

    def bio(self, cpu: int, request: Request, event: str = "block_bio_queue") -> int:
        """A bio event over the request's sectors."""
        return self.m.emit(
            cpu,
            event,
            dev=self.dev,
            sector=request.sector,
            nr_sector=request.sectors,
            rwbs=request.rwbs,
            comm=self.m.comm(self.m.tasks[cpu]),
        )

    def rq(self, cpu: int, event: str, request: Request) -> int:
        """A request event. ``bytes`` is 0 for file system requests up to 4.9."""
        old = self.m.kernel in ("4.4", "4.9")
        sector = 0 if request.rwbs == FLUSH else request.sector
        return self.m.emit(
            cpu,
            event,
            dev=self.dev,
            sector=sector,
            nr_sector=request.sectors,
            bytes=0 if old else request.sectors * 512,
            rwbs=request.rwbs,
            comm=self.m.comm(self.m.tasks[cpu]),
            cmd="",
        )

    def rq_complete(self, cpu: int, request: Request) -> int:
        """The block layer learns that the request is done.

        A flush has no sector, which shows as -1; it ends the empty request that it was sent for.
        """
        if request.rwbs == FLUSH:
            self._rq_complete(cpu, Request((1 << 64) - 1, 0, FLUSH, request.tag))
            return self._rq_complete(cpu, Request(0, 0, "WS", request.tag))
        return self._rq_complete(cpu, request)

    def _rq_complete(self, cpu: int, request: Request) -> int:
        return self.m.emit(
            cpu,
            "block_rq_complete",
            dev=self.dev,
            sector=request.sector,
            nr_sector=request.sectors,
            rwbs=request.rwbs,
            cmd="",
        )

    def requeue(self, cpu: int, request: Request) -> int:
        """The device had no room."""
        return self.m.emit(
            cpu,
            "block_rq_requeue",
            dev=self.dev,
            sector=request.sector,
            nr_sector=request.sectors,
            rwbs=request.rwbs,
            cmd="",
        )

    def issue(self, cpu: int, request: Request) -> int:
        """Hand the request over."""
        return self.rq(cpu, "block_rq_issue", request)

    def complete(self, cpu: int, requests: Sequence[Request]) -> tuple[int, list[int]]:
        """One interrupt completes the requests."""
        irq = self.m.emit(cpu, "irq_handler_entry", irq=self.irq, name=self.irq_name)
        done = [self.finish(cpu, request) for request in requests]
        self.m.emit(cpu, "irq_handler_exit", irq=self.irq, ret=1)
        return irq, done

    def finish(self, cpu: int, request: Request) -> int:
        """What the interrupt does for one request."""
        return self.rq_complete(cpu, request)


class Nvme(Driver):
    """NVMe: no events before 4.16, the submission queue's since 5.0."""

    dev = 259 << 20
    irq, irq_name = 41, "nvme0q1"
    disk = "nvme0n1"

    def issue(self, cpu: int, request: Request) -> int:
        """``nvme_setup_cmd`` comes before the DMA mapping and before ``block_rq_issue``."""
        if self.m.has("nvme_setup_cmd"):
            self.m.emit(
                cpu,
                "nvme_setup_cmd",
                disk=self.disk,
                qid=cpu + 1,
                opcode={"R": 2, "W": 1, "F": 0}[request.rwbs[0]],
                cid=request.tag,
                nsid=1,
            )
        return self.rq(cpu, "block_rq_issue", request)

    def finish(self, cpu: int, request: Request) -> int:
        """The completion queue's entry, then the request's own completion."""
        if self.m.has("nvme_sq"):
            self.m.emit(cpu, "nvme_sq", disk=self.disk, qid=cpu + 1, sq_head=1, sq_tail=1)
        if self.m.has("nvme_complete_rq"):
            self.m.emit(
                cpu, "nvme_complete_rq", disk=self.disk, qid=cpu + 1, cid=request.tag, status=0
            )
        return self.rq_complete(cpu, request)


class Scsi(Driver):
    """A SCSI disk: the request completes in a softirq behind the interrupt."""

    dev = 8 << 20
    irq, irq_name = 33, "sym53c8xx"

    def issue(self, cpu: int, request: Request) -> int:
        """``block_rq_issue``, then the command goes to the host driver."""
        self.rq(cpu, "block_rq_issue", request)
        return self.command(cpu, "scsi_dispatch_cmd_start", request)

    def command(self, cpu: int, event: str, request: Request) -> int:
        """An event of the SCSI middle layer."""
        opcode = {"R": 0x28, "W": 0x2A, "F": 0x35}[request.rwbs[0]]
        place = request.sector.to_bytes(4, "big")
        cdb = bytes([opcode, 0]) + place + b"\0" + request.sectors.to_bytes(2, "big") + b"\0"
        return self.m.emit(cpu, event, host_no=0, opcode=opcode, cmd_len=10, cmnd=cdb)

    def complete(self, cpu: int, requests: Sequence[Request]) -> tuple[int, list[int]]:
        """The interrupt raises the block softirq, which ends the requests."""
        irq = self.m.emit(cpu, "irq_handler_entry", irq=self.irq, name=self.irq_name)
        for request in requests:
            self.finish(cpu, request)
        self.m.emit(cpu, "irq_handler_exit", irq=self.irq, ret=1)
        self.m.emit(cpu, "softirq_entry", vec=BLOCK_SOFTIRQ)
        done = [self.rq_complete(cpu, request) for request in requests]
        self.m.emit(cpu, "softirq_exit", vec=BLOCK_SOFTIRQ)
        return irq, done

    def finish(self, cpu: int, request: Request) -> int:
        """The host driver's part, in the interrupt."""
        return self.command(cpu, "scsi_dispatch_cmd_done", request)


class Ufs(Scsi):
    """UFS with the string form of ``ufshcd_command`` (4.11 to 5.4)."""

    irq, irq_name = 58, "ufshcd"

    def issue(self, cpu: int, request: Request) -> int:
        """The command goes through SCSI to the UFS host."""
        super().issue(cpu, request)
        return self.ufs(cpu, "send", request)

    def ufs(self, cpu: int, what: str, request: Request) -> int:
        """The UFS host's event; its logical block address is in sectors of 512 bytes."""
        return self.m.emit(
            cpu,
            "ufshcd_command",
            dev_name="ff3c0000.ufs",
            str=what,
            tag=request.tag,
            doorbell=1 << request.tag,
            transfer_len=request.sectors * 512,
            lba=request.sector,
            opcode={"R": 0x28, "W": 0x2A, "F": 0x35}[request.rwbs[0]],
        )

    def finish(self, cpu: int, request: Request) -> int:
        """The UFS host's completion comes first."""
        self.ufs(cpu, "complete", request)
        return super().finish(cpu, request)


class Emmc(Driver):
    """eMMC: up to 4.15 a thread takes each request to the host and ends it, later a worker."""

    dev = 179 << 20
    irq, irq_name = 61, "mmc0"
    thread = 77

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.has_thread = machine.kernel in ("4.4", "4.9", "4.14")
        machine.comms[self.thread] = "mmcqd/0" if self.has_thread else "kworker/0:1H"

    def mmc(self, cpu: int, event: str, request: Request, **values: object) -> int:
        """An event of the MMC core."""
        mrq = 0xC0001000 + 0x100 * request.tag
        opcode = 18 if request.rwbs[0] == "R" else 25
        return self.m.emit(cpu, event, cmd_opcode=opcode, mrq=mrq, name="mmc0", **values)

    def issue(self, cpu: int, request: Request) -> int:
        """The request goes to the host: from the queue's thread, which then waits, or at once."""
        if self.has_thread:
            self.m.switch(cpu, self.thread, state=2)
        device = self.rq(cpu, "block_rq_issue", request)
        if self.m.has("mmc_request_start"):
            values = {"cmd_arg": request.sector, "blocks": request.sectors, "blksz": 512}
            device = self.mmc(cpu, "mmc_request_start", request, **values)
        return device

    def complete(self, cpu: int, requests: Sequence[Request]) -> tuple[int, list[int]]:
        """The MMC core is done in a tasklet, or since 5.2 in the interrupt; the rest is a task's.

        A softirq right behind the interrupt belongs to it.
        """
        irq = self.m.emit(cpu, "irq_handler_entry", irq=self.irq, name=self.irq_name)
        if self.m.kernel == "5.4":
            self._mmc_done(cpu, requests)
            self.m.emit(cpu, "irq_handler_exit", irq=self.irq, ret=1)
            marks = [irq]
        else:
            self.m.emit(cpu, "irq_handler_exit", irq=self.irq, ret=1)
            self.m.emit(cpu, "softirq_entry", vec=TASKLET_SOFTIRQ)
            marks = [irq] if self._mmc_done(cpu, requests) else []
            self.m.emit(cpu, "softirq_exit", vec=TASKLET_SOFTIRQ)
        self.m.switch(cpu, self.thread)
        done = [self.rq_complete(cpu, request) for request in requests]
        return (marks or done)[-1], done

    def _mmc_done(self, cpu: int, requests: Sequence[Request]) -> list[int]:
        if not self.m.has("mmc_request_done"):
            return []
        return [
            self.mmc(cpu, "mmc_request_done", r, bytes_xfered=r.sectors * 512) for r in requests
        ]


DRIVERS: dict[str, type[Driver]] = {
    "virtio": Driver,
    "nvme": Nvme,
    "scsi": Scsi,
    "ufs": Ufs,
    "emmc": Emmc,
}
