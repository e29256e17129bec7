"""``iotoll history``: adds runs to a history, and asks it."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iotoll.core.errors import UsageError
from iotoll.core.extras import install_command

if TYPE_CHECKING:
    import pyarrow as pa

    from iotoll.nightly.history.engines import Name


def history_option(command: Any) -> Any:
    """--history, on every command that reads or writes one."""
    return click.option(
        "--history",
        "place",
        default="history",
        show_default=True,
        envvar="IOTOLL_HISTORY",
        help="Folder, or s3://BUCKET/FOLDER?endpoint_override=HOST:PORT.",
    )(command)


def engine_option(command: Any) -> Any:
    """--engine, on every command that asks a history."""
    return click.option(
        "--engine",
        type=click.Choice(["duckdb", "spark"]),
        default="duckdb",
        show_default=True,
        envvar="IOTOLL_HISTORY_ENGINE",
        help="What reads the files: DuckDB, or Spark (on SPARK_MASTER; else on this machine).",
    )(command)


def open_store(place: str) -> Any:
    """The store at ``place``; raises UsageError where the extra is not installed."""
    need_extra()
    # The libraries of the extra are imported after the check that they are there.
    from iotoll.nightly.history.store import Store

    return Store(place)


def need_extra() -> None:
    """Raise UsageError unless the libraries of the extra ``history`` are there."""
    for module in ("pyarrow", "ibis", "duckdb"):
        if importlib.util.find_spec(module) is None:
            raise UsageError(f"{module} is not installed: {install_command('history')}")


@click.group("history")
def history_group() -> None:
    """The history of all runs: add runs to it, and query it."""


@history_group.command("add")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--branch", required=True, help="Branch that the kernel is the tip of.")
@click.option("--night", metavar="DATE", help="Default: the day of the run (UTC).")
@click.option("--release", default="", metavar="NAME", help="The kernel is this release.")
@click.option("--url", default="", help="Where the run's report is.")
@history_option
def add_command(
    runs: tuple[Path, ...], branch: str, night: str | None, release: str, url: str, place: str
) -> None:
    """Add finished RUNS; a run that is there already is not added again."""
    store = open_store(place)
    from iotoll.nightly.history.tables import of_run
    from iotoll.records.rundir import RunDir

    points = [of_run(RunDir.open(path), branch, night, release, url) for path in runs]
    for path, point in zip(runs, points, strict=True):
        done = "added" if store.add(point) else "already there"
        what = point.run["status"] if point.run["status"] != "measured" else ""
        rows = f"{len(point.measurements)} values" + (f", {what}" if what else "")
        click.echo(f"{path}: {done}: run {point.name}, {rows}")


@history_group.command("query")
@click.argument("sql")
@click.option("--branch", help="Read only the files of this branch.")
@click.option("--json", "as_json", is_flag=True, help="Rows as JSON.")
@history_option
@engine_option
def query_command(sql: str, branch: str | None, as_json: bool, place: str, engine: Name) -> None:
    """Run a query over the tables runs, measurements and boards; prints CSV unless --json."""
    table = _ask(place, sql, branch, engine)
    if as_json:
        click.echo(json.dumps(table.to_pylist(), indent=1, default=str))
        return
    click.echo(_csv(table), nl=False)


@history_group.command("export")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--branch", help="Only this branch.")
@click.option(
    "--table", type=click.Choice(["measurements", "runs", "boards"]), default="measurements"
)
@history_option
@engine_option
def export_command(out: Path, branch: str | None, table: str, place: str, engine: Name) -> None:
    """Write a table as one file: .parquet, .csv or .json by the name of --out."""
    if out.suffix not in (".parquet", ".csv", ".json"):
        raise UsageError(f"--out {out}: end it with .parquet, .csv or .json")
    rows = _ask(place, f"SELECT * FROM {table}", branch, engine)
    import pyarrow.parquet as pq

    from iotoll.records import results

    if out.suffix == ".parquet":
        pq.write_table(rows, out, compression="zstd")
    elif out.suffix == ".csv":
        results.write_text(out, _csv(rows))
    else:
        results.write_text(out, json.dumps(rows.to_pylist(), default=str) + "\n")
    click.echo(f"{out}: {len(rows)} rows")


@history_group.command("compact")
@history_option
def compact_command(place: str) -> None:
    """Merge the files of each month. Run it alone, while no query runs."""
    click.echo(f"{open_store(place).compact()} files merged")


@history_group.command("migrate")
@history_option
def migrate_command(place: str) -> None:
    """Bring an older history to this version's schema; may be interrupted and repeated."""
    click.echo(f"{open_store(place).migrate()} files changed")


def _ask(place: str, sql: str, branch: str | None, engine: Name) -> pa.Table:
    found = open_store(place).find(branch)
    from iotoll.nightly.history.query import Database

    database = Database(found, engine)
    try:
        return database.sql(sql)
    finally:
        database.close()


def _csv(table: pa.Table) -> str:
    import pyarrow.csv as pc

    sink = io.BytesIO()
    pc.write_csv(table, sink)
    return sink.getvalue().decode()
