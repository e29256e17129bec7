"""x86-64 machine code: where instructions begin, and which of their bytes are addresses.

All places of a piece of code are decoded at once, as if an instruction began at each; the real ones
are those that follow each other from the beginning of a function. Lengths and fields are those of
Intel's Software Developer's Manual, volume 2, appendix A (opcode maps) and chapter 2 (prefixes,
ModRM, SIB, VEX and EVEX), of 64-bit mode alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LONGEST = 15
"""Bytes of an instruction."""

CALL, JUMP, SHORT_JUMP, RETURN, INT3 = 0xE8, 0xE9, 0xEB, 0xC3, 0xCC
TWO_BYTES = 0x100
"""Opcodes of the map 0F are these and the second byte; of 0F38 and 0F3A twice and three times."""

_PREFIXES = (0x66, 0x67, 0xF0, 0xF2, 0xF3, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65)
_NONE, _BYTE, _WORD, _SIZED, _FULL, _ADDRESS, _ENTER, _REL32 = range(8)
"""Kinds of immediates: of none, 1 or 2 bytes; of the operand's size up to 4; of all of it; an
address of 8; 2 and 1; and a distance of 4 whatever the operand's size."""

_CHUNK = 1 << 19  # bytes that are decoded at a time: 100 bytes of memory for each
_RIP = 5  # r/m of an address relative to the next instruction


@cache
def _one_byte() -> tuple[Flags, Bytes]:
    """Of the map of one byte: which opcodes have a ModRM byte, and the kinds of immediates."""
    modrm, kind = np.zeros(256, np.bool_), np.zeros(256, np.uint8)
    for row in range(0x00, 0x40, 8):
        modrm[row : row + 4] = True
        kind[row + 4], kind[row + 5] = _BYTE, _SIZED
    modrm[[0x63, 0x69, 0x6B]] = True
    kind[[0x68, 0x69]], kind[[0x6A, 0x6B]] = _SIZED, _BYTE
    kind[0x70:0x80] = _BYTE
    modrm[0x80:0x90] = True
    kind[[0x80, 0x82, 0x83]], kind[0x81] = _BYTE, _SIZED
    kind[0xA0:0xA4] = _ADDRESS
    kind[0xA8], kind[0xA9] = _BYTE, _SIZED
    kind[0xB0:0xB8], kind[0xB8:0xC0] = _BYTE, _FULL
    modrm[[0xC0, 0xC1, 0xC6, 0xC7]] = True
    kind[[0xC0, 0xC1, 0xC6]], kind[0xC7] = _BYTE, _SIZED
    kind[[0xC2, 0xCA]], kind[0xC8], kind[0xCD] = _WORD, _ENTER, _BYTE
    modrm[0xD0:0xD4] = True
    modrm[0xD8:0xE0] = True
    kind[0xE0:0xE8], kind[0xE8:0xEA], kind[0xEB] = _BYTE, _REL32, _BYTE
    modrm[[0xF6, 0xF7, 0xFE, 0xFF]] = True
    return modrm, kind


@cache
def _two_bytes() -> tuple[Flags, Bytes]:
    """The same of the map 0F."""
    modrm, kind = np.ones(256, np.bool_), np.zeros(256, np.uint8)
    for first, last in ((0x04, 0x0D), (0x0E, 0x0F), (0x30, 0x38), (0x80, 0x90), (0xC8, 0xD0)):
        modrm[first:last] = False
    modrm[[0x77, 0xA0, 0xA1, 0xA2, 0xA8, 0xA9, 0xAA]] = False
    kind[0x70:0x74], kind[0x80:0x90] = _BYTE, _REL32
    kind[[0x0F, 0xA4, 0xAC, 0xBA, 0xC2, 0xC4, 0xC5, 0xC6]] = _BYTE
    return modrm, kind


