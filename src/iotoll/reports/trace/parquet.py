"""One row per I/O as Parquet; docs/reference/columns.md is written from here (``python -m
iotoll.reports.trace.parquet``)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from iotoll import __version__
from iotoll.core.errors import InfrastructureError
from iotoll.measure.iotable import COLUMNS, Column, IoTable, present
from iotoll.records.models import Section
from iotoll.reports.trace.blocks import ROWS, Rows
from iotoll.reports.trace.reader import TraceCell

FORMAT = "iotoll.ios/1"
BLOCKS = "iotoll.blocks/1"
EXTRA: tuple[Column, ...] = (
    Column("trace", "str", "", "name of the trace file; metadata holds its SHA-256"),
    Column("cell", "str", "", "cell of the trace, or the file's name where it has no markers"),
    Column("task", "str", "", "name of the task, ? where the trace does not know it"),
    Column("duration", "time", "clock", "end less start: the sum of the elapsed_* columns"),
)
"""Columns that the file has besides the analyser's."""

_TYPES = {
    "int": pl.Int64,
    "time": pl.Int64,
    "uint": pl.UInt64,
    "str": pl.String,
    "bool": pl.Boolean,
}
_METADATA = {
    "iotoll.format": "version of this layout",
    "iotoll.version": "version of iotoll",
    "iotoll.clock": "instructions or time",
    "iotoll.unit": "unit of all columns whose unit is `clock`: instructions, ns or ticks",
    "iotoll.traces": "JSON: file name to SHA-256",
    "iotoll.filters": "JSON: option to value, of the filters that were applied",
}


def frame(cell: TraceCell, table: IoTable) -> pl.DataFrame:
    """Return some I/Os of a cell; columns that the analyser does not give are left out."""
    count = len(table)
    columns = {
        "trace": pl.Series([cell.trace.name] * count, dtype=pl.String),
        "cell": pl.Series([cell.record.cell] * count, dtype=pl.String),
        "task": pl.Series([cell.task(pid) for pid in table["pid"].tolist()], dtype=pl.String),
        "duration": pl.Series(table.duration, dtype=pl.Int64),
    }
    columns |= {c.name: _series(table, c) for c in COLUMNS if table.has(c.name)}
    if not table.has("end"):
        columns["end"] = pl.Series(table.end, dtype=pl.Int64)
    order = [c.name for c in (*EXTRA, *COLUMNS) if c.name in columns]
    return pl.DataFrame({name: columns[name] for name in order})


def _series(table: IoTable, column: Column) -> pl.Series:
    return _values(table[column.name], column)


def _values(values: Any, column: Column) -> pl.Series:
    kind = _TYPES[column.kind]
    if column.kind == "str":
        return pl.Series(values.tolist(), dtype=kind)
    if not column.optional:
        return pl.Series(values, dtype=kind)
    full = pl.Series(np.ma.getdata(values), dtype=kind)
    return pl.select(pl.when(pl.Series(present(values))).then(full)).to_series()


BLOCK_EXTRA: tuple[Column, ...] = (
    EXTRA[0],
    EXTRA[1],
    Column("task", "str", "", "name of the task `pid`, ? where the trace does not know it"),
)
"""Columns of the table of requests and bios besides the analyser's."""


def block_frame(cell: TraceCell, rows: Rows) -> pl.DataFrame:
    """Return some requests and bios of a cell."""
    count = len(rows["kind"])
    columns = {
        "trace": pl.Series([cell.trace.name] * count, dtype=pl.String),
        "cell": pl.Series([cell.record.cell] * count, dtype=pl.String),
        "task": pl.Series([cell.task(pid) for pid in rows["pid"].tolist()], dtype=pl.String),
    }
    return pl.DataFrame(columns | {c.name: _values(rows[c.name], c) for c in ROWS})


PART = 1 << 17
"""Rows of which a file is written at once; of more, in parts that are joined at the end."""


