"""Requests and bios of a trace: the sums of each device, and one row for each of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from iotoll import _native
from iotoll.measure.boot_trace import BootTraceFile, Window
from iotoll.measure.iotable import Column, unpacked

Rows = Mapping[str, npt.NDArray[Any]]
"""Columns by name, all of one length; those of ``ROWS`` that are optional are masked arrays."""

ROWS: tuple[Column, ...] = (
    Column("kind", "str", "", "request; or bio, of a device that has no requests"),
    Column("dev", "str", "", "its device as major:minor"),
    Column("partition", "str", "", "partition that its first bio was for, empty where none shows"),
    Column("top", "str", "", "uppermost device that its first bio comes from"),
    Column("below", "str", "", "device that a bio went on to, empty of requests"),
    Column("direction", "str", "", "read, write, flush, discard or other"),
    Column("rwbs", "str", "", "the operation and its flags as the kernel prints them"),
    Column("sector", "uint", "512 B", "first sector", optional=True),
    Column("bytes", "int", "B", "its size"),
    Column("bios", "int", "", "bios that it carries; 0 where no event shows one"),
    Column("pid", "int", "", "task that queued its first bio; without one, that issued it"),
    Column(
        "inode",
        "uint",
        "",
        "inode that ext4, f2fs or xfs named last in that task before the bio",
        optional=True,
    ),
    Column("issue_cpu", "int", "", "CPU of its issue; of a bio, where it was queued"),
    Column("complete_cpu", "int", "", "CPU of its completion"),
    Column("requeues", "int", "", "times that it was issued again"),
    Column("ahead", "int", "", "requests of the device in flight when it was issued"),
    Column(
        "ambiguous",
        "bool",
        "",
        "another one of the same place was in flight, and nothing tells whose completion is whose",
    ),
    Column("lost", "bool", "", "events were lost while it was in flight"),
    Column("at_top_queue", "time", "clock", "the bio of the device `top` is queued", optional=True),
    Column("at_queue", "time", "clock", "Q: its first bio is queued", optional=True),
    Column("at_getrq", "time", "clock", "G: that bio has a request", optional=True),
    Column("at_insert", "time", "clock", "I: it is with the scheduler", optional=True),
    Column("at_issue", "time", "clock", "D: it goes to the driver, the last time", optional=True),
    Column("at_sent", "time", "clock", "the driver sends it", optional=True),
    Column("at_driver_done", "time", "clock", "the driver has its completion", optional=True),
    Column("at_complete", "time", "clock", "C: it is complete", optional=True),
    Column("at_below", "time", "clock", "a bio goes on to the device below", optional=True),
    Column("at_below_done", "time", "clock", "the last of what it became is done", optional=True),
    Column("q2d", "time", "clock", "at_issue less at_queue", optional=True),
    Column("d2c", "time", "clock", "at_complete less at_issue", optional=True),
    Column("q2c", "time", "clock", "at_complete less at_queue", optional=True),
)
"""Every column of the table of requests and bios."""


def rows_of(raw: Mapping[str, Any]) -> Rows:
    """The columns of a batch."""
    return {column.name: unpacked(column, raw[column.name]) for column in ROWS}


def cells(rows: Rows) -> Iterator[dict[str, Any]]:
    """Each row as a mapping; what is missing is None."""
    columns = {name: column.tolist() for name, column in rows.items()}
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def read_blocks(
    file: BootTraceFile,
    windows: Sequence[Window],
    keep: int = 0,
    take: Callable[[int, Rows], None] | None = None,
    **options: Unpack[_native.Options],
) -> list[tuple[dict[str, Any], Rows]]:
    """Return, of each window, the sums by device and the ``keep`` slowest rows.

    ``take`` gets all rows while the trace is read, with the number of their window.
    """
    spans = [(window.start, window.end) for window in windows]

    def given(window: int, raw: Mapping[str, Any]) -> None:
        if take is not None:
            take(window, rows_of(raw))

    with file.reading():
        found = _native.blocks(
            str(file.data), spans, keep=keep, take=given if take else None, **options
        )
    return [(json.loads(text), rows_of(raw)) for text, raw in found]


class InFlight:
    """Whose requests were at the device when some slow ones were issued."""

    def __init__(self, slow: Sequence[Rows]) -> None:
        self.slow = [list(cells(rows)) for rows in slow]
        self.found: list[list[Counter[int]]] = [[Counter() for _ in rows] for rows in self.slow]

    def take(self, window: int, rows: Rows) -> None:
        """Look at some rows of a window."""
        issued, done = (np.ma.filled(rows[mark], 0) for mark in ("at_issue", "at_complete"))
        for place, one in enumerate(self.slow[window]):
            at = one["at_issue"]
            if at is None:
                continue
            before = (issued > 0) & (issued < at) & ((done == 0) | (done > at))
            here = before & (rows["dev"] == one["dev"]) & ~rows["lost"]
            self.found[window][place].update(rows["pid"][here].tolist())


def layers(row: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """The layers that a row's marks tell of: name, begin and end (clock units), in order.

    Marks that are missing join their neighbours' layers.
    """
    marks: tuple[tuple[str, str], ...]
    if row["kind"] == "bio":
        marks = (
            ("layers above", "at_top_queue"),
            (f"{row['dev']}: before", "at_queue"),
            (f"below ({row['below']})", "at_below"),
            (f"{row['dev']}: after", "at_below_done"),
        )
    else:
        marks = (
            ("layers above", "at_top_queue"),
            ("block layer", "at_queue"),
            ("driver", "at_issue"),
            ("device", "at_sent"),
            ("completion", "at_driver_done"),
        )
    known = [(name, row[mark]) for name, mark in marks if row[mark] is not None]
    names = [name for name, _ in known]
    if "driver" in names and "device" not in names:
        # Without an event of the driver's, nothing tells its part from the device's.
        known = [("driver and device" if n == "driver" else n, at) for n, at in known]
    if "device" in names and "completion" not in names:
        known = [("device and completion" if n == "device" else n, at) for n, at in known]
    ends = [at for _, at in known[1:]] + [row["at_complete"]]
    found = zip(known, ends, strict=True)
    return [(name, at, end) for (name, at), end in found if end is not None and end > at]


def whole(row: Mapping[str, Any]) -> int:
    """From the first mark of a row to its completion (clock units)."""
    known = [row[mark] for mark in ("at_top_queue", "at_queue", "at_issue") if row[mark]]
    return int(row["at_complete"] - min(known))
