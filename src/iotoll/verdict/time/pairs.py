"""Boots become pairs: for each figure of each cell, the log of candidate over base.

The value of a boot is the mean of the figure over its I/Os without the lowest and the highest
tenth. A value that may not be used is NaN, by rules that see no other value: its cell is invalid in
one of the boots, or the boots do not belong together. Nothing here looks at the ratios.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iotoll.boots.pair_order import first_side
from iotoll.core.errors import InfrastructureError
from iotoll.measure.validity import load_rules, mismatch
from iotoll.records.models import BootRecord, CellRecord, PairRecord, Section, SideResult

Floats = NDArray[np.float64]

OVERHEAD = "overhead"


@dataclass(frozen=True)
class Pairs:
    """The pairs of a run, oldest first.

    ``ratios`` has shape (pairs, figures), NaN where a value may not be used; ``base`` (the same
    shape) is the base's value, ns. Figures go cell by cell: ``names`` are (cell, figure).
    """

    records: list[PairRecord]
    names: list[tuple[str, str]]
    ratios: Floats
    base: Floats
    invalid: dict[str, str]

    def takes_no_time(self, at: int) -> bool:
        """Whether a figure has no time in either kernel: there is no such section on its disk."""
        return bool(np.isnan(self.base[:, at]).all() and (self.ratios[:, at] == 0).any())


def make_pairs(
    base: SideResult,
    candidate: SideResult,
    cells: Sequence[str],
    figures: Sequence[str],
    seed: int | None,
) -> Pairs:
    """Pair the boots of both sides by their numbers; a boot without its other is left out.

    Raises InfrastructureError when one recording is given as two boots.
    """
    _check_distinct(base, candidate)
    sides = [{boot.boot: at for at, boot in enumerate(s.boots)} for s in (base, candidate)]
    numbers = sorted(sides[0].keys() & sides[1].keys())
    records, rows, before = [], [], []
    for number in numbers:
        at = [side[number] for side in sides]
        boots = (base.boots[at[0]], candidate.boots[at[1]])
        unused = _mismatch(*boots)
        records.append(
            PairRecord(
                pair=number,
                first=first_side(seed, number),
                device=device_of(boots[0]),
                seconds=round(sum(_board_seconds(boot) for boot in boots), 1),
                unused=unused,
            )
        )
        values = [
            [_value(side, cell, index, figure) for cell in cells for figure in figures]
            for side, index in zip((base, candidate), at, strict=True)
        ]
        was, now = (np.array(v, np.float64) for v in values)
        rows.append(_ratio(was, now) if not unused else np.full(len(was), np.nan))
        before.append(np.where(np.isinf(was), np.nan, np.exp(was)))
    names = [(cell, figure) for cell in cells for figure in figures]
    shape = (len(rows), len(names))
    return Pairs(
        records,
        names,
        np.array(rows, np.float64).reshape(shape),
        np.array(before, np.float64).reshape(shape),
        {cell: why for cell in cells if (why := _invalid(base, candidate, cell))},
    )


def _ratio(was: Floats, now: Floats) -> Floats:
    """Log of candidate over base: 0 where both take no time, NaN where only one does."""
    none = np.isinf(was)
    with np.errstate(invalid="ignore"):
        ratio = np.where(none & np.isinf(now), 0.0, now - was)
    return np.asarray(np.where(np.isinf(ratio), np.nan, ratio))


def device_of(boot: BootRecord) -> str:
    """The board that ran a boot: LAVA's name of it, or the virtual board's."""
    return boot.lava.device if boot.lava else boot.board


def _board_seconds(boot: BootRecord) -> float:
    """Time on the board: a LAVA job's, less what it waited for one."""
    return boot.seconds - (boot.lava.phases.get("queue", 0.0) if boot.lava else 0.0)


def _mismatch(base: BootRecord, candidate: BootRecord) -> str:
    if device_of(base) != device_of(candidate):
        return f"its boots ran on {device_of(base)} and on {device_of(candidate)}"
    if base.board_sha256 != candidate.board_sha256:
        return "its boots had different boards, images or jobs"
    return mismatch(base.facts, candidate.facts, load_rules())


def _value(side: SideResult, cell: str, index: int, figure: str) -> float:
    """The log of a boot's figure, -inf where it takes no time; NaN when none may be used."""
    records = side.cells.get(cell, [])
    record = records[index] if index < len(records) else None
    if record is None or record.invalid:
        return math.nan
    if figure == OVERHEAD:
        stats = record.overhead.elapsed
    elif (section := Section(figure)) in record.sections:
        stats = record.sections[section].elapsed
    else:
        return math.nan
    mean = stats.trimmed_mean
    if mean == 0 and stats.max == 0:
        return -math.inf  # a disk that ends requests while they are handed over
    return math.log(mean) if mean is not None and 0 < mean < math.inf else math.nan


def _records(*sides: SideResult) -> Iterator[tuple[str, str, CellRecord]]:
    for side in sides:
        for cell, records in side.cells.items():
            for boot, record in zip(side.boots, records, strict=False):
                yield f"{side.side} boot {boot.boot}", cell, record


def _check_distinct(base: SideResult, candidate: SideResult) -> None:
    """Two boots never record the same nanoseconds: equal ones are one boot, given twice."""
    seen: dict[tuple[str, str], str] = {}
    for where, cell, record in _records(base, candidate):
        print_of = f"{record.total.elapsed!r} {record.total.own!r} {record.trace_sha256}"
        if record.total.elapsed.count > 1 and (cell, print_of) in seen:
            other = seen[cell, print_of]
            raise InfrastructureError(
                f"{other} and {where} hold the same recording of {cell}: remove one and run again"
            )
        seen[cell, print_of] = where


def _invalid(base: SideResult, candidate: SideResult, cell: str) -> str:
    """Why a cell has no pair that may be used; empty when it has one."""
    reasons = []
    for side in (base, candidate):
        records = side.cells.get(cell, [])
        if not records:
            return f"no values of the {side.side}"
        if all(record.invalid for record in records):
            reasons.append(f"{side.side}: {records[0].invalid}")
    return "; ".join(reasons)
