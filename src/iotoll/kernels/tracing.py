"""Where a kernel's own tracing begins and ends: what a traced boot executes and another does not.

A tracepoint is a branch that the kernel patches when the event is switched on: the block behind it
calls the event's functions, and goes on with the traced code. Both are in the image: the kernel's
jump table has each such branch and block, and the block's end is where its code meets what runs
without it. Where the compiler has copied some of the latter into the block, as many of the block's
last instructions are not tracing's. A system call that is traced takes a slow path, and a probed
function's return a trampoline. The exceptions of kernel probes are found as they happen
(tools/plugin/tracing.h).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotoll.core.digest import file_sha256
from iotoll.core.errors import UsageError
from iotoll.kernels.symbols import RET, Symbols, read_symbols

EDGE = np.dtype([("address", "<u8"), ("kind", "<u4"), ("group", "<u4")])
"""As tools/plugin/tracing.h has it."""

BEGIN, END, END_BEHIND, BRANCH = 1, 2, 3, 4
"""Tracing begins before an instruction runs, ends before it, or ends behind it; or begins behind a
tracepoint's branch, if the kernel has put one in the place of its `nop`."""

CLOCK = "trace_clock_local"
"""The trace's clock: it returns the time stamp of an event."""

VECTORS = "vectors"
SWITCH = "cpu_switch_to"
"""What switches from one task to another."""

_NOP = 0xD503201F
_ITERATOR = "__traceiter_"
_SIZE = 4  # bytes of an instruction
_ENTRY = 16  # bytes of an entry of the jump table: two 32-bit offsets, one of 64
_FEWEST = 16  # entries that a table has at least
_FARTHEST = 1 << 16  # from a branch to its block, both of one function
_KEY_FLAGS = 3
_NEAREST, _NEXT = 8, 72  # bytes from a tracepoint's key to its field `iterator` (struct tracepoint)

_CALLS_TRACED = ("syscall_trace_enter",)
_CALLS_BEGIN = "invoke_syscall"
_CALLS_END = ("syscall_trace_exit",)
_TRAMPOLINES = ("arch_rethook_trampoline", "__kretprobe_trampoline", "kretprobe_trampoline")
_GROUP_CALLS, _GROUP_RETURNS = 1 << 30, 1 << 30 | 1


@cache
def tracing_rules() -> str:
    """What stands for the rules of this module in a boot's identity: they decide what it counts."""
    return file_sha256(Path(__file__))


@dataclass(frozen=True)
class TracingCode:
    """``edges`` rise by address; ``clock`` are first instruction and return of `CLOCK`.

    ``vectors`` and ``switch`` are where the two functions are. ``sites`` has the addresses of the
    branches of each event that has any.
    """

    edges: npt.NDArray[np.void]
    clock: tuple[int, int]
    vectors: tuple[int, int]
    switch: tuple[int, int]
    sites: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class _Branch:
    """An entry of the jump table."""

    code: int
    target: int
    key: int


def tracing_code(symbols: Symbols) -> TracingCode:
    """Find all of it in an arm64 image; raises UsageError where it lacks what is needed."""
    clock, vectors, switch = _places(symbols)
    branches = _jump_table(symbols)
    events = _events(symbols, {branch.key for branch in branches})
    found = set(_calls(symbols)) | set(_trampolines(symbols))
    sites: dict[str, list[int]] = {}
    blocks = {b.code: b.target for b in branches if b.key in events}
    others = {b.code: b.target for b in branches if b.key not in events}
    flows: dict[int, _Flow] = {}
    for group, branch in enumerate(branches):
        if branch.key in events:
            sites.setdefault(events[branch.key], []).append(branch.code)
            number = int(symbols.index(np.array([branch.code], np.uint64))[0])
            if number not in flows:
                flows[number] = _Flow(symbols, number, blocks, others)
            found |= set(flows[number].edges(branch.code, group))
    return TracingCode(
        np.array(sorted(found), EDGE),
        clock,
        vectors,
        switch,
        {name: tuple(places) for name, places in sites.items()},
    )


def tells_tracing(image: Path) -> bool:
    """Whether `tracing_code` finds what it needs in an image, without finding all of it."""
    try:
        symbols = read_symbols(image)
        _places(symbols)
        _jump_table(symbols)
    except UsageError:
        return False
    return True


_Span = tuple[int, int]


def _places(symbols: Symbols) -> tuple[_Span, _Span, _Span]:
    """First instruction and return of `CLOCK`, and the spans of `VECTORS` and `SWITCH`."""
    clock, vectors, switch = (symbols.span(name) for name in (CLOCK, VECTORS, SWITCH))
    returns = symbols.returns(CLOCK)
    if clock is None or vectors is None or switch is None or len(returns) != 1:
        raise UsageError(
            f"the kernel has no function {VECTORS} or {SWITCH}, or not one {CLOCK} with one return"
        )
    return (clock[0], returns[0]), vectors, switch


