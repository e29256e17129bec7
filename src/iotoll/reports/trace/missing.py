"""What a trace does not tell: sections that its events cannot give, and how to record them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iotoll.records.models import CellRecord, Section, Stats, Unit
from iotoll.records.models.analysis import SumRecord

CALLS = "sys_enter_"
INTERRUPT = "irq_handler_entry"
REPORTS = ("nvme_complete_rq", "nvme_sq", "ufshcd_command", "mmc_request_done")
"""Events of drivers that report a completion."""
MARKS = (*REPORTS, "nvme_setup_cmd", "mmc_request_start", "scsi_dispatch_cmd")
"""Events of drivers that tell their part of a request from the device's."""

NO_SYSTEM_CALLS = "no event of system calls"
NO_INTERRUPT = "no event of the completion interrupt: it is part of hardware"

_BLOCK = "-e block"
_SCSI = "-e scsi:scsi_dispatch_cmd_start -e scsi:scsi_dispatch_cmd_done"
_DRIVERS = {"nvme": "-e nvme", "ufs": "-e ufs", "mmc": "-e mmc", "scsi": _SCSI}
_MAJORS = {259: "nvme", 179: "mmc", **dict.fromkeys((8, *range(65, 72)), "scsi")}
"""Drivers by the major number of their disks; 259 is nearly always NVMe (BLOCK_EXT_MAJOR)."""
_REST = {
    "vfs_fs and return": "-e syscalls -e io_uring",
    "completion, and what the interrupt took": "-e irq",
    "own time": "-e sched:sched_switch -e sched:sched_waking",
}


def has(record: CellRecord, *names: str) -> bool:
    """Whether an event of one of these names, or that begins with it, is in the trace."""
    events = record.trace.get("events", {})
    return any(event.startswith(names) for event in events)


def starts_ios(record: CellRecord) -> bool:
    """Whether an event shows where an I/O begins for the task that asked for it."""
    return has(record, CALLS, "io_uring_submit")


def overdue(blocks: Mapping[str, Any]) -> tuple[int, int]:
    """Requests and bios whose completion is missing, of all of them."""
    devices = blocks["devices"]
    rows = sum(d["requests"] + d["bios"] for d in devices)
    return sum(d["overdue"] for d in devices), rows


def incomplete(record: CellRecord) -> bool:
    """Whether something is missing that figures need; events that nobody recorded are not."""
    late, _ = overdue(record.blocks) if record.blocks else (0, 0)
    return bool(record.invalid or late or record.trace.get("lost_events"))


def warnings(record: CellRecord, blocks: Mapping[str, Any]) -> list[str]:
    """What a reader must know before any figure."""
    found = []
    late, rows = overdue(blocks)
    if late:
        why = "a filter by PID (-F, -P) leaves out interrupts, in which they are completed"
        if not has(record, "block_rq_complete", "complete"):
            why = "no block_rq_complete was recorded, or a filter by PID (-F, -P) left it out"
        found.append(f"{late:,} of {rows:,} requests and bios never end in the trace: {why}")
    if lost := record.trace.get("lost_events"):
        found.append(f"{lost:,} events are lost: record with a larger buffer (trace-cmd -b)")
    for name in record.trace.get("left_out", []):
        found.append(f"instance {name} records the same events again: it is left out")
    if count := sum(d["ambiguous"] for d in blocks["devices"]):
        found.append(
            f"{count:,} requests share their place with another in flight: they have no end here"
        )
    return found


def pruned(record: CellRecord, blocks: Mapping[str, Any]) -> CellRecord:
    """The record without the sections that the trace's events cannot give."""
    missing: dict[Section, str] = dict(record.not_in_source)
    if not record.not_in_source and record.total.elapsed.count:
        if not starts_ios(record):
            missing |= dict.fromkeys((Section.VFS_FS, Section.RETURN), NO_SYSTEM_CALLS)
        if not has(record, INTERRUPT, *REPORTS):
            missing[Section.COMPLETION] = NO_INTERRUPT
    late, rows = overdue(blocks)
    if late:
        why = f"{late:,} of {rows:,} requests have no completion in the trace"
        for section in (Section.HARDWARE, Section.COMPLETION, Section.RETURN):
            missing[section] = why
    if missing == record.not_in_source:
        return record
    sections = {s: part for s, part in record.sections.items() if s not in missing}
    paths = [
        path.model_copy(
            update={"sections": {s: p for s, p in path.sections.items() if s not in missing}}
        )
        for path in record.paths
    ]
    none = Stats(count=0)
    nothing = SumRecord(elapsed=none, own=none, own_clean=none)
    update: dict[str, Any] = {"sections": sections, "paths": paths, "not_in_source": missing}
    update["steps"] = [step for step in record.steps if step.section not in missing]
    if {Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION} & missing.keys():
        update["overhead"] = nothing
    if late:
        update["total"] = nothing
    return record.model_copy(update=update)


def command(record: CellRecord, blocks: Mapping[str, Any]) -> tuple[str, str] | None:
    """What else could be told, and the command that records it; None where all is there."""
    want = {}
    events = record.trace.get("events", {})
    if not starts_ios(record):
        want["vfs_fs and return"] = _REST["vfs_fs and return"]
    if not has(record, INTERRUPT):
        name = "completion, and what the interrupt took"
        want[name] = _REST[name]
    if not has(record, "sched_switch"):
        want["own time"] = _REST["own time"]
    if not has(record, *MARKS) and (found := _drivers(record, blocks)):
        want["what the driver took and what the device"] = " ".join(found)
    bios = [d for d in blocks["devices"] if d["bios"] and not d["requests"]]
    ended = any(d["durations"].get("q2c") for d in bios)
    wanted = ("block_bio_queue", "block_rq_issue", "block_rq_complete")
    lacks = [name for name in wanted if name not in events]
    if lacks and not has(record, "issue", "queue", "complete"):
        want[f"what {' and '.join(lacks)} {'tells' if len(lacks) == 1 else 'tell'}"] = _BLOCK
    elif bios and not ended:
        want["when bios end"] = "-e block:block_bio_complete"
    if not want:
        return None
    given = [] if _BLOCK in want.values() else [_BLOCK]
    words = " ".join(dict.fromkeys([*given, *_drivers(record, blocks), *want.values()]))
    clock = "-C mono " if record.unit is Unit.TICKS else ""
    return ", ".join(want), f"trace-cmd record {clock}{words} -o trace.dat COMMAND"


def _drivers(record: CellRecord, blocks: Mapping[str, Any]) -> list[str]:
    """The events of the drivers of the trace's disks; they are wanted with all others."""
    with_requests = (d["dev"] for d in blocks["devices"] if d["requests"])
    majors = [int(dev.partition(":")[0]) for dev in with_requests]
    found = [_MAJORS.get(major, "") for major in majors] + [record.device.get("driver", "")]
    return [events for driver, events in _DRIVERS.items() if driver in found]
