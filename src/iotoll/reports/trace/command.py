"""``iotoll analyze``: words in, tables and files out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from iotoll.core.errors import UsageError
from iotoll.core.paths import check_target
from iotoll.measure.iotable import IoTable
from iotoll.records.models import Clock
from iotoll.records.text import clean, plural
from iotoll.reports.trace.blocks import Rows
from iotoll.reports.trace.compare import compared, paired, print_compared, write_shares
from iotoll.reports.trace.filters import DIRECTIONS, Filters, parse_size
from iotoll.reports.trace.missing import incomplete
from iotoll.reports.trace.reader import TraceCell, Wants, in_ticks, load
from iotoll.reports.trace.slowest import print_slow_requests, print_slowest, slowest
from iotoll.reports.trace.table import print_cell

if TYPE_CHECKING:
    from iotoll.reports.trace.parquet import RowFile

_FILE = click.Path(path_type=Path, dir_okay=False)
_TRACE = click.Path(path_type=Path)
_NAMED = 12
INCOMPLETE = 3
"""Exit code where something is missing that a cell's figures need (docs/reference)."""


@click.command("analyze")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=_TRACE)
@click.option(
    "--clock",
    type=click.Choice([c.value for c in Clock]),
    default="time",
    show_default=True,
    help="instructions: one tick is one guest instruction.",
)
@click.option(
    "--device",
    metavar="MAJ:MIN|NAME",
    help="Only this disk, partition, or device on others (dm, md, multipath). Default: the "
    "busiest one.",
)
@click.option("--comm", help="Only I/Os of tasks with this name.")
@click.option(
    "--pid",
    "pids",
    type=click.IntRange(0, 1 << 22),  # Linux' largest
    multiple=True,
    help="Only this thread; repeatable.",
)
@click.option(
    "--window",
    nargs=2,
    metavar="FROM TO",
    help="Only events in these seconds of the trace clock; +S counts from the first event.",
)
@click.option(
    "--direction", "directions", type=click.Choice(DIRECTIONS), multiple=True, help="Repeatable."
)
@click.option(
    "--min-size", metavar="BYTES", help="Only I/Os of at least this size in bytes (4k, 1M)."
)
@click.option("--max-size", metavar="BYTES", help="Only I/Os of at most this size in bytes.")
@click.option(
    "--fio", type=_FILE, help="fio's JSON output of the same run, to compare the values with."
)
@click.option(
    "--slowest",
    "count",
    type=click.IntRange(1, 1000),
    help="Print the N slowest I/Os with all their events.",
)
@click.option("--parquet", "--ios", type=_FILE, help="Write one row per I/O as Parquet.")
@click.option(
    "--requests",
    type=_FILE,
    help="Write one row per request, and per bio of devices without requests, as Parquet.",
)
@click.option("--perfetto", type=_FILE, help="Write a trace for https://ui.perfetto.dev.")
@click.option(
    "--svg",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write pictures into this folder: distribution and timeline of each cell.",
)
@click.option(
    "--compare",
    "comparing",
    is_flag=True,
    help="Show the sections of two TRACEs side by side, with their shares of the I/O.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the records as JSON on stdout.")
@click.option("--quiet", is_flag=True, help="Print no table, only what other options ask for.")
def analyze_command(traces: tuple[Path, ...], **options: Any) -> None:
    """Cut the I/Os of traces into latency sections, and show or export them.

    A TRACE is a trace.dat; the name of a blktrace run, which is what stands before .blktrace.0,
    or a file of `blkparse -d`; a perf.data, a Perfetto trace, or the text of ftrace, trace-cmd
    report, perf script or systrace. It may be packed by gzip, xz, zstd, bzip2 or lz4.

    The exit code is 3 where a cell is invalid, where completions are missing (a filter by PID, -e
    without them), and where events are lost: the table says which.
    """
    filters = _checked(traces, options)
    clock = Clock(options["clock"])
    with _row_files(options) as files:
        wants = Wants(
            whole=bool(options["perfetto"]),
            some=bool(options["svg"]),
            slowest=options["count"] or 0,
            take_ios=files.ios if options["parquet"] else None,
            take_rows=files.blocks if options["requests"] else None,
        )
        cells = [
            cell for trace in traces for cell in load(trace, clock, filters, options["fio"], wants)
        ]
        _some_left(cells, filters)
        files.write(cells)
    if options["perfetto"] and any(in_ticks(cell) for cell in cells):
        raise UsageError(
            f"--perfetto: the times of {traces[0]} are ticks of unknown length, and Perfetto's are "
            "ns: record with `trace-cmd record -C mono`"
        )
    cells = _with_slowest(cells, options["count"])
    _files(cells, options)
    if options["comparing"]:
        _compare(cells, traces, options)
    else:
        _show(cells, options["as_json"], options["quiet"], options["count"])
    if any(incomplete(cell.record) for cell in cells):
        raise SystemExit(INCOMPLETE)


