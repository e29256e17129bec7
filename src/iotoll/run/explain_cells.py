"""Which cells of a verdict are worth explaining, and of which the whole I/O is taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from iotoll.boards.cells import parse_cell
from iotoll.core.errors import UsageError
from iotoll.records.models import CellVerdict, Comparison, PoolRecord, VerdictRecord

NEAR = 4
"""Cells that an error names of a run that has more."""

ACCOUNTED = 0.5
"""Share of a whole I/O's difference that its sections must have, or the whole is taken apart."""


def check_cells(asked: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageError for a cell that a run has not, with those that are named most alike."""
    for cell in asked:
        if cell not in known:
            near = get_close_matches(cell, known, NEAR, cutoff=0.3) or known[:NEAR]
            names = ", ".join(name for name in known if name in near)
            more = f" and {len(known) - len(near)} others" if len(known) > len(near) else ""
            raise UsageError(f"--cell {cell}: the run has no such cell: it has {names}{more}")


def moved_cells(verdict: VerdictRecord) -> list[str]:
    """The cells that moved, the largest differences first.

    Those where nothing but the whole I/O moved follow those with a section that did. Where no cell
    moved alone, the cells of a device whose cells moved together.
    """
    keys: dict[str, tuple[bool, float]] = {}
    for cell in verdict.cells:
        sections = [abs(s.delta or 0.0) for s in cell.sections if _has_moved(s)]
        if sections:
            keys[cell.cell] = False, -max(sections)
        elif cell.whole is not None and _has_moved(cell.whole):
            keys[cell.cell] = True, -abs(cell.whole.delta or 0.0)
    if keys:
        return sorted(keys, key=lambda name: keys[name])
    names = [cell.cell for cell in verdict.cells]
    return [name for name in names if any(_is_of(name, pool) for pool in verdict.pools)]


def whole_cells(verdict: VerdictRecord) -> frozenset[str]:
    """The cells whose whole I/Os moved by more than their sections account for."""
    return frozenset(cell.cell for cell in verdict.cells if _is_left(cell))


def _is_left(cell: CellVerdict) -> bool:
    if cell.whole is None or not _has_moved(cell.whole):
        return False
    sections = sum(s.delta or 0.0 for s in cell.sections if s.gated)
    whole = cell.whole.delta or 0.0
    return sections * whole <= 0 or abs(sections) < ACCOUNTED * abs(whole)


def _has_moved(part: Comparison) -> bool:
    return part.gated and part.has_moved


def _is_of(name: str, pool: PoolRecord) -> bool:
    cell = parse_cell(name)
    return cell.device == pool.device and pool.threads in (None, cell.threads)
