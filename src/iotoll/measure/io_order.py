"""The I/Os of a cell in an order that both kernels share: what the gate pairs, I/O by I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from iotoll.measure.iotable import IoTable
from iotoll.records.models import OrderedIos, Section

GATE_COLUMNS = {
    Section.VFS_FS: "first_vfs_fs",
    Section.SUBMISSION: "first_submission",
    Section.COMPLETION: "first_completion",
    Section.RETURN: "own_return",
}
"""Which column of the analyser's per-I/O table the gate compares for each section."""

_MARKS = {
    Section.VFS_FS: "start_mark",
    Section.SUBMISSION: "device_mark",
    Section.COMPLETION: "interrupt_mark",
    Section.RETURN: "end_mark",
}
"""The mark that decides what a section holds: the one that may be another event elsewhere."""


def ordered(table: IoTable) -> OrderedIos:
    """Every I/O of a cell's table, thread by thread; thread 0 has the lowest number.

    The table is in order of start, and a thread's number tells when it was made, so thread and
    place are the same in every boot of a cell.
    """
    pids = table["pid"]
    rows = np.lexsort((np.arange(len(table)), pids))
    _, threads = np.unique(pids, return_inverse=True)
    kinds, marks = _marks(table, rows)
    return OrderedIos(
        thread=threads[rows].tolist(),
        sections={section: _values(table, name, rows) for section, name in GATE_COLUMNS.items()},
        whole=table.duration[rows].tolist(),
        marks=marks,
        mark_kinds=kinds,
    )


def ordered_columns(columns: Mapping[str, Sequence[int | None]]) -> OrderedIos:
    """As `ordered`, of a board that cut its own I/Os: it tells no thread, mark or whole duration.

    I/Os are then paired in order of start alone.
    """
    sections = {section: list(columns[name]) for section, name in GATE_COLUMNS.items()}
    length = max(len(values) for values in sections.values())
    return OrderedIos(thread=[0] * length, sections=sections, whole=[])


def _values(table: IoTable, name: str, rows: np.ndarray) -> list[int | None]:
    found = table.get(name)
    if found is None:
        return [None] * len(rows)
    values: list[int | None] = np.ma.array(found)[rows].tolist()
    return values


def _marks(table: IoTable, rows: np.ndarray) -> tuple[list[dict[Section, str]], list[int]]:
    """The kinds of marks that occur together, and which of them each I/O has."""
    known = {section: table[name][rows] for section, name in _MARKS.items() if table.has(name)}
    kinds: dict[tuple[str, ...], int] = {}
    marks = []
    for row in range(len(rows)):
        kind = tuple(str(column[row]) for column in known.values())
        marks.append(kinds.setdefault(kind, len(kinds)))
    return [dict(zip(known, kind, strict=True)) for kind in kinds], marks
