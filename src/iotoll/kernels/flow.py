"""What may run behind each instruction of a kernel's functions, of arm64 and of x86-64."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iotoll.kernels.symbols import RET, X86_64, Symbols
from iotoll.kernels.x86 import (
    CALL,
    INT3,
    JUMP,
    RETURN,
    SHORT_JUMP,
    TWO_BYTES,
    instructions,
    signed,
)


class Kind(Enum):
    """What an instruction does to the flow of a function."""

    PLAIN = "goes on"
    CALL = "calls, and goes on"
    BRANCH = "goes on or to its target"
    JUMP = "goes to its target"
    AWAY = "goes to where a register says"
    LEAVE = "returns from an exception"
    RETURN = "ends the function"
    NOTHING = "is between functions"


class Instruction(NamedTuple):
    """One instruction: the address of the next one, and where it leads, if that is known."""

    behind: int
    kind: Kind
    target: int = 0

    @property
    def following(self) -> list[int]:
        """Addresses of what may run next in the function."""
        if self.kind in (Kind.PLAIN, Kind.CALL):
            return [self.behind]
        if self.kind is Kind.BRANCH:
            return [self.behind, self.target]
        return [self.target] if self.kind is Kind.JUMP else []


_MOST = 1 << 20
"""Bytes of a function of x86-64 that are read: what is longer is a label at a section's end."""

Span = tuple[int, int]
"""An address, and the one behind the last."""


def read_flows(symbols: Symbols, spans: Iterable[Span]) -> dict[Span, dict[int, Instruction]]:
    """`read_flow` of pieces of code that do not overlap; of x86-64 all are decoded at once."""
    if symbols.machine == X86_64:
        return _of_x86(symbols, sorted(set(spans)))
    return {span: read_flow(symbols, *span) for span in spans}


def read_flow(symbols: Symbols, begin: int, end: int) -> dict[int, Instruction]:
    """The instructions from one address to before another, in order."""
    if symbols.machine == X86_64:
        return _of_x86(symbols, [(begin, end)])[begin, end]
    places = np.arange(begin, end, _SIZE, dtype=np.uint64)
    rows = zip(places.tolist(), symbols.words(places).tolist(), strict=True)
    # Most instructions neither branch nor call.
    return {
        place: Instruction(place + _SIZE, Kind.PLAIN)
        if word & _BRANCHES != _BRANCHES_ARE and word
        else _of_arm64(place, word)
        for place, word in rows
    }


class Ends(NamedTuple):
    """How blocks of instructions end; all of shape (blocks,).

    ``behind`` is the address behind the last instruction, ``kind`` what that one does (`Kind`).
    """

    behind: npt.NDArray[np.uint64]
    kind: npt.NDArray[np.object_]


def ends_of(
    symbols: Symbols, address: npt.NDArray[np.uint64], count: npt.NDArray[np.int64]
) -> Ends:
    """The ends of blocks of so many instructions each; a block without any ends where it begins.

    Of x86-64, what is not in the image ends where it begins as well.
    """
    kind = np.full(len(address), Kind.PLAIN, np.object_)
    if symbols.machine != X86_64:
        behind = address + np.uint64(_SIZE) * count.astype(np.uint64)
        words = symbols.words(behind - np.uint64(_SIZE))
        kind[(words >> 26 == _BL) | (words & 0xFFFFFC1F == 0xD63F0000)] = Kind.CALL
        kind[words == RET], kind[words == _ERET] = Kind.RETURN, Kind.LEAVE
        return Ends(behind, kind)
    behind, number = address.copy(), symbols.index(address)
    ends = np.append(symbols.starts, np.uint64(symbols.base + len(symbols.image)))
    is_code = (number >= 0) & (count > 0)
    is_code[is_code] = np.diff(ends)[number[is_code]] <= _MOST
    known = np.flatnonzero(is_code)
    functions = np.unique(number[known])
    base = np.uint64(symbols.base)
    first, last = ((ends[functions + step] - base).astype(np.int64) for step in (0, 1))
    found, _ = instructions(np.frombuffer(symbols.image, np.uint8), first, last)
    at = np.searchsorted(found.place, (address[known] - base).astype(np.int64))
    at = np.minimum(at + count[known] - 1, max(len(found.place) - 1, 0))
    behind[known] = base + (found.place + found.length)[at].astype(np.uint64)
    opcode, group = found.opcode[at], found.modrm[at] >> 3 & 7
    calls = (opcode == CALL) | ((opcode == _INDIRECT) & np.isin(group, _CALLS))
    kind[known[calls]] = Kind.CALL
    kind[known[np.isin(opcode, _RETURNS)]] = Kind.RETURN
    kind[known[np.isin(opcode, _LEAVE)]] = Kind.LEAVE
    return Ends(behind, kind)


