"""The statistics of a cell's record, taken again over a part of its I/Os.

The analyser summarises all I/Os of a trace; filters that it does not know choose some of them
afterwards. Both use the same code (`_native.summarise`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from iotoll import _native
from iotoll.iotable import Ints, IoTable, Mask
from iotoll.models import CellRecord, Section, SectionRecord, Stats
from iotoll.models.analysis import PathRecord, SumRecord
from iotoll.models.base import SOFTWARE_SECTIONS
from iotoll.steps import steps

PATH_LIMIT = 32
"""Paths that are listed one by one; the rest is summed up as ``other``."""

_MARK_COLUMNS = {
    "start": "start_mark",
    "device": "device_mark",
    "interrupt": "interrupt_mark",
    "end": "end_mark",
}


def summary(values: Ints) -> Stats:
    """Summarise durations, in their own unit."""
    return Stats.model_validate_json(_native.summarise(values.tolist()))


def _figures(elapsed: Ints, own: Ints, clean: Mask) -> dict[str, Stats]:
    return {"elapsed": summary(elapsed), "own": summary(own), "own_clean": summary(own[clean])}


def _sum(table: IoTable, sections: tuple[Section, ...]) -> SumRecord:
    elapsed = np.zeros(len(table), np.int64)
    own = np.zeros(len(table), np.int64)
    for section in sections:
        elapsed += table.elapsed(section)
        own += table.own(section)
    return SumRecord(**_figures(elapsed, own, table["clean"]))


def _section(table: IoTable, section: Section) -> SectionRecord:
    first = table.get(f"first_{section.value}")
    values = np.ma.compressed(first) if first is not None else np.zeros(0, np.int64)
    parts = _figures(table.elapsed(section), table.own(section), table["clean"])
    return SectionRecord(**parts, first=summary(values))


def _paths(table: IoTable) -> list[PathRecord]:
    counts = Counter(table["path"].tolist())
    order = sorted(counts, key=lambda path: (-counts[path], path))
    groups = [(path, table["path"] == path) for path in order[:PATH_LIMIT]]
    if order[PATH_LIMIT:]:
        groups.append(("other", np.isin(table["path"], order[PATH_LIMIT:])))
    found = []
    for path, rows in groups:
        part = table.take(rows)
        found.append(
            PathRecord(
                path=path,
                ios=len(part),
                clean=int(part["clean"].sum()),
                sections={s: _sum(part, (s,)) for s in Section},
            )
        )
    return found


def restrict(record: CellRecord, table: IoTable) -> CellRecord:
    """Return the record with its statistics over the I/Os of ``table`` alone.

    The counts stay those of the whole cell, with ``selected`` beside them; what the analyser only
    counts for all I/Os together (probe events, marks it has no column of) is left out.
    """
    marks = {
        name: dict(Counter(table[column].tolist()))
        for name, column in _MARK_COLUMNS.items()
        if table.has(column)
    }
    changes: dict[str, Any] = {
        "ios": {**record.ios, "selected": len(table)},
        "marks": marks,
        "sections": {s: _section(table, s) for s in Section},
        "overhead": _sum(table, SOFTWARE_SECTIONS),
        "total": _sum(table, tuple(Section)),
        "paths": _paths(table),
        "steps": steps(table),
        "gate": {},
    }
    return record.model_copy(update=changes)
