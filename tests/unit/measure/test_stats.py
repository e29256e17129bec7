"""Statistics over a part of the I/Os are those of the analyser over all of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from iotoll.records.models import Section
from tests.unit.tables import READ, SPLIT, SYNC8, cell


@pytest.mark.parametrize("path", [SYNC8, SPLIT, READ])
def test_all_ios_give_the_analysers_own_record(path: Path) -> None:
    found = cell(path)
    again = cell(path, min_size=0).record
    assert again.overhead == found.record.overhead
    assert again.total == found.record.total
    assert again.paths == found.record.paths
    for section in Section:
        ours, theirs = again.sections[section], found.record.sections[section]
        assert ours == theirs.model_copy(update={"probe_events": {}})
    assert again.ios == {**found.record.ios, "selected": len(found.table)}
    assert again.requests == found.record.requests
    assert again.gate == {} != found.record.gate


def test_marks_are_counted_again() -> None:
    whole = cell().table
    pid = int(whole["pid"][-1])
    count = int((whole["pid"] == pid).sum())
    again = cell(pids=(pid,)).record
    marks = again.marks
    assert {step.ios for step in again.steps} <= set(range(1, count + 1)) and again.steps
    assert marks["device"] == {"block_rq_issue": count}
    assert marks["end"] == {"sys_exit": count}
    for path in (SYNC8, SPLIT, READ):
        table, marks = cell(path).table, cell(path, min_size=0).record.marks
        assert len(table) == sum(marks["device"].values()) == sum(marks["end"].values())


@pytest.mark.parametrize("path", [SYNC8, SPLIT, READ])
def test_figures_are_those_of_the_table(path: Path) -> None:
    whole = cell(path).table
    pid = Counter(whole["pid"].tolist()).most_common()[-1][0]
    some = cell(path, pids=(pid,))
    rows = whole.take(whole["pid"] == pid)
    assert 0 < len(rows) == len(some.table) == some.record.ios["selected"]
    assert some.record.total.elapsed.max == rows.duration.max()
    for section in Section:
        stats, values = some.record.sections[section].elapsed, rows.elapsed(section)
        assert (stats.min, stats.max) == (values.min(), values.max())
        assert stats.mean == pytest.approx(values.mean())
        clean = rows["clean"].sum() if rows.has("clean") else 0  # not known: no sched_switch
        assert some.record.sections[section].own_clean.count == clean
    assert {p.path: p.ios for p in some.record.paths} == Counter(rows["path"].tolist())


def test_of_nothing() -> None:
    none = cell(min_size=1 << 40).record
    assert none.total.elapsed.count == 0 and none.paths == []
    assert none.total.elapsed.median is None
    assert none.ios["selected"] == 0 < none.ios["measured"]
