"""Accesses of two CPUs beside the marks that the other plugin left of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from iotoll_lab.contention.cells import _Boot
from iotoll_lab.contention.names import DataNames
from iotoll_lab.contention.recorder import CLOCK, CLOSE, LOAD, OPEN, RECORD, STORE, Accesses

from iotoll.core.errors import InfrastructureError
from iotoll.measure.windows import CLOCK as CLOCK_MARK
from iotoll.measure.windows import ENTRY, Windows
from tests.unit.explain.kernels import BASE
from tests.unit.lab.contention.test_names import MAP
from tests.unit.measure.test_elements import SEND, WAKE, made, windows

# Marks of CPU 0 are 0 to 2, of CPU 1 3 and 4.
KINDS = (CLOCK_MARK, ENTRY, CLOCK_MARK, CLOCK_MARK, CLOCK_MARK)
RECORDS = (
    (0, OPEN, 0, 0),
    (0, STORE, 0, 0),
    (0, CLOCK, 0, 0),
    (1, LOAD, 0, 1),
    (1, CLOCK, 0, 0),
    (0, STORE, 8, 0),
    (0, CLOCK, 0, 0),
    (1, LOAD, 0, 1),
    (1, CLOCK, 0, 0),
    (0, LOAD, 0, 0),
    (0, CLOSE, 0, 0),
)


def boot(tmp_path: Path, records: Sequence[tuple[int, int, int, int]] = RECORDS) -> _Boot:
    rows = [(at, at + BASE, site, cpu, 8, kind, 0) for cpu, kind, at, site in records]
    sites = np.array([(SEND, 0), (WAKE, 0)], [("address", "<u8"), ("word", "<u8")])
    accesses = Accesses(np.array(rows, RECORD), sites, np.zeros(0, np.uint64))
    plain: Windows = windows([(BASE, [0])], [[0]] * len(KINDS))
    marks = made(7, [(n, kind, 0) for n, kind in enumerate(KINDS)])
    (tmp_path / "System.map").write_text(MAP)
    found = replace(plain, marks=marks, first=(0, 3, 5), times=np.arange(4))
    return _Boot(found, accesses, found.symbols, DataNames.read(tmp_path / "System.map"))


def test_an_access_belongs_to_the_next_mark_of_its_cpu(tmp_path: Path) -> None:
    found = boot(tmp_path)
    # What no mark follows is behind all of them.
    assert found._mark(np.array([1, 3, 5, 7, 9])).tolist() == [0, 3, 2, 4, 5]


def test_a_cell_has_what_is_between_its_marks_on_each_cpu(tmp_path: Path) -> None:
    found = boot(tmp_path)
    every = np.array([1, 3, 5, 7, 9])
    assert found._within(every, [(0, 3), (3, 5)]).tolist() == [1, 3, 5, 7]
    assert found._within(every, [(1, 3), (4, 5)]).tolist() == [5, 7]


def test_what_was_shared_is_of_the_measurement_that_the_cell_is_in(tmp_path: Path) -> None:
    found = boot(tmp_path)._of([(0, 3), (3, 5)])
    assert found.transfers.tolist() == [3, 7]
    assert found.is_false.tolist() == [False, True]
    assert found.invalidations.tolist() == [5]


def test_counts_are_named_by_function_and_data(tmp_path: Path) -> None:
    found = boot(tmp_path)._by_data(np.array([3, 5, 7]), 2)
    assert found == {"send: _text": 0.5, "try_to_wake_up: _text": 1.0}


def test_plugins_that_saw_other_readings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="different readings of the clock"):
        boot(tmp_path, RECORDS[:4])
