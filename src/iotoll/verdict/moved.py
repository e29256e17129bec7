"""What moved of a run, grouped by device and section: regressions first, then the largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iotoll.records.models import CellVerdict, Comparison, Outcome, Section
from iotoll.records.models.finding import Kind
from iotoll.records.text import CellName, cell_name
from iotoll.verdict.growth import moved_alone
from iotoll.verdict.words import WHOLE, WORK

KINDS: tuple[Kind, ...] = ("regression", "accepted", "undecided", "improvement", "ungated")
"""In the order of reports."""


@dataclass(frozen=True)
class Movement:
    """One part of one cell that left its threshold: section, whole I/O, or work outside I/Os."""

    name: CellName
    comparison: Comparison


@dataclass(frozen=True)
class MovementGroup:
    """All movements of one section of one device in one direction, biggest first.

    ``section`` is None for the whole I/O, where it moved by more than its sections, and for work
    outside I/Os, which ``name`` tells apart. ``kind`` is ``regression``, ``accepted`` (it grew, and
    may), ``improvement``, ``undecided`` (its cell has no verdict yet) or ``ungated``.
    """

    device: str
    section: Section | None
    name: str
    grew: bool
    kind: Kind
    moves: tuple[Movement, ...]
    cells_of_device: int

    @property
    def title(self) -> str:
        """What moved, in words."""
        return {"whole": WHOLE, "work": WORK}.get(self.name, self.name)

    @property
    def gated(self) -> bool:
        """Whether the gate acts on these movements."""
        return self.kind != "ungated"


def movements(cells: Sequence[CellVerdict], can_gate: bool = True) -> list[MovementGroup]:
    """Return what moved, grouped by device and section: regressions first, then the largest.

    Whole I/Os follow the sections, and work outside I/Os stands among these by its size.
    """
    groups: dict[tuple[str, Section | None, str, bool, Kind], list[Movement]] = {}
    totals: dict[str, int] = {}
    for cell in cells:
        name = cell_name(cell.cell)
        device = name.device_label
        totals[device] = totals.get(device, 0) + 1
        parts: list[tuple[Section | None, str, Comparison | None]]
        parts = [(one.section, one.section.value, one) for one in cell.sections]
        alone = cell.whole and moved_alone(cell.whole, cell.sections)
        parts += [(None, "whole", cell.whole if alone else None), (None, "work", cell.work)]
        for section, part, found in parts:
            if found is not None and found.has_moved:
                kind = kind_of(cell, found, can_gate)
                key = (device, section, part, found.moved == "grew", kind)
                groups.setdefault(key, []).append(Movement(name, found))
    made = [
        MovementGroup(
            *key,
            moves=tuple(sorted(moves, key=lambda m: (-abs(m.comparison.delta), m.name))),
            cells_of_device=totals[key[0]],
        )
        for key, moves in groups.items()
    ]
    return sorted(
        made,
        key=lambda g: (KINDS.index(g.kind), g.name == "whole", -abs(g.moves[0].comparison.delta)),
    )


def kind_of(cell: CellVerdict, found: Comparison, can_gate: bool) -> Kind:
    """What a movement of a cell is, by its verdict: of a section, the whole or an element."""
    # Where the gate cannot act, a cell's outcome would read as a judgement that nobody made.
    if not found.gated or not can_gate:
        return "ungated"
    if found.accepted is not None:
        return "accepted"
    if cell.outcome not in (Outcome.PASS, Outcome.REGRESSION):
        return "undecided"
    return "regression" if found.moved == "grew" else "improvement"
