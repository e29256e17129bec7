"""Findings in short, for a screen without room for the whole of them; a log's telling lines.

Nothing is left out: what has no line of its own is named with its size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from iotoll.measure.elements import load_elements
from iotoll.records.models import Finding
from iotoll.records.text import MINUS, clean, signed
from iotoll.reports.page.findings import SIGNS, lines_of
from iotoll.verdict.findings import is_count
from iotoll.verdict.words import WHOLE, WORK

_PARTS = {"whole": WHOLE, "work": WORK}
_TELLS = re.compile(
    r"\b(?:error|fatal|failed|fails|failure|fail|panic|BUG|WARNING|Oops|undefined|cannot|refused|hung)\b"
    r"|does not|no such|previously applied|Unable to|Call trace",
    re.I,
)


def in_short(one: Finding) -> str:
    """A finding without functions and workloads: ``+330 instructions per UFS request (...)``."""
    line = lines_of([one])[0]
    if one.part == "throughput" or not one.cells or one.size is None:
        return line
    words, end, _ = line.partition("), " if is_count(one) and "(" in line else ", ")
    return words + end.rstrip(", ")


def by_device(found: Sequence[Finding]) -> list[str]:
    """A line for each device and cost, with the size of each of its parts.

    ``▼ eMMC instructions: -300 submission (9 of 12), -12 return``. What has no size keeps its
    sentence.
    """
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    lines = []
    for one in found:
        if one.size is None or not one.cells:
            lines.append(lines_of([one])[0])
        else:
            groups.setdefault((one.kind, one.device, one.element), []).append(one)
    for (kind, device, element), several in groups.items():
        sizes = map(_size, several)
        what = clean(f"{device} {_name(several[0], element)}")
        lines.append(f"{SIGNS[kind]}{what}: {', '.join(sizes)}")
    return lines


def _name(one: Finding, element: str) -> str:
    if is_count(one):
        return element
    # Of more than one, whatever the size; the device is named before it.
    return load_elements().text(element, 2).removeprefix("+2 ").partition(" of ")[0]


def _size(one: Finding) -> str:
    """A finding's size and part; and in how many workloads, if not in all."""
    size = one.size or 0
    words = signed(size) if is_count(one) else f"{size:+g}".replace("-", MINUS)
    of = f" ({len(one.cells)} of {one.judged})" if len(one.cells) < one.judged else ""
    return f"{words} {_PARTS.get(one.part, one.part)}{of}"


def telling(log: str, most: int) -> list[str]:
    """A short log; of a longer one the last lines that tell what failed, or its last lines."""
    lines = [line for line in log.splitlines() if line.strip()]
    told = [line for line in lines if _TELLS.search(line)] if len(lines) > most else lines
    return (told or lines)[-most:]
