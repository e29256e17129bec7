"""DuckDB and Spark answer the same of one history."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from iotoll_lab.experiments.history_size import Shape, history_command, make, same_answers

from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.nightly.history.command import query_command
from iotoll.nightly.history.engines import Name, connect
from iotoll.nightly.history.query import Database
from iotoll.nightly.history.store import Store

ENGINES: tuple[Name, ...] = ("duckdb", "spark")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of two nights on two boards."""
    place = tmp_path_factory.mktemp("history") / "h"
    make(place, Shape(1, 2), 1, Progress(quiet=True))
    return place


@pytest.mark.long
def test_pages_and_statistics_are_the_same(tmp_path: Path) -> None:
    words = ["--rows", "20000", "--out", str(tmp_path), "--engine", "duckdb", "--engine", "spark"]
    done = CliRunner().invoke(history_command, words)
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "table.json").read_text())
    assert found["same"] is True and "same answers: yes" in done.output
    assert {row["engine"] for row in found["asked"]} == set(ENGINES)
    assert all(row["seconds"] > 0 and row["mb"] > 20 for row in found["asked"])
    page = tmp_path / "answers/spark/page/data/0.js"
    page.write_text(page.read_text().replace("1", "2", 1))
    assert not same_answers(tmp_path / "answers")


def left() -> tuple[set[str], set[Path]]:
    """Children of this process, and Spark's folders."""
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    children = {child for task in tasks for child in task.read_text().split()}
    return children, set(Path(tempfile.gettempdir()).glob("iotoll-spark-*"))


def asked(place: Path, engine: Name) -> list[object]:
    """What one engine says to a query in DuckDB's SQL, and to iotoll's own."""
    sql = "SELECT side, night::DATE AS day, median(value) AS m FROM measurements GROUP BY ALL"
    database = Database(Store(str(place)).find("branch-0"), engine)
    try:
        rows = sorted((r["side"], str(r["day"]), r["m"]) for r in database.sql(sql).to_pylist())
        nights = [row["night"] for row in database.runs("branch-0")]
        batches = database.values("branch-0", "hikey960", "2026-01-02")
        values = sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())
    finally:
        database.close()
    return [rows, nights, values]


@pytest.mark.long
def test_both_engines_answer_the_same_and_leave_nothing(place: Path) -> None:
    before = left()
    first, second = asked(place, "duckdb"), asked(place, "spark")
    assert first == second
    rows, nights, values = first
    assert isinstance(rows, list) and len(rows) == 4
    assert nights == ["2026-01-01", "2026-01-02"] * 2
    assert isinstance(values, list) and len(values) == 2 * 66 * 7
    assert left() == before


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.long)])
def test_a_wrong_query_is_one_line(place: Path, engine: Name) -> None:
    words = ["SELECT nothing FROM measurements", "--history", str(place), "--engine", engine]
    done = CliRunner().invoke(query_command, words)
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).startswith("query: ") and "\n" not in str(done.exception)
    assert "nothing" in str(done.exception)


def test_spark_without_java_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: the extra spark has it")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(UsageError, match="apt-get install default-jre-headless"):
        connect("spark")


def test_a_history_of_so_many_rows_is_whole_nights_of_all_cells() -> None:
    assert (Shape.of(1), Shape.of(10**8)) == (Shape(1, 1), Shape(5, 3608))
    assert Shape.of(10**8).rows == pytest.approx(1e8, rel=1e-3)


def test_a_history_that_was_interrupted_becomes_the_same(place: Path, tmp_path: Path) -> None:
    def contents(folder: Path) -> dict[str, bytes]:
        files = [p for p in folder.rglob("*") if p.is_file()]
        return {str(p.relative_to(folder)): p.read_bytes() for p in files}

    again = tmp_path / "h"
    make(again, Shape(1, 2), 1, Progress(quiet=True))
    lost = sorted(p for p in again.rglob("*.parquet"))[0]
    lost.unlink()
    (again / lost.relative_to(again).as_posix().replace("measurements", "runs")).unlink()
    make(again, Shape(1, 2), 1, Progress(quiet=True))
    assert contents(again) == contents(place)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT content FROM read_text('{secret}')",
        "SELECT * FROM read_csv('{secret}', header=false)",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM '{secret}'",
        "SELECT 1; COPY (SELECT 1) TO '{mark}'",
        "ATTACH '{mark}' AS x",
        "SET enable_external_access=true; SELECT content FROM read_text('{secret}')",
        "INSTALL httpfs",
    ],
)
def test_g1_a_query_opens_no_file_but_the_historys(tmp_path: Path, text: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    secret, mark = tmp_path / "elsewhere/secret.csv", tmp_path / "elsewhere/mark"
    secret.write_text("a,b\n1,2\n")
    engine = connect("duckdb")
    (tmp_path / "it's").mkdir()
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "it's/one.parquet")
    engine.read("runs", [str(tmp_path / "it's/one.parquet")])
    assert engine.sql("SELECT sum(a) AS n FROM runs").to_pylist() == [{"n": 3}]
    with pytest.raises(Exception):  # noqa: B017  DuckDB's own and the parser's
        engine.sql(text.format(secret=secret, mark=mark, folder=secret.parent))
    assert not mark.exists()
    engine.close()
