"""AArch64 instructions as an in-order pipeline sees them: what they read, write and occupy.

Capstone decodes; what an instruction is here follows from its name and operands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import capstone
from capstone import arm64

from iotoll_lab.estimate.core import Core

Branch = Literal["", "conditional", "direct", "indirect", "return"]
Unit = Literal["", "memory", "multiply", "shift", "branch"]
Reads = tuple[tuple[str, int], ...]

FLAGS = "nzcv"
_SHIFTED = re.compile(r"(u|s)?bf\w+|(u|s)xt\w|extr|rbit|rev\w*|crc32\w+")
_SHIFTS = ("lsl", "lsr", "asr", "ror")
_LONG = re.compile(r"[su]m(ull|negl|addl|subl)")
_READS_FLAGS = re.compile(r"(adc|sbc|ngc)s?$|cs|cinc|cinv|cneg|ccm|cset")
_KEEPS = ("movk", "bfi", "bfxil", "bfm", "bfc")
"""Instructions that change a part of their first register."""
_COMPARES = ("cmp", "cmn", "tst", "ccmp", "ccmn")
"""What writes flags alone: Capstone says that they write their first register."""
_PLAIN_SYSTEM = ("sp_el0", "tpidr_el1", "tpidr_el2", "tpidr_el0")
"""System registers that the kernel keeps pointers in: read as if they were plain ones."""
_EXCLUSIVE = re.compile(
    r"(ld|st)a?l?x[rp]|cas|swp|ld(add|clr|set|eor|[su]m(ax|in))|st(add|clr|set)"
)
_EXCEPTIONS = ("svc", "hvc", "smc", "eret", "brk")


@dataclass(frozen=True)
class Op:
    """One instruction: ``reads`` are registers and when each is needed, ``writes`` when ready.

    ``unit`` takes ``busy`` cycles; ``wait`` are cycles in which nothing else is issued. ``place``
    is what a load or store accesses, as far as its text tells.
    """

    reads: Reads = ()
    writes: Reads = ()
    unit: Unit = ""
    busy: int = 1
    wait: int = 0
    branch: Branch = ""
    place: tuple[str, int] | None = None
    is_store: bool = False


class Decoder:
    """Decodes for one core; an instruction word is decoded once."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._tool = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
        self._tool.detail = True
        self._known: dict[int, Op] = {}

    def ops(self, words: Iterable[int]) -> list[Op]:
        """The instructions of words; one that is none is a plain one without operands."""
        found = []
        for word in words:
            op = self._known.get(word)
            if op is None:
                op = self._known[word] = self._decoded(word)
            found.append(op)
        return found

    def _decoded(self, word: int) -> Op:
        # Any place will do: no operand depends on where an instruction is.
        for one in self._tool.disasm(word.to_bytes(4, "little"), 0x1000):
            return self._op(one)
        return Op()

    def _op(self, one: Any) -> Op:
        name = one.mnemonic.partition(".")[0]
        if one.mnemonic.startswith("b.") or name in ("cbz", "cbnz", "tbz", "tbnz"):
            reads = [(r, self.core.needs.operand) for r in _registers(one)]
            if one.mnemonic.startswith("b."):
                reads = [(FLAGS, self.core.needs.operand)]
            return Op(tuple(reads), unit="branch", branch="conditional")
        if name in ("b", "bl"):
            return Op(writes=self._link(name), unit="branch", branch="direct")
        if name in ("br", "blr", "ret"):
            reads = [(r, self.core.needs.operand) for r in _registers(one)] or [("x30", 0)]
            kind: Branch = "return" if name == "ret" else "indirect"
            return Op(tuple(reads), self._link(name), unit="branch", branch=kind)
        if wait := self._waits(one, name):
            return Op(reads=tuple((r, 0) for r in _registers(one)), wait=wait)
        if any(o.type == arm64.ARM64_OP_MEM for o in one.operands):
            return self._memory(one, name)
        return self._computed(one, name)

    def _link(self, name: str) -> Reads:
        return (("x30", self.core.ready.alu),) if name in ("bl", "blr") else ()

    def _waits(self, one: Any, name: str) -> int:
        waits = self.core.waits
        if name in ("dmb", "dsb", "isb", "tlbi", "ic", "dc"):
            return int(
                getattr(waits, {"tlbi": "tlb", "ic": "cache", "dc": "cache"}.get(name, name))
            )
        if name in _EXCEPTIONS:
            return waits.exception
        if name in ("mrs", "msr", "sys", "sysl", "at"):
            return 0 if any(word in one.op_str for word in _PLAIN_SYSTEM) else waits.system
        return 0

    def _memory(self, one: Any, name: str) -> Op:
        needs, ready = self.core.needs, self.core.ready
        memory = next(o.mem for o in one.operands if o.type == arm64.ARM64_OP_MEM)
        base = _name(one.reg_name(memory.base))
        index = _name(one.reg_name(memory.index)) if memory.index else ""
        reads = [(r, needs.address) for r in (base, index) if r]
        data = [one.reg_name(o.reg) for o in one.operands if o.type == arm64.ARM64_OP_REG]
        writes = [(base, ready.alu)] if one.writeback else []
        is_pair = name in ("ldp", "ldpsw", "ldnp")
        place = None if index or one.writeback else (base, int(memory.disp))
        if _EXCLUSIVE.match(name):
            named = [_name(r) for r in data if _name(r)]
            reads += [(r, needs.stored) for r in named]
            writes += [(r, ready.exclusive) for r in named[:1]]
            return Op(tuple(reads), tuple(writes), "memory", 2)
        if name.startswith("st"):
            reads += [(_name(r), needs.stored) for r in data if _name(r)]
            return Op(tuple(reads), tuple(writes), "memory", place=place, is_store=True)
        if name.startswith("ld"):
            is_small = name not in ("ldr", "ldur", "ldp", "ldnp", "ldar", "ldtr", "ldapr")
            for number, register in enumerate(data):
                is_64 = not is_small and register[0] in "xfl"
                when = ready.load if is_64 else ready.load_small
                when += ready.load_second if number and is_64 else 0
                if _name(register):
                    writes.append((_name(register), when))
        busy = self.core.busy.load_pair if is_pair else 1
        return Op(tuple(reads), tuple(writes), "memory", busy, place=place)

    def _computed(self, one: Any, name: str) -> Op:
        needs = self.core.needs
        read, written = ({one.reg_name(n) for n in numbers} for numbers in one.regs_access())
        if name in _COMPARES:
            read, written = read | written, set()
        all_shifted = _SHIFTED.match(name) is not None or (
            name in _SHIFTS and one.operands[-1].type == arm64.ARM64_OP_IMM
        )
        shifted = {
            _name(one.reg_name(o.reg))
            for o in one.operands
            if o.type == arm64.ARM64_OP_REG and (o.shift.type or o.ext)
        }
        when, unit, busy, ready = self._unit(one, name)
        reads = {}
        for register in sorted(map(_name, read)):
            if register and register != FLAGS:
                early = all_shifted or register in shifted
                reads[register] = needs.shifted if early else when
        first = next((o.reg for o in one.operands if o.type == arm64.ARM64_OP_REG), None)
        if name in _KEEPS and first is not None:
            reads[_name(one.reg_name(first))] = needs.shifted if name != "movk" else when
        if _READS_FLAGS.match(name):
            reads[FLAGS] = needs.operand
        writes = [(r, ready) for r in sorted(map(_name, written)) if r not in ("", FLAGS)]
        if one.update_flags or name in _COMPARES:
            writes.append((FLAGS, ready))
        return Op(tuple(reads.items()), tuple(writes), unit, busy)

    def _unit(self, one: Any, name: str) -> tuple[int, Unit, int, int]:
        """When operands are needed, which unit is busy how long, when the result is ready."""
        needs, ready, busy = self.core.needs, self.core.ready, self.core.busy
        if name in ("sdiv", "udiv"):
            return needs.multiplied, "multiply", busy.divide, ready.divide
        if name in ("smulh", "umulh"):
            return needs.multiplied, "multiply", busy.multiply_high, ready.multiply_high
        if _LONG.match(name):
            return needs.multiplied, "multiply", 1, ready.multiply_32
        if name in ("mul", "mneg", "madd", "msub"):
            if one.op_str.startswith("w"):
                return needs.multiplied, "multiply", 1, ready.multiply_32
            adds = name in ("mneg", "madd")
            cycles = busy.multiply_add_64 if adds else busy.multiply_64
            return needs.multiplied, "multiply", cycles, ready.multiply_64 + adds
        by_register = name in _SHIFTS and one.operands[-1].type == arm64.ARM64_OP_REG
        return needs.operand, "shift" if by_register else "", 1, ready.alu


def _registers(one: Any) -> list[str]:
    names = (one.reg_name(o.reg) for o in one.operands if o.type == arm64.ARM64_OP_REG)
    return [name for name in map(_name, names) if name]


@cache
def _name(register: str | None) -> str:
    """A register as all of its parts are called here; empty for what is always 0."""
    if register in (None, "xzr", "wzr"):
        return ""
    known = {"fp": "x29", "lr": "x30", "wsp": "sp", "w29": "x29", "w30": "x30"}
    name = known.get(str(register), str(register))
    return f"x{name[1:]}" if re.fullmatch(r"w\d+", name) else name
