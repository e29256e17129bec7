"""When each section of an I/O lies on a time line.

The analyser gives sums per section. An I/O with one request passes its sections one after the
other, so its sums are its spans. With more requests sections alternate (O_SYNC data, then journal):
such an I/O's sums are drawn one after the other, and its slice says so.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from iotoll.measure.iotable import MARKS, Ints, IoTable, present
from iotoll.records.models import Section

AT_BLOCK = (Section.SUBMISSION, Section.HARDWARE, Section.COMPLETION)
"""The sections between the first bio and the last completion."""


@dataclass(frozen=True)
class Spans:
    """Bounds of the sections of all I/Os: shape (I/Os, 6), clock units, rising in each row."""

    bounds: Ints
    exact: np.ndarray[tuple[int], np.dtype[np.bool_]]

    def of(self, row: int) -> Iterator[tuple[Section, int, int]]:
        """Yield section, start and end of what one I/O spent time in."""
        edges = self.bounds[row].tolist()
        for place, section in enumerate(Section):
            if edges[place + 1] > edges[place]:
                yield section, edges[place], edges[place + 1]


def spans(table: IoTable) -> Spans:
    """Lay out the sections of every I/O from its start to its end."""
    none = np.zeros(len(table), np.int64)
    told = table.sections
    parts = [table["start"], *(table.elapsed(s) if s in told else none for s in Section)]
    return Spans(np.cumsum(np.stack(parts, axis=1), axis=1), table["requests"] <= 1)


def at_block(found: Spans) -> tuple[Ints, Ints]:
    """Return when each I/O entered and left the block layer and device, by the same layout."""
    return found.bounds[:, 1], found.bounds[:, 4]


def instants(table: IoTable) -> list[tuple[str, Ints, Ints]]:
    """Return name, rows and times of every recorded mark of the first requests."""
    found: list[tuple[str, Ints, Ints]] = []
    for mark in MARKS:
        column = table.get(f"at_{mark}")
        if column is not None:
            rows = np.nonzero(present(column))[0]
            found.append((mark, rows, np.ma.getdata(column)[rows]))
    return found


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
