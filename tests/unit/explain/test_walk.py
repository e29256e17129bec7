"""Call trees: calls, returns, tail calls, exceptions and switches of tasks."""

from __future__ import annotations

from iotoll.explain.walk import Walk, Walker
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