@dataclass(frozen=True, eq=False)
class Decoded:
    """An instruction at each place of some code, or at chosen ones; all of shape (places,).

    ``opcode`` is without prefixes and REX; of the map 0F `TWO_BYTES` and its second byte. ``modrm``
    is -1 where there is none. ``moved`` is where the displacement begins, ``moved_size`` its bytes
    (0: none), ``relative`` whether it counts from the next instruction; ``fixed`` and
    ``fixed_size`` are the same of the immediate. ``wide`` is whether its operands have 64 bits,
    ``locked``, ``repeated`` and ``segmented`` whether it has LOCK, REP or a segment of its own.
    """

    place: Numbers
    length: Numbers
    opcode: Numbers
    modrm: Numbers
    moved: Numbers
    moved_size: Numbers
    relative: Flags
    fixed: Numbers
    fixed_size: Numbers
    wide: Flags
    locked: Flags
    repeated: Flags
    segmented: Flags

    def at(self, places: Numbers) -> Decoded:
        """Those at some of the places, by their numbers."""
        return Decoded(*(getattr(self, name)[places] for name in self.__dataclass_fields__))

    def behind(self, bytes_before: int) -> Decoded:
        """The same with so many bytes before the first one."""
        places = ("place", "moved", "fixed")
        return replace(self, **{name: getattr(self, name) + bytes_before for name in places})

    @property
    def is_nop(self) -> Flags:
        """``nop`` of any length, and the breakpoints that pad what lies between functions."""
        found: Flags = np.isin(self.opcode, (0x90, TWO_BYTES | 0x1F, INT3)) & ~self.repeated
        return found

    @property
    def is_branch(self) -> Flags:
        """Jumps and calls by a distance."""
        conditional = (self.opcode & ~0xF == 0x70) | (self.opcode & ~0xF == TWO_BYTES | 0x80)
        loops = (self.opcode >= 0xE0) & (self.opcode < 0xE4)
        found: Flags = conditional | loops | np.isin(self.opcode, (CALL, JUMP, SHORT_JUMP))
        return found


def decode(code: Bytes, more: Bytes | None = None) -> Decoded:
    """What an instruction would be that began at each byte of some code; ``more`` is behind it."""
    count = len(code)
    data = np.concatenate([code, code[:0] if more is None else more, np.zeros(32, np.uint8)])
    place = np.arange(count, dtype=np.int64)
    is_prefix = np.isin(data, _PREFIXES)
    numbers = np.arange(len(data), dtype=np.int64)
    behind = np.minimum.accumulate(np.where(is_prefix, len(data) - 1, numbers)[::-1])[::-1]
    head = np.minimum(behind[:count], place + LONGEST - 1)

    def has(*values: int) -> Flags:
        total = np.concatenate([[0], np.cumsum(np.isin(data, values))])
        return total[head] > total[place]

    wide, at, byte, chosen, is_vex = _opcodes(data, head)
    opcode = byte + TWO_BYTES * np.minimum(chosen, 3)
    has_modrm, kind = _forms(byte, chosen, is_vex)
    at = at + 1
    modrm = np.where(has_modrm, data[at].astype(np.int64), -1)
    moved, moved_size, relative = _displacement(data, at, modrm)
    fixed = moved + moved_size
    # TEST of F6 and F7 alone has an immediate.
    tests = has_modrm & ((modrm >> 3 & 7) < 2)
    kind = np.where((opcode == 0xF6) & tests, _BYTE, kind)
    kind = np.where((opcode == 0xF7) & tests, _SIZED, kind)
    narrow = has(0x66) & ~wide
    sized = np.where(narrow, 2, 4)
    fixed_size = np.array([0, 1, 2, 0, 0, 0, 3, 4])[kind]
    for of_kind, size in (
        (_SIZED, sized), (_FULL, np.where(wide, 8, sized)), (_ADDRESS, np.where(has(0x67), 4, 8)),
    ):  # fmt: skip
        fixed_size = np.where(kind == of_kind, size, fixed_size)
    length = fixed + fixed_size - place
    return Decoded(
        place, length, opcode, modrm, moved, moved_size, relative, fixed, fixed_size, wide,
        has(0xF0), has(0xF2, 0xF3), has(0x64, 0x65),
    )  # fmt: skip


def _opcodes(data: Bytes, head: Numbers) -> tuple[Flags, Numbers, Numbers, Numbers, Flags]:
    """What is behind other prefixes: whether operands have 64 bits, where the opcode is, its last
    byte and its map (0 to 3, or another one of EVEX), and whether VEX or EVEX precedes it."""
    rex = (data[head] & 0xF0) == 0x40
    wide = rex & ((data[head] & 8) != 0)
    at = head + rex
    first = data[at]
    vex2, vex3, evex = ((first == byte) & ~rex for byte in (0xC5, 0xC4, 0x62))
    is_vex = vex2 | vex3 | evex
    skip = np.select([vex2, vex3, evex], [2, 3, 4], 0)
    map_byte = data[at + 1].astype(np.int64)
    chosen = np.select([vex2, vex3, evex], [1, map_byte & 0x1F, map_byte & 0x07], 0)
    two = ~is_vex & (first == 0x0F)
    third = two & np.isin(map_byte, (0x38, 0x3A))
    chosen = np.where(two, 1, chosen)
    chosen = np.where(third, np.where(map_byte == 0x38, 2, 3), chosen)
    at = at + skip + two + third
    return wide, at, data[at].astype(np.int64), chosen, is_vex


