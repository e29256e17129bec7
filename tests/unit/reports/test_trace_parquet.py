"""The per-I/O file read back, and its documentation."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from iotoll import __version__
from iotoll.core.digest import file_sha256
from iotoll.core.errors import InfrastructureError
from iotoll.measure.iotable import COLUMNS
from iotoll.reports.trace.parquet import EXTRA, columns_page, write_parquet
from tests.unit.tables import SYNC8, cell, full, full_cell

PAGE = Path(__file__).parents[3] / "docs/reference/columns.md"


def test_every_value_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "ios.parquet"
    write_parquet([full_cell()], path)
    frame = pl.read_parquet(path)
    native = full()
    for name, values in native.items():
        if name in ("reaped", "at_sched_in"):
            assert name not in frame.columns
        else:
            assert frame[name].to_list() == values, name
    assert frame["task"].unique().to_list() == ["fio"]
    elapsed = [c for c in frame.columns if c.startswith("elapsed_")]
    assert frame.select(pl.sum_horizontal(elapsed) == pl.col("duration")).to_series().all()
    assert (frame["end"] - frame["start"] == frame["duration"]).all()


def test_metadata_says_what_the_numbers_mean(tmp_path: Path) -> None:
    path = tmp_path / "ios.parquet"
    write_parquet([cell(pids=(872,))], path)
    found = pl.read_parquet_metadata(path)
    assert found["iotoll.unit"] == found["iotoll.clock"] == "instructions"
    assert found["iotoll.version"] == __version__
    assert json.loads(found["iotoll.traces"]) == {SYNC8.name: file_sha256(SYNC8)}
    assert json.loads(found["iotoll.filters"]) == {"--comm": "fio", "--pid": "872"}


def test_cells_with_and_without_a_column_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ios.parquet"
    cells = [cell(), full_cell()]
    write_parquet(cells, path)
    frame = pl.read_parquet(path)
    assert len(frame) == sum(len(c.table) for c in cells)
    assert frame["queue"].null_count() == len(cells[0].table)
    write_parquet(cells, tmp_path / "again.parquet")
    assert path.read_bytes() == (tmp_path / "again.parquet").read_bytes()


def test_no_cell_no_row(tmp_path: Path) -> None:
    write_parquet([], tmp_path / "none.parquet")
    assert len(pl.read_parquet(tmp_path / "none.parquet")) == 0


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"cannot write .*absent"):
        write_parquet([cell()], tmp_path / "absent" / "x.parquet")


def test_page_is_up_to_date() -> None:
    command = "python -m iotoll.reports.trace.parquet > docs/reference/columns.md"
    assert PAGE.read_text() == columns_page(), command


def test_page_names_every_column_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ios.parquet"
    write_parquet([full_cell()], path)
    frame = pl.read_parquet(path)
    rows = [line.split(" | ") for line in columns_page().splitlines() if line.startswith("| `")]
    documented = {row[0].strip("|` "): row[1] for row in rows if len(row) == 4}
    assert set(documented) == {c.name for c in (*EXTRA, *COLUMNS)}
    for name, dtype in frame.schema.items():
        assert documented[name].removesuffix(" or null") == str(dtype)
        assert frame[name].null_count() == 0 or documented[name].endswith(" or null")
