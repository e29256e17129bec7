"""The slowest I/Os with everything that the trace recorded of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll import _native
from iotoll.core.errors import InfrastructureError
from iotoll.measure.iotable import Ints, IoTable, present
from iotoll.records.models import Clock, Section
from iotoll.records.models.io_checks import IoEvent, SlowIo
from iotoll.records.text import clean, number, plural, unit_label
from iotoll.reports.trace.blocks import cells, layers, whole
from iotoll.reports.trace.reader import TraceCell

EVENT_LIMIT = 400
"""Events that are kept of one I/O; the number of those beyond is said."""

SECTOR = 512

WIDE = 110
"""Columns of a terminal from which on task, event and fields have columns of their own."""

Wanted = tuple[int, int, int, str | None, tuple[int, int] | None, bool]


def slowest(cell: TraceCell, count: int) -> list[SlowIo]:
    """Return the ``count`` longest I/Os, longest first; reads the trace once more.

    On the clock `instructions` the device's time means nothing: the longest in software come
    first.
    """
    table = cell.table if cell.longest is None else cell.longest
    order = np.argsort(-ranked(cell, table), kind="stable")[:count]
    chosen = table.take(order)
    wanted = [_wanted(chosen, row, cell.dev) for row in range(len(chosen))]
    try:
        found = json.loads(_native.io_events(str(cell.file.data), wanted, limit=EVENT_LIMIT))
    except (_native.TraceError, OSError, ValueError) as error:
        text = str(error).replace(f"{cell.file.data}: ", "")
        raise InfrastructureError(f"{cell.trace}: {text}: run the boot again") from error
    return [_slow(cell, chosen, row, part) for row, part in enumerate(found)]


def ranked(cell: TraceCell, table: IoTable) -> Ints:
    """What I/Os are ranked by: their duration, without ``hardware`` where that means nothing."""
    if cell.record.clock is Clock.TIME or Section.HARDWARE not in table.sections:
        return table.duration
    return table.duration - table.elapsed(Section.HARDWARE)


def _wanted(table: IoTable, row: int, dev: str) -> Wanted:
    start = int(table["start"][row])
    end = start + int(table.duration[row])
    devices, kinds, sectors = table.get("dev"), table.get("kind"), table.get("sector")
    span = None
    if sectors is not None and present(sectors)[row]:
        first = int(sectors[row])
        size = max(int(table["bytes"][row]), 1)
        span = first, first + (size - 1) // SECTOR
    named = dev if devices is None else str(devices[row])
    alone = kinds is None or kinds[row] == "sync"
    return int(table["pid"][row]), start, end, named or None, span, bool(alone)


def _slow(cell: TraceCell, table: IoTable, row: int, part: dict[str, Any]) -> SlowIo:
    start, pid = int(table["start"][row]), int(table["pid"][row])
    events = [
        IoEvent(
            at=time - start, cpu=cpu, pid=task, task=_task(cell, task), event=name, fields=dict(f)
        )
        for time, cpu, task, name, f in part["events"]
    ]
    return SlowIo(
        start=start,
        duration=int(table.duration[row]),
        pid=pid,
        task=cell.task(pid),
        op=str(table["op"][row]),
        path=str(table["path"][row]),
        bytes=int(table["bytes"][row]),
        elapsed={s: int(table.elapsed(s)[row]) for s in table.sections},
        events=events,
        events_left_out=part["cut"],
    )


def _task(cell: TraceCell, pid: int) -> str:
    return "idle" if pid == 0 else cell.task(pid)


def print_slowest(cell: TraceCell, ios: list[SlowIo], console: Console) -> None:
    """Print each I/O: a line, its sections, and its events."""
    unit = unit_label(cell.record.unit, cell.record.clock)
    for place, io in enumerate(ios, start=1):
        console.print()
        # On the clock `instructions` only software counts, as in the order of the list.
        device = io.elapsed.get(Section.HARDWARE, 0)
        software = cell.record.clock is Clock.INSTRUCTIONS and Section.HARDWARE in io.elapsed
        took = number(io.duration - (device if software else 0))
        took += f" {unit}" + (" in software" if software else "")
        title = f"Slowest {place}: {took}, {clean(io.op)} {plural(io.bytes, 'byte')}"
        console.print(Text(f"{title}, {clean(io.task)} {io.pid}, path {clean(io.path)}", "bold"))
        shown = [(s, v) for s, v in io.elapsed.items() if not software or s != Section.HARDWARE]
        parts = "  ".join(f"{s.value} {number(v)}" for s, v in shown)
        console.print(Text(f"from {number(io.start)}: {parts}", "dim"))
        console.print(_events(io, wide=console.width >= WIDE))
        if io.events_left_out:
            console.print(Text(f"! {plural(io.events_left_out, 'more event')} left out", "yellow"))


def print_slow_requests(cell: TraceCell, count: int, console: Console) -> None:
    """Print the slowest requests and bios: each by layer, and what was at the device before it."""
    if cell.slow is None:
        return
    unit = unit_label(cell.record.unit, cell.record.clock)
    for place, row in enumerate(list(cells(cell.slow))[:count]):
        console.print()
        task = f"{clean(cell.task(row['pid']))} {row['pid']}"
        where = f"{row['dev']} sector {row['sector']}" if row["sector"] is not None else row["dev"]
        title = f"Slowest {row['kind']} {place + 1}: {number(whole(row))} {unit}, {row['rwbs']}"
        inode = f", inode {row['inode']}" if row["inode"] is not None else ""
        text = f"{title} {plural(row['bytes'], 'byte')} on {where}, {task}{inode}"
        console.print(Text(text, "bold"))
        parts = "  ".join(f"{name} {number(end - at)}" for name, at, end in layers(row))
        console.print(Text(parts, "dim"))
        if row["kind"] == "request":
            console.print(Text(_in_flight(cell, place, row["ahead"]), "dim"))


def _in_flight(cell: TraceCell, place: int, requests: int) -> str:
    """Whose requests were at the device when a slow one was issued."""
    if not requests:
        return "nothing was at the device when it was issued"
    tasks = cell.in_flight[place].most_common(6) if place < len(cell.in_flight) else []
    by_task = ", ".join(f"{clean(cell.task(pid))} {pid}: {number(n)}" for pid, n in tasks)
    return f"at the device when it was issued: {plural(requests, 'request')} ({by_task})"


def _events(io: SlowIo, *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("after start", justify="right", no_wrap=True)
    table.add_column("since last", justify="right", no_wrap=True)
    table.add_column("CPU", justify="right")
    if wide:
        table.add_column("task", no_wrap=True)
        table.add_column("event", no_wrap=True)
    table.add_column("fields" if wide else "event, task, fields", overflow="fold")
    before = 0
    for event in io.events:
        task, name = Text(f"{clean(event.task)} {event.pid}"), Text(event.event)
        told_ = " ".join(f"{clean(k)}={readable(v)}" for k, v in event.fields.items() if v)
        fields = Text(told_, "dim")
        told = [task, name, fields] if wide else [_stacked(name, task, fields)]
        table.add_row(number(event.at), number(event.at - before), str(event.cpu), *told)
        before = event.at
    return table


def readable(value: str) -> str:
    """A field's value with a dot for each character that cannot be shown, as hex dumps have it."""
    return "".join(c if c.isprintable() and c != "\ufffd" else "." for c in value)


def _stacked(name: Text, task: Text, fields: Text) -> Text:
    """Return event and task in one line, and the fields in those below."""
    first = Text.assemble(name, "  ", (task.plain, "cyan"))
    return Text("\n").join([first, fields]) if fields else first
