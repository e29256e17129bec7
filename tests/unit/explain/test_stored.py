"""The record of a gate's own boot, made of its windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from iotoll.explain.record import CLOCK, PREVIOUS, SWITCH
from iotoll.explain.stored import _record
from iotoll.explain.walk import Walker
from iotoll.kernels.symbols import USER
from iotoll.measure import windows as stored
from iotoll.measure.windows import _KINDS, ACCESS, Windows
from tests.unit.explain.kernels import BASE, NOP, RET, call, symbols

OUTER, INNER = BASE, BASE + 16
FUNCTIONS = {
    "outer": [NOP, call(OUTER + 4, INNER), NOP, RET],
    "inner": [NOP, NOP, NOP, RET],
}
BLOCKS = [(OUTER, 2, 0), (INNER, 4, 0), (OUTER + 8, 2, 0)]


def boot(
    contents: list[list[int]], marks: list[tuple[int, int, int]], ordered: list[int] | None = None
) -> Windows:
    """Windows of numbers of `BLOCKS`, and marks (window, kind, user); the clock's times rise."""
    length = [sum(BLOCKS[entry][1] for entry in one if entry < len(BLOCKS)) for one in contents]
    rows = zip((len(one) for one in contents), ordered or [1] * len(contents), length, strict=True)
    clocks = sum(kind == stored.CLOCK for _, kind, _ in marks)
    return Windows(
        blocks=np.array(BLOCKS, _KINDS[1][1]),
        special=np.zeros(0, _KINDS[2][1]),
        devices=("ufs",),
        accesses=np.array([(OUTER, 0, 0)], _KINDS[4][1]),
        contents=np.array([entry for one in contents for entry in one], np.uint32),
        windows=np.array(list(rows), _KINDS[6][1]),
        marks=np.array(marks, _KINDS[7][1]),
        switches=np.array([(7, 9)], _KINDS[8][1]),
        times=100 * np.arange(1, clocks + 1),
        symbols=symbols(FUNCTIONS),
    )


def test_runs_follow_each_other_as_the_windows_do() -> None:
    found = boot([[0, 1, ACCESS], [2]], [(0, stored.CLOCK, 0), (1, stored.CLOCK, 0)] * 2)
    record = _record(found, [(0, 4)])
    blocks, counts = record.unpack(0, len(record.runs))
    assert blocks.tolist() == [0, 1, 2] * 2 and counts.tolist() == [2, 4, 2] * 2
    assert record.clock["run"].tolist() == [2, 3, 5, 6]
    assert record.clock["value"].tolist() == [100, 200, 300, 400]
    assert record.executed(np.array([0]), np.array([3])).tolist() == [2 + 6 + 2]


def test_calls_are_seen_as_in_a_record_of_each_instruction() -> None:
    found = boot([[0, 1], [2]], [(0, stored.CLOCK, 0), (1, stored.CLOCK, 0)])
    walk = Walker(record := _record(found, [(0, 2)]), symbols(FUNCTIONS)).walk(0, len(record.runs))
    paths = [walk.tree.path(node) for node in walk.node.tolist()]
    assert paths == [("outer",), ("outer", "inner"), ("outer",)]
    assert walk.count.tolist() == [2, 4, 2]


def test_tasks_and_user_space_are_told() -> None:
    marks = [(0, stored.SWITCH, 0), (1, stored.ENTRY, 2000), (0, stored.CLOCK, 0)]
    record = _record(boot([[0], [2]], marks), [(0, 3)])
    assert [(int(m["probe"]), int(m["value"])) for m in record.marks] == [
        (SWITCH, 9), (PREVIOUS, 7), (CLOCK, 100)
    ]  # fmt: skip
    names = symbols(FUNCTIONS)
    blocks, counts = record.unpack(0, len(record.runs))
    user = [
        int(count)
        for block, count in zip(blocks, counts, strict=True)
        if names.name(int(names.index(record.blocks["address"][[block]])[0])) == USER
    ]
    assert sum(user) == 2000
    assert int(record.clock["executed"][0]) == 2 + 2 + 2000 + 2


def test_what_has_no_order_counts_and_calls_nothing() -> None:
    found = boot([[0, 3, 1, 2]], [(0, stored.CLOCK, 0)], ordered=[0])
    record = _record(found, [(0, 1)])
    walk = Walker(record, symbols(FUNCTIONS)).walk(0, len(record.runs))
    assert int(walk.count.sum()) == 3 * 2 + 2 * 4
    assert not walk.entered.any()


def test_only_the_spans_that_are_asked_for_are_there() -> None:
    found = boot([[0], [1], [2]], [(n, stored.CLOCK, 0) for n in range(3)])
    record = _record(found, [(1, 2)])
    assert record.unpack(0, len(record.runs))[0].tolist() == [1]
    assert record.at(np.array([100, 200, 300])).tolist() == [-1, 0, -1]


def test_cpus_lie_apart_cell_by_cell_and_a_switch_begins_each() -> None:
    # Two CPUs with a mark of the clock for each of two cells; CPU 1 switches from task 7 to 9.
    marks = [(0, stored.CLOCK, 0), (1, stored.CLOCK, 0)]
    marks += [(2, stored.CLOCK, 0), (0, stored.SWITCH, 0), (1, stored.CLOCK, 0)]
    found = replace(
        boot([[0], [1], [2]], marks), first=(0, 2, 5), times=np.array([100, 300, 150, 350])
    )
    record = _record(found, [(0, 1), (2, 3), (1, 2), (3, 5)])
    assert record.unpack(0, len(record.runs))[0].tolist() == [0, 2, 1, 0, 1]
    assert record.clock["value"].tolist() == [100, 150, 300, 350]
    assert record.clock["run"].tolist() == [1, 2, 3, 5]
    one, other = np.array([0, 0, 1]), np.array([2, 1, 3])
    assert record.on_one_cpu(one, other).tolist() == [True, False, True]
    switches = record.marks[record.marks["probe"] == SWITCH]
    rows = [(int(m["run"]), int(m["value"])) for m in switches]
    assert rows == [(0, 0), (1, 0), (2, 0), (3, 7), (4, 9)]
    walk = Walker(record, symbols(FUNCTIONS)).walk(0, len(record.runs))
    assert walk.task.tolist() == [0, 0, 0, 7, 9]
