"""Call trees: calls, returns, tail calls, exceptions and switches of tasks."""

from __future__ import annotations

import numpy as np

from iotoll.explain.walk import Walk, Walker
from iotoll.kernels.symbols import X86_64, Symbols
from tests.unit.explain.kernels import BASE, ERET, NOP, RET, call, record, symbols

OUTER, INNER, TAIL, VECTORS, SWITCH = (BASE + 4 * place for place in (0, 4, 6, 8, 10))
FUNCTIONS = {
    "outer": [NOP, call(OUTER + 4, INNER), NOP, RET],
    "inner": [NOP, 0x14000001],  # a jump to tail
    "tail": [NOP, RET],
    "vectors": [NOP, ERET],
    "cpu_switch_to": [NOP, RET],
}
BLOCKS = [
    (OUTER, 2),  # 0: up to the call
    (INNER, 2),  # 1
    (TAIL, 2),  # 2
    (OUTER + 8, 2),  # 3: the rest
    (VECTORS, 2),  # 4
    (TAIL + 4, 1),  # 5
    (SWITCH, 2),  # 6
]


def walked(runs: list[tuple[int, int]], marks: list[tuple[int, int, int]]) -> Walk:
    found = record(BLOCKS, runs, marks)
    return Walker(found, symbols(FUNCTIONS)).walk(0, len(runs))


def paths(walk: Walk) -> list[tuple[str, ...]]:
    return [walk.tree.path(node) for node in walk.node.tolist()]


def test_calls_tail_calls_and_returns() -> None:
    walk = walked([(0, 2), (1, 2), (2, 2), (3, 2)], [])
    assert paths(walk) == [("outer",), ("outer", "inner"), ("outer", "tail"), ("outer",)]
    assert walk.count.tolist() == [2, 2, 2, 2]
    assert walk.entered.tolist() == [False, True, False, False]


def test_an_exception_returns_to_where_it_came_from() -> None:
    walk = walked([(0, 2), (1, 2), (2, 1), (4, 2), (5, 1), (3, 2)], [])
    assert paths(walk) == [
        ("outer",),
        ("outer", "inner"),
        ("outer", "tail"),
        ("outer", "tail", "vectors"),
        ("outer", "tail"),
        ("outer",),
    ]


def test_tasks_have_stacks_of_their_own() -> None:
    runs = [(0, 2), (1, 2), (6, 2), (0, 2), (1, 2), (6, 2), (3, 2)]
    marks = [(2, 1, 0xB), (2, 2, 0xA), (5, 1, 0xA), (5, 2, 0xB)]
    walk = walked(runs, marks)
    assert walk.task.tolist() == [0xA, 0xA, 0xB, 0xB, 0xB, 0xA, 0xA]
    assert paths(walk)[-1] == ("outer",), "the first task goes on where it was"


def test_stretches_begin_at_marks_of_the_clock() -> None:
    walk = walked([(2, 1), (2, 1), (2, 1)], [(0, 0, 100), (2, 0, 102)])
    assert walk.run.tolist() == [0, 2]
    assert walk.count.tolist() == [2, 1]


X86_FUNCTIONS = {
    "outer": ["90", "e83a000000", "83c001", "c3"],  # calls inner, 64 bytes on
    "inner": ["83c001", "e938000000"],  # a jump to tail
    "tail": ["83c001", "c3"],
    "irq_entries_start": ["6a20", "e939000000"],
    "asm_common_interrupt": ["0f01ca", "e938000000"],
    "common_interrupt_return": ["90", "48cf"],
}
X86_CODE = b"".join(bytes.fromhex("".join(c)).ljust(64, b"\xcc") for c in X86_FUNCTIONS.values())
X86 = Symbols(
    np.array([BASE + 64 * n for n in range(len(X86_FUNCTIONS))], np.uint64),
    tuple(X86_FUNCTIONS),
    X86_CODE,
    BASE,
    X86_64,
)


def test_an_interrupt_of_x86_64_returns_to_where_it_came_from() -> None:
    """It begins in a stub, goes on in what is common to all, and returns from a third function."""
    blocks = [(BASE, 2), (BASE + 64, 2), (BASE + 128, 2), (BASE + 131, 1), (BASE + 6, 2)]
    blocks += [(BASE + 64 * n, 2) for n in (3, 4, 5)]
    runs = [(0, 2), (1, 2), (2, 1), (5, 2), (6, 2), (7, 2), (3, 1), (4, 2)]
    walk = Walker(record(blocks, runs, []), X86).walk(0, len(runs))
    assert paths(walk) == [
        ("outer",),
        ("outer", "inner"),
        ("outer", "tail"),
        ("outer", "tail", "irq_entries_start"),
        ("outer", "tail", "asm_common_interrupt"),
        ("outer", "tail", "common_interrupt_return"),
        ("outer", "tail"),
        ("outer",),
    ]
    assert walk.entered.tolist() == [False, True, *([False] * 6)]
    interrupt = walk.tree.is_interrupt()[walk.node].tolist()
    assert interrupt == [False] * 4 + [True] + [False] * 3
