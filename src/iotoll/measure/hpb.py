"""What ufshpb counted during each cell: the board notes its counters before every cell.

A file ``hpb`` of a batch has lines ``CELL DISK COUNTER VALUE ...`` in the order of the cells, and
``end`` as the last one's cell. A disk without HPB has no line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from iotoll.core.errors import InfrastructureError

NAME = "hpb"
"""The file's name in a batch's folder."""
HIT, MISS, MAPS = "hit_cnt", "miss_cnt", "map_req_cnt"
"""Reads sent with an entry of the map, reads without, and parts of the map that were loaded."""

Counts = Mapping[str, int]


def read_counts(path: Path) -> dict[str, Counts]:
    """What each cell added to each counter, over all disks; raises InfrastructureError.

    A cell is absent where no disk has HPB.
    """
    before: dict[str, dict[str, Counts]] = {}
    try:
        for line in path.read_text().splitlines():
            cell, disk, *words = line.split()
            pairs = zip(words[::2], words[1::2], strict=True)
            before.setdefault(cell, {})[disk] = {name: int(value) for name, value in pairs}
    except (OSError, ValueError) as error:
        raise InfrastructureError(f"{path}: not ufshpb's counters: {error}") from error
    return {cell: _added(before[cell], before[following]) for cell, following in pairwise(before)}


def counts_of(paths: Iterable[Path]) -> dict[str, Counts]:
    """The same of several batches."""
    return {cell: counts for path in paths for cell, counts in read_counts(path).items()}


def _added(first: Mapping[str, Counts], last: Mapping[str, Counts]) -> Counts:
    names = dict.fromkeys(name for counts in first.values() for name in counts)
    return {
        name: sum(last.get(disk, {}).get(name, 0) - first[disk].get(name, 0) for disk in first)
        for name in names
    }
