"""Both sides of a cell as a trace for https://ui.perfetto.dev (Chrome's JSON format).

A frame tree has no time. Its frames are drawn as slices, callers around what they call, and one
microsecond stands for one instruction per I/O; the order within a caller is not that of execution.
Slices begin and end at whole microseconds, so that none reaches beyond its caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iotoll.measure.explain.frames import Frame


def perfetto(root: Frame) -> dict[str, Any]:
    """The file's content: a process for each side, with a track for the cell's sections."""
    events: list[dict[str, Any]] = []
    for side, name in enumerate(("base", "candidate")):
        process = {"ph": "M", "pid": side + 1, "tid": 1}
        events.append({**process, "name": "process_name", "args": {"name": name}})
        title = f"{root.name}: 1 us is 1 instruction per I/O"
        events.append({**process, "name": "thread_name", "args": {"name": title}})
        events += _slices(root, side, 0.0)
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _slices(
    frame: Frame, side: int, begin: float, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    total = frame.total
    first, last = round(begin), round(begin + total[side])
    last = last if limit is None else min(last, limit)
    if last <= first:
        return
    yield {
        "ph": "X",
        "pid": side + 1,
        "tid": 1,
        "name": frame.name,
        "ts": first,
        "dur": last - first,
        "args": {
            "instructions per I/O": round(total[side], 3),
            "of the function itself": round(frame.own[side], 3),
            "candidate minus base": round(total[1] - total[0], 3),
        },
    }
    for child in frame.children.values():
        yield from _slices(child, side, begin, last)
        begin += child.total[side]
