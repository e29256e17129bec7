"""What moved of a run, grouped by device and section: regressions first, then the largest."""

from __future__ import annotations

from dataclasses import dataclass

from iotoll.records.models import Comparison, Outcome, Section
from iotoll.records.models.finding import Kind
from iotoll.records.text import CellName
from iotoll.reports.page.view import CellView
from iotoll.verdict.words import WHOLE, WORK


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


def movements(views: list[CellView]) -> list[MovementGroup]:
    """Return what moved, grouped by device and section: regressions first, then the largest.

    Whole I/Os follow the sections, and work outside I/Os stands among these by its size.
    """
    groups: dict[tuple[str, Section | None, str, bool, Kind], list[Movement]] = {}
    totals: dict[str, int] = {}
    for view in views:
        device = view.name.device_label
        totals[device] = totals.get(device, 0) + 1
        parts: list[tuple[Section | None, str, Comparison | None]]
        parts = [(row.section, row.section.value, row.comparison) for row in view.rows]
        parts += [(None, "whole", view.moved_alone), (None, "work", view.work)]
        for section, name, found in parts:
            if found is not None and found.has_moved:
                key = (device, section, name, found.moved == "grew", _kind(view, found))
                groups.setdefault(key, []).append(Movement(view.name, found))
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
        key=lambda g: (
            _KINDS.index(g.kind),
            g.name == "whole",
            -abs(g.moves[0].comparison.delta),
        ),
    )


_KINDS = ("regression", "accepted", "undecided", "improvement", "ungated")


def _kind(view: CellView, found: Comparison) -> Kind:
    if not found.gated or view.outcome is None:
        return "ungated"
    if found.accepted is not None:
        return "accepted"
    if view.outcome not in (Outcome.PASS, Outcome.REGRESSION):
        return "undecided"
    return "regression" if found.moved == "grew" else "improvement"
