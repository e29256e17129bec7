"""Invented runs for tests of the history; imports little, as killed writers start often."""

from __future__ import annotations

from iotoll.nightly.history.tables import Point, blank, measurements


def night(number: int, branch: str = "main", cells: int = 3) -> Point:
    """An invented night with one value per cell."""
    day = f"2026-{1 + number // 28:02}-{1 + number % 28:02}"
    row = blank(branch, "virt-arm64", day) | {"run": f"run{number:04}", "clock": "instructions"}
    rows = [("tip", f"cell{c}", "submission", "median", 100.0 + c) for c in range(cells)]
    return Point(row, measurements(row, rows))
