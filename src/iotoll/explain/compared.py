"""``explain.json`` of two kernels whose I/Os were dissected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iotoll.explain.attribute import CellParts
from iotoll.explain.compare import SectionChange, compare_cell, compare_whole
from iotoll.explain.coverage import coverage, with_data
from iotoll.explain.functions import Found, Lines, function_delta
from iotoll.explain.pieces import Pieces
from iotoll.explain.touch_changes import compare_touches
from iotoll.kernels.symbols import Symbols
from iotoll.records.models import (
    CacheModel,
    CacheRecord,
    CellDelta,
    ExplainRecord,
    PartDelta,
    SectionDelta,
    VerdictRecord,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir, images
from iotoll.verdict import words


@dataclass(frozen=True)
class SideParts:
    """One kernel, recorded: its cells dissected; ``same`` cells are those of the gate's boot."""

    symbols: Symbols
    cells: Mapping[str, CellParts]
    same: frozenset[str]
    executed: Mapping[str, int]
    pieces: Pieces


def compared(
    run: RunDir,
    verdict: VerdictRecord,
    lines: Lines,
    sides: Mapping[Side, SideParts],
    changed: Sequence[str],
    caches: CacheModel | None = None,
) -> ExplainRecord:
    """Compare both sides: functions, what ran of the ``changed`` ones, and the modelled caches."""
    base, candidate = sides["base"], sides["candidate"]
    changes = {c: compare_cell(base.cells[c], parts) for c, parts in candidate.cells.items()}
    wholes = {c: compare_whole(base.cells[c], parts) for c, parts in candidate.cells.items()}
    symbols = candidate.symbols, base.symbols
    found = Found(frozenset(changed), candidate.pieces, base.pieces, symbols, lines)
    found.look_up([*(s for sections in changes.values() for s in sections), *_some(wholes)])
    cells = [
        CellDelta(
            cell=cell,
            ios=parts.ios,
            same_base=cell in base.same,
            same_candidate=cell in candidate.same,
            sections=[
                SectionDelta(section=change.section, **_part(change, found, verdict))
                for change in changes[cell]
                if change.section is not None
            ],
            whole=PartDelta(**_part(whole, found, verdict)) if (whole := wholes[cell]) else None,
        )
        for cell, parts in candidate.cells.items()
    ]
    covered = coverage(
        candidate.cells,
        candidate.executed,
        candidate.symbols,
        changed,
        frozenset(base.symbols.names),
        lines.added(),
        lines.note,
    )
    return ExplainRecord(
        board=run.manifest.board,
        outcome=verdict.outcome,
        cells=cells,
        coverage=with_data(covered, base.symbols, candidate.symbols),
        images=images(run),
        caches=_caches(caches, base, candidate) if caches else None,
    )


def _caches(model: CacheModel, base: SideParts, candidate: SideParts) -> CacheRecord:
    sections = [
        section
        for cell, parts in candidate.cells.items()
        for section in compare_touches(base.cells[cell], parts)
    ]
    return CacheRecord(model=model, sections=sections)


def _some(wholes: Mapping[str, SectionChange | None]) -> list[SectionChange]:
    return [whole for whole in wholes.values() if whole is not None]


def _part(change: SectionChange, found: Found, verdict: VerdictRecord) -> dict[str, Any]:
    """The fields of `PartDelta`."""
    name = change.section.value if change.section else "whole"
    judged = [
        part.delta
        for c in verdict.cells
        for part_name, part in words.parts(c)
        if (c.cell, part_name) == (change.cell, name)
    ]
    explained = round(change.explained, 2)
    return dict(
        judged=judged[0] if judged else None,
        ios_base=change.ios[0],
        ios_candidate=change.ios[1],
        missing_base=change.missing[0],
        missing_candidate=change.missing[1],
        paired=change.paired,
        base=change.base,
        candidate=change.candidate,
        delta=change.change.common,
        share=round(change.change.share, 4),
        mean=round(change.change.mean, 2),
        explained=explained,
        unexplained=round(judged[0] - explained, 2) if judged else None,
        functions=[function_delta(f, found) for f in change.functions],
    )
