#!/usr/bin/env python3
"""Prints what trace events cost (docs/explain.md), from an untraced.json.

    iotoll explain RUN --untraced --all
    tools/docs/untraced.py RUN/untraced.json

One line for each cell of the base: calibrated / untraced (calibrated less untraced), medians of
instructions per I/O. Below it, for each section, the smallest and largest of these differences.
"""

from __future__ import annotations

import sys
from pathlib import Path

from iotoll.records import results
from iotoll.records.models import Section, UntracedCell, UntracedRecord, UntracedSection

SECTIONS = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION, Section.RETURN)


def row(cell: UntracedCell) -> str:
    """The line of a cell; a section without a calibrated value has the untraced one alone."""
    found = {one.section: one for one in cell.sections}
    texts = [_text(found.get(section)) for section in SECTIONS]
    known = [one for one in found.values() if one.calibrated is not None]
    total = "-"
    if len(known) == len(SECTIONS):
        sums = sum(one.calibrated or 0 for one in known), sum(one.untraced for one in known)
        total = f"{sums[0]:.0f} / {sums[1]:.0f} ({sums[0] / sums[1] - 1:+.1%})"
    left = f" ({cell.not_cut} not cut)" if cell.not_cut else ""
    return f"| `{cell.cell}`{left} | {' | '.join(texts)} | {total} |"


def _text(one: UntracedSection | None) -> str:
    if one is None:
        return "-"
    if one.calibrated is None:
        return f"{one.untraced:.0f}"
    off = one.calibrated - one.untraced
    return f"{one.calibrated:.0f} / {one.untraced:.0f} ({off:+.0f})"


def table(record: UntracedRecord) -> str:
    """The whole table, and the range of the differences of each section."""
    lines = ["| cell | `vfs_fs` | `submission` | `completion` | `return` | all four |"]
    lines.append("|---|---|---|---|---|---|")
    cells = [cell for cell in record.cells if cell.side == "base"]
    lines += [row(cell) for cell in cells]
    lines.append("")
    for section in SECTIONS:
        offs = [
            one.calibrated - one.untraced
            for cell in cells
            for one in cell.sections
            if one.section is section and one.calibrated is not None
        ]
        if offs:
            text = f"{min(offs):+.0f} to {max(offs):+.0f} in {len(offs)} cells"
            lines.append(f"- `{section.value}`: {text}")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(table(results.read(Path(sys.argv[1]), UntracedRecord)))
