"""Per-I/O tables with every column that an analyser may give, made from a real trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from iotoll import _native
from iotoll.measure.iotable import IoTable, from_native
from iotoll.records.models import Clock
from iotoll.reports.trace.filters import Filters
from iotoll.reports.trace.reader import TraceCell, load

TRACES = Path(__file__).parents[1] / "trace" / "data"
SYNC8 = TRACES / "nvme-write-sync-8.dat"
SPLIT = TRACES / "virtio-split-flush.dat"
READ = TRACES / "ufs-read.dat"


LEAST = ("start", "pid", "op", "bytes", "path", "clean", "requests", "bios")


def is_least(name: str) -> bool:
    """Whether every analyser gives this column: the others may be absent."""
    return name in LEAST or name.startswith(("elapsed_", "own_", "first_"))


def raw(path: Path = SYNC8) -> dict[str, Any]:
    """The columns that every analyser gives."""
    ((_, table),) = _native.analyze(str(path), comm="fio")
    return {name: column for name, column in table.items() if is_least(name)}


def full(path: Path = SYNC8) -> dict[str, Any]:
    """The same with columns that it may lack, filled in from those that it has.

    Every third I/O has no ``getrq``; queues and devices alternate; every fifth I/O has no sector.
    """
    table = raw(path)
    count = len(table["start"])
    rows = range(count)
    sections = ("vfs_fs", "submission", "hardware", "completion", "return")
    edges = [table["start"]]
    for section in sections:
        step = table[f"elapsed_{section}"]
        edges.append([at + n for at, n in zip(edges[-1], step, strict=True)])
    start, bio, device, irq, done, end = edges
    made: dict[str, Any] = {
        "end": end,
        "kind": ["sync"] * count,
        "dev": [("8:0", "259:0")[i // 7 % 2] for i in rows],
        "sector": [None if i % 5 == 0 else 8 * i for i in rows],
        "direction": [("write", "read")[i % 2] for i in rows],
        "detached": [0] * count,
        "merges": [0] * count,
        "splits": [0] * count,
        "requeues": [0] * count,
        "queue": [i % 3 for i in rows],
        "submit_cpu": [0] * count,
        "complete_cpu": [0] * count,
        "start_mark": ["sys_enter_pwrite64"] * count,
        "device_mark": ["block_rq_issue"] * count,
        "interrupt_mark": ["irq_handler_entry"] * count,
        "end_mark": ["sys_exit_pwrite64"] * count,
        "reaped": [None] * count,
        "at_bio_queue": bio,
        "at_getrq": [None if i % 3 == 0 else (bio[i] + device[i]) // 2 for i in rows],
        "at_device": device,
        "at_irq": irq,
        "at_rq_complete": done,
        "at_sched_in": [None] * count,
    }
    kept = {k: v for k, v in table.items() if k not in made}
    assert start == table["start"]
    return {**kept, **made}


def full_table(path: Path = SYNC8) -> IoTable:
    """`full`, as the adapter gives it."""
    return from_native(full(path))


def cell(path: Path = SYNC8, clock: Clock = Clock.INSTRUCTIONS, **filters: Any) -> TraceCell:
    """The only cell of a trace, with the columns that every analyser gives."""
    (found,) = load(path, clock, Filters(comm="fio", **filters))
    columns = {name: c for name, c in found.table.columns.items() if is_least(name)}
    return replace(found, table=IoTable(columns, len(found.table)))


def full_cell(path: Path = SYNC8, clock: Clock = Clock.INSTRUCTIONS) -> TraceCell:
    """The same with every column."""
    found = cell(path, clock)
    return replace(found, table=full_table(path))
