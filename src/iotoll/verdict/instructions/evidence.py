"""Function evidence: what the changed functions have more of is the patch's, so one boot shows it.

Further boots tell a cost from chance: a timer, a fetch of free pages, the state in which a cell
began. Nothing of that makes the functions that a patch changed execute more. Where nearly
all I/Os of a cell grew, and these functions have most of it, the first boot decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from iotoll.records.models import (
    CellRecord,
    CellVerdict,
    Comparison,
    PairedIosRecord,
    Section,
    SideResult,
)
from iotoll.records.models.base import REQUEST_SECTIONS
from iotoll.verdict.policy import PerturbRule

HAVE_IT = "The functions that the patch changed have most of it: one boot is enough."
"""What a verdict rests on that needs no further boot."""
NOT_THEIRS = (
    "moved in the one boot that ran, but not in functions that the patch changed: further boots"
    " would tell, which this regression does not need (--boots 3)"
)


@dataclass(frozen=True)
class Evidence:
    """What of a cell the changed functions have in its first boots; of other boots nothing is said.

    ``changed`` are the functions with other machine code.
    """

    base: CellRecord
    candidate: CellRecord
    changed: frozenset[str]
    rule: PerturbRule

    @classmethod
    def of(cls, base: SideResult, candidate: SideResult, rule: PerturbRule, cell: str) -> Evidence:
        """That of a cell which both sides have."""
        changed = frozenset(candidate.changed or ())
        return cls(base.cells[cell][0], candidate.cells[cell][0], changed, rule)

    def growth(self, element: str) -> int:
        """What these functions have more of an element in the whole cell; "": instructions."""
        return self._total(self.candidate, element) - self._total(self.base, element)

    def _total(self, record: CellRecord, element: str) -> int:
        found = (record.vector or {}).get(element) if element else record.work
        functions = found.functions if found else {}
        return sum(count for name, count in functions.items() if name in self.changed)

    def has(
        self, paired: PairedIosRecord, way: int, section: Section | None, element: str = ""
    ) -> bool:
        """Whether nearly all I/Os moved one way (1: grew, -1), and these functions have most of it.

        Of a section; None is the whole I/O.
        """
        moved, theirs = way * self.moved(paired, section), way * self.growth(element)
        return share_of(paired, way) >= self.rule.ios and 0 < self.rule.changed * moved <= theirs

    def moved(self, paired: PairedIosRecord, section: Section | None) -> float:
        """By how much a section moved in a boot's whole cell, all requests of the I/Os together.

        Not all I/Os have it: a read that is served from memory has no request.
        """
        ios = paired.pairs / max(len(paired.trial.boots) if paired.trial else 1, 1)
        requests = self.candidate.requests["seen"] if section in REQUEST_SECTIONS else 0
        return paired.mean * max(ios, requests)

    def is_of(self, part: Comparison, section: Section | None, element: str = "") -> bool:
        """As `has`, of a comparison; false where nothing moved, or the policy does not gate it."""
        if not part.gated or not part.has_moved or part.paired is None:
            return False
        return self.has(part.paired, 1 if part.moved == "grew" else -1, section, element)


def share_of(paired: PairedIosRecord, way: int) -> float:
    """The net share of the I/Os that moved one way (1: grew, -1)."""
    return way * (paired.above - paired.below) / paired.pairs


def of_changed(cell: CellVerdict, evidence: Evidence) -> CellVerdict:
    """The cell with what its first boots decide: other parts that moved are not known.

    A whole I/O stands with a section that moved the same way, which is part of it.
    """
    sections = [
        _kept(one) if evidence.is_of(one, one.section) else _unknown(one) for one in cell.sections
    ]
    kept = [_kept(one) for one in cell.elements if evidence.is_of(one, one.section, one.element)]
    whole = cell.whole
    if whole is not None and not any(whole.moved == one.moved for one in sections if one.has_moved):
        whole = _kept(whole) if evidence.is_of(whole, None) else _unknown(whole)
    work = None if cell.work is None else _unknown(cell.work)
    update = {"sections": sections, "whole": whole, "work": work, "elements": kept}
    return cell.model_copy(update=update)


def blocks(cell: CellVerdict) -> bool:
    """Whether a section or an element of the cell (of `of_changed`) grew that is gated."""
    return any(one.gated and one.moved == "grew" for one in (*cell.sections, *cell.elements))


Part = TypeVar("Part", bound=Comparison)


def _kept(part: Part) -> Part:
    return part.model_copy(update={"confidence": f"{part.confidence} {HAVE_IT}"})


def _unknown(part: Part) -> Part:
    if not part.has_moved:
        return part
    return part.model_copy(update={"moved": "unknown", "why": NOT_THEIRS})
