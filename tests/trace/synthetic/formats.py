"""The events of Linux 4.4, 4.9, 4.14, 4.19 and 5.4 that a storage trace has, field by field.

From include/trace/events/{block,mmc,scsi,ufs,irq,sched}.h, drivers/nvme/host/trace.h and
kernel/trace/trace_syscalls.c of those versions. Only the print format, which no reader of binary
records needs, is left plain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .container import Layout

KERNELS = ("4.4", "4.9", "4.14", "4.19", "5.4")

# C type: its struct code and signedness; `long` and pointers follow the machine.
TYPES: dict[str, tuple[str, int]] = {
    "unsigned short": ("H", 0),
    "unsigned char": ("B", 0),
    "u8": ("B", 0),
    "bool": ("B", 0),
    "u16": ("H", 0),
    "int": ("i", 1),
    "pid_t": ("i", 1),
    "unsigned int": ("I", 0),
    "u32": ("I", 0),
    "dev_t": ("I", 0),
    "u64": ("Q", 0),
    "sector_t": ("Q", 0),
}
SIZES = {"B": 1, "H": 2, "I": 4, "i": 4, "Q": 8, "q": 8}
COMMON = (
    "unsigned short common_type, unsigned char common_flags, "
    "unsigned char common_preempt_count, int common_pid"
)

_SPAN = "dev_t dev, sector_t sector, unsigned int nr_sector"
_BIO = f"{_SPAN}, char rwbs[8], char comm[16]"
_RQ = f"{_SPAN}, unsigned int bytes, char rwbs[8], char comm[16], string cmd"
_SCSI = "u32 host_no, u32 channel, u32 id, u32 lun"
_SCSI_REST = (
    "u32 opcode, u32 cmd_len, u32 data_sglen, u32 prot_sglen, unsigned char prot_op, bytes cmnd"
)
_RETUNE = (
    "unsigned int can_retune, unsigned int doing_retune, unsigned int retune_now, int need_retune, "
    "int hold_retune, unsigned int retune_period, pointer mrq, string name"
)


def _block(kernel: tuple[int, int]) -> dict[str, str]:
    # `errors` became `error` in 4.12, and block_rq_requeue lost it.
    error = "error" if kernel >= (4, 12) else "errors"
    with_error = f"{_SPAN}, int {error}, char rwbs[8], string cmd"
    return {
        "block_bio_queue": _BIO,
        "block_bio_backmerge": _BIO,
        "block_bio_frontmerge": _BIO,
        "block_getrq": _BIO,
        "block_rq_insert": _RQ,
        "block_rq_issue": _RQ,
        "block_rq_requeue": f"{_SPAN}, char rwbs[8], string cmd"
        if kernel >= (4, 12)
        else with_error,
        "block_rq_complete": with_error,
        "block_plug": "char comm[16]",
        "block_unplug": "int nr_rq, char comm[16]",
    }


def _nvme(kernel: tuple[int, int]) -> dict[str, str]:
    if kernel < (4, 16):
        return {}
    disk = "char disk[32], int ctrl_id, int qid"
    fctype = "u8 fctype, " if kernel >= (5, 3) else ""
    metadata = "bool" if kernel >= (5, 3) else "u64"
    events = {
        "nvme_setup_cmd": f"{disk}, u8 opcode, u8 flags, {fctype}u16 cid, u32 nsid, "
        f"{metadata} metadata, u8 cdw10[24]",
        "nvme_complete_rq": f"{disk}, int cid, u64 result, u8 retries, u8 flags, u16 status",
    }
    if kernel >= (5, 0):
        events["nvme_sq"] = "int ctrl_id, char disk[32], int qid, u16 sq_head, u16 sq_tail"
    return events


def _mmc(kernel: tuple[int, int]) -> dict[str, str]:
    if kernel < (4, 8):
        return {}
    cqe = kernel >= (4, 15)  # the members for command queueing
    parts = [
        f"u32 {p}_opcode, u32 {p}_arg, unsigned int {p}_flags, unsigned int {p}_retries"
        for p in ("cmd", "stop", "sbc")
    ]
    parts.append("unsigned int blocks" + (", unsigned int blk_addr" if cqe else ""))
    parts.append("unsigned int blksz, unsigned int data_flags" + (", int tag" if cqe else ""))
    done = [
        f"u32 {p}_opcode, int {p}_err, u32 {p}_resp[4], unsigned int {p}_retries"
        for p in ("cmd", "stop", "sbc")
    ]
    done.append("unsigned int bytes_xfered, int data_err" + (", int tag" if cqe else ""))
    return {
        "mmc_request_start": ", ".join([*parts, _RETUNE]),
        "mmc_request_done": ", ".join([*done, _RETUNE]),
    }


def _ufs(kernel: tuple[int, int]) -> dict[str, str]:
    if kernel < (4, 11):
        return {}
    return {
        "ufshcd_command": "string dev_name, string str, unsigned int tag, u32 doorbell, "
        "int transfer_len, u32 intr, u64 lba, u8 opcode"
    }


def _syscalls(kernel: tuple[int, int]) -> dict[str, str]:
    number = "int __syscall_nr" if kernel >= (4, 7) else "int nr"
    rw = f"{number}, argument fd, argument buf, argument count, argument pos"
    events = {f"sys_enter_{name}": rw for name in ("pread64", "pwrite64")}
    events["sys_enter_fsync"] = f"{number}, argument fd"
    return events | {f"sys_exit_{e[10:]}": f"{number}, long ret" for e in list(events)}


def events(version: str) -> dict[tuple[str, str], str]:
    """The fields of each (system, event) of a kernel, without the common ones."""
    major, minor = version.split(".")
    kernel = (int(major), int(minor))
    systems = {
        "block": _block(kernel),
        "nvme": _nvme(kernel),
        "mmc": _mmc(kernel),
        "ufs": _ufs(kernel),
        "scsi": {
            "scsi_dispatch_cmd_start": f"{_SCSI}, {_SCSI_REST}",
            "scsi_dispatch_cmd_done": f"{_SCSI}, int result, {_SCSI_REST}",
        },
        "irq": {
            "irq_handler_entry": "int irq, string name",
            "irq_handler_exit": "int irq, int ret",
            "softirq_entry": "unsigned int vec",
            "softirq_exit": "unsigned int vec",
        },
        "sched": {
            "sched_switch": "char prev_comm[16], pid_t prev_pid, int prev_prio, long prev_state, "
            "char next_comm[16], pid_t next_pid, int next_prio"
        },
        "syscalls": _syscalls(kernel),
    }
    return {(system, name): f for system, found in systems.items() for name, f in found.items()}


@dataclass(frozen=True)
class Field:
    """One field as it lies in a record."""

    kind: str
    name: str
    count: int
    offset: int
    size: int
    code: str
    signed: int


class Event:
    """One event of one kernel on one machine: its format text, and its records."""

    def __init__(self, layout: Layout, system: str, name: str, number: int, fields: str) -> None:
        self.layout, self.system, self.name, self.number = layout, system, name, number
        self.fields: list[Field] = []
        at = 0
        for text in f"{COMMON}, {fields}".split(", "):
            field = self._place(text, at)
            self.fields.append(field)
            at = field.offset + field.size
        self.size = at

    def _place(self, text: str, at: int) -> Field:
        kind, _, name = text.rpartition(" ")
        name, _, count = name.partition("[")
        long = "q" if self.layout.long_size == 8 else "i"
        if kind in ("string", "bytes"):
            code, signed = "I", 1 if kind == "string" else 0
        elif kind == "char":
            code, signed = "B", 0
        elif kind in ("long", "argument", "pointer"):
            code, signed = (long, 1) if kind == "long" else (long.upper(), 0)
        else:
            code, signed = TYPES[kind]
        unit = SIZES[code]
        number = int(count.rstrip("]")) if count else 1
        return Field(kind, name, number, -(-at // unit) * unit, unit * number, code, signed)

    def format(self) -> str:
        """The text of the event's format file."""
        lines = [f"name: {self.name}", f"ID: {self.number}", "format:"]
        for i, field in enumerate(self.fields):
            suffix = f"[{field.count}]" if field.size > SIZES[field.code] else ""
            kinds = {
                "string": f"__data_loc char[] {field.name}",
                "bytes": f"__data_loc unsigned char[] {field.name}",
                "argument": f"unsigned long {field.name}",
                "pointer": f"struct mmc_request * {field.name}",
            }
            words = kinds.get(field.kind, f"{field.kind} {field.name}{suffix}")
            lines.append(
                f"\tfield:{words};\toffset:{field.offset};\tsize:{field.size};"
                f"\tsigned:{field.signed};"
            )
            if i == 3:
                lines.append("")
        return "\n".join([*lines, "", f'print fmt: "%d", REC->{self.fields[-1].name}', ""])

    def record(self, pid: int, values: Mapping[str, Any]) -> bytes:
        """A record's bytes: absent fields are zero, texts and byte strings lie behind the rest."""
        unknown = set(values) - {field.name for field in self.fields}
        if unknown:
            raise KeyError(f"{self.name} has no {', '.join(sorted(unknown))}")
        values = {"common_type": self.number, "common_pid": pid, **values}
        out, behind = bytearray(self.size), bytearray()
        for field in self.fields:
            value = values.get(field.name, 0)
            if field.kind in ("string", "bytes"):
                data = value.encode() + b"\0" if isinstance(value, str) else bytes(value or b"\0")
                packed = self.layout.pack("I", len(data) << 16 | self.size + len(behind))
                behind += data
            elif field.kind == "char":
                packed = str(value or "").encode()[: field.count].ljust(field.count, b"\0")
            elif field.size > SIZES[field.code]:
                packed = self.layout.pack(field.code * field.count, *([value] * field.count))
            else:
                packed = self.layout.pack(field.code, value)
            out[field.offset : field.offset + field.size] = packed
        return bytes(out + behind)
