"""Charts: what is drawn on a panel becomes SVG inside a page, the same bytes for the same data.

Colours are drawn as placeholders and become CSS variables, so that one drawing follows the
reader's light, dark or printed page. Text stays text: it scales and can be searched. `standalone`
makes a file of such a picture.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 360
"""Width of a panel in SVG units: that of a phone, so that nothing shrinks there."""

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
"""Placeholder of each colour; ``templates/page.css`` defines ``--NAME`` for each of them."""

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


@dataclass(frozen=True)
class Picture:
    """A drawing with the legend that belongs to it: colour and meaning."""

    svg: str
    legend: Sequence[tuple[str, str]] = ()


@cache
def palette(dark: bool = False) -> dict[str, str]:
    """Return the page's colours on a light or dark ground by name, as ``#rrggbb``."""
    style = resources.files("iotoll.reports.kit").joinpath("templates", "page.css").read_text()
    pairs = re.findall(r"--([a-z_]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", style)
    return {name: colours[dark] for name, *colours in pairs}


class Panel:
    """A drawing surface with the origin at the top left and units of one SVG pixel."""

    def __init__(self, height: float, width: float = WIDTH) -> None:
        # matplotlib takes a second to import: only what draws waits for it.
        from matplotlib.figure import Figure

        self.height, self.width = height, width
        self.hints: list[str] = []
        self.figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        self.axes: Axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self.axes.set_xlim(0, width)
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

    def bar(
        self, x: float, y: float, width: float, height: float, colour: str, hint: str = ""
    ) -> None:
        """Fill a rectangle whose top left corner is at ``x``, ``y``; a pointer shows ``hint``."""
        from matplotlib.patches import Rectangle

        # As an artist: axes.bar() and plot() also look for limits, which takes most of their time.
        drawn = Rectangle((x, y), width, height, color=COLOURS[colour], linewidth=0, zorder=1)
        if hint:
            drawn.set_gid(f"hint{len(self.hints)}")
            self.hints.append(hint)
        self.axes.add_artist(drawn)

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
        text = stream.getvalue()
        for number, hint in enumerate(self.hints):
            group = f'<g id="hint{number}">'
            text = text.replace(group, f"<g><title>{html.escape(hint)}</title>", 1)
        box = f"0 0 {self.width:g} {self.height:g}"
        return _inline(text, box, name, title, description)


def _inline(text: str, box: str, name: str, title: str, description: str) -> str:
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
    return (
        f'<svg viewBox="{box}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{html.escape(title)}</title>'
        f'<desc id="{name}-d">{html.escape(description)}</desc>{body.strip()}'
    )


def standalone(picture: Picture, scale: float = 1.0) -> str:
    """The picture as an SVG file: in the page's light colours, with its legend, on its ground.

    With a ``scale`` other than 1 the file has a size in pixels: so many for each unit.
    """
    colours = palette()
    text = picture.svg.replace("var(--font)", "sans-serif")
    text = re.sub(r"var\(--([a-z_]+)\)", lambda found: colours[found[1]], text)
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    assert box is not None  # Panel.svg writes it
    width, height = float(box[1]), float(box[2])
    legend = "".join(
        f'<rect x="4" y="{height + 16 * n + 2:g}" width="10" height="10" fill="{colours[name]}"/>'
        f'<text x="20" y="{height + 16 * n + 11:g}" font-family="sans-serif" font-size="10"'
        f' fill="{colours["ink"]}">{html.escape(words)}</text>'
        for n, (name, words) in enumerate(picture.legend)
    )
    height += 16 * len(picture.legend)
    start = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}"'
    if scale != 1:
        start += f' width="{width * scale:g}" height="{height * scale:g}"'
    text = text.replace(box[0], start, 1)
    ground = f'<rect width="100%" height="100%" fill="{colours["page"]}"/>'
    text = text.replace(">", f">{ground}", 1)
    return text.replace("xlink:href", "href").replace("</svg>", f"{legend}</svg>") + "\n"


def screen_style() -> str:
    """A style element for an SVG file that draws on ``paper`` with ``ink``: light, or dark."""
    light, dark = palette(), palette(dark=True)
    return (
        f"<style>.paper{{fill:{light['page']}}}.ink{{fill:{light['ink']}}}"
        "@media screen and (prefers-color-scheme:dark)"
        f"{{.paper{{fill:{dark['page']}}}.ink{{fill:{dark['ink']}}}}}</style>"
    )
