"""What a night's kernel does more than the one before it, by the gate's rule, I/O by I/O.

A median misses a cost that fewer than half of the I/Os have. So on an exact board each measured tip
is judged against the one measured before, as a gate would, and the history keeps what moved as
`STATISTIC`, a mean over all I/Os. `iotoll.nightly.changes.series` adds it up.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from iotoll.bisect.culprit import mean_of
from iotoll.nightly.history.tables import Point, measurements
from iotoll.records import results
from iotoll.records.models import Clock, RunManifest, Section, SideResult
from iotoll.verdict.instructions.rule import judge_cells
from iotoll.verdict.policy import Policy, load_policy

STATISTIC = "step"
OVERHEAD = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION)
"""Sections that make an I/O's overhead."""
Row = tuple[str, str, str, str, float]


def with_steps(point: Point, manifest: RunManifest, now: Path, last: Path) -> Point:
    """The night with its steps since the tip whose result is ``last``, which becomes ``now``.

    Where ``last`` is not there, or of another board, the night has none.
    """
    result = results.read(now, SideResult)
    rows: list[Row] = []
    if manifest.clock is Clock.INSTRUCTIONS and last.is_file():
        policy = load_policy(manifest.policy)
        rows = list(steps(results.read(last, SideResult), result, policy))
    results.write(last, result)
    table = pa.concat_tables([point.measurements, measurements(point.run, rows)])
    return Point(point.run, table.unify_dictionaries(), point.board)


def steps(before: SideResult, now: SideResult, policy: Policy) -> Iterator[Row]:
    """Rows of the table ``measurements``: 0 where the rule sees nothing, none where it cannot."""
    boards = [[boot.board_sha256 for boot in side.boots] for side in (before, now)]
    if boards[0][: len(boards[1])] != boards[1]:
        return
    cells = [cell for cell in now.cells if before.cells.get(cell)]
    for verdict in judge_cells(before, now, policy, cells).cells:
        found = {
            part.section: mean_of(part)[0] if part.has_moved else 0.0
            for part in verdict.sections
            if part.gated and part.moved != "unknown"
        }
        for section, delta in found.items():
            yield "tip", verdict.cell, section.value, STATISTIC, delta
        if found:
            whole = round(sum(found.get(section, 0.0) for section in OVERHEAD), 1)
            yield "tip", verdict.cell, "overhead", STATISTIC, whole
