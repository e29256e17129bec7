"""What `iotoll.kernels.changed` compares of x86-64 code: a number for each instruction.

Two instructions have one number if their bytes are the same, but for what depends on where code and
data lie: a branch within its function counts the instructions that it passes, whatever the length
of its own form; one that leaves it, an address relative to the next instruction and an absolute one
mean a function, and how far behind its start. An address of data, also of one CPU's, is left out:
images have no names of these, so a change of nothing but such an address is not seen. Padding
(``nop`` of any length, breakpoints) is left out, and with it branches that the kernel patches in
(static keys). What it puts in the place of an instruction (alternatives) is in no function.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iotoll.kernels.symbols import Symbols
from iotoll.kernels.x86 import (
    JUMP,
    LONGEST,
    SHORT_JUMP,
    TWO_BYTES,
    Bytes,
    Decoded,
    Flags,
    Numbers,
    instructions,
    signed,
)

Values = npt.NDArray[np.uint64]

_PUSH = 0x68
_LABEL = 1 << 16  # bytes: what reaches so far is no function, but a label at a section's end
_REACH = 1 << 30  # bytes of code and data from the image's beginning on, at most
_DATA, _BEHIND, _STEP = 1, 2, 3  # what an address means, in the numbers of `_mixed`


class Normal(NamedTuple):
    """The instructions of one function without padding; all of shape (instructions,).

    ``values`` are the same for the same instruction, and ``loose`` also where branches within the
    function pass more instructions. ``number`` is that of each among all, padding included.
    """

    values: Values
    loose: Values
    number: Numbers

    def none(self) -> Normal:
        """The same function without any."""
        return Normal(self.values[:0], self.loose[:0], self.number[:0])


def normal(symbols: Symbols, names: Sequence[str]) -> list[Normal]:
    """Functions of an x86-64 image, all at once; those of no bytes have no instructions."""
    spans = [symbols.span(name) or (0, 0) for name in names]
    order = sorted(range(len(names)), key=lambda number: spans[number])
    sizes = np.array([spans[number][1] - spans[number][0] for number in order], np.int64)
    code = np.frombuffer(b"".join(symbols.code(names[number]) for number in order), np.uint8)
    ends = np.cumsum(sizes)
    found, owner = instructions(code, ends - sizes, ends)
    starts = np.array([spans[number][0] for number in order], np.uint64)
    address = found.place.astype(np.uint64) - (ends - sizes).astype(np.uint64)[owner]
    address += starts[owner]
    functions = np.array([symbols.index(starts)]).reshape(-1)
    kept = ~_is_padding(found)
    values, loose = _values(symbols, code, found, owner, address, functions, kept)
    first = np.searchsorted(owner, np.arange(len(names) + 1))
    parts = [Normal(values, loose, owner).none()] * len(names)
    for place, number in enumerate(order):
        here = np.flatnonzero(kept[first[place] : first[place + 1]]) + first[place]
        parts[number] = Normal(values[here], loose[here], here - first[place])
    return parts


def _is_padding(found: Decoded) -> Flags:
    """Also zeros, which the linker may put behind a section's last function."""
    zeros: Flags = (found.opcode == 0) & (found.modrm == 0)
    return found.is_nop | zeros


def _values(
    symbols: Symbols,
    code: Bytes,
    found: Decoded,
    owner: Numbers,
    address: Values,
    functions: Numbers,
    kept: Flags,
) -> tuple[Values, Values]:
    """`Normal.values` and ``loose`` of all instructions; ``functions`` are the owners' numbers."""
    branch = found.is_branch
    fixed = signed(code, found.fixed, found.fixed_size)
    target = address + (found.length + fixed).astype(np.uint64)
    steps, inside = _steps(found, owner, address, target, kept)
    inside &= branch
    meaning = np.zeros(len(owner), np.uint64)
    outside = branch & ~inside
    meaning[outside] = _meaning(symbols, target[outside], functions[owner[outside]])
    clear = [(outside | inside, found.fixed, found.fixed_size)]
    moved = signed(code, found.moved, found.moved_size).astype(np.uint64)
    relative = address + found.length.astype(np.uint64) + moved
    four = found.moved_size == 4
    data = found.segmented & four
    for which, value, at, size in (
        (found.relative, relative, found.moved, found.moved_size),
        (_is_address(symbols, moved) & four, moved, found.moved, found.moved_size),
        (data, moved & np.uint64(0), found.moved, found.moved_size),
        _absolute(symbols, fixed.astype(np.uint64), found),
    ):  # fmt: skip
        which = which & ~branch
        meaning[which] ^= _meaning(symbols, value[which], functions[owner[which]])
        clear.append((which, at, size))
    rows = _bytes(code, found, clear)
    # A branch is what it does, in whatever form.
    near = np.where(found.opcode == SHORT_JUMP, JUMP, found.opcode)
    short = branch & (found.opcode & ~0xF == 0x70)
    near = np.where(short, found.opcode + TWO_BYTES + 0x10, near)
    rows[branch] = 0
    rows[branch, 0] = near[branch].astype(np.uint64)
    loose = _mixed(rows[:, 0], rows[:, 1], meaning + np.where(inside, _STEP, 0).astype(np.uint64))
    values = np.where(inside, _mixed(loose, steps.astype(np.uint64), meaning), loose)
    return values, loose


