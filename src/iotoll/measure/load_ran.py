"""Whether the load that ran is the one that a cell's name asks for, as the trace shows it.

A kernel that does not poll, a queue that is never full or tags that are not few leave a cell with
values of another load. fio does not notice: it reports what it was told to do.
"""

from __future__ import annotations

import numpy as np

from iotoll.boards.cells import LARGE_KB, Cell
from iotoll.measure.iotable import Ints, IoTable, present

_KINDS = {"libaio": "libaio", "io_uring": "io_uring"}
_INTERRUPT = "irq_handler_entry"


def other_load(cell: Cell, table: IoTable) -> str | None:
    """Why the I/Os are not those of the cell's name; None if they are, or nothing tells."""
    if not len(table):
        return None
    return _engine(cell, table) or _direction(cell, table) or _depth(cell, table)


def _engine(cell: Cell, table: IoTable) -> str | None:
    wanted = _KINDS.get(cell.engine)
    if wanted and (other := int((table["kind"] != wanted).sum())):
        return f"{other} of {len(table)} I/Os did not go through {wanted}"
    if cell.sqpoll and (other := int((table["start_mark"] == "sys_enter").sum())):
        return f"{other} of {len(table)} I/Os were submitted by a call, not by io_uring's thread"
    marks = table["interrupt_mark"].astype(str)
    if cell.poll and (other := int(np.char.startswith(marks, _INTERRUPT).sum())):
        return f"{other} of {len(table)} completions came by interrupt and were not polled"
    return None


def _direction(cell: Cell, table: IoTable) -> str | None:
    wanted = {"read": ("read",), "trim": ("discard",)}.get(cell.op)
    if wanted and (other := int((~np.isin(table["direction"].astype(str), wanted)).sum())):
        return f"{other} of {len(table)} I/Os are no {wanted[0]}"
    return None


def _depth(cell: Cell, table: IoTable) -> str | None:
    """I/Os at once: as many as the depth says, and no more requests at a disk than it has tags."""
    # With few tags the call that submits a burst waits for them: the rest are not in flight yet. So
    # where an I/O may be many requests: a limit of the kernel's, which is judged as such.
    if cell.depth > 1 and cell.is_direct and not cell.tags and cell.block_kb < LARGE_KB:
        found = most_at_once(table["start"], table["end"])
        wanted = min(cell.depth * cell.threads, len(table))
        # The first of a burst may have ended before the last is submitted.
        if found < wanted / 2:
            return f"at most {found} I/Os were in flight at once, of {wanted}"
    issue, done = table.get("at_issue"), table.get("at_rq_complete")
    if not cell.tags or issue is None or done is None:
        return None
    known = present(issue) & present(done)
    spans = np.column_stack((np.ma.getdata(issue)[known], np.ma.getdata(done)[known]))
    # Neighbours of one burst may have become one request, which has one tag.
    issued, ended = np.unique(spans, axis=0).T
    found = most_at_once(issued, ended)
    # Each hardware queue may have that many, and a CPU uses one queue.
    most = cell.tags * len(np.unique(table["submit_cpu"]))
    if found > most:
        return f"{found} requests were at the disk at once, more than its {most} tags"
    if cell.disks == 1 and found < min(cell.tags, cell.threads * cell.depth):
        return f"at most {found} requests were at the disk at once: none waited for a tag"
    return None


def most_at_once(starts: Ints, ends: Ints) -> int:
    """The largest number of intervals that overlap; one that begins as another ends does not."""
    moments = np.concatenate([ends, starts])
    steps = np.concatenate([np.full(len(ends), -1), np.ones(len(starts), np.int64)])
    order = np.argsort(moments, kind="stable")
    return int(np.cumsum(steps[order]).max(initial=0))
