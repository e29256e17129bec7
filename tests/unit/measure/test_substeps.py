"""Sub-steps from the marks of each I/O's first request."""

from __future__ import annotations

from typing import Any

import pytest

from iotoll.measure.iotable import MARKS, from_native
from iotoll.measure.substeps import _ENDS_SECTION, _MEANINGS, marks_of, meaning, steps
from iotoll.records.models import Section
from tests.unit.tables import READ, full, full_table, raw


def made(count: int = 1, **marks: Any) -> dict[str, Any]:
    """I/Os from 100 to 200 with one request each."""
    table: dict[str, Any] = {
        "start": [100] * count,
        "pid": [1] * count,
        "op": ["pread64"] * count,
        "bytes": [4096] * count,
        "path": ["R4"] * count,
        "clean": [True] * count,
        "requests": [1] * count,
        "bios": [1] * count,
    }
    for place, section in enumerate(Section):
        for kind in ("elapsed", "own"):
            table[f"{kind}_{section.value}"] = [(10, 20, 40, 10, 20)[place]] * count
    return table | {f"at_{name}": values for name, values in marks.items()}


def brief(table: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    return [(s.section.value, s.step, s.ios, s.median) for s in steps(from_native(table))]


def test_steps_follow_the_marks_that_are_there() -> None:
    marks: Any = {"bio_queue": [110], "getrq": [116], "device": [130], "irq": [170]}
    table = made(**marks, rq_complete=[180], waking=[185], sched_in=[190])
    assert brief(table) == [
        ("vfs_fs", "start -> bio_queue", 1, 10),
        ("submission", "bio_queue -> getrq", 1, 6),
        ("submission", "getrq -> device", 1, 14),
        ("hardware", "device -> irq", 1, 40),
        ("completion", "irq -> rq_complete", 1, 10),
        ("return", "rq_complete -> waking", 1, 5),
        ("return", "waking -> sched_in", 1, 5),
        ("return", "sched_in -> end", 1, 10),
    ]


def test_ios_with_and_without_a_mark_are_counted_apart() -> None:
    table = made(3, bio_queue=[110, 110, 110], getrq=[None, 112, 116], issue=[120, 120, 120])
    found = {step: (ios, median) for _, step, ios, median in brief(table)}
    assert found["bio_queue -> issue"] == (1, 10)
    assert found["bio_queue -> getrq"] == (2, 2)
    assert found["getrq -> issue"] == (2, 4)


def test_order_is_that_of_time_not_of_the_list() -> None:
    table = made(bio_queue=[110], issue=[130], device=[125])
    assert [step for _, step, *_ in brief(table)][1:3] == ["bio_queue -> device", "device -> issue"]


def test_a_mark_outside_the_io_is_no_step() -> None:
    table = made(bio_queue=[110], uring_complete=[400])
    assert [step for _, step, *_ in brief(table)] == ["start -> bio_queue", "bio_queue -> end"]


def test_without_an_interrupt_the_driver_ends_hardware() -> None:
    polled = made(device=[130], driver_done=[170])
    assert ("hardware", "device -> driver_done", 1, 40) in brief(polled)
    both = made(device=[130], irq=[168], driver_done=[170])
    assert ("completion", "irq -> driver_done", 1, 2) in brief(both)


def test_steps_of_single_request_ios_add_up_to_their_durations() -> None:
    table = full_table()
    single = table.take(table["requests"] == 1)
    total = sum(s.mean * s.ios for s in steps(table))
    assert total == pytest.approx(single.duration.sum(), rel=1e-5), "means are rounded"
    marks = marks_of(single)
    assert marks is not None
    assert (marks.times[:, 0] == single["start"]).all()


def test_no_marks_no_steps() -> None:
    assert steps(from_native(raw())) == []
    many = full(READ)
    assert steps(from_native({**many, "requests": [2] * len(many["start"])})) == []


def test_every_mark_has_a_section_and_a_meaning() -> None:
    assert set(_ENDS_SECTION) == {*MARKS, "end"}
    for first, last in _MEANINGS:
        assert {first, last} <= {*MARKS, "start", "end"}
    assert meaning("bio_queue", "getrq").endswith("tag wait")
    assert meaning("insert", "waking") == "from insert to waking"
