"""Where a kernel's own tracing begins and ends: what a traced boot executes and another does not.

A tracepoint is a branch that the kernel patches when the event is switched on: the block behind it
calls the event's functions, and goes on with the traced code. Both are in the image: the kernel's
jump table has each such branch and block, and the block's end is where its code meets what runs
without it. Where the compiler has copied some of the latter into the block, as many of the block's
last instructions are not tracing's. A system call that is traced takes a slow path, and a probed
function's return a trampoline. The exceptions of kernel probes, and of x86-64 the jumps that take
their place, are found as they happen (tools/plugin/tracing.h, traced.c).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from iotoll.core.digest import file_sha256, json_sha256
from iotoll.core.errors import UsageError
from iotoll.kernels.flow import Instruction, Kind, Span, read_flow, read_flows
from iotoll.kernels.symbols import ARM64, X86_64, Symbols, read_functions
from iotoll.kernels.x86 import CALL, signed

EDGE = np.dtype([("address", "<u8"), ("kind", "<u4"), ("group", "<u4")])
"""As tools/plugin/tracing.h has it."""

BEGIN, END, END_BEHIND, BRANCH = 1, 2, 3, 4
"""Tracing begins before an instruction runs, ends before it, or ends behind it; or begins behind a
tracepoint's branch, if the kernel has put one in the place of its `nop`."""

VECTORS = "vectors"

_ITERATOR = "__traceiter_"
_ENTRY = 16  # bytes of an entry of the jump table: two 32-bit offsets, one of 64
_FEWEST = 16  # entries that a table has at least
_FARTHEST = 1 << 16  # from a branch to its block, both of one function
_KEY_FLAGS = 3
_NEAREST, _NEXT = 8, 72  # bytes from a tracepoint's key to its field `iterator` (struct tracepoint)

_CALLS_TRACED = ("syscall_trace_enter",)
_CALLS_BEGIN = "invoke_syscall"
_CALLS_END = ("syscall_trace_exit",)
_SLOW_CALLS = ("syscall_trace_enter", "syscall_exit_work")  # of x86-64 (kernel/entry/common.c)
_TRAMPOLINES = ("arch_rethook_trampoline", "__kretprobe_trampoline", "kretprobe_trampoline")
_GROUP_CALLS, _GROUP_RETURNS = 1 << 30, 1 << 30 | 1


@dataclass(frozen=True)
class Names:
    """The trace's clock, which returns an event's time stamp, and what switches tasks."""

    clock: str
    switch: str


NAMES = {
    ARM64: Names("trace_clock_local", "cpu_switch_to"),
    X86_64: Names("trace_clock_x86_tsc", "__switch_to_asm"),
}


@cache
def tracing_rules() -> str:
    """What stands for these rules in a boot's identity: they decide what it counts."""
    names = ("tracing.py", "flow.py", "x86.py")
    return json_sha256([file_sha256(Path(__file__).with_name(name)) for name in names])


@dataclass(frozen=True)
class TracingCode:
    """``edges`` rise by address; ``clock`` are first instruction and return of the trace's clock.

    ``switch`` is where the function is that switches tasks, ``vectors`` where arm64's table of
    exceptions is. ``sites`` has the addresses of the branches of each event that has any. Of
    x86-64, ``entries`` are where exceptions and system calls begin, each with a kind of
    tools/plugin/traced.c, shape (entries, 2), ``image`` is where the kernel's image is, and
    ``calls`` where a system call that is not traced passes by tracing, before it and behind it.
    """

    edges: npt.NDArray[np.void]
    clock: tuple[int, int]
    vectors: tuple[int, int] | None
    switch: tuple[int, int]
    sites: Mapping[str, tuple[int, ...]]
    entries: npt.NDArray[np.uint64] | None = None
    image: tuple[int, int] | None = None
    calls: tuple[frozenset[int], frozenset[int]] = frozenset(), frozenset()


@dataclass(frozen=True)
class _Branch:
    """An entry of the jump table."""

    code: int
    target: int
    key: int