def _checked(traces: Sequence[Path], options: Mapping[str, Any]) -> Filters:
    """The filters that the options ask for; raises UsageError for options that do not fit."""
    filters = Filters(
        device=options["device"],
        comm=options["comm"],
        pids=options["pids"],
        window=options["window"] or None,
        directions=options["directions"],
        min_size=parse_size("--min-size", options["min_size"]),
        max_size=parse_size("--max-size", options["max_size"]),
    )
    if len(traces) > 1 and (options["perfetto"] or options["fio"]):
        raise UsageError("--perfetto and --fio take one TRACE: clocks of several do not mix")
    if options["comparing"] and len(traces) != 2:
        raise UsageError("--compare: name two TRACEs")
    cut = sorted(set(filters.described()) - {"--comm", "--device"})
    if options["fio"] and cut:
        raise UsageError(f"--fio compares whole cells: leave out {cut[0]}")
    for option in ("parquet", "requests", "perfetto"):
        if target := options[option]:
            _check_target(f"--{option}", target)
    if (folder := options["svg"]) and folder.exists() and not folder.is_dir():
        raise UsageError(f"--svg {folder}: is a file: name a folder")
    return filters


class _RowFiles:
    """The files whose rows are written while the traces are read."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.made: dict[str, RowFile] = {}

    def _file(self, option: str) -> RowFile:
        # Loaded only here: the library takes longer to start than a small trace to read.
        from iotoll.reports.trace.parquet import RowFile

        if option not in self.made:
            self.made[option] = RowFile(self.options[option])
        return self.made[option]

    def ios(self, cell: TraceCell, table: IoTable) -> None:
        """Add some I/Os."""
        from iotoll.reports.trace.parquet import frame

        self._file("parquet").add(frame(cell, table))

    def blocks(self, cell: TraceCell, rows: Rows) -> None:
        """Add some requests and bios."""
        from iotoll.reports.trace.parquet import block_frame

        self._file("requests").add(block_frame(cell, rows))

    def write(self, cells: list[TraceCell]) -> None:
        """End the files."""
        for option in (o for o in ("parquet", "requests") if self.options[o]):
            from iotoll.reports.trace.parquet import BLOCKS, FORMAT, metadata_of

            file = self._file(option)
            file.write(metadata_of(cells, BLOCKS if option == "requests" else FORMAT))
            click.echo(f"wrote {file.path}: {plural(file.rows, 'row')}", err=True)


@contextmanager
def _row_files(options: dict[str, Any]) -> Iterator[_RowFiles]:
    files = _RowFiles(options)
    try:
        yield files
    finally:
        for file in files.made.values():
            file.discard()


def _compare(cells: list[TraceCell], traces: tuple[Path, ...], options: dict[str, Any]) -> None:
    """Show cells of the first trace beside those of the second."""
    before, after = ([c.record for c in cells if c.trace == trace] for trace in traces)
    if traces[0] == traces[1]:
        before = after = before[: len(before) // 2]
    found = [compared(*pair) for pair in paired(before, after, traces)]
    if folder := options["svg"]:
        for one in found:
            click.echo(f"wrote {write_shares(one, folder)}", err=True)
    if options["as_json"]:
        click.echo(json.dumps(found, indent=1, sort_keys=True))
    elif not options["quiet"]:
        for one in found:
            print_compared(one, traces, Console())


def _check_target(option: str, target: Path) -> None:
    """Raise UsageError where no file can be written, before a long trace is read."""
    if not target.name:
        raise UsageError(f"{option}: name a file")
    check_target(target)
    folder = target.resolve().parent
    if not folder.is_dir():
        raise UsageError(f"{option} {target}: folder {target.parent} does not exist")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{option} {target}: folder {target.parent} may not be written")


def _some_left(cells: list[TraceCell], filters: Filters) -> None:
    """Raise UsageError where no I/O is of the tasks asked for: most likely a mistyped name."""
    given = filters.described()
    if not (filters.comm or filters.pids) or any(
        cell.count or (cell.record.blocks or {}).get("devices") for cell in cells
    ):
        return
    words = " ".join(f"{option} {clean(value)}" for option, value in given.items())
    named = sorted({clean(task) for cell in cells for task in cell.tasks.values()})
    known = ""
    if filters.comm and filters.comm not in {t for cell in cells for t in cell.tasks.values()}:
        known = f"; tasks in the trace: {', '.join(named[:_NAMED])}"
        known += f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    raise UsageError(f"{words}: no I/O of the trace fits{known}")


def _with_slowest(cells: list[TraceCell], count: int | None) -> list[TraceCell]:
    if count is None:
        return cells
    return [
        replace(c, record=c.record.model_copy(update={"slowest": slowest(c, count)})) for c in cells
    ]


def _files(cells: list[TraceCell], options: dict[str, Any]) -> None:
    written: list[Path] = []
    if target := options["perfetto"]:
        from iotoll.core.progress import Progress
        from iotoll.reports.trace.perfetto import write_perfetto

        write_perfetto(cells, target, Progress(quiet=options["quiet"]))
        written.append(target)
    if folder := options["svg"]:
        from iotoll.reports.trace.plots import write_figures

        written += [path for cell in cells for path in write_figures(cell, folder)]
    for path in written:
        click.echo(f"wrote {path}", err=True)


def _show(cells: list[TraceCell], as_json: bool, quiet: bool, slowest_asked: int | None) -> None:
    if as_json:
        records = [c.record.model_dump(mode="json", exclude_none=True) for c in cells]
        click.echo(json.dumps(records, indent=1, sort_keys=True))
        return
    console = Console()
    for cell in cells:
        if not quiet:
            print_cell(cell.record, console)
        if cell.record.slowest:
            print_slowest(cell, cell.record.slowest, console)
        if slowest_asked:
            print_slow_requests(cell, slowest_asked, console)
        if not quiet:
            console.print()
