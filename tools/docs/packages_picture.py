#!/usr/bin/env python3
"""Draws docs/packages.svg: the packages of src/iotoll as layers, and the way of a patch through
them.

    tools/docs/packages_picture.py [--check]

Rooms and their order come from the contract of import-linter in pyproject.toml, the words from the
map in README.md. `--check` writes nothing and ends with 1 where the picture would change.
"""

from __future__ import annotations

import re
import sys
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/packages.svg"

FLOW = ("patch", "kernels", "boards", "boots", "measure", "verdict", "reports")
"""What a patch passes, from left to right; `labs` is the other way to boot."""
WIDTH, GAP, EDGE = 118, 14, 16  # of a box, between boxes, around all (SVG units)
TALL, BAR = 92, 40  # heights of a box and of a bar that spans all
STYLE = """
text { font: 11px sans-serif; fill: #1f2933; }
.name { font-weight: bold; font-size: 13px; }
rect { fill: #eef2f7; stroke: #8795a8; } .page { fill: #ffffff; stroke: none; }
.base { fill: #e3ebe4; } .over { fill: #f3ecdf; }
path { fill: none; stroke: #52606d; stroke-width: 1.5; marker-end: url(#head); }
#head path { fill: #52606d; stroke: none; marker-end: none; }
.dashed { stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb; } rect { fill: #27313d; stroke: #7b8794; } .page { fill: #161b22; }
  .base { fill: #243329; } .over { fill: #3a3324; }
  path { stroke: #cbd2d9; } #head path { fill: #cbd2d9; }
}
"""


def layers() -> list[str]:
    """The packages of the contract, highest first."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = data["tool"]["importlinter"]["contracts"][0]
    layers = [layer for layer in contract["layers"] if ":" not in layer]
    return [name.strip() for layer in layers for name in layer.split("|")]


def words() -> dict[str, str]:
    """What README's map says of each package."""
    found = re.findall(r"^ +src/iotoll/([a-z]+)/ +(.+)$", (ROOT / "README.md").read_text(), re.M)
    return dict(found)


def box(x: int, y: int, width: int, height: int, name: str, said: str, kind: str = "") -> str:
    """A rectangle with a name and wrapped words."""
    lines = textwrap.wrap(said, max(10, int(width / 6.6)))
    out = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>'
    out += f'<text class="name" x="{x + 8}" y="{y + 17}">{escape(name)}</text>'
    for number, line in enumerate(lines):
        out += f'<text x="{x + 8}" y="{y + 33 + 13 * number}">{escape(line)}</text>'
    return out


def arrow(x: int, y: int, to_x: int, to_y: int, kind: str = "") -> str:
    """A line with a head."""
    return f'<path class="{kind}" d="M{x} {y} L{to_x} {to_y}"/>'


def picture() -> str:
    """The whole SVG; KeyError or ValueError where README or the contract names other packages."""
    said, order = words(), layers()
    over, base = order[: -len(FLOW) - 3], order[-2:]
    if sorted(order) != sorted([*over, *base, *FLOW, "labs"]):
        raise ValueError(f"the picture has no place for one of {', '.join(order)}")
    span = len(FLOW) * (WIDTH + GAP) - GAP
    parts, y = [], EDGE
    for name in over:
        parts.append(box(EDGE, y, span, BAR, name, said[name], "over"))
        y += BAR + GAP
    top = y + 22
    parts.append(f'<text x="{EDGE}" y="{top - 8}">a patch goes in</text>')
    end = EDGE + span
    parts.append(f'<text x="{end}" y="{top - 8}" text-anchor="end">a verdict comes out</text>')
    for number, name in enumerate(FLOW):
        x = EDGE + number * (WIDTH + GAP)
        parts.append(box(x, top, WIDTH, TALL, name, said[name]))
        if number:
            parts.append(arrow(x - GAP, top + TALL // 2, x - 1, top + TALL // 2))
    boots = EDGE + FLOW.index("boots") * (WIDTH + GAP)
    low = top + TALL + 2 * GAP
    parts.append(box(boots, low, 2 * WIDTH + GAP, 52, "labs", said["labs"]))
    parts.append(arrow(boots + 30, top + TALL, boots + 30, low - 1, "dashed"))
    back = boots + WIDTH + GAP + 60
    parts.append(arrow(back, low, back, top + TALL + 1, "dashed"))
    y = low + 52 + 2 * GAP
    for name in base:
        parts.append(box(EDGE, y, span, BAR, name, said[name], "base"))
        y += BAR + GAP
    size = f"{span + 2 * EDGE} {y - GAP + EDGE}"
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
        ' orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img"'
        f' aria-label="The packages of iotoll and the way of a patch">\n<style>{STYLE}</style>\n'
        f'<defs>{head}</defs>\n<rect class="page" width="100%" height="100%"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def main() -> int:
    """Write the picture, or compare it."""
    made = picture()
    if "--check" not in sys.argv[1:]:
        PICTURE.write_text(made)
    elif not PICTURE.is_file() or PICTURE.read_text() != made:
        print(
            "docs/packages.svg is not current: run tools/docs/packages_picture.py", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