@lru_cache(maxsize=4)
def _jump_table(symbols: Symbols) -> list[_Branch]:
    """The longest row of entries that lead from a `nop` or branch to code near by."""
    image, base = symbols.image, symbols.base
    offsets = np.frombuffer(image, "<i4", len(image) // 4).astype(np.int64)
    place = np.arange(0, len(offsets) - 3, 2)
    at = _SIZE * place
    code, target = at + offsets[place], at + _SIZE + offsets[place + 1]
    text = int(symbols.starts[-1]) - base
    valid = (code > 0) & (code < text) & (target > 0) & (target < text)
    valid &= (code % _SIZE == 0) & (target % _SIZE == 0) & (np.abs(code - target) < _FARTHEST)
    words = np.frombuffer(image, "<u4", len(image) // 4)[np.where(valid, code // _SIZE, 0)]
    valid &= (words == _NOP) | (words >> 26 == _B)
    rows = at[valid]
    # Entries follow each other in one of the two halves that addresses of 8 bytes have.
    row = np.flatnonzero(np.isin(rows, rows + _ENTRY))
    best = _longest(rows[row].tolist() + rows.tolist())
    if len(best) < _FEWEST:
        raise UsageError("the kernel has no jump table: what tracing executes cannot be told")
    keys = np.frombuffer(image, "<i8", len(image) // 8)
    return [
        _Branch(
            base + int(code[one // 8]),
            base + int(target[one // 8]),
            base + ((one + 8 + int(keys[one // 8 + 1])) & ~_KEY_FLAGS),
        )
        for one in best
    ]


def _longest(places: Iterable[int]) -> list[int]:
    """The longest row of places that are an entry apart."""
    best: list[int] = []
    row: list[int] = []
    for place in sorted(set(places)):
        row = [*row, place] if row and place - row[-1] == _ENTRY else [place]
        best = max(best, row, key=len)
    return best


def _events(symbols: Symbols, keys: set[int]) -> dict[int, str]:
    """Names of the tracepoints that keys belong to: their structures point to a function each."""
    iterators = {
        int(start): name.removeprefix(_ITERATOR)
        for start, name in zip(symbols.starts, symbols.names, strict=True)
        if name.startswith(_ITERATOR)
    }
    pointers = [
        (place, iterators[value]) for place, value in symbols.pointers(np.array(list(iterators)))
    ]
    distances = [d for d in range(_NEAREST, _NEXT, 8)]
    counts = {d: sum(place - d in keys for place, _ in pointers) for d in distances}
    distance = max(distances, key=lambda d: counts[d])
    return {place - distance: name for place, name in pointers if place - distance in keys}


# ---------------------------------------------------------------- the slow path of system calls


def _calls(symbols: Symbols) -> Iterator[tuple[int, int, int]]:
    for name in _CALLS_TRACED + _CALLS_END:
        span = symbols.span(name)
        if span is not None:
            yield span[0], BEGIN, _GROUP_CALLS
    # What the task itself executes for its call begins here, traced or not.
    begins = [
        start
        for start, name in zip(symbols.starts.tolist(), symbols.names, strict=True)
        if name.partition(".")[0] == _CALLS_BEGIN
    ]
    for start in begins:
        yield start, END, _GROUP_CALLS
    # Where the compiler inlines it, as that of Linux 5.10, it begins where tracing returns.
    for name in _CALLS_END if begins else _CALLS_TRACED + _CALLS_END:
        for place in _ends(symbols, name):
            yield place, END_BEHIND, _GROUP_CALLS


def _trampolines(symbols: Symbols) -> Iterator[tuple[int, int, int]]:
    for name in _TRAMPOLINES:
        span = symbols.span(name)
        ends = list(_ends(symbols, name)) if span else []
        # Linux 6.11 and later end in a breakpoint instead, which is found as it happens.
        if span and ends:
            yield span[0], BEGIN, _GROUP_RETURNS
            for place in ends:
                yield place, END_BEHIND, _GROUP_RETURNS


def _ends(symbols: Symbols, name: str) -> Iterator[int]:
    """Instructions by which a function ends: its returns, and jumps out of it."""
    span = symbols.span(name)
    if span is None:
        return
    places = np.arange(*span, _SIZE, dtype=np.uint64)
    for place, word in zip(places.tolist(), symbols.words(places).tolist(), strict=True):
        leads_out = word >> 26 == _B and not span[0] <= _target(place, word, 26, 0) < span[1]
        if word == RET or leads_out:
            yield place


# ---------------------------------------------------------------- flow of code within a function

_B, _BL = 5, 37  # bits 31 to 26
_LONGEST = 64  # instructions that a block has copied of the traced code


def _target(place: int, word: int, bits: int, shift: int) -> int:
    """Where a branch leads whose offset has so many bits, in instructions."""
    offset = word >> shift & ((1 << bits) - 1)
    if offset >> (bits - 1):
        offset -= 1 << bits
    return place + _SIZE * offset


class _Flow:
    """The code of one function: from each instruction, what may run next, calls left out."""

    def __init__(
        self, symbols: Symbols, number: int, blocks: Mapping[int, int], others: Mapping[int, int]
    ) -> None:
        """``blocks`` are those of tracepoints by branch, ``others`` those of other branches."""
        self._blocks = blocks
        self._others = others
        name = symbols.names[number]
        self._words: dict[int, int] = {}
        for part in (name, f"{name}.cold"):
            span = symbols.span(part) if part != name else _span(symbols, number)
            places = np.arange(*span, _SIZE, dtype=np.uint64) if span else np.zeros(0, np.uint64)
            self._words |= zip(places.tolist(), symbols.words(places).tolist(), strict=True)
        self._plain = self._reach(int(symbols.starts[number]), set(), traced=False)[0]

    def edges(self, branch: int, group: int) -> Iterator[tuple[int, int, int]]:
        """Where the tracing behind a tracepoint's branch begins and ends."""
        block = self._blocks[branch]
        # Code that only a jump by register leads to was not met on the way from the beginning.
        rest = self._reach(branch + _SIZE, self._plain, traced=False)[0]
        plain = self._plain | rest
        if block in plain or block not in self._words:
            return
        traced, met = self._reach(block, plain, traced=True)
        yield branch, BRANCH, group
        for place in met:
            yield place, END, group
        for place in traced:
            leaves = self._leaves(place)
            if leaves:
                yield place, END_BEHIND, group
            following = self._next(place, traced=True)
            after = [at for at in following if at in plain]
            others = [at for at in following if at not in plain]
            # Behind the end nothing may be traced: several functions may be called in a loop.
            if (leaves or after) and not any(self._calls(at, plain) for at in others):
                missed = self._skipped(branch + _SIZE, None if leaves else after[0])
                copy = self._copy(place, missed, traced)
                if copy:
                    yield place - _SIZE * (copy - 1), END, group

    def _skipped(self, place: int, end: int | None) -> int:
        """How many instructions are on the way to another one, or to the function's end: the least.

        0 where something is called on all ways: the compiler has made no copy of that.
        """
        ways, seen = [place], {place}
        for count in range(_LONGEST):
            if end in ways:
                return count
            if end is None and any(self._leaves(at) for at in ways):
                return count + 1
            following = [
                at for way in ways if not self._is_call(way) for at in self._next(way, False)
            ]
            ways = [at for at in dict.fromkeys(following) if at in self._words and at not in seen]
            seen |= set(ways)
        return 0

    def _copy(self, last: int, wanted: int, traced: set[int]) -> int:
        """How many of so many instructions a block has at its end, up to ``last``."""
        for count in range(1, wanted):
            place = last - _SIZE * count
            follows = place in traced and self._next(place, traced=True) == [place + _SIZE]
            if not follows or self._is_call(place):
                return count
        return wanted

    def _calls(self, start: int, stop: set[int]) -> bool:
        """Whether something is called from an instruction on, up to ``stop``."""
        return any(self._is_call(at) for at in self._reach(start, stop, traced=True)[0])

    def _is_call(self, place: int) -> bool:
        word = self._words[place]
        return word >> 26 == _BL or word & 0xFFFFFC1F == 0xD63F0000

    def _reach(self, start: int, stop: set[int], traced: bool) -> tuple[set[int], set[int]]:
        """All that may run from an instruction on, up to ``stop``; and where that was met.

        Of what is ``traced``, blocks of further tracepoints are part; otherwise they do not run.
        """
        seen: set[int] = set()
        met: set[int] = set()
        todo = [start]
        while todo:
            place = todo.pop()
            if place in stop:
                met.add(place)
            elif place not in seen and place in self._words:
                seen.add(place)
                todo += self._next(place, traced)
        return seen, met

    def _next(self, place: int, traced: bool) -> list[int]:
        behind = place + _SIZE
        block = self._others.get(place) or (self._blocks.get(place) if traced else None)
        if block is not None or place in self._blocks:
            return [behind] if block is None else [behind, block]
        word = self._words[place]
        if word >> 26 == _B:
            return [_target(place, word, 26, 0)]
        if word & 0xFF000000 == 0x54000000 or word & 0x7E000000 == 0x34000000:
            return [behind, _target(place, word, 19, 5)]  # B.cond, CBZ, CBNZ
        if word & 0x7E000000 == 0x36000000:
            return [behind, _target(place, word, 14, 5)]  # TBZ, TBNZ
        if word & 0xFE000000 == 0xD6000000 and word & 0xFFFFFC1F != 0xD63F0000:
            return []  # BR, RET, ERET; BLR comes back
        return [behind] if word else []

    def _leaves(self, place: int) -> bool:
        """Whether the function ends here: it returns, or jumps to another one."""
        word = self._words[place]
        leads_out = word >> 26 == _B and _target(place, word, 26, 0) not in self._words
        return word == RET or (leads_out and place not in self._others)


def _span(symbols: Symbols, number: int) -> tuple[int, int]:
    """Where a function lies: two may have one name."""
    last = symbols.base + len(symbols.image)
    behind = int(symbols.starts[number + 1]) if number + 1 < len(symbols.starts) else last
    return int(symbols.starts[number]), behind
