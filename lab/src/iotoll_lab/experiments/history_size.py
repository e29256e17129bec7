"""``iotoll experiment history``: a history of a stated size, and how long its questions take.

Each branch has a night per day for ten years on an exact board and on a noisy one, whose nights
have a pinned reference kernel beside the tip. A night has all cells of the matrix `default`, seven
sections and four statistics. Values are drawn from a seed; files are as `Store.compact` leaves
them, one per month.
"""

from __future__ import annotations

import filecmp
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from numpy.typing import NDArray

from iotoll.boards.matrix import load_matrix
from iotoll.core.digest import json_sha256
from iotoll.core.errors import InfrastructureError
from iotoll.core.progress import Progress
from iotoll.nightly.changes.detector import Floats
from iotoll.nightly.history.engines import Name
from iotoll.nightly.history.store import Store
from iotoll.nightly.history.tables import SCHEMAS, blank
from iotoll.records import results
from iotoll.records.models import Clock

FIRST, NIGHTS = date(2026, 1, 1), 3650
BOARDS = {"virt-arm64": "instructions", "hikey960": "time"}
SECTIONS = ("overhead", "vfs_fs", "submission", "completion", "return", "hardware", "total")
STATISTICS = ("median", "trimmed_mean", "p99", "corrected")
STEPS, NOISE = 0.002, 0.01
"""Share of the exact board's nights on which a series moves, and the noisy board's noise."""
QUERY = (
    "SELECT branch, board, section, count(*) AS n, min(value) AS low, max(value) AS high,"
    " avg(value) AS mean FROM measurements WHERE statistic = 'median' AND side = 'tip'"
    " GROUP BY branch, board, section ORDER BY branch, board, section"
)
"""A question over the whole history."""


