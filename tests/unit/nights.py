"""Invented histories for tests of changes and of the trend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from iotoll.nightly.history.store import Store
from iotoll.nightly.history.tables import SCHEMAS, Point, blank, measurements

FIRST = date(2026, 1, 1)
Values = Mapping[tuple[str, str], Sequence[float | None]]


def history(
    place: Path,
    values: Values,
    branch: str = "main",
    board: str = "virt-arm64",
    releases: Mapping[int, str] | None = None,
    failed: Mapping[int, str] | None = None,
    boards: Mapping[int, str] | None = None,
    clock: str = "instructions",
    reference: Values | None = None,
) -> Store:
    """A history of one track with one commit per night; a night's value may be None."""
    store = Store(str(place))
    known = {row["run"] for row in store.rows(branch, board)}
    months: dict[str, list[Point]] = {}
    for number in range(len(next(iter(values.values())))):
        row = blank(branch, board, str(FIRST + timedelta(days=number)))
        row |= {"run": f"{branch}{board}{number:05}", "commit": f"{number:040x}"}
        row |= {"clock": clock, "unit": "instructions" if clock == "instructions" else "ns"}
        row |= {"release": (releases or {}).get(number, "")}
        row |= {"board_sha256": (boards or {}).get(number, "b")}
        rows = []
        if failed and number in failed:
            row |= {"status": "failed", "reason": failed[number]}
        else:
            for side, found in (("tip", values), ("reference", reference or {})):
                for (cell, section), line in found.items():
                    if (value := line[number]) is not None:
                        rows.append((side, cell, section, "median", float(value)))
        if row["run"] not in known:
            point = Point(row, measurements(row, rows))
            months.setdefault(row["night"][:7], []).append(point)
    for month, points in months.items():
        _write(store, month, points)
    return store


def _write(store: Store, month: str, points: Sequence[Point]) -> None:
    """A month's nights as `Store.compact` leaves them: hundreds of small files take long."""
    store.add(points[0])
    if points[1:]:
        row = points[0].run
        folder = f"branch={quote(row['branch'], safe='')}/board={quote(row['board'], safe='')}"
        name = f"{folder}/{month}.all-{points[1].name}.parquet"
        tables = [point.measurements for point in points[1:]]
        store.write(f"measurements/{name}", pa.concat_tables(tables).unify_dictionaries())
        rows = pa.Table.from_pylist([point.run for point in points[1:]], SCHEMAS["runs"])
        store.write(f"runs/{name}", rows)
