"""What older versions of the history's schema lack, one step from each version to the next."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from iotoll.records.history.tables import SCHEMAS, VERSION


def _to_2(table: str, data: pa.Table) -> pa.Table:
    """Version 1 knew no reference kernel: every value was the tip's."""
    if table == "measurements":
        return data.append_column("side", pa.array(["tip"] * len(data), pa.string()))
    if table == "runs":
        for name in ("reference", "subject"):
            data = data.append_column(name, pa.array([""] * len(data), pa.string()))
    return data


MIGRATIONS: dict[int, Callable[[str, pa.Table], pa.Table]] = {1: _to_2}
"""From a version to the next: (table's name, its rows) → rows."""


def lifted(table: str, data: pa.Table, version: int) -> pa.Table:
    """Rows of ``version`` as rows of VERSION."""
    for step in range(version, VERSION):
        data = MIGRATIONS[step](table, data)
    schema = SCHEMAS[table]
    return data.select(schema.names).cast(schema)
