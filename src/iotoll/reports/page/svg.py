"""Turns a matplotlib figure into SVG that may stand inside a page: same bytes for same data.

Colours are drawn as placeholders and become CSS variables, so that one drawing follows the
reader's light, dark or printed page. Text stays text: it scales and can be searched.
"""

from __future__ import annotations

import html
import io
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 360
"""Width of every panel in SVG units: that of a phone, so that nothing shrinks there."""

_NAMES = (
    "ink",
    "muted",
    "rule",
    "band",
    "page",
    "vfs_fs",
    "submission",
    "hardware",
    "completion",
    "return",
    "grew",
    "shrank",
    "device",
    "second",
)
COLOURS = {name: f"#a1b2{index:02x}" for index, name in enumerate(_NAMES)}
"""Placeholder of each colour; ``templates/report.css`` defines ``--NAME`` for each of them."""

STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "iotoll",
    "font.family": "sans-serif",
    "font.size": 10.0,
    "path.simplify": False,
}
"""matplotlib settings that make an SVG reproducible, with text that stays text."""

METADATA: Any = {"Date": None, "Creator": None, "Format": None, "Type": None}
"""What matplotlib is told to leave out of an SVG: all that differs between runs."""


@cache
def palette() -> dict[str, str]:
    """Return the page's colours on a light ground by name, as ``#rrggbb``."""
    style = resources.files("iotoll.reports.page").joinpath("templates", "report.css").read_text()
    light = style[style.index(":root") : style.index("}")]
    return dict(re.findall(r"--([a-z_]+): (#[0-9a-f]{6})", light))


class Panel:
    """A drawing surface with the origin at the top left and units of one SVG pixel."""

    def __init__(self, height: float) -> None:
        # matplotlib takes a second to import: only what draws waits for it.
        from matplotlib.figure import Figure

        self.height = height
        self.figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
        self.axes: Axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self.axes.set_xlim(0, WIDTH)
        self.axes.set_ylim(height, 0)
        self.axes.axis("off")
        self.figure.patch.set_visible(False)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = "ink",
        size: float = 11,
        align: str = "left",
        bold: bool = False,
    ) -> None:
        """Write text with its vertical middle at ``y``; ``$`` has no meaning."""
        self.axes.text(
            x,
            y,
            text,
            color=COLOURS[colour],
            fontsize=size,
            ha=align,
            va="center_baseline",
            fontweight="bold" if bold else "normal",
            parse_math=False,
        )

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Fill a rectangle whose top left corner is at ``x``, ``y``."""
        from matplotlib.patches import Rectangle

        # As an artist: axes.bar() and plot() also look for limits, which takes most of their time.
        self.axes.add_artist(
            Rectangle((x, y), width, height, color=COLOURS[colour], linewidth=0, zorder=1)
        )

    def line(
        self, x0: float, y0: float, x1: float, y1: float, colour: str = "rule", width: float = 0.8
    ) -> None:
        """Draw a straight line."""
        from matplotlib.lines import Line2D

        line = Line2D([x0, x1], [y0, y1], color=COLOURS[colour], linewidth=width)
        self.axes.add_artist(line)

    def dot(self, x: float, y: float, colour: str, hollow: bool = False, marker: str = "o") -> None:
        """Draw a marker; hollow ones show the page through."""
        from matplotlib.lines import Line2D

        self.axes.add_artist(
            Line2D(
                [x],
                [y],
                marker=marker,
                markersize=5.5,
                color=COLOURS[colour],
                markerfacecolor=COLOURS["page"] if hollow else COLOURS[colour],
                markeredgewidth=1.1,
            )
        )

    def svg(self, name: str, title: str, description: str) -> str:
        """Return the ``<svg>`` element; ``name`` makes its ids unique on the page."""
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        with rc_context(STYLE):
            FigureCanvasSVG(self.figure)
            stream = io.StringIO()
            self.figure.savefig(stream, format="svg", metadata=METADATA)
        return _inline(stream.getvalue(), name, title, description)


def _inline(text: str, name: str, title: str, description: str) -> str:
    """Strip what belongs to a file of its own; add name, title and description."""
    body = text[text.index("<svg") :]
    body = body[body.index(">") + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", body, flags=re.S)
    referenced = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", body))
    body = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in referenced else "", body)
    for identity in sorted(referenced, key=len, reverse=True):
        body = re.sub(rf'(["#]){re.escape(identity)}(["\)])', rf"\g<1>{name}-{identity}\g<2>", body)
    for colour, placeholder in COLOURS.items():
        body = body.replace(placeholder, f"var(--{colour})")
    # matplotlib names its own font list; the page's font is already on the reader's machine.
    body = re.sub(r"font: ([^;\"]*?)([\d.]+)px [^;\"]+", r"font: \1\2px var(--font)", body)
    body = re.sub(r"<!--.*?-->\s*|\n\s*(?=\n)", "", body, flags=re.S)
    height = re.search(r'viewBox="0 0 [\d.]+ ([\d.]+)"', text)
    box = height[1] if height else str(WIDTH)
    return (
        f'<svg viewBox="0 0 {WIDTH} {box}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{html.escape(title)}</title>'
        f'<desc id="{name}-d">{html.escape(description)}</desc>{body.strip()}'
    )