def tracing_code(symbols: Symbols) -> TracingCode:
    """Find all of it in an image; raises UsageError where it lacks what is needed."""
    clock, switch = _places(symbols)
    branches = _jump_table(symbols)
    events = _events(symbols, {branch.key for branch in branches})
    is_x86 = symbols.machine == X86_64
    found = set((_slow_calls if is_x86 else _calls)(symbols)) | set(_trampolines(symbols))
    sites: dict[str, list[int]] = {}
    blocks = {b.code: b.target for b in branches if b.key in events}
    others = {b.code: b.target for b in branches if b.key not in events}
    numbers = symbols.index(np.array(sorted(blocks), np.uint64)).tolist()
    known = read_flows(symbols, {span for number in numbers for span in _parts(symbols, number)})
    flows: dict[int, _Flow] = {}
    for group, branch in enumerate(branches):
        if branch.key in events:
            sites.setdefault(events[branch.key], []).append(branch.code)
            number = int(symbols.index(np.array([branch.code], np.uint64))[0])
            if number not in flows:
                flows[number] = _Flow(symbols, number, blocks, others, known)
            found |= set(flows[number].edges(branch.code, group))
    return TracingCode(
        np.array(sorted(found), EDGE),
        clock,
        None if is_x86 else symbols.span(VECTORS),
        switch,
        {name: tuple(places) for name, places in sites.items()},
        _entries(symbols) if is_x86 else None,
        (symbols.base, symbols.base + len(symbols.image)) if is_x86 else None,
        _passed_by(symbols) if is_x86 else (frozenset(), frozenset()),
    )


def tells_tracing(image: Path) -> bool:
    """Whether `tracing_code` finds what it needs in an image, without finding all of it."""
    try:
        symbols = read_functions(image)
        _places(symbols)
        _jump_table(symbols)
    except UsageError:
        return False
    return True


def _places(symbols: Symbols) -> tuple[Span, Span]:
    """First instruction and return of the trace's clock, and where the switch of tasks is."""
    names = NAMES[symbols.machine]
    needed = (names.switch, *((VECTORS,) if symbols.machine == ARM64 else ()))
    clock, switch = symbols.span(names.clock), symbols.span(names.switch)
    returns = returns_of(symbols, names.clock)
    if clock is None or switch is None or len(returns) != 1 or not all(map(symbols.span, needed)):
        raise UsageError(
            f"the kernel has no function {' or '.join(needed)}, or not one {names.clock} with one"
            " return"
        )
    for name in _SLOW_CALLS if symbols.machine == X86_64 else ():
        if not any(_tests(symbols, name)):
            raise UsageError(f"the kernel has no test before {name}: a call's tracing is not told")
    return (clock[0], returns[0]), switch


def returns_of(symbols: Symbols, name: str) -> list[int]:
    """Addresses of the instructions with which a function returns."""
    span = symbols.span(name)
    flow = read_flow(symbols, *span) if span else {}
    return [place for place, one in flow.items() if one.kind is Kind.RETURN]


