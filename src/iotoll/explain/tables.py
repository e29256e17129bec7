"""The I/Os of a boot, cell by cell, as the board handed them over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from iotoll.measure.boot_trace import COMM, BootTraceFile, disk_of, measure
from iotoll.measure.iotable import IoTable
from iotoll.records.models import Clock


def io_tables(folder: Path, cells: Sequence[str]) -> dict[str, IoTable]:
    """The I/Os of a boot's cells; of cells without a trace there is none."""
    try:
        rows = [line.split() for line in (folder / "boot/devices").read_text().splitlines()]
        devices = {row[0]: row[2] for row in rows}
    except (OSError, IndexError, ValueError):
        return {}
    found = {}
    for path in sorted(folder.glob("*/trace.dat")):
        file = BootTraceFile(path)
        for device in devices:
            windows = [w for w in file.windows if w.name in cells and disk_of(w) == device]
            for measured in measure(
                file, windows, Clock.INSTRUCTIONS, device=devices[device], comm=COMM
            ):
                found[measured.window.name] = _paired(measured.table)
    return found


def _paired(table: IoTable) -> IoTable:
    """The I/Os thread by thread, as the gate pairs them: threads interleave in other ways."""
    return table.take(np.lexsort((np.arange(len(table)), table["pid"])))
