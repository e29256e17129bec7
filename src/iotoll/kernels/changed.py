"""Which functions a patch changed: machine code of two images, function by function.

Of x86-64, `iotoll.kernels.changed_x86` says what instructions are the same. Of arm64, it is this:
code that merely moved must not count as changed, so addresses are left out of the comparison: the
targets of branches that leave the function, the pages of ``adrp``, the distances of ``adr`` and of
loads relative to the program counter, and the low parts of addresses, which additions and
accesses have in their 12-bit constants, where the register holds an address that an ``adrp`` of the
function began, though it may have been on the stack since. A change of nothing but such a constant
is therefore not seen. Loops are aligned by padding that depends on where the function lies, so
``nop`` is left out, and jumps within the function are counted without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iotoll.kernels import changed_x86
from iotoll.kernels.flow import read_flows
from iotoll.kernels.symbols import X86_64, Symbols

Words = npt.NDArray[np.uint32]
Values = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]

_ADRP = 0x9F000000, 0x90000000
_ADR = 0x9F000000, 0x10000000
_LITERAL = 0x3B000000, 0x18000000
_ADD = 0x7FC00000, 0x11000000
_ADD_REGISTERS = 0x7F000000, 0x0B000000
_MOVE = 0x7FE0FFE0, 0x2A0003E0
_ACCESS = 0x3B000000, 0x39000000
BRANCH = (0x7C000000, 0x14000000), 0, 26  # b, bl
_JUMPS = (
    BRANCH,
    ((0xFF000010, 0x54000000), 5, 19),  # b.cond
    ((0x7E000000, 0x34000000), 5, 19),  # cbz, cbnz
    ((0x7E000000, 0x36000000), 5, 14),  # tbz, tbnz
)
"""Pattern, first bit and number of bits of the distance, which is signed and in instructions."""
_STORE, _LOAD = (0xFFC00000, 0xF9000000), (0xFFC00000, 0xF9400000)
_STORE_PAIR, _LOAD_PAIR = (0xFFC00000, 0xA9000000), (0xFFC00000, 0xA9400000)
_FRAMES = 29, 31  # registers that point into the stack's frame
NOP = 0xD503201F
LONGEST = 1 << 16
"""Bytes of a function; labels at the ends of sections seem to reach over all data behind them."""


@lru_cache(maxsize=2)  # of the gate's kernels, and of those with function_graph's profiler
def changed_functions(base: Symbols, candidate: Symbols) -> tuple[str, ...]:
    """Functions of the candidate that the base has not, or has with other code; in its order."""
    codes = ((name, code) for name, code in candidate.codes.items() if len(code) <= LONGEST)
    pairs = [(name, base.codes.get(name), code) for name, code in codes]
    others = [(n, b, c) for n, b, c in pairs if b is not None and b != c]
    if candidate.machine == X86_64:
        names = [name for name, _, _ in others]
        sides = (changed_x86.normal(side, names) for side in (base, candidate))
        rows = zip(names, *sides, strict=True)
        changed = {n for n, b, c in rows if not np.array_equal(b.values, c.values)}
    else:
        unlike = _unlike([(n, b, c) for n, b, c in others if len(b) == len(c)])
        left = [(n, b, c) for n, b, c in others if n in unlike or len(b) != len(c)]
        before, after = normal([b for _, b, _ in left]), normal([c for _, _, c in left])
        changed = {n for (n, _, _), b, c in zip(left, before, after, strict=True) if b != c}
    return tuple(name for name, old, _ in pairs if old is None or name in changed)


def differing_functions(base: Symbols, candidate: Symbols) -> tuple[str, ...]:
    """As `changed_functions`, and behind them those that the candidate has no more.

    Of code that moved from one function to another, or has another name now, the sum over all of
    them is the same.
    """
    gone = (name for name in base.codes if name not in candidate.codes)
    return *changed_functions(base, candidate), *gone


@lru_cache(maxsize=2)
def affected_functions(base: Symbols, candidate: Symbols) -> frozenset[str]:
    """Functions in which the two kernels may execute something else because of the patch.

    Those that differ, and those that they call from more or fewer places.
    """
    changed = differing_functions(base, candidate)
    before, after = _calls(base, changed), _calls(candidate, changed)
    called = {name for name in (*before, *after) if before[name] != after[name]}
    return frozenset(called.union(changed))


def _calls(symbols: Symbols, functions: Iterable[str]) -> Counter[str]:
    """From how many places of some functions others are called, or jumped to, by their names."""
    spans = {span for name in functions if (span := symbols.span(name))}
    goals = [
        one.target
        for (low, high), flow in read_flows(symbols, spans).items()
        for one in flow.values()
        if one.target and not low <= one.target < high
    ]
    numbers = symbols.index(np.array(goals, np.uint64))
    return Counter(symbols.names[number] for number in numbers[numbers >= 0].tolist())


ALIGNED = 2000
"""Instructions between the first and the last difference of two functions that are aligned."""


def changed_places(base: Symbols | None, candidate: Symbols, name: str) -> Numbers:
    """Numbers of the instructions of a function that its code in the base has not; in order.

    Where instructions are gone alone, the one behind them stands for them. Of longer differences
    than `ALIGNED`, all between the first and the last one is told. Without a base all are new.
    """
    if candidate.machine == X86_64:
        after = changed_x86.normal(candidate, [name])[0]
        before = changed_x86.normal(base, [name])[0] if base else after.none()
        return _places(before.values, after.values, before.loose, after.loose, after.number)
    codes = [base.code(name) if base else b"", candidate.code(name)]
    old, new = (np.frombuffer(one, "<u4") for one in normal(codes))
    own = np.flatnonzero(_joined(codes[1:]) != NOP)[: len(new)]
    return _places(old, new, _without_distances(old), _without_distances(new), own)


def _places(old: Values, new: Values, one: Values, other: Values, own: Numbers) -> Numbers:
    """`changed_places` of a function's instructions before and after, each as a number.

    ``one`` and ``other`` are the same without how far jumps go, ``own`` the numbers of ``new``
    among all instructions; shapes are those of ``old`` and ``new``.
    """
    if np.array_equal(one, other):
        differs: Numbers = own[old != new]
        return differs
    short = min(len(one), len(other))
    head = _same(one[:short], other[:short])
    tail = _same(one[::-1][: short - head], other[::-1][: short - head])
    one, other = one[head : len(one) - tail], other[head : len(other) - tail]
    found = np.zeros(len(new), np.bool_)
    if max(len(one), len(other)) > ALIGNED:
        found[head : head + max(len(other), 1)] = True
        return own[found]
    for kind, _, _, low, high in SequenceMatcher(
        None, one.tolist(), other.tolist(), autojunk=False
    ).get_opcodes():
        if kind != "equal" and len(new):
            first = min(head + low, len(new) - 1)
            found[first : max(head + high, first + 1)] = True
    return own[found]


def _same(one: Values, other: Values) -> int:
    """How many numbers are the same from the beginning on; both have one length."""
    unlike = np.flatnonzero(one != other)
    return int(unlike[0]) if len(unlike) else len(one)


def _without_distances(words: Words) -> Words:
    """Jumps without how far they go: what lies between may have changed."""
    words = words.copy()
    for pattern, first, bits in _JUMPS:
        words[matches(words, pattern)] &= np.uint32(~(((1 << bits) - 1) << first) & 0xFFFFFFFF)
    return words


def _unlike(pairs: Sequence[tuple[str, bytes, bytes]]) -> set[str]:
    """Of functions of one length: those that differ by more than distances to what lies outside.

    All at once, since a patch moves most functions of a kernel.
    """
    if not pairs:
        return set()
    sizes = np.array([len(code) // 4 for _, code, _ in pairs])
    first = _joined([before for _, before, _ in pairs])
    second = _joined([code for _, _, code in pairs])
    begins = np.cumsum(sizes) - sizes
    owner = np.repeat(np.arange(len(pairs)), sizes)
    place = np.flatnonzero(first != second)
    one, other, number = first[place], second[place], place - begins[owner[place]]
    same = np.zeros(len(place), np.bool_)
    for pattern, low, bits in _JUMPS:
        field = np.uint32(((1 << bits) - 1) << low)
        same |= (
            matches(one, pattern)
            & ((one & ~field) == (other & ~field))
            & _outside(one, number, sizes[owner[place]], low, bits)
            & _outside(other, number, sizes[owner[place]], low, bits)
        )
    for pattern, kept in ((_ADRP, 0x9F00001F), (_ADR, 0x9F00001F), (_LITERAL, 0xFF00001F)):
        same |= matches(one, pattern) & ((one & np.uint32(kept)) == (other & np.uint32(kept)))
    return {pairs[index][0] for index in np.unique(owner[place[~same]]).tolist()}


def _joined(codes: Sequence[bytes]) -> Words:
    return np.frombuffer(b"".join(code[: len(code) // 4 * 4] for code in codes), "<u4")


def _outside(
    words: Words, number: npt.NDArray[np.int64], size: npt.NDArray[np.int64], low: int, bits: int
) -> npt.NDArray[np.bool_]:
    """Whether jumps, each so many instructions behind its function's start, leave it."""
    target = number + distance(words, low, bits)
    return (target < 0) | (target >= size)


