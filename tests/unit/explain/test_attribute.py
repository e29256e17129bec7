"""Dissecting I/Os: only what adds up to the analyser's own count is used."""

from __future__ import annotations

import numpy as np

from iotoll.explain.attribute import CellParts, dissect
from iotoll.explain.compare import compare_cell, compare_whole
from iotoll.explain.frames import cell_frames
from iotoll.explain.walk import Walker
from iotoll.measure.iotable import IoTable
from iotoll.records.models import Section
from tests.unit.explain.kernels import BASE, NOP, RET, call, record, symbols

SUBMIT, DRIVER, VECTORS = BASE, BASE + 16, BASE + 16 + 80
FUNCTIONS = {
    "submit": [NOP, call(SUBMIT + 4, DRIVER), NOP, RET],
    "driver": [NOP] * 19 + [RET],
    "vectors": [NOP, NOP],
    "el1h_64_irq": [NOP, 0xD69F03E0],
}
BLOCKS = [
    (SUBMIT, 2),
    (DRIVER + 4 * 10, 10),
    (DRIVER, 20),
    (SUBMIT + 8, 1),
    (VECTORS, 2),
    (VECTORS + 8, 2),
]
IRQ = 5


def cell(
    drivers: list[list[int]], counts: list[int], single: int | None = None, *, whole: bool = False
) -> CellParts:
    """One I/O for each list of blocks between call and return; the analyser's counts beside."""
    runs: list[tuple[int, int]] = []
    marks, times = [], []
    clock = 1000
    for blocks in drivers:
        here = [0, *blocks, 3]
        size = sum(BLOCKS[block][1] for block in here)
        marks += [(len(runs), 0, clock), (len(runs) + len(here), 0, clock + size)]
        times.append((clock, clock + size))
        runs += [(block, BLOCKS[block][1]) for block in here]
        clock += size + 50
    start = np.array([first for first, _ in times], np.int64)
    end = np.array([last for _, last in times], np.int64)
    columns = {
        "start": start,
        "elapsed_submission": end - start,
        "at_bio_queue": np.ma.array(start),
        "at_device": np.ma.array(end),
        "first_submission": np.ma.array(np.array(counts, np.int64)),
    }
    table = IoTable(columns, len(times))
    found = record(BLOCKS, runs, marks)
    walker = Walker(found, symbols(FUNCTIONS))
    return dissect("cell", found, walker, table, single, with_whole=whole)


def test_functions_of_an_io_add_up_to_its_count() -> None:
    parts = cell([[1], [2]], [13, 23])
    section = parts.sections[Section.SUBMISSION]
    assert section.ios.tolist() == [0, 1] and section.missing == 0
    column = section.functions.index("driver")
    assert section.counts[:, column].tolist() == [10, 20]
    assert section.calls[:, column].tolist() == [1, 1]
    assert section.counts.sum(axis=1).tolist() == [13, 23]
    assert parts.calls == {"driver": 2}


def test_an_io_that_does_not_add_up_is_counted_and_not_used() -> None:
    section = cell([[1], [2]], [13, 22]).sections[Section.SUBMISSION]
    assert section.ios.tolist() == [0] and section.missing == 1


def test_an_interrupt_is_left_out_where_the_analyser_left_it_out() -> None:
    section = cell([[2, 4, IRQ]], [23]).sections[Section.SUBMISSION]
    assert section.missing == 1, "the exception's entry itself belongs to the I/O's task"
    section = cell([[2, 4, IRQ]], [25]).sections[Section.SUBMISSION]
    assert section.missing == 0
    assert section.counts[0, section.functions.index("el1h_64_irq")] == 0
    whole = cell([[2, 4, IRQ]], [27]).sections[Section.SUBMISSION]
    assert whole.counts[0, whole.functions.index("el1h_64_irq")] == 2


def test_both_sides_of_one_io() -> None:
    sides = cell([[1], [2]], [13, 23], 1), cell([[1], [1]], [13, 13], 1)
    root = cell_frames(*sides, single=True)
    assert list(root.total) == [23, 13]
    driver = root.children["submission"].children["submit"].children["driver"]
    assert driver.own == [20, 10]
    (change,) = compare_cell(*sides)
    assert {f.name: f.change.mean for f in change.functions} == {"driver": -5}
    assert change.explained == -5, "half of the I/Os are no rule: the mean counts"


def test_a_whole_io_has_what_others_ran_meanwhile() -> None:
    sides = cell([[2, 4, IRQ]], [25], whole=True), cell([[1, 4, IRQ]], [15], whole=True)
    parts = sides[0].whole
    assert parts is not None and parts.section is None and parts.missing == 0
    assert parts.counts[0, parts.functions.index("el1h_64_irq")] == 2
    change = compare_whole(*sides)
    assert change is not None and change.change.common == -10
    assert [f.name for f in change.functions] == ["driver"]
    assert compare_whole(sides[0], cell([[1]], [13])) is None, "it was not asked for"


def test_a_cell_without_marks_has_no_sections() -> None:
    empty = record(BLOCKS, [(0, 2)], [(0, 0, 5)])
    table = IoTable({"start": np.array([1]), "end": np.array([9])}, 1)
    parts = dissect("cell", empty, Walker(empty, symbols(FUNCTIONS)), table)
    assert parts.sections == {} and parts.ios == 1
