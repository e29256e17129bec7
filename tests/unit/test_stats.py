"""Statistics over a part of the I/Os are those of the analyser."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from iotoll import _native
from iotoll.models import Section
from iotoll.stats import restrict, summary
from tests.unit.tables import READ, SPLIT, SYNC8, cell, full_cell


@pytest.mark.parametrize("path", [SYNC8, SPLIT, READ])
def test_all_ios_give_the_analysers_own_record(path: Path) -> None:
    found = cell(path)
    again = restrict(found.record, found.table)
    assert again.overhead == found.record.overhead
    assert again.total == found.record.total
    assert again.paths == found.record.paths
    for section in Section:
        ours, theirs = again.sections[section], found.record.sections[section]
        assert ours == theirs.model_copy(update={"probe_events": {}})
    assert again.ios == {**found.record.ios, "selected": len(found.table)}


def test_marks_are_counted_again() -> None:
    found = full_cell()
    some = found.table.take(np.arange(10))
    again = restrict(found.record, some)
    marks = again.marks
    assert {step.ios for step in again.steps} <= set(range(1, 11)) and again.steps
    assert marks["device"] == {"block_rq_issue": 10}
    assert marks["end"] == {"sys_exit_pwrite64": 10}


def test_of_nothing() -> None:
    found = cell()
    none = restrict(found.record, found.table.take(np.zeros(len(found.table), np.bool_)))
    assert none.total.elapsed.count == 0 and none.paths == []
    assert summary(np.zeros(0, np.int64)).median is None


def test_summarise() -> None:
    found = json.loads(_native.summarise([5, 1, 5, 9]))
    assert (found["count"], found["median"], found["mode"], found["max"]) == (4, 5, 5, 9)
    with pytest.raises(OverflowError):
        _native.summarise([-1])
