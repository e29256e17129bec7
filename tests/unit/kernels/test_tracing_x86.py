"""Where tracing begins and ends in an x86-64 kernel, and what its instructions do."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import pytest

from iotoll.core.errors import UsageError
from iotoll.kernels.flow import Kind, ends_of, read_flow
from iotoll.kernels.symbols import X86_64, Symbols
from iotoll.kernels.tracing import BEGIN, BRANCH, END, END_BEHIND, TracingCode, tracing_code

BASE = 0xFFFF_FFFF_8100_0000
NOP2, NOP5, RET, CALLS = "6690", "0f1f440000", "c3", "ffd0"
ADD = "83c001"


SLOW = [
    "f6c23f",
    "7509",
    "4839d0",
    "31c0",
    RET,
    "cccccc",
    "4889df",
    "e8{syscall_trace_enter}",
    "ebed",
]
"""Tests whether a call is traced; 14 bytes behind its beginning is what calls the slow path."""


class Image:
    """Functions, each at a multiple of 256 bytes; a jump table and tracepoints behind them.

    ``{name}`` in the code of a function stands for the distance to another one, of a branch that
    ends with it.
    """

    def __init__(self, functions: Mapping[str, list[str]]) -> None:
        functions = {
            "_text": [RET],
            "do_syscall_64": SLOW,
            "syscall_trace_enter": [CALLS, RET],
            "syscall_exit_to_user_mode": [
                "7501",
                RET,
                "e8{syscall_exit_work}",
                "ebf8",
            ],
            "syscall_exit_work": [CALLS, RET],
            **functions,
            "trace_clock_x86_tsc": ["0f31", "48c1e220", "4809d0", RET],
            "__switch_to_asm": ["55", RET],
            "__traceiter_one": [NOP5, RET],
            "irq_entries_start": ["6a20", "eb06", "cccccccc", "6a21", "eb06", "cccccccc"],
            "spurious_entries_start": ["f30f1efa", "6aff", "eb06", "cccccccc"],
            "asm_sysvec_apic_timer_interrupt": ["0f01ca", RET],
            "asm_exc_page_fault": ["0f01ca", "48cf"],
            "asm_exc_int3": ["0f01ca", "48cf"],
            "entry_SYSCALL_64": ["0f01f8", "480f07"],
            "filler": [NOP5] * 32,
            "last": [RET],
        }
        self.starts = {name: BASE + 256 * n for n, name in enumerate(functions)}
        self._names = tuple(functions)
        data = bytearray()
        for name, parts in functions.items():
            for part in parts:
                code, _, target = part.partition("{")
                data += bytes.fromhex(code)
                if target:
                    here = BASE + len(data) + 4
                    data += struct.pack("<i", self.starts[target[:-1]] - here)
            data += b"\xcc" * (self.starts[name] + 256 - BASE - len(data))
        self._code = bytes(data)

    def symbols(self, sites: list[tuple[int, int]]) -> Symbols:
        """``sites`` are branch and block of an event's tracepoint."""
        data, key = bytearray(self._code), BASE + 0x10000
        filler = self.starts["filler"]
        rows = [(*site, key) for site in sites]
        rows += [(filler + 5 * n, filler + 5 * n + 5, BASE + 0x20000) for n in range(16)]
        for branch, block, of_key in rows:
            at = BASE + len(data)
            data += struct.pack("<iiq", branch - at, block - at - 4, of_key - at - 8 | 1)
        data += bytes(key + 32 - BASE - len(data))
        data += struct.pack("<Q", self.starts["__traceiter_one"])
        starts = np.array([self.starts[name] for name in self._names], np.uint64)
        return Symbols(starts, self._names, bytes(data), BASE, X86_64)


def edges(code: TracingCode, start: int) -> list[tuple[int, int]]:
    """Those of a function, in bytes from its start."""
    every = [(int(e["address"]) - start, int(e["kind"])) for e in code.edges]
    return [edge for edge in every if 0 <= edge[0] < 256]