def _steps(
    found: Decoded, owner: Numbers, address: Values, target: Values, kept: Flags
) -> tuple[Numbers, Flags]:
    """How many instructions branches pass, without padding; and which lead into their function."""
    order = np.argsort(address, kind="stable")
    place = np.searchsorted(address[order], target).clip(0, max(len(order) - 1, 0))
    there = order[place] if len(order) else place
    inside = (address[there] == target) & (owner[there] == owner) if len(order) else kept
    number: Numbers = np.cumsum(kept) - kept
    return number[there] - number if len(order) else place, inside


def _absolute(
    symbols: Symbols, value: Values, found: Decoded
) -> tuple[Flags, Values, Numbers, Numbers]:
    """Immediates, of these values, that are addresses of the image; their places and sizes."""
    long = (found.fixed_size == 8) | (
        (found.fixed_size == 4) & (found.wide | (found.opcode == _PUSH))
    )
    return long & _is_address(symbols, value), value, found.fixed, found.fixed_size


def _is_address(symbols: Symbols, value: Values) -> Flags:
    return (value >= np.uint64(symbols.base)) & (value - np.uint64(symbols.base) < _REACH)


def _meaning(symbols: Symbols, address: Values, function: Numbers) -> Values:
    """What addresses mean that some functions, by number, have.

    Parts that the compiler split off one function (``.cold``) lead to anywhere in each other.
    """
    number = symbols.index(address)
    known = np.maximum(number, 0)
    ends = np.append(symbols.starts[1:], np.uint64(symbols.base + len(symbols.image)))
    is_code = (number >= 0) & (ends[known] - symbols.starts[known] <= _LABEL)
    stems = _stems(symbols)
    offset = address - symbols.starts[known]
    offset[stems[known] == stems[function]] = 0
    kind = np.full(len(address), _BEHIND, np.uint64)
    return np.where(is_code, _mixed(stems[known], offset, kind), np.uint64(_DATA))


@lru_cache(maxsize=4)
def _stems(symbols: Symbols) -> Values:
    """A number for the name of each function, without what the compiler adds to parts of it."""
    names = (name.partition(".")[0].encode() for name in symbols.names)
    return np.frombuffer(b"".join(blake2b(name, digest_size=8).digest() for name in names), "<u8")


def _bytes(code: Bytes, found: Decoded, clear: Sequence[tuple[Flags, Numbers, Numbers]]) -> Values:
    """The bytes of instructions, shape (instructions, 2), without the fields of ``clear``."""
    data = np.concatenate([code, np.zeros(LONGEST + 1, np.uint8)])
    column = np.arange(16)
    rows = data[found.place[:, None] + column]
    rows[column >= found.length[:, None]] = 0
    for which, at, size in clear:
        here = np.flatnonzero(which)
        first = (at - found.place)[here, None]
        gone = (column >= first) & (column < first + size[here, None])
        rows[here] = np.where(gone, np.uint8(0), rows[here])
    words: Values = rows.view("<u8")
    return words


def _mixed(one: Values, other: Values, third: Values) -> Values:
    """A pseudo-random number that three others decide (splitmix64)."""
    mixed = np.zeros(len(one), np.uint64)
    for part in (one, other, third):
        mixed = (mixed ^ part) * np.uint64(0xD1342543DE82EF95) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
    return mixed
