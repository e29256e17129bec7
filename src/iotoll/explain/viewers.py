"""Both sides of a cell for programs that draw profiles: a differential flame graph as SVG, the
Firefox Profiler, https://ui.perfetto.dev and https://www.speedscope.app.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from iotoll.explain.frames import Frame
from iotoll.records.models import CellDelta
from iotoll.records.text import number, signed
from iotoll.reports.kit.svg import screen_style

WIDTH, ROW, LETTER = 1200.0, 17, 7.0
"""Of the picture, of a row, of a letter; in pixels."""

_SAME, _SAME_SHARE = 0.5, 0.005
"""Instructions per I/O, and share of a frame, below which it is grey: some I/Os differ."""

_STRONGEST = 0.25
"""Share of a frame from which a difference has the strongest colour."""

_LEAST = 0.4  # pixels: a narrower frame is not drawn


def flame_svg(root: Frame, cell: CellDelta | None = None) -> str:
    """Draw a tree of frames; the root is a cell, below it are its sections.

    Frames are means over all I/Os, since only means add up. ``cell`` has what tables say of the
    sections, the difference of most I/Os and the median: the picture's totals are these.
    """
    depth = max(level for level, _ in root.walk())
    height = (depth + 3) * ROW + 24
    scale = WIDTH / max(_width(root), 1e-9)
    told = totals(cell) if cell else {}
    rows = "".join(_draw(root, 0.0, 0, scale, height, told))
    title = f"{root.name}: instructions per I/O"
    title += "".join(f"; {section} {total}" for section, total in told.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height}"'
        ' font-family="monospace" font-size="11">'
        # The frames keep their colours on a dark screen: they are light, and their text is black.
        f"{screen_style()}"
        f'<rect width="100%" height="100%" class="paper"/>'
        f'<text x="4" y="14" class="ink">{escape(title)}</text>'
        '<text x="4" y="28" class="ink">red: more, blue: less, grey: the same; frames are means'
        " over all I/Os</text>"
        f"{rows}</svg>\n"
    )


def totals(cell: CellDelta) -> dict[str, str]:
    """What the tables say of each section: ``+330 on 2,342``."""
    told = {}
    for part in cell.sections:
        size = float(part.delta) if part.share > 0.5 else part.mean
        size = size if part.judged is None else part.judged
        told[part.section.value] = f"{signed(size)} on {number(part.base)}"
    return told


def _width(frame: Frame) -> float:
    """Instructions per I/O as drawn: wide enough for all that is drawn above it."""
    return max(frame.own) + sum(_width(child) for child in frame.children.values())


def _draw(
    frame: Frame,
    left: float,
    level: int,
    scale: float,
    height: int,
    told: Mapping[str, str],
) -> Iterator[str]:
    """A frame and those above it; ``told`` are the totals of sections."""
    width = _width(frame) * scale
    if width < _LEAST:
        return
    base, candidate = frame.total
    top = height - (level + 1) * ROW - 4
    counts = f"{frame.name}: {candidate - base:+.1f} per I/O (base {base:.1f}, {candidate:.1f})"
    if level == 1 and frame.name in told:
        counts = f"{frame.name}: {told[frame.name]} per I/O; mean {candidate - base:+.1f}"
    text = frame.name[: int((width - 4) / LETTER)] if width > 4 * LETTER else ""
    label = f'<text x="{left + 2:.2f}" y="{top + 12}">{escape(text)}</text>' if text else ""
    yield (
        f'<g><title>{escape(counts)}</title><rect x="{left:.2f}" y="{top}" width="{width:.2f}"'
        f' height="{ROW - 1}" fill={quoteattr(_colour(base, candidate))}/>'
        f"{label}</g>\n"
    )
    # The sections of a cell are in the order of the path, functions in that of their names.
    for name in frame.children if level == 0 else sorted(frame.children):
        child = frame.children[name]
        yield from _draw(child, left, level + 1, scale, height, told)
        left += _width(child) * scale


def _colour(base: float, candidate: float) -> str:
    """Grey where both are nearly the same; the larger the share of the difference, the stronger."""
    change = candidate - base
    if abs(change) < max(_SAME, _SAME_SHARE * max(base, candidate)):
        return "#dddddd"
    pale = int(205 - 135 * min(1.0, abs(change) / max(base, candidate) / _STRONGEST))
    return f"#ff{pale:02x}{pale:02x}" if change > 0 else f"#{pale:02x}{pale:02x}ff"


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
        "resourceTable": _columns(0, lib=[], name=[], host=[], type=[]),
        "nativeSymbols": _columns(0, libIndex=[], address=[], name=[], functionSize=[]),
        "markers": _columns(0, data=[], name=[], startTime=[], endTime=[], phase=[], category=[]),
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


SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(root: Frame) -> dict[str, Any]:
    """The file's content: weights are instructions per I/O; one sample for each call path."""
    frames: dict[str, int] = {}
    sides: list[tuple[list[list[int]], list[float]]] = [([], []), ([], [])]
    _collect(root, [], frames, sides)
    return {
        "$schema": SCHEMA,
        "name": root.name,
        "exporter": "iotoll",
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": [
            {
                "type": "sampled",
                "name": side,
                "unit": "none",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
            for side, (samples, weights) in zip(("base", "candidate"), sides, strict=True)
        ],
    }


def _collect(
    frame: Frame,
    above: list[int],
    frames: dict[str, int],
    sides: list[tuple[list[list[int]], list[float]]],
) -> None:
    path = [*above, frames.setdefault(frame.name, len(frames))]
    for own, (samples, weights) in zip(frame.own, sides, strict=True):
        if own:
            samples.append(path)
            weights.append(own)
    for child in frame.children.values():
        _collect(child, path, frames, sides)