_SIZE = 4  # bytes of an instruction of arm64
_B, _BL = 5, 37  # bits 31 to 26
_ERET = 0xD69F03E0
_BRANCHES, _BRANCHES_ARE = 0x1C000000, 0x14000000  # branches, exceptions and system instructions


def _of_arm64(place: int, word: int) -> Instruction:
    behind = place + _SIZE
    if word >> 26 == _B:
        return Instruction(behind, Kind.JUMP, _target(place, word, 26, 0))
    if word & 0xFF000000 == 0x54000000 or word & 0x7E000000 == 0x34000000:
        return Instruction(behind, Kind.BRANCH, _target(place, word, 19, 5))  # B.cond, CBZ, CBNZ
    if word & 0x7E000000 == 0x36000000:
        return Instruction(behind, Kind.BRANCH, _target(place, word, 14, 5))  # TBZ, TBNZ
    if word >> 26 == _BL:
        return Instruction(behind, Kind.CALL, _target(place, word, 26, 0))
    if word & 0xFFFFFC1F == 0xD63F0000:
        return Instruction(behind, Kind.CALL)  # BLR
    if word & 0xFE000000 == 0xD6000000:
        kinds = {RET: Kind.RETURN, _ERET: Kind.LEAVE}
        return Instruction(behind, kinds.get(word, Kind.AWAY))  # BR
    return Instruction(behind, Kind.PLAIN if word else Kind.NOTHING)


def _target(place: int, word: int, bits: int, shift: int) -> int:
    """Where a branch leads whose offset has so many bits, in instructions."""
    offset = word >> shift & ((1 << bits) - 1)
    if offset >> (bits - 1):
        offset -= 1 << bits
    return place + _SIZE * offset


_INDIRECT, _CALLS, _JUMPS = 0xFF, (2, 3), (4, 5)  # what ModRM says that it is
_RETURNS = (RETURN, 0xC2)
_LEAVE = (0xCF, TWO_BYTES | 0x07, TWO_BYTES | 0x35)  # IRET, SYSRET, SYSEXIT


def _of_x86(symbols: Symbols, spans: Sequence[Span]) -> dict[Span, dict[int, Instruction]]:
    """``spans`` rise."""
    base = symbols.base
    pieces = [symbols.image[one - base : min(end, one + _MOST) - base] for one, end in spans]
    code = np.frombuffer(b"".join(pieces), np.uint8)
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    ends = np.cumsum(sizes)
    begins = ends - sizes
    found, owner = instructions(code, begins, ends)
    distance = signed(code, found.fixed, found.fixed_size)
    rows = zip(
        owner.tolist(),
        (found.place - begins[owner]).tolist(),
        found.length.tolist(),
        found.opcode.tolist(),
        found.modrm.tolist(),
        found.is_branch.tolist(),
        distance.tolist(),
        strict=True,
    )
    flows: list[dict[int, Instruction]] = [{} for _ in spans]
    for number, place, length, opcode, modrm, is_branch, moved in rows:
        address = spans[number][0] + place
        behind = address + length
        target = behind + moved if is_branch else 0
        flows[number][address] = Instruction(behind, _kind(opcode, modrm, is_branch), target)
    return dict(zip(spans, flows, strict=True))


def _kind(opcode: int, modrm: int, is_branch: bool) -> Kind:
    if is_branch:
        jumps = opcode in (JUMP, SHORT_JUMP)
        return Kind.CALL if opcode == CALL else Kind.JUMP if jumps else Kind.BRANCH
    if opcode in _RETURNS:
        return Kind.RETURN
    if opcode == _INDIRECT and modrm >> 3 & 7 in _CALLS:
        return Kind.CALL
    if opcode in _LEAVE:
        return Kind.LEAVE
    if opcode == _INDIRECT and modrm >> 3 & 7 in _JUMPS:
        return Kind.AWAY
    # Zeros and breakpoints lie between functions.
    return Kind.NOTHING if opcode == INT3 or (opcode == 0 and modrm == 0) else Kind.PLAIN
