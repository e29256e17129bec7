"""Cache lines and misses per I/O and function, of records whose lines are made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from iotoll.explain.attribute import CellParts, dissect
from iotoll.explain.touch_changes import compare_touches
from iotoll.explain.walk import Walker
from iotoll.measure.iotable import IoTable
from iotoll.records.models import CacheSection, Section
from tests.unit.explain.kernels import BASE, NOP, RET, call, record, symbols

CODE, MISS_L1, MISS_L2 = 1, 2, 4
SUBMIT, DRIVER = BASE, BASE + 16
FUNCTIONS = {
    "submit": [NOP, call(SUBMIT + 4, DRIVER), NOP, RET],
    "driver": [NOP] * 9 + [RET],
}
BLOCKS = [(SUBMIT, 2), (DRIVER, 10), (SUBMIT + 8, 1)]


def cell(ios: list[list[list[int]]]) -> CellParts:
    """I/Os of three runs each (submit, driver, submit again), with the lines of each run."""
    runs = [(0, 2), (1, 10), (2, 1)] * len(ios)
    marks = []
    for number in range(len(ios)):
        marks += [(3 * number, 0, 1000 + 100 * number), (3 * number + 3, 0, 1013 + 100 * number)]
    lines = [line for io in ios for run in io for line in run]
    found = replace(
        record(BLOCKS, runs, marks),
        lines=np.array(lines, np.uint64),
        touches=np.array([len(run) for io in ios for run in io], np.uint16),
    )
    start = np.array([1000 + 100 * n for n in range(len(ios))])
    columns = {
        "start": start,
        "at_bio_queue": np.ma.array(start),
        "at_device": np.ma.array(start + 13),
        "first_submission": np.ma.array(np.full(len(ios), 13)),
        "end": start + 13,
    }
    walker = Walker(found, symbols(FUNCTIONS))
    return dissect("cell", found, walker, IoTable(columns, len(ios)))


ONE = [
    [0x1000, 0x1000 | MISS_L1, 0x8000 | CODE],
    [0x1000, 0x2040 | MISS_L1 | MISS_L2, 0x9000 | CODE | MISS_L1],
    [0x8000 | CODE],
]
"""Three lines of data, of which both functions touch one, and two of code; three misses."""


def test_a_line_counts_once_for_an_io_and_a_miss_each_time() -> None:
    parts = cell([ONE]).sections[Section.SUBMISSION].touches
    assert parts is not None and parts.functions == ("driver", "submit")
    assert parts.total.tolist() == [[2, 2, 2, 1, 1]]
    assert parts.by_function[0].tolist() == [[2, 1, 1, 1, 1], [1, 1, 1, 0, 0]]


def compare(base: list[list[list[int]]], candidate: list[list[list[int]]]) -> CacheSection:
    (section,) = compare_touches(cell(base), cell(candidate))
    return section


def test_one_more_line_is_the_function_s_that_touches_it() -> None:
    more = [ONE[0], [*ONE[1], 0x3000 | MISS_L1], ONE[2]]
    section = compare([ONE] * 4, [more] * 4)
    assert (section.paired, section.data_lines.delta, section.l1d_misses.delta) == (4, 1, 1)
    assert section.code_lines.delta == section.l1i_misses.delta == section.l2_misses.delta == 0
    assert [f.name for f in section.functions] == ["driver"]
    assert (section.functions[0].data_lines.base, section.functions[0].data_lines.delta) == (2, 1)


def test_a_line_of_some_ios_is_a_mean() -> None:
    more = [ONE[0], ONE[1], [*ONE[2], 0x4000]]
    section = compare([ONE] * 4, [ONE, ONE, ONE, more])
    assert (section.data_lines.delta, section.data_lines.mean) == (0, 0.25)
    assert [(f.name, f.data_lines.mean) for f in section.functions] == [("submit", 0.25)]


def test_without_modelled_caches_there_is_nothing() -> None:
    plain = cell([ONE])
    section = plain.sections[Section.SUBMISSION]
    bare = replace(plain, sections={Section.SUBMISSION: replace(section, touches=None)})
    assert compare_touches(bare, bare) == []


@pytest.mark.parametrize("ios", [[ONE], [ONE, ONE, ONE]])
def test_equal_sides_have_no_functions(ios: list[list[list[int]]]) -> None:
    section = compare(ios, ios)
    assert section.functions == [] and section.data_lines.base == 2