class RowFile:
    """A Parquet file whose rows come in batches; it is there when it is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.waiting: list[pl.DataFrame] = []
        self.rows = 0
        self.parts: list[Path] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Add some rows."""
        self.waiting.append(frame)
        self.rows += len(frame)
        if sum(len(frame) for frame in self.waiting) >= PART:
            self._part()

    def _part(self) -> None:
        name = f".{self.path.name}.{os.getpid()}.{len(self.parts)}"
        self.parts.append(self.path.with_name(name))
        self._written(pl.concat(self.waiting, how="diagonal"), self.parts[-1], {})
        self.waiting = []

    def _written(self, rows: pl.DataFrame | pl.LazyFrame, path: Path, metadata: Any) -> None:
        try:
            if isinstance(rows, pl.LazyFrame):
                rows.sink_parquet(path, compression="zstd", metadata=metadata)
            else:
                rows.write_parquet(path, compression="zstd", metadata=metadata)
        except (OSError, pl.exceptions.ComputeError) as error:
            # A full disk that shows while the file is ended is no OSError of polars.
            raise InfrastructureError(f"cannot write {self.path}: {error}") from error

    def write(self, metadata: Mapping[str, str]) -> None:
        """End the file; raises InfrastructureError when it cannot be written."""
        rows: pl.DataFrame | pl.LazyFrame
        if self.parts:
            if self.waiting:
                self._part()
            rows = pl.concat([pl.scan_parquet(part) for part in self.parts], how="diagonal")
        else:
            rows = pl.concat(self.waiting, how="diagonal") if self.waiting else pl.DataFrame()
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            self._written(rows, part, dict(metadata))
            part.replace(self.path)
        except OSError as error:
            raise InfrastructureError(f"cannot write {self.path}: {error}") from error
        finally:
            part.unlink(missing_ok=True)
            self.discard()

    def discard(self) -> None:
        """Leave no part behind."""
        for part in self.parts:
            part.unlink(missing_ok=True)


def metadata_of(cells: Sequence[TraceCell], layout: str = FORMAT) -> dict[str, str]:
    """What the files say of themselves."""
    first = cells[0].record if cells else None
    traces = {cell.trace.name: cell.record.trace_sha256 for cell in cells}
    return {
        "iotoll.format": layout,
        "iotoll.version": __version__,
        "iotoll.clock": first.clock.value if first else "",
        "iotoll.unit": first.unit.value if first else "",
        "iotoll.traces": json.dumps(traces, sort_keys=True),
        "iotoll.filters": json.dumps(first.filters if first else {}, sort_keys=True),
    }


def write_parquet(cells: Sequence[TraceCell], path: Path) -> None:
    """Write the I/Os of all cells; raises InfrastructureError when the file cannot be written."""
    file = RowFile(path)
    for cell in cells:
        file.add(frame(cell, cell.table))
    file.write(metadata_of(cells))


def columns_page() -> str:
    """Return docs/reference/columns.md: every column that may be in the file."""
    lines = [
        "# Columns of the per-I/O table",
        "",
        "`iotoll analyze TRACE --parquet FILE` (or `--ios`) writes one row per measured I/O, in",
        "order of start; in a long trace an I/O that ends after 8,192 younger ones comes after",
        "those.",
        "Unit `clock` is that of the trace: ns, or instructions on the clock `instructions`; the",
        "file's metadata says which. A column is left out when the trace has no event to fill it.",
        "This page is written by `python -m iotoll.reports.trace.parquet`.",
        "",
        "| column | type | unit | what |",
        "|---|---|---|---|",
    ]
    for column in (*EXTRA, *COLUMNS):
        kind = str(_TYPES[column.kind]) + (" or null" if column.optional else "")
        lines.append(f"| `{column.name}` | {kind} | {column.unit} | {column.text} |")
    sections = ", ".join(f"`{s.value}`" for s in Section)
    lines += [
        "",
        f"Sections: {sections} ([method.md](../method.md)).",
        "Their `elapsed_*` add up to `duration` in every row. A sub-step is the time between two",
        "consecutive `at_*` that are not null.",
        "",
        "| metadata key | what |",
        "|---|---|",
    ]
    lines += [f"| `{key}` | {text} |" for key, text in _METADATA.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(columns_page(), end="")
