"""Both sides of a cell as a trace for https://ui.perfetto.dev (Chrome's JSON format).

A frame tree has no time. Its frames are drawn as slices, callers around what they call, and one
nanosecond stands for one instruction per I/O; the order within a caller is not that of execution.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iotoll.measure.explain.frames import Frame

_NS = 1000  # nanoseconds of the format's unit, a microsecond


def perfetto(root: Frame) -> dict[str, Any]:
    """The file's content: a process for each side, with a track for the cell's sections."""
    events: list[dict[str, Any]] = []
    for side, name in enumerate(("base", "candidate")):
        process = {"ph": "M", "pid": side + 1, "tid": 1}
        events.append({**process, "name": "process_name", "args": {"name": name}})
        title = f"{root.name}: 1 ns is 1 instruction per I/O"
        events.append({**process, "name": "thread_name", "args": {"name": title}})
        events += _slices(root, side, 0.0)
    return {"displayTimeUnit": "ns", "traceEvents": events}


def _slices(frame: Frame, side: int, begin: float) -> Iterator[dict[str, Any]]:
    total = frame.total
    if not total[side]:
        return
    yield {
        "ph": "X",
        "pid": side + 1,
        "tid": 1,
        "name": frame.name,
        "ts": round(begin / _NS, 6),
        "dur": round(total[side] / _NS, 6),
        "args": {
            "instructions per I/O": round(total[side], 3),
            "of the function itself": round(frame.own[side], 3),
            "candidate minus base": round(total[1] - total[0], 3),
        },
    }
    for name in sorted(frame.children):
        child = frame.children[name]
        yield from _slices(child, side, begin)
        begin += child.total[side]
