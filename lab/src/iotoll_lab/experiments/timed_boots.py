"""Real boots of host-uml one by one, and what each measured: for ``iotoll experiment time``.

A series is one kernel against the base, or the base against itself, in pairs that run in the gate's
own order. A boot leaves one line of ``boots.jsonl``, so that a command that was stopped goes on
with the next one; all of them together are a Parquet file.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from iotoll.boots.host_load import Load
from iotoll.boots.pair_order import boot_order
from iotoll.boots.schedule import run_boots
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow
from iotoll.measure.collect import analyze
from iotoll.patch import candidate
from iotoll.records import results
from iotoll.records.models import BootRecord, CellRecord, Section, Stats
from iotoll.records.models.run import Side
from iotoll.run.manifest import asked_for
from iotoll.run.opening import open_run

BOARD = "host-uml"
AA = "base"
"""The series in which both kernels are the base."""

FIGURES = ("overhead", "vfs_fs", "submission", "completion")
COLUMNS: dict[str, type[pl.DataType]] = {
    "series": pl.String,
    "pair": pl.Int32,
    "side": pl.String,
    "begun": pl.Float64,
    "seconds": pl.Float32,
    "others": pl.Float32,
    "cell": pl.String,
    "figure": pl.String,
    "value": pl.Float64,
    "own": pl.Float64,
    "mean": pl.Float64,
    "low": pl.Float64,
    "median": pl.Float64,
    "p90": pl.Float64,
}
"""Of the Parquet file. ``begun`` is Unix time, s; ``others`` the CPUs that other processes used
meanwhile; ``value`` what the gate compares (ns, elapsed), ``own`` the same of own time; ``mean``,
``low`` (mean of the lowest quarter), ``median`` and ``p90`` are of elapsed time."""


@dataclass(frozen=True)
class Series:
    """A kernel's boots: ``patch`` is None for the base against itself."""

    name: str
    patch: Path | None

    def record(self, out: Path, pairs: int, progress: Progress) -> None:
        """Boot so many pairs, those that are there included; appends to ``boots.jsonl`` in ``out``.

        Raises BrokenError or InfrastructureError as a gate does.
        """
        named = str(self.patch) if self.patch else None
        choice = candidate.classify(named)
        manifest = asked_for(
            "gate", choice, board=BOARD, matrix=None, cells="*", aa=self.patch is None
        )
        flow = Flow(open_run(out / "runs" / self.name, manifest), progress)
        path = out / "boots.jsonl"
        done = {(row["side"], row["pair"]) for row in read_rows(path) if row["series"] == self.name}
        todo = [boot for boot in boot_order(flow.run.manifest.seed, pairs) if boot not in done]
        if not todo:
            return
        flow.source()
        flow.build()
        with progress.step(f"{self.name}: {len(todo)} boots", len(todo)) as step:
            for number, (side, pair) in enumerate(todo):
                rows = self._boot(flow, side, pair)
                with path.open("a") as stream:
                    stream.writelines(json.dumps(row) + "\n" for row in rows)
                step.update(number + 1)

    def _boot(self, flow: Flow, side: Side, pair: int) -> list[dict[str, Any]]:
        begun, before = time.time(), Load.now()
        run_boots(flow.run, flow.bench, [(side, pair)], Progress(quiet=True), abreast=1)
        after = Load.now()
        folder = flow.run.boot(side, pair)
        cells, _ = analyze(folder, results.read(folder / "boot.json", BootRecord))
        shutil.rmtree(folder)  # a trace of some MB
        known = {
            "series": self.name,
            "pair": pair,
            "side": side,
            "begun": round(begun, 1),
            "seconds": round(after.at - before.at, 2),
            "others": round(before.others_until(after), 3),
        }
        return [known | row for row in rows_of(cells)]


def rows_of(cells: dict[str, CellRecord]) -> Iterator[dict[str, Any]]:
    """One row for each figure of each cell; a cell that may not be used has none."""
    for name, cell in cells.items():
        for figure in FIGURES if cell.invalid is None else ():
            part = cell.overhead if figure == "overhead" else cell.sections[Section(figure)]
            yield {
                "cell": name,
                "figure": figure,
                "value": part.elapsed.trimmed_mean,
                "own": part.own.trimmed_mean,
                "mean": part.elapsed.mean,
                "low": low_mean(part.elapsed),
                "median": part.elapsed.median,
                "p90": part.elapsed.p90,
            }


def low_mean(stats: Stats) -> float | None:
    """The mean of the lowest quarter, by the middles of the histogram's bins; None without one."""
    left = wanted = stats.count / 4
    total = 0.0
    for lower, upper, count in stats.histogram or ():
        took = min(left, count)
        total += took * (lower + upper - 1) / 2
        left -= took
    return total / wanted if stats.histogram and wanted else None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The lines that earlier commands left; the last one may have been cut off."""
    rows = []
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def write_pool(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write the rows as Parquet, in the order in which the boots began."""
    frame = pl.DataFrame(rows, schema=COLUMNS).sort("begun", "cell", "figure")
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(path, compression="zstd", compression_level=19)
