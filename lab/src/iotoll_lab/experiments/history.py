"""``iotoll experiment history``: how long do questions take of a history of that many rows?"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iotoll.core.progress import Progress
from iotoll.nightly.history.command import need_extra
from iotoll.records import results

if TYPE_CHECKING:
    from iotoll.nightly.history.engines import Name


@click.command("history")
@click.option("--rows", type=click.IntRange(1, 10**10), default=10**6, show_default=True)
@click.option("--engine", "engines", type=click.Choice(["duckdb", "spark"]), multiple=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("runs/history"), show_default=True
)
def history_command(rows: int, engines: tuple[Name, ...], seed: int, out: Path) -> None:
    """Make a history of about this many rows, and time its questions by each engine.

    The history is kept in OUT/history-ROWS-SEED, so that the same command only asks again.
    """
    need_extra()
    from iotoll_lab.experiments.history_size import BOARDS, Shape, ask, make, same_answers

    shape, progress = Shape.of(rows), Progress()
    place = out / f"history-{rows}-{seed}"
    make(place, shape, seed, progress)
    size = sum(p.stat().st_size for p in place.rglob("*") if p.is_file())
    click.echo(
        f"{shape.rows:,} rows: {shape.branches} branches, {shape.nights} nights,"
        f" {len(BOARDS)} boards; {size / 1e6:,.0f} MB of Parquet"
    )
    answers = out / "answers"
    shutil.rmtree(answers, ignore_errors=True)
    found = []
    for engine in engines or ("duckdb",):
        with progress.step(f"ask {engine}"):
            found += ask(place, answers, shape, engine)
    for row in found:
        click.echo(f"{row.engine:8} {row.question:32} {row.seconds:7.1f} s {row.mb:6} MB")
    table: dict[str, Any] = {"rows": shape.rows, "bytes": size, "asked": [asdict(r) for r in found]}
    if len(set(engines)) == 2:
        table["same"] = same_answers(answers)
        click.echo(f"same answers: {'yes' if table['same'] else 'NO'}")
    results.write_text(out / "table.json", json.dumps(table, indent=1) + "\n")