def distance(words: Words, low: int, bits: int) -> npt.NDArray[np.int64]:
    """How many instructions jumps go forward; their field has ``bits`` from bit ``low`` on."""
    field = (words >> np.uint32(low)).astype(np.int64) & ((1 << bits) - 1)
    sign = 1 << bits - 1
    return (field ^ sign) - sign


def normal(codes: Sequence[bytes]) -> list[bytes]:
    """Functions' code without what depends on where they and others lie, and without padding.

    All at once, as in `_unlike`: what numpy does to each alone takes a fifth of a second.
    """
    words, sizes = _joined(codes).copy(), np.array([len(code) // 4 for code in codes], np.int64)
    owner = np.repeat(np.arange(len(codes)), sizes)
    last = np.full(len(codes), -1)
    own = np.flatnonzero((words != 0) & (words != NOP))
    np.maximum.at(last, owner[own], own)
    kept = np.arange(len(words)) <= last[owner]
    words, owner = words[kept], owner[kept]
    for pattern, first, bits in _JUMPS:
        _set_distances(words, owner, matches(words, pattern), first, bits)
    kept = words != NOP
    words, owner = words[kept], owner[kept]
    for pattern, bits_kept in ((_ADR, 0x9F00001F), (_LITERAL, 0xFF00001F)):
        words[matches(words, pattern)] &= bits_kept
    _clear_low_parts(words, owner, len(codes))
    words[matches(words, _ADRP)] &= 0x9F00001F
    ends = np.cumsum(np.bincount(owner, minlength=len(codes)))
    pieces = np.split(words, ends[:-1]) if codes else []
    return [piece.tobytes() for piece in pieces]


def _set_distances(
    words: Words, owner: Numbers, which: npt.NDArray[np.bool_], first: int, bits: int
) -> None:
    """Jumps within the function: count their distances without padding; others: clear them."""
    place = np.flatnonzero(which)
    target = place + distance(words[place], first, bits)
    near = target.clip(0, max(len(words) - 1, 0))
    inside = (target == near) & (owner[near] == owner[place])
    number = np.cumsum(words != NOP) - (words != NOP)  # of instructions before each place
    moved = np.where(inside, number[near] - number[place], 0)
    mask = np.uint32(((1 << bits) - 1) << first)
    words[place] = words[place] & ~mask | (moved << first).astype(np.uint32) & mask


def matches(words: Words, pattern: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Which instructions have the pattern: bits that count, and what they are."""
    mask, value = pattern
    found: npt.NDArray[np.bool_] = (words & np.uint32(mask)) == np.uint32(value)
    return found


def _clear_low_parts(words: Words, owner: Numbers, functions: int) -> None:
    """Clear the 12-bit constants beside registers with an address of ``adrp``, or a sum of one.

    ``owner`` numbers each instruction's function, of so many.
    """
    pages = matches(words, _ADRP)
    uses = matches(words, _ADD) | matches(words, _ACCESS)
    paged = np.zeros((functions, 32), np.bool_)
    paged[owner[pages], words[pages] & 31] = True
    target, first, second = words & 31, words >> 5 & 31, words >> 16 & 31
    plain = np.flatnonzero(matches(words, _ADD))
    pair = np.flatnonzero(matches(words, _ADD_REGISTERS) | matches(words, _MOVE))
    stores = _slots(words, owner, _STORE, _STORE_PAIR)
    loads = _slots(words, owner, _LOAD, _LOAD_PAIR)
    known = 0
    while np.count_nonzero(paged) > known:
        known = int(np.count_nonzero(paged))
        spilled = stores.slot[paged[stores.owner, stores.register]]
        filled = np.isin(loads.slot, spilled)
        paged[loads.owner[filled], loads.register[filled]] = True
        added = plain[paged[owner[plain], first[plain]]]
        paged[owner[added], target[added]] = True
        summed = pair[paged[owner[pair], first[pair]] | paged[owner[pair], second[pair]]]
        paged[owner[summed], target[summed]] = True
    words[uses & paged[owner, first]] &= 0xFFC003FF


class _Slots(NamedTuple):
    """Registers that are kept in the stack's frame; a slot is one function's, base and place."""

    owner: Numbers
    register: Numbers
    slot: Numbers


def _slots(words: Words, owner: Numbers, one: tuple[int, int], pair: tuple[int, int]) -> _Slots:
    """Registers that are kept in the frame, and where: base register and 8-byte place."""
    singles, doubles = matches(words, one), matches(words, pair)
    word, both = words[singles].astype(np.int64), words[doubles].astype(np.int64)
    place = ((both >> 15 & 0x7F) ^ 0x40) - 0x40
    register = np.concatenate([word & 31, both & 31, both >> 10 & 31])
    base = np.concatenate([word >> 5 & 31, both >> 5 & 31, both >> 5 & 31])
    places = np.concatenate([word >> 10 & 0xFFF, place, place + 1])
    owners = np.concatenate([owner[singles], owner[doubles], owner[doubles]])
    slot = ((owners * 32 + base) << 13) + places + 0x40
    kept = np.isin(base, _FRAMES)
    return _Slots(owners[kept], register[kept], slot[kept])