@lru_cache(maxsize=4)
def _jump_table(symbols: Symbols) -> list[_Branch]:
    """The longest row of entries that lead from a `nop` or branch to code near by."""
    image, base = symbols.image, symbols.base
    offsets = np.frombuffer(image, "<i4", len(image) // 4).astype(np.int64)
    place = np.arange(0, len(offsets) - 3, 2)
    at = 4 * place
    code, target = at + offsets[place], at + 4 + offsets[place + 1]
    text = int(symbols.starts[-1]) - base
    valid = (code > 0) & (code < text) & (target > 0) & (target < text)
    valid &= np.abs(code - target) < _FARTHEST
    valid &= _may_branch(symbols, np.where(valid, code, 0))
    if symbols.machine == ARM64:
        valid &= (code % 4 == 0) & (target % 4 == 0)
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


def _may_branch(symbols: Symbols, code: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether a `nop` or a jump is at places of the image."""
    if symbols.machine == ARM64:
        words = np.frombuffer(symbols.image, "<u4", len(symbols.image) // 4)[code // 4]
        waits: npt.NDArray[np.bool_] = (words == 0xD503201F) | (words >> 26 == 5)
        return waits
    data = np.frombuffer(symbols.image + bytes(8), np.uint8)
    first, second = data[code], data[code + 1]
    long = (first == 0x0F) & (second == 0x1F) & (data[code + 2] == 0x44)
    short = (first == 0x66) & (second == 0x90)
    found: npt.NDArray[np.bool_] = long | short | np.isin(first, (0xE9, 0xEB))
    return found


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
    flow = read_flow(symbols, *span) if span else {}
    for place, one in flow.items():
        if one.kind is Kind.RETURN or (one.kind is Kind.JUMP and one.target not in flow):
            yield place


def _slow_calls(symbols: Symbols) -> Iterator[tuple[int, int, int]]:
    """Of x86-64: the blocks that call the slow path.

    The branch before them, which tests whether the call is traced, is executed in any case.
    """
    for name in _SLOW_CALLS:
        for number, branch, block in _tests(symbols, name):
            of_block = _Flow(symbols, number, {branch: block}, {})
            for place, kind, group in of_block.edges(branch, _GROUP_CALLS):
                is_branch = kind == BRANCH
                yield block if is_branch else place, BEGIN if is_branch else kind, group


def _passed_by(symbols: Symbols) -> tuple[frozenset[int], frozenset[int]]:
    """`TracingCode.calls`: what follows the tests before each part of the slow path."""
    before, behind = (
        frozenset(symbols.behind(branch) for _, branch, _ in _tests(symbols, name))
        for name in _SLOW_CALLS
    )
    return before, behind


def _tests(symbols: Symbols, name: str) -> Iterator[tuple[int, int, int]]:
    """Branches of which one way leads to a call of a function: function, branch and that way."""
    span = symbols.span(name)
    callers = _callers(symbols, span[0]) if span else []
    for number in sorted(set(symbols.index(np.array(callers, np.uint64)).tolist())):
        for branch, block in _Flow(symbols, number, {}, {}).decisions(set(callers)):
            yield number, branch, block


def _callers(symbols: Symbols, target: int) -> list[int]:
    """Addresses of what may be direct calls of an address."""
    data = np.frombuffer(symbols.image, np.uint8)
    place = np.flatnonzero(data[:-4] == CALL)
    moved = signed(data, place + 1, np.full(len(place), 4))
    hits = place[place + 5 + moved == target - symbols.base]
    found: list[int] = (np.uint64(symbols.base) + hits.astype(np.uint64)).tolist()
    return found


# ---------------------------------------------------------------- x86-64: where exceptions begin

_PLAIN, _WITH_CODE, _INTERRUPT, _CALL = range(4)  # enum entry_kind of tools/plugin/traced.c
_WITH_ERROR_CODE = (
    "double_fault", "invalid_tss", "segment_not_present", "stack_segment", "general_protection",
    "page_fault", "alignment_check", "control_protection", "vmm_communication",
)  # fmt: skip
_STUBS = ("irq_entries_start", "spurious_entries_start")


def _entries(symbols: Symbols) -> npt.NDArray[np.uint64]:
    """Where exceptions, interrupts and system calls of an x86-64 kernel begin, and their kinds."""
    found: dict[int, int] = {}
    for start, name in zip(symbols.starts.tolist(), symbols.names, strict=True):
        what = name.removeprefix("asm_exc_")
        if name.startswith("asm_exc_"):
            found[start] = _WITH_CODE if what in _WITH_ERROR_CODE else _PLAIN
        elif name.startswith("asm_sysvec_"):
            found[start] = _INTERRUPT
        elif name == "entry_SYSCALL_64":
            found[start] = _CALL
    for name in _STUBS:
        # Each pushes the number of its vector, and jumps.
        span = symbols.span(name)
        first = 0
        for at, one in (read_flow(symbols, *span) if span else {}).items():
            first = (first or at) if one.kind in (Kind.PLAIN, Kind.JUMP) else 0
            if one.kind is Kind.JUMP:
                found[first], first = _INTERRUPT, 0
    return np.array(sorted(found.items()), np.uint64).reshape(-1, 2)


# ---------------------------------------------------------------- flow of code within a function

_LONGEST = 64  # instructions that a block has copied of the traced code


class _Flow:
    """The code of one function: from each instruction, what may run next, calls left out."""

    def __init__(
        self,
        symbols: Symbols,
        number: int,
        blocks: Mapping[int, int],
        others: Mapping[int, int],
        known: Mapping[Span, Mapping[int, Instruction]] = MappingProxyType({}),
    ) -> None:
        """``blocks`` are those of tracepoints by branch, ``others`` those of other branches.

        ``known`` is code that was read already.
        """
        self._blocks = blocks
        self._others = others
        self._code: dict[int, Instruction] = {}
        for span in _parts(symbols, number):
            self._code |= known[span] if span in known else read_flow(symbols, *span)
        self._before = {one.behind: place for place, one in self._code.items()}
        self._plain = self._reach(int(symbols.starts[number]), set(), traced=False)[0]

    def edges(self, branch: int, group: int) -> Iterator[tuple[int, int, int]]:
        """Where the tracing behind a tracepoint's branch begins and ends."""
        block = self._blocks[branch]
        # Code that only a jump by register leads to was not met on the way from the beginning.
        behind = self._code[branch].behind
        rest = self._reach(behind, self._plain, traced=False)[0]
        plain = self._plain | rest
        if block in plain or block not in self._code:
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
                missed = self._skipped(behind, None if leaves else after[0])
                copy = self._copy(place, missed, traced)
                if copy:
                    yield self._back(place, copy - 1), END, group

    def decisions(self, calls: set[int]) -> list[tuple[int, int]]:
        """Branches from which one way cannot but lead to some calls: branch, and where it leads."""
        leads = calls & set(self._code)
        while True:
            found = {
                place
                for place, one in self._code.items()
                if place not in leads and one.following and all(n in leads for n in one.following)
            }
            if not found:
                break
            leads |= found
        return [
            (place, one.target)
            for place, one in self._code.items()
            if place not in leads and one.kind is Kind.BRANCH and one.target in leads
        ]

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
            ways = [at for at in dict.fromkeys(following) if at in self._code and at not in seen]
            seen |= set(ways)
        return 0

    def _copy(self, last: int, wanted: int, traced: set[int]) -> int:
        """How many of so many instructions a block has at its end, up to ``last``."""
        for count in range(1, wanted):
            place = self._back(last, count)
            follows = place in traced and self._next(place, True) == [self._code[place].behind]
            if not follows or self._is_call(place):
                return count
        return wanted

    def _back(self, place: int, count: int) -> int:
        """The instruction so many before another one; 0: there are not so many."""
        for _ in range(count):
            place = self._before.get(place, 0)
        return place

    def _calls(self, start: int, stop: set[int]) -> bool:
        """Whether something is called from an instruction on, up to ``stop``."""
        return any(self._is_call(at) for at in self._reach(start, stop, traced=True)[0])

    def _is_call(self, place: int) -> bool:
        return self._code[place].kind is Kind.CALL

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
            elif place not in seen and place in self._code:
                seen.add(place)
                todo += self._next(place, traced)
        return seen, met

    def _next(self, place: int, traced: bool) -> list[int]:
        one = self._code[place]
        block = self._others.get(place) or (self._blocks.get(place) if traced else None)
        if block is not None or place in self._blocks:
            return [one.behind] if block is None else [one.behind, block]
        return one.following

    def _leaves(self, place: int) -> bool:
        """Whether the function ends here: it returns, or jumps to another one."""
        one = self._code[place]
        leads_out = one.kind is Kind.JUMP and one.target not in self._code
        return one.kind is Kind.RETURN or (leads_out and place not in self._others)


def _parts(symbols: Symbols, number: int) -> list[Span]:
    """Where a function lies, and what the compiler put elsewhere of it."""
    cold = symbols.span(f"{symbols.names[number]}.cold")
    return [_span(symbols, number), *([cold] if cold else [])]


def _span(symbols: Symbols, number: int) -> tuple[int, int]:
    """Where a function lies: two may have one name."""
    last = symbols.base + len(symbols.image)
    behind = int(symbols.starts[number + 1]) if number + 1 < len(symbols.starts) else last
    return int(symbols.starts[number]), behind
