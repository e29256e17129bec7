"""Both sides of a cell as a profile of the Firefox Profiler (its processed format, version 46).

A frame tree has no time: each call path is one sample, whose weight is its instructions per I/O.
The sides are two threads, so that the profiler shows either alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from iotoll.measure.explain.frames import Frame

VERSION = 46
"""Of the processed format; the profiler upgrades older profiles by itself."""


def firefox(root: Frame) -> dict[str, Any]:
    """The file's content; weights are instructions per I/O."""
    return {
        "meta": {
            "preprocessedProfileVersion": VERSION,
            "version": 27,
            "interval": 1,
            "startTime": 0,
            "processType": 0,
            "product": f"iotoll: {root.name}, instructions per I/O",
            "stackwalk": 1,
            "symbolicated": True,
            "debug": False,
            "categories": [{"name": "Kernel", "color": "orange", "subcategories": ["Other"]}],
            "markerSchema": [],
            "extensions": {"id": [], "name": [], "baseURL": [], "length": 0},
            "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        },
        "libs": [],
        "pages": [],
        "counters": [],
        "threads": [_thread(root, side, name) for side, name in enumerate(("base", "candidate"))],
    }


@dataclass
class _Tables:
    """The tables of a thread while they grow; rows of functions, frames and stacks."""

    strings: dict[str, int] = field(default_factory=dict)
    prefix: list[int | None] = field(default_factory=list)
    frame: list[int] = field(default_factory=list)
    stacks: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add(self, node: Frame, above: int | None, side: int) -> None:
        """Add a frame and all below it that ran on a side."""
        if not node.total[side]:
            return
        here = len(self.prefix)
        self.prefix.append(above)
        # Functions, frames and strings have the same numbers: each name is one of either.
        self.frame.append(self.strings.setdefault(node.name, len(self.strings)))
        if node.own[side]:
            self.stacks.append(here)
            self.weights.append(round(node.own[side], 3))
        for child in node.children.values():
            self.add(child, here, side)


def _thread(root: Frame, side: int, name: str) -> dict[str, Any]:
    tables = _Tables()
    tables.add(root, None, side)
    count, stacks = len(tables.strings), len(tables.prefix)
    numbers = list(range(count))
    return {
        "name": name,
        "isMainThread": True,
        "processType": "default",
        "processName": name,
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "pid": str(side + 1),
        "tid": side + 1,
        "stringArray": list(tables.strings),
        "samples": {
            "stack": tables.stacks,
            "time": list(range(len(tables.stacks))),
            "weight": tables.weights,
            "weightType": "samples",
            "length": len(tables.stacks),
        },
        "stackTable": {
            "prefix": tables.prefix,
            "frame": tables.frame,
            "category": [0] * stacks,
            "subcategory": [0] * stacks,
            "length": stacks,
        },
        "frameTable": _columns(
            count, func=numbers, address=[-1] * count, category=[0] * count, **_FRAMES
        ),
        "funcTable": _columns(
            count, name=numbers, resource=[-1] * count, isJS=[False] * count, **_FUNCTIONS
        ),
        "resourceTable": {"lib": [], "name": [], "host": [], "type": [], "length": 0},
        "nativeSymbols": {
            "libIndex": [],
            "address": [],
            "name": [],
            "functionSize": [],
            "length": 0,
        },
        "markers": {
            "data": [],
            "name": [],
            "startTime": [],
            "endTime": [],
            "phase": [],
            "category": [],
            "length": 0,
        },
    }


_FRAMES: Mapping[str, int | None] = {
    "inlineDepth": 0,
    "subcategory": 0,
    "nativeSymbol": None,
    "innerWindowID": None,
    "implementation": None,
    "line": None,
    "column": None,
}
_FUNCTIONS: Mapping[str, bool | None] = {
    "relevantForJS": False,
    "fileName": None,
    "lineNumber": None,
    "columnNumber": None,
}


def _columns(length: int, **columns: Any) -> dict[str, Any]:
    """A table by its columns; one that is not a list has the same value in every row."""
    rows = {k: v if isinstance(v, list) else [v] * length for k, v in columns.items()}
    return {**rows, "length": length}
