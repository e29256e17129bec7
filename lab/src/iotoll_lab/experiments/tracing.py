"""Is what a traced boot counts what the kernel executes untraced? ``iotoll experiment tracing``.

Each cell runs in two boots of one kernel: the gate's, with its trace, whose counts are without what
records the trace; and one without events, in which every instruction is recorded. The I/Os of the
latter are cut where the events would be: behind a tracepoint's branch, which is a `nop` there,
behind the function that rings the doorbell, and where a system call begins. So both count from the
same instruction to the same instruction, and their medians must be equal.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median_low

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Column, Table

from iotoll.boards.equip import fragments
from iotoll.boards.plugin import plugin_words
from iotoll.boots.local import BootPlan
from iotoll.boots.schedule import Bench, plan_boot
from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.explain.explainer import boot_recorded
from iotoll.explain.record import probes, read_record
from iotoll.explain.tables import io_tables
from iotoll.explain.untraced import (
    AT_ONCE,
    CUT,
    Cuts,
    can_be_cut,
    compare,
    cut,
    doorbells,
    without_events,
)
from iotoll.kernels.build import KernelSpec, build_side
from iotoll.kernels.symbols import Symbols, read_functions
from iotoll.measure.boot_trace import analyze_boot
from iotoll.measure.io_order import GATE_COLUMNS
from iotoll.measure.iotable import IoTable
from iotoll.records import results
from iotoll.records.models import BootRecord, CellRecord
from iotoll.records.rundir import RunDir
from iotoll_lab.experiments.exact import make_bench, open_run

EQUAL = 2
"""Instructions by which counts may differ that are called equal."""


@dataclass(frozen=True)
class Row:
    """Medians of one section of one cell.

    ``traced`` is the gate's boot as its clock has it, ``counted`` is without what records the
    trace, and ``untraced`` of the boot without events, of so many ``ios``. ``quartiles`` are what
    the lower and the upper quartile of the counted exceed the untraced ones by: a median between
    two groups of I/Os is of one more or less in a group.
    """

    cell: str
    section: str
    traced: float
    counted: float
    untraced: float
    ios: int
    quartiles: tuple[int, int]


@click.command("tracing")
@click.option("--board", default="virt-arm64", show_default=True)
@click.option("--matrix", default="default", show_default=True)
@click.option("--cells", help="Only these cells, comma-separated; * is allowed.", metavar="LIST")
@click.option("--image", type=click.Path(path_type=Path), help="Ready-made kernel image.")
@click.option("--out", default="runs/tracing", show_default=True, type=click.Path(path_type=Path))
def tracing_command(
    board: str, matrix: str, cells: str | None, image: Path | None, out: Path
) -> None:
    """Boot with a trace and without: the counts of both must be equal.

    The table has for each section what the clock shows with the recorder, what is counted without
    it, and what the kernel executes untraced.
    """
    progress = Progress()
    run = open_run(out, board, matrix, image, "tracing")
    bench = replace(make_bench(run, progress, cells), calibrate=False)
    bench = replace(bench, cells=[cell for cell in bench.cells if can_be_cut(cell)])
    if not bench.counts_tracing:
        raise UsageError(f"board {board}: what records the trace is not counted on it")
    build_side(
        run, "base", KernelSpec(bench.board.arch, fragments(bench.board, bench.cells)), progress
    )
    rows: list[Row] = []
    for first in range(0, len(bench.cells), AT_ONCE):
        chosen = list(bench.cells)[first : first + AT_ONCE]
        rows += _compare(run, replace(bench, cells=chosen), progress)
        results.write_text(out / "tracing.json", json.dumps([asdict(r) for r in rows], indent=1))
        results.write_text(out / "tracing.md", "\n".join(_lines(rows)) + "\n")
    _print(rows, Console())
    click.echo(f"written: {out / 'tracing.json'}, {out / 'tracing.md'}")


def _compare(run: RunDir, bench: Bench, progress: Progress) -> list[Row]:
    symbols = read_functions(run.build("base") / "Image")
    recorded = run.root / "record"
    shutil.rmtree(recorded, ignore_errors=True)
    recorded.mkdir()
    try:
        traced = plan_boot(run, bench, "base", 1)
        quiet = _quiet(run, bench, symbols, recorded)
        boot_recorded([traced, quiet], progress, "with a trace, and without")
        records, _ = analyze_boot(
            traced.folder, results.read(traced.folder / "boot.json", BootRecord)
        )
        bells = doorbells(bench.matrix)
        cuts = cut(quiet.folder, read_record(recorded / "record"), symbols, bells)
        return list(_rows(records, io_tables(traced.folder, list(bench.cells)), cuts))
    finally:
        shutil.rmtree(recorded, ignore_errors=True)


def _quiet(run: RunDir, bench: Bench, symbols: Symbols, recorded: Path) -> BootPlan:
    """The boot without events, of which each instruction is recorded."""
    other = RunDir(run.root / "untraced")
    plan = plan_boot(other, replace(bench, matrix=without_events(bench.matrix)), "base", 1)
    words = plugin_words(recorded / "record", probes(symbols), None)
    return replace(plan, kernel=run.build("base") / "Image", words=words)


def _rows(
    records: Mapping[str, CellRecord], tables: Mapping[str, IoTable], cuts: Mapping[str, Cuts]
) -> Iterator[Row]:
    for cell, record in records.items():
        for one in compare("base", cell, cuts.get(cell, {}), [record]).sections:
            column = np.ma.array(tables[cell][GATE_COLUMNS[one.section]]).compressed()
            traced = [value for value in column.tolist() if value]
            if one.counted is not None and traced and record.in_order:
                values = (float(median_low(traced)), one.counted, one.untraced)
                counted = [value for value in record.in_order.sections[one.section] if value]
                lower, upper = _quartiles(counted) - _quartiles(cuts[cell][one.section])
                yield Row(cell, one.section.value, *values, one.ios, (int(lower), int(upper)))


def _quartiles(values: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.quantile(values, [0.25, 0.75], method="lower").astype(np.int64)


def _print(rows: Sequence[Row], console: Console) -> None:
    table = Table(Column("cell", no_wrap=True), *(section.value for section in CUT))
    for cell in dict.fromkeys(row.cell for row in rows):
        mine = {row.section: row for row in rows if row.cell == cell}
        values = [_shown(mine.get(section.value)) for section in CUT]
        table.add_row(cell, *values)
    console.print(table)
    equal = sum(abs(row.counted - row.untraced) <= EQUAL for row in rows)
    console.print(f"{equal} of {len(rows)} medians differ by {EQUAL} instructions at most")


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    """The rows as a table of a page; where medians differ, the quartiles' difference as well."""
    yield "| cell | section | with the recorder | counted | untraced | difference | quartiles |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for row in rows:
        off, (lower, upper) = row.counted - row.untraced, row.quartiles
        quartiles = f"{lower:+d}, {upper:+d}" if abs(off) > EQUAL else ""
        values = " | ".join(f"{value:,.0f}" for value in (row.traced, row.counted, row.untraced))
        yield f"| `{row.cell}` | `{row.section}` | {values} | {off:+.0f} | {quartiles} |"


def _shown(row: Row | None) -> str:
    """``5142 2409 2409``: with the recorder, counted without it, untraced."""
    if row is None:
        return "-"
    difference = row.counted - row.untraced
    text = f"{row.traced:.0f} {row.counted:.0f} {row.untraced:.0f}"
    return f"{text} ({difference:+.0f})" if difference else text
