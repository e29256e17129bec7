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
from rich.console import Console
from rich.table import Column, Table

from iotoll.boards.equip import fragments
from iotoll.boards.plugin import plugin_words
from iotoll.boots.local import BootPlan
from iotoll.boots.schedule import Bench, plan_boot
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.explain.explainer import boot_recorded
from iotoll.explain.record import Record, probes, read_record
from iotoll.explain.untraced import NEVER
from iotoll.kernels.build import KernelSpec, build_side
from iotoll.kernels.symbols import Symbols, read_symbols
from iotoll.kernels.tracing import tracing_code
from iotoll.measure.boot_trace import BootTraceFile, analyze_boot
from iotoll.records import results
from iotoll.records.models import BootRecord, CellRecord, Section
from iotoll.records.rundir import RunDir
from iotoll_lab.experiments.exact import make_bench, open_run

AT_ONCE = 4
"""Cells of a boot: each instruction of four cells is 1.3 GB of records."""

CUT = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION)

_EVENTS = {"block_bio_queue": "bio", "irq_handler_entry": "irq", "block_rq_complete": "done"}
_CALL = "invoke_syscall"
_SIZE = 4  # bytes of an instruction
_CHUNK = 1 << 22  # runs that are looked at at a time


@dataclass(frozen=True)
class Row:
    """Medians of one section of one cell: in the gate's boot, and in the one without events."""

    cell: str
    section: str
    net: int
    untraced: int
    ios: int


@click.command("tracing")
@click.option("--board", default="virt-arm64", show_default=True)
@click.option("--matrix", default="default", show_default=True)
@click.option("--cells", help="Only these cells, comma-separated; * is allowed.", metavar="LIST")
@click.option("--image", type=click.Path(path_type=Path), help="Ready-made kernel image.")
@click.option("--out", default="runs/tracing", show_default=True, type=click.Path(path_type=Path))
def tracing_command(
    board: str, matrix: str, cells: str | None, image: Path | None, out: Path
) -> None:
    """Boot with a trace and without: the counts of both must be equal."""
    progress = Progress()
    run = open_run(out, board, matrix, image, "tracing")
    bench = replace(make_bench(run, progress, cells), calibrate=False)
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
    _print(rows, Console())
    click.echo(f"written: {out / 'tracing.json'}")


def _compare(run: RunDir, bench: Bench, progress: Progress) -> list[Row]:
    symbols = read_symbols(run.build("base") / "Image")
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
        found = cut(quiet.folder, read_record(recorded / "record"), symbols, _doorbells(bench))
        return list(_rows(records, found))
    finally:
        shutil.rmtree(recorded, ignore_errors=True)


def _quiet(run: RunDir, bench: Bench, symbols: Symbols, recorded: Path) -> BootPlan:
    """The boot without events, of which each instruction is recorded."""
    matrix = bench.matrix.model_copy(update={"events": {"common": [NEVER]}, "kprobes": {}})
    other = RunDir(run.root / "untraced")
    plan = plan_boot(other, replace(bench, matrix=matrix), "base", 1)
    words = plugin_words(recorded / "record", probes(symbols), None)
    return replace(plan, kernel=run.build("base") / "Image", words=words)


def _doorbells(bench: Bench) -> set[str]:
    """The functions whose return is the hand-over: ``r:GROUP/EVENT FUNCTION``."""
    return {probe.split()[-1] for several in bench.matrix.kprobes.values() for probe in several}


def _rows(
    records: Mapping[str, CellRecord], found: Mapping[str, Mapping[Section, list[int]]]
) -> Iterator[Row]:
    for cell, record in records.items():
        order = record.in_order
        for section in CUT:
            net = [n for n in order.sections[section] if n] if order else []
            other = found.get(cell, {}).get(section, [])
            if net and other:
                yield Row(cell, section.value, median_low(net), median_low(other), len(net))


# ---------------------------------------------------------------- cuts of the untraced boot


def _points(symbols: Symbols, doorbells: set[str]) -> dict[int, str]:
    """Addresses behind which an I/O reaches something, and what: of an untraced kernel."""
    points = {
        site + _SIZE: what
        for event, what in _EVENTS.items()
        for site in tracing_code(symbols).sites.get(event, ())
    }
    for name in symbols.names:
        if name.partition(".")[0] == _CALL and (span := symbols.span(name)):
            points[span[0]] = "call"
            points |= dict.fromkeys((at + _SIZE for at in symbols.returns(name)), "back")
    for name in doorbells:
        points |= dict.fromkeys((at + _SIZE for at in symbols.returns(name)), "bell")
    return points


