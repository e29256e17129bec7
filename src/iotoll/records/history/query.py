"""Queries over the files that `Store.find` names: DuckDB through Ibis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ibis
import pyarrow as pa

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import cache_dir
from iotoll.records.history.files import to_parquet, write_local
from iotoll.records.history.store import Found
from iotoll.records.history.tables import SCHEMAS, VERSION

MEMORY = "1500MB"
"""What DuckDB may take before it writes to disk."""


_BATCH = 500_000  # rows at a time: names of millions of rows would not fit


class Database:
    """The tables ``runs``, ``measurements`` and ``boards`` of what was found."""

    def __init__(self, found: Found) -> None:
        self.con: Any = _duckdb()
        self._table("runs", found.run_files)
        self._table("measurements", found.measurements)
        self._table("boards", found.boards)

    def sql(self, text: str) -> pa.Table:
        """The answer to a query; raises UsageError with the engine's own words when it is wrong."""
        try:
            return self.con.sql(text).to_pyarrow()
        except (OSError, MemoryError) as error:
            raise InfrastructureError(f"the history's files: {error}") from error
        except Exception as error:  # each engine and the parser have classes of their own
            line = next((part for part in str(error).splitlines() if part.strip()), repr(error))
            raise UsageError(f"query: {line[:300]}") from error

    def runs(self, branch: str | None = None) -> list[dict[str, Any]]:
        """The rows of ``runs``, of one branch if asked, by branch, board and night."""
        rows = self.con.table("runs")
        if branch is not None:
            rows = rows.filter(rows.branch == branch)
        order = ["branch", "board", "night", "created", "run"]
        return list(rows.order_by(order).to_pyarrow().to_pylist())

    def values(self, branch: str, board: str, since: str = "") -> Iterator[pa.RecordBatch]:
        """The medians of one board on one branch from the night ``since`` on, in any order.

        Columns: run, cell, section, side, value.
        """
        rows = self.con.table("measurements")
        rows = rows.filter(rows.branch == branch, rows.board == board)
        rows = rows.filter(rows.statistic == "median", rows.night >= since)
        columns = rows.select("run", "cell", "section", "side", "value")
        yield from columns.to_pyarrow_batches(chunk_size=_BATCH)

    def close(self) -> None:
        """Close the engine."""
        self.con.disconnect()

    def _table(self, name: str, files: list[str]) -> None:
        read = files or [_empty(name)]
        self.con.read_parquet(read, table_name=name, hive_partitioning=False)


def _empty(name: str) -> str:
    """A file of a table without rows, so that its columns are known."""
    path = cache_dir() / f"history/empty-{VERSION}-{name}.parquet"
    if not path.is_file():
        write_local(path, to_parquet(SCHEMAS[name].empty_table(), VERSION))
    return str(path)


def _duckdb() -> Any:
    con = ibis.duckdb.connect()
    spill = cache_dir() / "duckdb"
    spill.mkdir(exist_ok=True)
    con.raw_sql(f"SET memory_limit='{MEMORY}'")
    con.raw_sql(f"SET temp_directory='{spill}'")
    # Queries that need an order ask for it.
    con.raw_sql("SET preserve_insertion_order=false")
    return con
