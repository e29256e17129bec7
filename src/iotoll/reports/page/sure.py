"""How sure a finding is, in the words of who reads kernel patches."""

from __future__ import annotations

from collections.abc import Sequence

from iotoll.records.models import Comparison, Finding, PairedIosRecord, WorkComparison
from iotoll.records.text import clean, number, percent, signed
from iotoll.reports.page.evidence import Evidence


def how_sure(evidence: Evidence, found: Sequence[Finding]) -> str:
    """How sure the first finding is that rests on paired I/Os; empty where none does."""
    verdict = evidence.verdict
    if verdict is None:
        return ""
    if verdict.sequential:
        return clean(verdict.sequential.promise)
    counts = (one for one in found if one.kind != "ungated" and one.cells and one.size)
    first = next((one for one in counts if one.element == evidence.clock.unit.value), None)
    if first is None:
        return ""
    cell = next((one for one in verdict.cells if one.cell == first.cells[0]), None)
    if cell is None:
        return ""
    parts: dict[str, Comparison | None] = {s.section.value: s for s in cell.sections}
    parts |= {"whole": cell.whole, "work": cell.work}
    comparison = parts.get(first.part)
    said = in_words(comparison) if comparison else ""
    trial = comparison.paired.trial if comparison and comparison.paired else None
    boots = min((len(s.boots_of(cell.cell)) for s in evidence.sides.values()), default=0)
    boots = min(boots, len(trial.boots)) if trial else boots
    if said and boots > 1:
        said += f" Seen in each of {boots} boots."
    return f"{said} ({cell.cell})" if said else ""


def in_words(found: Comparison) -> str:
    """``All 768 I/Os grew, 99 % by exactly 330. Two boots of the base differ in 0.4 % of them.``

    What the verdict says where it says it in sentences, or where it paired no I/Os.
    """
    said = clean(found.confidence)
    if isinstance(found, WorkComparison) and found.own is not None:
        told = f"Two boots of the base differ by at most {number(found.own)} per I/O"
        if not found.changed:
            return f"{told}."
        return f"{signed(found.changed)} per I/O is of functions that the patch changed. {told}."
    if found.paired is None or said.endswith("."):
        return said
    paired = found.paired
    if not found.has_moved:
        exact = _floor(paired.exact)
        return f"{exact} of {number(paired.pairs)} I/Os cost exactly what their pair does."
    told = _moved(paired, found.moved == "grew")
    if paired.noise is None:
        return told
    if not paired.noise:
        return f"{told} No two boots of the base differ so."
    return f"{told} Two boots of the base differ in {percent(paired.noise)} of the I/Os."


def _moved(paired: PairedIosRecord, grew: bool) -> str:
    way, other = ("grew", "shrank") if grew else ("shrank", "grew")
    most, rest = (paired.above, paired.below) if grew else (paired.below, paired.above)
    if most == paired.pairs:
        told = f"All {number(most)} I/Os {way}"
    else:
        told = f"{number(most)} of {number(paired.pairs)} I/Os {way}"
        told += f" and {number(rest)} {other}" if rest else ""
        told += f" by more than {number(paired.size)}"
    exactly = abs(paired.commonest)
    if exactly > paired.size and (paired.commonest > 0) == grew:
        told += f", {_floor(paired.commonest_share)} by exactly {number(exactly)}"
    return f"{told}."


def _floor(share: float) -> str:
    """A share in whole percent, rounded down: all I/Os are 100 %, and nearly all are not."""
    return percent(int(share * 100 + 1e-9) / 100, 0)