def cut(
    folder: Path, record: Record, symbols: Symbols, doorbells: set[str]
) -> dict[str, dict[Section, list[int]]]:
    """Instructions between the points of each I/O, by cell and section."""
    inside = _inside(record, _points(symbols, doorbells))
    wanted = np.zeros(len(record.blocks), np.bool_)
    wanted[list(inside)] = True
    reached: list[tuple[int, int, str]] = []
    executed = 0
    for low in range(0, len(record.runs), _CHUNK):
        blocks, counts = record.unpack(low, min(low + _CHUNK, len(record.runs)))
        done = np.cumsum(counts) - counts + executed
        for place in np.flatnonzero(wanted[blocks]).tolist():
            for offset, what in inside[int(blocks[place])]:
                if offset <= counts[place]:
                    reached.append((low + place, int(done[place]) + offset, what))
        executed = int(done[-1] + counts[-1])
    runs = np.array([run for run, _, _ in reached])
    found = {}
    for cell, (first, last) in _windows(folder, record).items():
        low, high = np.searchsorted(runs, [first, last]).tolist()
        found[cell] = _sections(reached[low:high])
    return found


def _inside(record: Record, points: Mapping[int, str]) -> dict[int, list[tuple[int, str]]]:
    """The points in each block, in instructions from its beginning; behind a return at its end."""
    first = record.blocks["address"].astype(np.uint64)
    size = record.blocks["instructions"].astype(np.uint64)
    found: dict[int, list[tuple[int, str]]] = {}
    for address, what in sorted(points.items()):
        offset = (np.uint64(address) - first) // np.uint64(_SIZE)
        here = first <= np.uint64(address)
        here &= offset == size if what in ("back", "bell") else offset < size
        for block in np.flatnonzero(here).tolist():
            found.setdefault(block, []).append((int(offset[block]), what))
    return found


def _sections(reached: Sequence[tuple[int, int, str]]) -> dict[Section, list[int]]:
    """The first request's way of each call that reaches the block layer."""
    found: dict[Section, list[int]] = {section: [] for section in CUT}
    known: dict[str, int] = {}
    for _, executed, what in reached:
        if what == "call":
            known = {what: executed}
        elif what == "irq":
            known |= {what: executed} if "bell" in known and "done" not in known else {}
        elif what not in known and known.keys() >= _BEFORE.get(what, set()):
            known[what] = executed
        if what == "back":
            pairs = (("call", "bio"), ("bio", "bell"), ("irq", "done"))
            for section, (begin, end) in zip(CUT, pairs, strict=True):
                if end in known:
                    found[section].append(known[end] - known[begin])
            known = {}
    return found


_BEFORE = {"bio": {"call"}, "bell": {"bio"}, "done": {"irq"}, "back": {"call"}}
"""What an I/O has reached before."""


def _windows(folder: Path, record: Record) -> dict[str, tuple[int, int]]:
    """The runs of each cell: from its mark to the next one, of whichever trace."""
    windows = [w for path in folder.glob("*/trace.dat") for w in BootTraceFile(path).windows]
    windows.sort(key=lambda window: window.start)
    marks = record.at(np.array([window.start for window in windows], np.int64))
    if (marks < 0).any():
        raise InfrastructureError(f"{folder}: a cell's mark is not in the record")
    runs = [*record.clock["run"].astype(np.int64)[marks].tolist(), len(record.runs)]
    return {w.name: (runs[n], runs[n + 1]) for n, w in enumerate(windows)}


def _print(rows: Sequence[Row], console: Console) -> None:
    table = Table(Column("cell", no_wrap=True), *(section.value for section in CUT))
    for cell in dict.fromkeys(row.cell for row in rows):
        mine = {row.section: row for row in rows if row.cell == cell}
        values = [_shown(mine.get(section.value)) for section in CUT]
        table.add_row(cell, *values)
    console.print(table)
    equal = sum(abs(row.net - row.untraced) <= 2 for row in rows)
    console.print(f"{equal} of {len(rows)} medians differ by 2 instructions at most")


def _shown(row: Row | None) -> str:
    if row is None:
        return "-"
    difference = row.net - row.untraced
    return f"{row.net} / {row.untraced}" + (f" ({difference:+})" if difference else "")
