"""Places intervals that may overlap on as few lanes as hold them without overlap."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def lanes(starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Return the lane (from 0) of each half-open interval; ``starts`` must not fall.

    An interval takes the lowest lane that is free at its start.
    """
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    chosen = []
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        chosen.append(lane)
    return chosen
