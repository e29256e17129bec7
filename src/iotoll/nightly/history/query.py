"""Queries over the files that `Store.find` names, the same for each engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import cache_dir
from iotoll.nightly.history.engines import Name, connect
from iotoll.nightly.history.files import to_parquet, write_local
from iotoll.nightly.history.store import Found
from iotoll.nightly.history.tables import SCHEMAS, VERSION


class Database:
    """The tables ``runs``, ``measurements`` and ``boards`` of what was found."""

    def __init__(self, found: Found, engine: Name = "duckdb") -> None:
        self._engine = connect(engine)
        self._table("runs", found.run_files)
        self._table("measurements", found.measurements)
        self._table("boards", found.boards)

    def sql(self, text: str) -> pa.Table:
        """The answer to a query; raises UsageError with the engine's own words when it is wrong."""
        try:
            return self._engine.sql(text)
        except (OSError, MemoryError) as error:
            raise InfrastructureError(f"the history's files: {error}") from error
        except Exception as error:  # each engine and the parser have classes of their own
            line = next((part for part in str(error).splitlines() if part.strip()), repr(error))
            raise UsageError(f"query: {line[:300]}") from error

    def runs(self, branch: str | None = None) -> list[dict[str, Any]]:
        """The rows of ``runs``, of one branch if asked, by branch, board and night."""
        rows = self._engine.con.table("runs")
        if branch is not None:
            rows = rows.filter(rows.branch == branch)
        order = ["branch", "board", "night", "created", "run"]
        return list(self._engine.table(rows.order_by(order)).to_pylist())

    def values(self, branch: str, board: str, since: str = "") -> Iterator[pa.RecordBatch]:
        """Medians and steps of one board on one branch from the night ``since`` on, in any order.

        Columns: run, cell, section, side (``step`` for a tip's step), value.
        """
        rows = self._engine.con.table("measurements")
        rows = rows.filter(rows.branch == branch, rows.board == board)
        rows = rows.filter(rows.statistic.isin(["median", "step"]), rows.night >= since)
        side = (rows.statistic == "step").ifelse("step", rows.side)
        yield from self._engine.batches(
            rows.select("run", "cell", "section", side.name("side"), "value")
        )

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()

    def _table(self, name: str, files: list[str]) -> None:
        self._engine.read(name, files or [_empty(name)])


def _empty(name: str) -> str:
    """A file of a table without rows, so that its columns are known."""
    path = cache_dir() / f"history/empty-{VERSION}-{name}.parquet"
    if not path.is_file():
        write_local(path, to_parquet(SCHEMAS[name].empty_table(), VERSION))
    return str(path)
