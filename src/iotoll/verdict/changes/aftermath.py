"""What became of a growth: whether it went away, and whether it came again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotoll.verdict.changes.detector import Step
from iotoll.verdict.changes.series import Series

_MOST = 0.9
"""Share of an exact growth that must go, or come again, from one night to the next."""
_BACK = 0.8
"""Share of a noisy growth that must have gone for it to count as fixed."""
_NIGHTS, _ENOUGH = 7, 5  # of a noisy clock, for a level


@dataclass(frozen=True)
class Grown:
    """One series that grew at ``step``."""

    series: Series
    step: Step
    exact: bool

    def gone(self, index: int) -> bool:
        """Whether the growth went away: on that night, or by then on a noisy clock."""
        if not self.exact:
            return self._level(index, self.step.size * _BACK)
        now, drop = self.series.values[index], self._move(index)
        return bool(now <= self.step.before or drop <= -_MOST * self.step.size)

    def returned(self, index: int) -> bool:
        """Whether it came again."""
        if not self.exact:
            return not self._level(index, self.step.size / 2)
        now = self.series.values[index]
        return bool(now > self.step.before and self._move(index) >= _MOST * self.step.size)

    def _move(self, index: int) -> float:
        values = self.series.values
        earlier = values[:index][~np.isnan(values[:index])]
        return float(values[index] - earlier[-1])

    def _level(self, index: int, less: float) -> bool:
        # One night of a noisy clock proves nothing.
        recent = self.series.followed[max(self.step.index, index - _NIGHTS + 1) : index + 1]
        known = recent[~np.isnan(recent)]
        return len(known) >= _ENOUGH and bool(np.median(known) <= self.step.after - less)


def aftermath(grown: Sequence[Grown], measured: Sequence[int]) -> tuple[int | None, list[int]]:
    """The night since which all that grew is gone (None while it is not), and each return's."""
    fixed, returns = None, []
    first = max((one.step.index for one in grown), default=0)
    for index in (i for i in measured if grown and i > first):
        if fixed is None and all(one.gone(index) for one in grown):
            fixed = index
        elif fixed is not None and all(one.returned(index) for one in grown):
            returns.append(index)
            fixed = None
    return fixed, returns
