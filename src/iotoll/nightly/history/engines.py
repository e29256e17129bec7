"""The engines that answer queries: DuckDB on one machine, Spark where a fleet outgrows one.

Both read the same Parquet files and are asked through Ibis, so that a query is written once.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import ibis
import pyarrow as pa
import pyarrow.dataset as ds

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.extras import install_command
from iotoll.core.paths import cache_dir

Name = Literal["duckdb", "spark"]

MEMORY = "1500MB"
"""What DuckDB may take before it writes to disk."""
SPARK_MEMORY = "1g"
"""Heap of a Spark that runs in this process's own Java (SPARK_MASTER is not set)."""
_BATCH = 500_000  # rows at a time: names of millions of rows would not fit
_QUIET = "rootLogger.level = error\nrootLogger.appenderRef.stdout.ref = console\n" + "".join(
    f"appender.console.{key} = {value}\n"
    for key, value in (
        ("type", "Console"),
        ("name", "console"),
        ("target", "SYSTEM_ERR"),
        ("layout.type", "PatternLayout"),
        ("layout.pattern", "spark: %m%n"),
    )
)


class Engine(Protocol):
    """Answers queries over Parquet files; rows of an answer have no order unless asked for."""

    con: Any
    """Ibis's connection, whose ``table`` names what `read` has read."""

    def read(self, name: str, files: Sequence[str]) -> None:
        """Make a table of files, which need not be on one partition."""

    def sql(self, text: str) -> pa.Table:
        """The answer to a query in DuckDB's dialect, whatever the engine's own is."""

    def table(self, rows: Any) -> pa.Table:
        """The rows of an Ibis expression."""

    def batches(self, rows: Any) -> Iterator[pa.RecordBatch]:
        """The same, of which only some are in memory at a time."""

    def close(self) -> None:
        """End the engine, and remove what it wrote."""


class DuckDb:
    """DuckDB in this process."""

    def __init__(self) -> None:
        self.con: Any = ibis.duckdb.connect()
        spill = cache_dir() / "duckdb"
        spill.mkdir(exist_ok=True)
        self.con.raw_sql(f"SET memory_limit='{MEMORY}'")
        self.con.raw_sql(f"SET temp_directory='{spill}'")
        # Queries that need an order ask for it.
        self.con.raw_sql("SET preserve_insertion_order=false")
        self._folders: set[str] = set()
        self._locked = False

    def read(self, name: str, files: Sequence[str]) -> None:
        """As `Engine.read`."""
        self._folders |= {file.rpartition("/")[0] for file in files}
        self.con.read_parquet(list(files), table_name=name, hive_partitioning=False)

    def sql(self, text: str) -> pa.Table:
        """As `Engine.sql`; the query reads the history's files and no other, and writes none."""
        self._lock()
        return self.con.sql(text).to_pyarrow()

    def _lock(self) -> None:
        """From here on DuckDB opens only what lies beside the tables, and no setting changes."""
        if self._locked:
            return
        self._locked = True
        names = ", ".join("'" + name.replace("'", "''") + "'" for name in sorted(self._folders))
        for text in (
            f"allowed_directories=[{names}]",
            "enable_external_access=false",
            "lock_configuration=true",
        ):
            self.con.raw_sql(f"SET {text}")

    def table(self, rows: Any) -> pa.Table:
        """As `Engine.table`."""
        return rows.to_pyarrow()

    def batches(self, rows: Any) -> Iterator[pa.RecordBatch]:
        """As `Engine.batches`."""
        yield from rows.to_pyarrow_batches(chunk_size=_BATCH)

    def close(self) -> None:
        """As `Engine.close`."""
        self.con.disconnect()


class Spark:
    """Spark: a cluster's, if SPARK_MASTER names one that sees the same files, or a local one."""

    def __init__(self) -> None:
        if importlib.util.find_spec("pyspark") is None:
            raise UsageError(f"pyspark is not installed: {install_command('spark')}")
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            raise UsageError("Spark needs Java 17 or later: apt-get install default-jre-headless")
        self._folder = Path(tempfile.mkdtemp(prefix="iotoll-spark-"))
        try:
            self._session = self._start()
        except Exception as error:  # Spark's launcher, py4j and Java have errors of their own
            shutil.rmtree(self._folder, ignore_errors=True)
            raise InfrastructureError(f"Spark does not start: {_line(error)}") from error
        self.con: Any = ibis.pyspark.connect(self._session)

    def _start(self) -> Any:
        # pyspark is an extra, and takes a second to import: DuckDB does without.
        from pyspark.sql import SparkSession

        conf = self._folder / "conf"
        conf.mkdir()
        (conf / "log4j2.properties").write_text(_QUIET)
        os.environ.setdefault("SPARK_CONF_DIR", str(conf))
        master = os.environ.get("SPARK_MASTER", "local[*]")
        builder = SparkSession.builder.appName("iotoll").master(master)
        settings: dict[str, bool | float | int | str | None] = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
        }
        if master.startswith("local"):
            # Its ports are open to this machine alone.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings["spark.driver.bindAddress"] = "127.0.0.1"
            settings["spark.driver.host"] = "127.0.0.1"
            settings["spark.driver.memory"] = SPARK_MEMORY
            settings["spark.local.dir"] = str(self._folder / "local")
        return builder.config(map=settings).getOrCreate()

    def read(self, name: str, files: Sequence[str]) -> None:
        """As `Engine.read`."""
        # Branch and board are columns of each file: what the folders' names say is not read.
        reader = self._session.read.option("recursiveFileLookup", "true")
        reader.parquet(*files).createOrReplaceTempView(name)

    def sql(self, text: str) -> pa.Table:
        """As `Engine.sql`."""
        return self.table(self.con.sql(text, dialect="duckdb"))

    def table(self, rows: Any) -> pa.Table:
        """As `Engine.table`."""
        return self._frame(rows).toArrow()

    def batches(self, rows: Any) -> Iterator[pa.RecordBatch]:
        """As `Engine.batches`, through files: Spark's own way collects all rows in memory."""
        folder = self._folder / "rows"
        self._frame(rows).write.mode("overwrite").parquet(str(folder))
        yield from ds.dataset(folder, format="parquet").to_batches(batch_size=_BATCH)

    def close(self) -> None:
        """As `Engine.close`."""
        from pyspark import SparkContext

        # Spark keeps its Java for the next session: a gigabyte until this process ends.
        java, self._session = SparkContext._gateway, self._session.stop()
        SparkContext._gateway = SparkContext._jvm = None
        if java is not None:
            java.shutdown()
            java.proc.stdin.close()  # it ends when nobody can write to it any more
            java.proc.wait()
        if os.environ.get("SPARK_CONF_DIR") == str(self._folder / "conf"):
            del os.environ["SPARK_CONF_DIR"]
        shutil.rmtree(self._folder, ignore_errors=True)

    def _frame(self, rows: Any) -> Any:
        # Ibis's own way from Spark to Arrow goes through pandas.
        return self._session.sql(self.con.compile(rows))


def connect(name: Name) -> Engine:
    """The engine of that name; raises UsageError for one that is not installed."""
    return DuckDb() if name == "duckdb" else Spark()


def _line(error: Exception) -> str:
    return next((part for part in str(error).splitlines() if part.strip()), repr(error))[:300]