@dataclass(frozen=True)
class Shape:
    """How many branches and nights hold about as many rows as were asked for."""

    branches: int
    nights: int

    @classmethod
    def of(cls, rows: int) -> Shape:
        """Whole nights, at most ten years of a branch."""
        nights = max(1, round(rows / _rows_of_night()))
        branches = -(-nights // NIGHTS)
        return cls(branches, -(-nights // branches))

    @property
    def rows(self) -> int:
        """Rows of the table ``measurements``."""
        return self.branches * self.nights * _rows_of_night()

    @property
    def name(self) -> str:
        """Of a branch with all nights."""
        return "branch-0"


@dataclass(frozen=True)
class Row:
    """One question by one engine; ``mb`` is the peak memory of all its processes."""

    question: str
    engine: Name
    seconds: float
    mb: int


def make(place: Path, shape: Shape, seed: int, progress: Progress) -> None:
    """Write the history; months that are there are kept, so that it resumes."""
    store = Store(str(place))
    tracks = [(f"branch-{b}", board) for b in range(shape.branches) for board in BOARDS]
    with progress.step(f"history of {shape.rows:,} rows", len(tracks)) as step:
        for number, (branch, board) in enumerate(tracks):
            step.update(number, len(tracks), f"{branch} on {board}")
            values = _values(np.random.default_rng([seed, number]), shape.nights, board)
            first = 0
            for days in _months(shape.nights):
                _write(store, branch, board, days, values[first : first + len(days)])
                first += len(days)
    store.begin()


def _rows_of_night() -> int:
    return sum(len(_sides(board)) for board in BOARDS) * len(_series())


def _sides(board: str) -> Sequence[str]:
    return ("tip",) if BOARDS[board] == "instructions" else ("tip", "reference")


@cache
def _series() -> list[tuple[str, str, str]]:
    cells = load_matrix("default").cells
    return [(cell, section, name) for cell in cells for section in SECTIONS for name in STATISTICS]


def _months(nights: int) -> list[list[date]]:
    days = (FIRST + timedelta(days=night) for night in range(nights))
    return [list(month) for _, month in itertools.groupby(days, lambda d: (d.year, d.month))]


def _values(rng: np.random.Generator, nights: int, board: str) -> Floats:
    """What a track holds, shape (nights, sides x series)."""
    width = len(_series())
    levels = rng.uniform(1_000, 50_000, width)
    if BOARDS[board] == "instructions":
        steps = (rng.random((nights, width)) < STEPS) * rng.integers(-50, 51, (nights, width))
        return np.floor(levels + np.cumsum(steps, axis=0))
    return np.tile(levels, 2) * np.exp(NOISE * rng.normal(size=(nights, 2 * width)))


def _write(store: Store, branch: str, board: str, days: Sequence[date], values: Floats) -> None:
    """One month of one track, as one file of each table."""
    folder = f"branch={branch}/board={board}"
    name = f"{folder}/{days[0].isoformat()[:7]}.all-{json_sha256([branch, board])[:16]}.parquet"
    if store.files.exists(f"runs/{name}"):
        return
    rows = []
    for day in days:
        row = blank(branch, board, day.isoformat())
        row["run"] = json_sha256([branch, board, day.isoformat()])[:24]
        row |= {"clock": BOARDS[board], "unit": Clock(BOARDS[board]).unit.value}
        row |= {"commit": json_sha256([branch, day.isoformat()])[:40], "board_sha256": board}
        row["release"] = f"v{day.year}" if (day.month, day.day) == (1, 1) else ""
        rows.append(row)
    store.write(f"measurements/{name}", _table(branch, board, rows, values))
    store.write(f"runs/{name}", pa.Table.from_pylist(rows, SCHEMAS["runs"]))


def _table(branch: str, board: str, rows: Sequence[dict[str, Any]], values: Floats) -> pa.Table:
    sides, series = _sides(board), _series()
    size, width = values.size, values.shape[1]

    def named(names: Sequence[str], codes: NDArray[np.int64]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names))

    night = np.repeat(np.arange(len(rows)), width)
    place = np.tile(np.arange(width), len(rows))
    columns = {
        "run": named([row["run"] for row in rows], night),
        "branch": named([branch], np.zeros(size, np.int64)),
        "board": named([board], np.zeros(size, np.int64)),
        "night": named([row["night"] for row in rows], night),
        "side": named(sides, place // len(series)),
        "value": pa.array(values.reshape(-1)),
    }
    for number, column in enumerate(("cell", "section", "statistic")):
        names = sorted({one[number] for one in series})
        codes = np.array([names.index(one[number]) for one in series])
        columns[column] = named(names, codes[place % len(series)])
    return pa.table(columns)


def ask(place: Path, out: Path, shape: Shape, engine: Name) -> list[Row]:
    """Each question by one engine, as its command; the answers are in ``out``."""
    words = ["--history", str(place), "--engine", engine]
    page = ["trend", "--branch", shape.name, "--out", str(out / engine / "page"), "--json"]
    asked = {
        "page of one branch": page,
        "statistics of all": ["history", "query", QUERY],
    }
    found = []
    for question, command in asked.items():
        seconds, mb = _run([*command, *words], out / engine / f"{command[0]}.txt")
        found.append(Row(question, engine, round(seconds, 1), mb))
    return found


def _run(words: Sequence[str], answer: Path) -> tuple[float, int]:
    """Seconds and MB of one command; its standard output goes to ``answer``."""
    answer.parent.mkdir(parents=True, exist_ok=True)
    begun, peak = time.monotonic(), 0
    with answer.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "iotoll", *words], stdout=out, start_new_session=True
        )
        try:
            while process.poll() is None:
                peak = max(peak, _memory(process.pid))
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait()
    if process.returncode != 0:
        raise InfrastructureError(f"iotoll {words[0]} ended with status {process.returncode}")
    return time.monotonic() - begun, peak >> 20


def _memory(session: int) -> int:
    """Resident bytes of all processes of a session, pages that they share counted again."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            found += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return found


def same_answers(out: Path) -> bool:
    """Whether both engines gave the same page, byte for byte, and the same statistics.

    Means are sums in another order: they may differ in the last digits.
    """
    one, other = out / "duckdb", out / "spark"
    names = [p.relative_to(one) for p in sorted((one / "page").rglob("*")) if p.is_file()]
    match, _, _ = filecmp.cmpfiles(one, other, map(str, names), shallow=False)
    tables = [pc.read_csv(folder / "history.txt") for folder in (one, other)]
    if tables[0].column_names != tables[1].column_names or len(match) != len(names):
        return False
    return all(_alike(*pair) for pair in zip(*(t.columns for t in tables), strict=True))


def _alike(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    if len(one) != len(other):
        return False
    if pa.types.is_floating(one.type):
        return bool(np.allclose(one.to_numpy(), other.to_numpy(), rtol=1e-12, atol=0))
    return bool(one.equals(other))


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
