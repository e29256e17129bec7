"""A cell whose I/Os are not those of its name is not used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iotoll.boards.cells import parse_cell
from iotoll.measure.iotable import IoTable
from iotoll.measure.load_ran import most_at_once, other_load

IOS = 64


def table(at_once: int = 1, **columns: Any) -> IoTable:
    """I/Os of 100 instructions, ``at_once`` of them together; ``columns`` are words for all."""
    start = np.arange(IOS) // at_once * 100
    words = {
        "kind": "sync",
        "start_mark": "sys_enter",
        "interrupt_mark": "irq_handler_entry",
        "direction": "read",
        "submit_cpu": 0,
        **columns,
    }
    found = {name: np.array([word] * IOS, np.object_) for name, word in words.items()}
    found["submit_cpu"] = found["submit_cpu"].astype(np.int64)
    place = np.arange(IOS) % at_once
    return IoTable(
        {**found, "start": start, "end": start + 100,
         "at_issue": np.ma.array(start + 10 + place),
         "at_rq_complete": np.ma.array(start + 90 + place)}, IOS
    )  # fmt: skip


def test_neighbours_in_one_request_have_one_tag() -> None:
    """Of 768 random reads in bursts of 32 some are neighbours: five I/Os, four requests."""
    name, ran = "ufs-4k-randread-t1-direct-libaio-qd32-tags4", table(5, kind="libaio")
    assert "5 requests were at the disk" in (other_load(parse_cell(name), ran) or "")
    for column in ("at_issue", "at_rq_complete"):
        ran.columns[column][4::5] = ran.columns[column][3::5][: len(ran.columns[column][4::5])]
    assert other_load(parse_cell(name), ran) is None


def test_g1_3_how_many_large_ios_are_in_flight_is_the_kernels_to_say() -> None:
    """A kernel that splits them waits for tags: the cell had no values, and so no verdict."""
    name = "ufs-{}-randread-t1-direct-libaio-qd32"
    small, large = (
        other_load(parse_cell(name.format(kb)), table(3, kind="libaio")) for kb in ("4k", "1024k")
    )
    assert "at most 3 I/Os were in flight" in (small or "") and large is None


@pytest.mark.parametrize(
    ("name", "ran", "why"),
    [
        ("ufs-4k-randread-t1-direct", table(), None),
        ("ufs-4k-randwrite-t1-direct", table(direction="write"), None),
        ("ufs-4k-randread-t1-direct-libaio", table(kind="libaio"), None),
        ("ufs-4k-randread-t1-direct-libaio", table(), "64 of 64 I/Os did not go through libaio"),
        ("ufs-4k-randread-t1-direct-libaio-qd8", table(8, kind="libaio"), None),
        ("ufs-4k-randread-t1-direct-libaio-qd8", table(3, kind="libaio"), "at most 3 I/Os"),
        ("ufs-4k-randread-t8-direct-tags4", table(4), None),
        ("ufs-4k-randread-t1-direct-libaio-qd32-tags4", table(4, kind="libaio"), None),
        ("ufs-4k-randread-t8-direct-tags4", table(8), "8 requests were at the disk at once"),
        ("ufs-4k-randread-t8-direct-tags4", table(2), "none waited for a tag"),
        ("ufs-4k-randtrim-t1-direct", table(), "64 of 64 I/Os are no discard"),
        ("ufs-4k-randtrim-t1-direct", table(direction="discard"), None),
        ("nvme-4k-randread-t1-direct-io_uring-poll", table(kind="io_uring"), "were not polled"),
        (
            "nvme-4k-randread-t1-direct-io_uring-poll",
            table(kind="io_uring", interrupt_mark="nvme_complete_rq"),
            None,
        ),
        ("nvme-4k-randread-t1-direct-io_uring-sqpoll", table(kind="io_uring"), "by a call"),
        (
            "nvme-4k-randread-t1-direct-io_uring-sqpoll",
            table(kind="io_uring", start_mark="io_uring_submit_req"),
            None,
        ),
    ],
)
def test_what_ran_is_compared_with_what_the_name_asks(
    name: str, ran: IoTable, why: str | None
) -> None:
    found = other_load(parse_cell(name), ran)
    assert found is None if why is None else why in (found or "")


def test_queues_of_other_cpus_have_tags_as_well() -> None:
    two = table(8)
    two.columns["submit_cpu"][::2] = 1
    assert other_load(parse_cell("nvme-4k-randread-t8-direct-tags4"), two) is None


def test_intervals_that_touch_do_not_overlap() -> None:
    assert most_at_once(np.array([0, 10, 5]), np.array([10, 20, 6])) == 2
    assert most_at_once(np.array([], np.int64), np.array([], np.int64)) == 0
