"""A differential flame graph as one SVG file: what the candidate does more is red, less is blue.

Callers are below what they call. A frame is as wide as the more expensive side's instructions per
I/O; pointing at one shows both sides' counts. No script and no file besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from iotoll.measure.explain.frames import Frame

WIDTH, ROW, LETTER = 1200.0, 17, 7.0
"""Of the picture, of a row, of a letter; in pixels."""

_SAME, _SAME_SHARE = 0.5, 0.005
"""Instructions per I/O, and share of a frame, below which it is grey: some I/Os differ."""

_STRONGEST = 0.25
"""Share of a frame from which a difference has the strongest colour."""

_STYLE = (
    "<style>.paper{fill:#fff}.ink{fill:#000}@media screen and (prefers-color-scheme:dark)"
    "{.paper{fill:#14171b}.ink{fill:#e6e8ea}}</style>"
)
"""The frames keep their colours on a dark screen: they are light, and their text is black."""

_LEAST = 0.4  # pixels: a narrower frame is not drawn


def flame_svg(root: Frame) -> str:
    """Draw a tree of frames; the root is a cell, below it are its sections."""
    depth = max(level for level, _ in root.walk())
    height = (depth + 2) * ROW + 24
    scale = WIDTH / max(_width(root), 1e-9)
    rows = "".join(_draw(root, 0.0, 0, scale, height))
    base, candidate = root.total
    title = f"{root.name}: {candidate - base:+.1f} instructions per I/O, base {base:.1f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height}"'
        ' font-family="monospace" font-size="11">'
        f"{_STYLE}"
        f'<rect width="100%" height="100%" class="paper"/>'
        f'<text x="4" y="14" class="ink">{escape(title)} (red: more, blue: less, grey: the same)'
        "</text>"
        f"{rows}</svg>\n"
    )


def _width(frame: Frame) -> float:
    """Instructions per I/O as drawn: wide enough for all that is drawn above it."""
    return max(frame.own) + sum(_width(child) for child in frame.children.values())


def _draw(frame: Frame, left: float, level: int, scale: float, height: int) -> Iterator[str]:
    width = _width(frame) * scale
    if width < _LEAST:
        return
    base, candidate = frame.total
    top = height - (level + 1) * ROW - 4
    counts = f"{frame.name}: {candidate - base:+.1f} per I/O (base {base:.1f}, {candidate:.1f})"
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
        yield from _draw(child, left, level + 1, scale, height)
        left += _width(child) * scale


def _colour(base: float, candidate: float) -> str:
    """Grey where both are nearly the same; the larger the share of the difference, the stronger."""
    change = candidate - base
    if abs(change) < max(_SAME, _SAME_SHARE * max(base, candidate)):
        return "#dddddd"
    pale = int(205 - 135 * min(1.0, abs(change) / max(base, candidate) / _STRONGEST))
    return f"#ff{pale:02x}{pale:02x}" if change > 0 else f"#{pale:02x}{pale:02x}ff"