@pytest.mark.parametrize(("nop", "size"), [(NOP2, 2), (NOP5, 5)])
def test_tracing_ends_where_its_block_meets_the_traced_code(nop: str, size: int) -> None:
    # The block is behind the return, tests something, and goes back.
    image = Image({"traced": [nop, ADD, RET, CALLS, "7402", CALLS, "ebf4"]})
    start = image.starts["traced"]
    block = start + size + 4
    code = tracing_code(image.symbols([(start, block)]))
    assert edges(code, start) == [(0, BRANCH), (size, END)]
    assert code.sites == {"one": (start,)} and code.vectors is None
    clock = image.starts["trace_clock_x86_tsc"]
    assert code.clock == (clock, clock + 9)
    assert code.switch[0] == image.starts["__switch_to_asm"]
    assert code.image == (BASE, BASE + len(image.symbols([]).image))


def test_a_copy_of_the_traced_code_is_not_tracing() -> None:
    """The block ends in what the branch skips: its last two instructions are not tracing's."""
    body = [NOP5, ADD, "ffc1", "31d2", RET]
    image = Image({"traced": [*body, CALLS, ADD, "ffc1", "ebf4"]})
    start = image.starts["traced"]
    block = start + 13
    code = tracing_code(image.symbols([(start, block)]))
    assert edges(code, start) == [(0, BRANCH), (10, END), (18, END)]


def test_the_slow_path_of_system_calls_is_tracing_but_not_the_test_before_it() -> None:
    image = Image({"arch_rethook_trampoline": ["54", "9c", CALLS, "9d", RET]})
    code = tracing_code(image.symbols([]))
    call, back, trampoline = (
        image.starts[name]
        for name in ("do_syscall_64", "syscall_exit_to_user_mode", "arch_rethook_trampoline")
    )
    assert edges(code, call) == [(5, END), (14, BEGIN)]
    assert edges(code, back) == [(2, END), (3, BEGIN)]
    assert edges(code, trampoline) == [(0, BEGIN), (5, END_BEHIND)]
    assert code.calls == (frozenset({call + 5}), frozenset({back + 2}))


def test_where_exceptions_and_calls_begin() -> None:
    image = Image({"one": [RET]})
    entries = tracing_code(image.symbols([])).entries
    assert entries is not None
    stubs = image.starts["irq_entries_start"]
    assert entries.tolist() == sorted(
        [
            [stubs, 2],
            [stubs + 8, 2],
            [image.starts["spurious_entries_start"], 2],
            [image.starts["asm_sysvec_apic_timer_interrupt"], 2],
            [image.starts["asm_exc_page_fault"], 1],
            [image.starts["asm_exc_int3"], 0],
            [image.starts["entry_SYSCALL_64"], 3],
        ]
    )


def test_kernels_that_do_not_tell_are_refused() -> None:
    found = Image({"one": [RET]}).symbols([])
    with pytest.raises(UsageError, match="trace_clock_x86_tsc"):
        tracing_code(Symbols(found.starts[:1], found.names[:1], found.image, BASE, X86_64))
    names = tuple(name.replace("syscall_exit_work", "inlined") for name in found.names)
    with pytest.raises(UsageError, match="no test before syscall_exit_work"):
        tracing_code(Symbols(found.starts, names, found.image, BASE, X86_64))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ADD, Kind.PLAIN),
        ("e800000000", Kind.CALL),
        (CALLS, Kind.CALL),
        ("ff5008", Kind.CALL),
        ("ffe0", Kind.AWAY),
        ("eb00", Kind.JUMP),
        ("e900000000", Kind.JUMP),
        ("7500", Kind.BRANCH),
        ("0f8500000000", Kind.BRANCH),
        (RET, Kind.RETURN),
        ("48cf", Kind.LEAVE),
        ("480f07", Kind.LEAVE),
        ("cc", Kind.NOTHING),
        ("0f0b", Kind.PLAIN),  # a warning goes on
    ],
)
def test_what_instructions_do(code: str, kind: Kind) -> None:
    data = bytes.fromhex(ADD + code)
    found = Symbols(np.array([BASE], np.uint64), ("f",), data, BASE, X86_64)
    flow = read_flow(found, BASE, BASE + len(data))
    assert list(flow) == [BASE, BASE + 3] and flow[BASE + 3].kind is kind
    assert flow[BASE + 3].behind == BASE + len(data) == found.behind(BASE + 3)
    ends = ends_of(found, np.array([BASE, BASE, 0], np.uint64), np.array([2, 1, 5]))
    assert ends.behind.tolist() == [BASE + len(data), BASE + 3, 0]
    known = kind in (Kind.CALL, Kind.RETURN, Kind.LEAVE)
    assert ends.kind.tolist() == [kind if known else Kind.PLAIN, Kind.PLAIN, Kind.PLAIN]
