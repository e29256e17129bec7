"""The I/Os of a boot, cell by cell, as the board handed them over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from iotoll.boards.plugin import TRACING
from iotoll.measure.boot_trace import COMM, BootTraceFile, disk_of, measure
from iotoll.measure.iotable import IoTable
from iotoll.records.models import Clock

if TYPE_CHECKING:
    from iotoll._native import Options


def io_tables(
    folder: Path, cells: Sequence[str], *, without_tracing: bool = False
) -> dict[str, IoTable]:
    """The I/Os of a boot's cells; of cells without a trace there is none.

    ``without_tracing``: as the gate counts them, where the boot counted what recorded its trace.
    """
    counted = folder / TRACING if without_tracing and (folder / TRACING).is_file() else None
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
            options: Options = {"device": devices[device], "comm": COMM, "tracing": counted}
            for measured in measure(file, windows, Clock.INSTRUCTIONS, **options):
                found[measured.window.name] = _paired(measured.table)
    return found


def _paired(table: IoTable) -> IoTable:
    """The I/Os thread by thread, as the gate pairs them: threads interleave in other ways."""
    return table.take(np.lexsort((np.arange(len(table)), table["pid"])))
