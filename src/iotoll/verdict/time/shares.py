"""How much longer each part of the I/Os takes on a native board, with an interval (docs/time.md).

Cells of one boot share its noise, so a pair of boots counts once: the mean of its log ratios over
the cells. The interval is Student's over the pairs, of 95 %, as for a number of pairs that was
decided beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.stats import t as student

from iotoll.records.models import CellVerdict, TimeShare, VerdictRecord

LEVEL = 0.95
FEWEST = 3
"""Pairs with fewer of which nothing is said."""


def shares(verdict: VerdictRecord) -> list[TimeShare]:
    """What a verdict's pairs show of each figure, in the order of its policy; empty without any."""
    if verdict.sequential is None or not verdict.cells:
        return []
    used = [not record.unused for record in verdict.sequential.pairs]
    figures = dict.fromkeys(g.figure for cell in verdict.cells for g in cell.growth)
    found = (_share(figure, verdict.cells, used) for figure in figures)
    return [one for one in found if one is not None]


def _share(figure: str, cells: Sequence[CellVerdict], used: Sequence[bool]) -> TimeShare | None:
    rows = [g for cell in cells for g in cell.growth if g.figure == figure]
    values = np.array([[np.nan if r is None else np.log1p(r) for r in g.ratios] for g in rows])
    values = values[:, np.array(used, np.bool_)]
    values = values[:, ~np.isnan(values).any(axis=0)].mean(axis=0)
    if len(values) < FEWEST:
        return None
    reach = student.ppf((1 + LEVEL) / 2, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    growth, low, high = (
        round(float(np.expm1(v)), 5)
        for v in (values.mean(), values.mean() - reach, values.mean() + reach)
    )
    limit = min(g.unacceptable for g in rows)
    return TimeShare(
        part=figure,
        growth=growth,
        low=low,
        high=high,
        pairs=len(values),
        moved=_moved(low, high, limit),
    )


def _moved(low: float, high: float, limit: float) -> Literal["grew", "shrank", "same", "unknown"]:
    if low > 0 or high < 0:
        return "grew" if low > 0 else "shrank"
    return "same" if -limit < low and high < limit else "unknown"