def _forms(byte: Numbers, chosen: Numbers, is_vex: Flags) -> tuple[Flags, Numbers]:
    """Whether opcodes of maps (0 to 3) have ModRM, and the kinds of their immediates."""
    (one, one_kind), (two, two_kind) = _one_byte(), _two_bytes()
    modrm = np.select([chosen == 0, chosen == 1], [one[byte], two[byte]], True)
    # Of VEX, all but VZEROUPPER have one, and the distances of jumps are none.
    modrm |= is_vex & (byte != 0x77)
    kind = np.select([chosen == 0, chosen == 1], [one_kind[byte], two_kind[byte]], _NONE)
    kind = np.where(chosen == 3, _BYTE, kind)
    return modrm, np.where(is_vex & (kind == _REL32), _NONE, kind)


def _displacement(data: Bytes, at: Numbers, modrm: Numbers) -> tuple[Numbers, Numbers, Flags]:
    """Where the displacement begins, its bytes, and whether it is relative; ModRM is at ``at``."""
    mod, low = modrm >> 6, modrm & 7
    memory = (modrm >= 0) & (mod != 3)
    sib = memory & (low == 4)
    based = ~(sib & ((data[at + 1] & 7) == 5))
    relative = memory & (mod == 0) & (low == _RIP)
    wide = relative | (memory & (mod == 2)) | (memory & (mod == 0) & sib & ~based)
    size = np.where(wide, 4, np.where(memory & (mod == 1), 1, 0))
    return at + (modrm >= 0) + sib, size, relative


def instructions(
    code: Bytes, begins: Numbers | None = None, ends: Numbers | None = None
) -> tuple[Decoded, Numbers]:
    """The instructions of functions in order of place, and the number of the function of each.

    Functions are from ``begins`` to before ``ends``, shape (functions,), and rise; without these
    the code is one. An instruction that would reach beyond its function is the last one.
    """
    if begins is None or ends is None:
        begins, ends = np.zeros(1, np.int64), np.array([len(code)])
    parts, owners = [decode(code[:0])], [np.zeros(0, np.int64)]
    first = 0
    while first < len(begins):
        low = int(begins[first])
        last = max(int(np.searchsorted(ends, low + _CHUNK, side="right")), first + 1)
        high = int(ends[last - 1])
        found = decode(code[low:high], code[high : high + LONGEST])
        place, owner = _follow(found, begins[first:last] - low, ends[first:last] - low)
        parts.append(found.at(place).behind(low))
        owners.append(owner + first)
        first = last
    whole = [
        np.concatenate([getattr(part, name) for part in parts])
        for name in Decoded.__dataclass_fields__
    ]
    return Decoded(*whole), np.concatenate(owners)


def _follow(decoded: Decoded, begins: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """Places of instructions that follow each other, and the number of the function of each."""
    order, owners = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    at, owner, end = begins.copy(), np.arange(len(begins)), ends
    while len(at):
        inside = at < end
        at, owner, end = at[inside], owner[inside], end[inside]
        order.append(at)
        owners.append(owner)
        at = at + np.maximum(decoded.length[at], 1)
    places, numbers = np.concatenate(order), np.concatenate(owners)
    sort = np.argsort(places, kind="stable")
    return places[sort], numbers[sort]


def signed(code: Bytes, at: Numbers, size: Numbers) -> Numbers:
    """Little-endian numbers with a sign, of 1, 2, 4 or 8 bytes each; of others 0."""
    data = np.concatenate([code, np.zeros(8, np.uint8)]).astype(np.uint64)
    at = np.minimum(at, len(code))
    value = np.zeros(len(at), np.uint64)
    for byte in range(8):
        part = data[np.minimum(at + byte, len(data) - 1)] << np.uint64(8 * byte)
        value |= np.where(byte < size, part, np.uint64(0))
    shift = (64 - 8 * np.clip(size, 1, 8)).astype(np.uint64)
    found: Numbers = (value << shift).astype(np.int64) >> shift.astype(np.int64)
    return np.where(np.isin(size, (1, 2, 4, 8)), found, 0)
