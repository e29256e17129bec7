"""Reads a user's trace: per cell the record, the table of its I/Os, and what names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from iotoll import _native
from iotoll.boots.job import is_calibration
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.measure.boot_trace import BootTraceFile, Measured, Window, make_record, measure
from iotoll.measure.fio import FioJob, joined, read_jobs
from iotoll.measure.iotable import IoTable, from_native
from iotoll.measure.iotable import joined as joined_tables
from iotoll.measure.substeps import StepSums
from iotoll.records.models import CellRecord, Clock, Unit
from iotoll.reports.trace import missing
from iotoll.reports.trace.blocks import InFlight, Rows, read_blocks
from iotoll.reports.trace.filters import Filters, resolve_device


@dataclass(frozen=True)
class TraceCell:
    """One cell of a trace (or all of a trace without markers), after the filters."""

    file: BootTraceFile
    record: CellRecord
    table: IoTable
    tasks: Mapping[int, str]
    slow: Rows | None = None
    """The slowest requests and bios, slowest first."""
    in_flight: tuple[Counter[int], ...] = ()
    """Of each of them: the tasks of the requests that were at the device when it was issued."""
    ios: int = -1
    """I/Os of the cell, of which ``table`` has the first ones, or none; -1: all of them."""
    sample: IoTable | None = None
    """Some of all I/Os, evenly chosen, where ``table`` has not all of them."""
    longest: IoTable | None = None
    """The slowest I/Os, where ``table`` has not all of them."""

    @property
    def count(self) -> int:
        """How many I/Os it has."""
        return len(self.table) if self.ios < 0 else self.ios

    @property
    def trace(self) -> Path:
        """The file that the user named."""
        return self.file.path

    def task(self, pid: int) -> str:
        """Name of a task; ``?`` where the trace does not know it."""
        return self.tasks.get(pid, "?")

    @property
    def dev(self) -> str:
        """The device that the analyser measured, as major:minor."""
        return self.record.device.get("dev", "")


def open_trace(trace: Path) -> BootTraceFile:
    """Open what a user names: a trace.dat, blktrace's files, or a recording of another format.

    Raises UsageError that says what the file is, where it is none of them.
    """
    if trace.is_dir():
        lttng = (trace / "metadata").is_file()
        what = "a folder of an LTTng trace (CTF), which is not read" if lttng else "a folder"
        raise UsageError(f"{trace}: is {what}; name a file, or a blktrace run")
    if not trace.is_file():
        return BootTraceFile(trace)
    try:
        return BootTraceFile(trace, _native.open_recording(str(trace)))
    except _native.TraceError as error:
        raise UsageError(str(error)) from error


@dataclass(frozen=True)
class Wants:
    """What is asked for beside the table.

    ``whole``: all I/Os at once, in memory; ``some``: the first ones, and some evenly chosen;
    ``slowest``: so many; ``take_ios`` and ``take_rows`` get the I/Os, and the requests and bios, in
    batches.
    """

    whole: bool = True
    some: bool = False
    slowest: int = 0
    take_ios: Callable[[TraceCell, IoTable], None] | None = None
    take_rows: Callable[[TraceCell, Rows], None] | None = None


ALL = Wants()


def load(
    trace: Path,
    clock: Clock,
    filters: Filters,
    fio: Path | None = None,
    wants: Wants = ALL,
) -> list[TraceCell]:
    """Read one trace; raises UsageError for what is wrong with the words or the file."""
    file = open_trace(trace)
    try:
        if file.is_blktrace and fio:
            raise UsageError(f"--fio: {trace} is a blktrace run, which records no system calls")
        device = resolve_device(filters.device, trace)
        first, _ = file.outline
        _check_clock(file, clock, filters, fio)
        begin, end = filters.span(first or 0)
        digest = file.digest
        parts = file.windows or [Window(file.name, 0, 2**63)]
        parts = [w for w in parts if not is_calibration(w.name)]
        jobs = _jobs(fio, [w.name for w in parts]) if fio else {}
        inside = [Window(w.name, max(w.start, begin), min(w.end, end)) for w in parts]
        inside = [w for w in inside if w.start < w.end]
        options = filters.options(device)
        # The board's clock and fio's figures are of all I/Os.
        whole = wants.whole or bool(fio) or clock is Clock.INSTRUCTIONS
        if not whole:
            options["keep_ios"] = False
        found = measure(file, inside, clock, **options)
        options.pop("keep_ios", None)
        cells = [_cell(measured, clock, filters, jobs, digest) for measured in found]
        cells = with_blocks(file, inside, cells, options, wants)
        _some_there(cells, filters)
        if not whole:
            return streamed(file, inside, cells, options, wants)
        for cell in cells:
            if wants.take_ios:
                wants.take_ios(cell, cell.table)
        return cells
    except InfrastructureError as error:
        # The message itself says whether the file is damaged, or something else.
        raise UsageError(str(error).removeprefix("corrupt trace: ")) from error


def _some_there(cells: Sequence[TraceCell], filters: Filters) -> None:
    """Raise UsageError where nothing of the trace is on the device that was asked for."""
    if filters.device is None or any(_seen(cell) for cell in cells):
        return
    whole = {device for cell in cells for device in _devices(cell)}
    known = f"; it has {', '.join(sorted(whole))}" if whole else ""
    raise UsageError(
        f"--device {filters.device}: no request or bio of the trace is on it{known}"
        " (a partition shows only by block_bio_remap)"
    )


def _seen(cell: TraceCell) -> bool:
    return bool((cell.record.blocks or {}).get("devices")) or cell.record.total.elapsed.count > 0


def _devices(cell: TraceCell) -> list[str]:
    spans = [Window(cell.record.cell, 0, 2**63)]
    ((sums, _),) = read_blocks(cell.file, spans)
    parts = [part for part, _ in sums["partitions"]]
    return [device["dev"] for device in sums["devices"]] + parts


def _check_clock(file: BootTraceFile, clock: Clock, filters: Filters, fio: Path | None) -> None:
    """Raise UsageError where ns are promised, and the trace's clock counts something else."""
    with file.reading():
        ticks = _native.ticks(str(file.data))
    if ticks is None:
        return
    options = {
        "--clock instructions": clock is Clock.INSTRUCTIONS,
        "--window": filters.window,
        "--fio": fio,
    }
    for option, given in options.items():
        if given:
            raise UsageError(
                f"{option}: the times of {file.path} are ticks of the trace clock {ticks}, and it "
                "does not say how long one is: record with `trace-cmd record -C mono`"
            )


def _jobs(path: Path, names: list[str]) -> Mapping[str, FioJob]:
    """fio's jobs by the cell that they belong to.

    A trace of one cell has all of them, whatever they are called.
    """
    jobs = read_jobs(path)
    if set(jobs) & set(names):
        return jobs
    if len(names) == 1 and jobs:
        return {names[0]: joined(names[0], list(jobs.values()))}
    raise UsageError(f"--fio {path}: none of its jobs is called like a cell: {names[0]}")


def _cell(
    measured: Measured,
    clock: Clock,
    filters: Filters,
    jobs: Mapping[str, FioJob],
    digest: str,
) -> TraceCell:
    file = measured.file
    record = make_record(measured, jobs, clock, digest)
    trace = record.trace | about(file)
    record = record.model_copy(update={"filters": filters.described(), "trace": trace})
    _, tasks = file.outline
    return TraceCell(file, record, measured.table, tasks)


def about(file: BootTraceFile) -> dict[str, Any]:
    """What a recording was before it became a trace.dat, for its record."""
    found = file.recording
    if found is None:
        return {}
    told = {
        "format": found.format,
        "packing": found.packing,
        "resolution_ns": found.resolution if found.resolution > 1 else None,
        "notes": found.notes,
    }
    return {name: value for name, value in told.items() if value}


def in_ticks(cell: TraceCell) -> bool:
    """Whether the times of a cell are ticks that nothing tells the length of."""
    return cell.record.unit is Unit.TICKS


NO_IO = "no I/O reached the device"

KEPT = 1 << 14
"""I/Os that are kept of a cell, of however many."""


class Flow:
    """What is kept of the I/Os of a cell while they pass by."""

    def __init__(self, cell: TraceCell, wants: Wants) -> None:
        self.cell, self.wants = cell, wants
        self.steps = StepSums(bounded=True)
        self.first: list[IoTable] = []
        self.sample: list[IoTable] = []
        self.every, self.ios = 1, 0
        self.longest: IoTable | None = None

    def take(self, table: IoTable) -> None:
        """Take some I/Os."""
        self.steps.add(table)
        if self.wants.some:
            self._choose(table)
        self.ios += len(table)
        if self.wants.slowest:
            both = [table] if self.longest is None else [self.longest, table]
            together = joined_tables(both)
            order = np.argsort(-together.duration, kind="stable")[: self.wants.slowest]
            self.longest = together.take(np.sort(order))

    def _choose(self, table: IoTable) -> None:
        kept = sum(len(part) for part in self.first)
        if kept < KEPT:
            self.first.append(table.take(np.arange(min(len(table), KEPT - kept))))
        # Every nth I/O, and with twice as many of them, only every second of those.
        places = np.arange(-self.ios % self.every, len(table), self.every)
        self.sample.append(table.take(places))
        if sum(len(part) for part in self.sample) > KEPT:
            all_ = joined_tables(self.sample)
            self.sample = [all_.take(np.arange(0, len(all_), 2))]
            self.every *= 2

    def end(self) -> TraceCell:
        """The cell with what was kept."""
        table = joined_tables(self.first) if self.first else self.cell.table
        record = self.cell.record.model_copy(update={"steps": self.steps.records()})
        cell = replace(self.cell, record=record, table=table)
        if self.ios <= len(table):
            return cell
        sample = joined_tables(self.sample) if self.sample else None
        return replace(cell, ios=self.ios, sample=sample, longest=self.longest)


def streamed(
    file: BootTraceFile,
    windows: Sequence[Window],
    cells: Sequence[TraceCell],
    options: _native.Options,
    wants: Wants,
) -> list[TraceCell]:
    """Read the I/Os of the cells, one batch after the other: memory does not grow with them."""
    flows = [Flow(cell, wants) for cell in cells]
    all_columns = wants.some or wants.slowest or wants.take_ios
    if any(cell.record.total.elapsed.count for cell in cells):

        def take(window: int, raw: Mapping[str, Any]) -> None:
            table = from_native(raw).without(cells[window].record.not_in_source)
            flows[window].take(table)
            if wants.take_ios:
                wants.take_ios(flows[window].cell, table)

        wishes = [
            (w.start, w.end, c.dev or None, not (c.record.own_unknown or file.is_blktrace))
            for w, c in zip(windows, cells, strict=True)
        ]
        with file.reading():
            columns = None if all_columns else StepSums.COLUMNS
            _native.stream(str(file.data), wishes, take, columns=columns, **options)
    return [flow.end() for flow in flows]


def with_blocks(
    file: BootTraceFile,
    windows: Sequence[Window],
    cells: Sequence[TraceCell],
    options: _native.Options,
    wants: Wants,
) -> list[TraceCell]:
    """Add the requests and bios of each cell, and leave out what its events cannot tell."""
    chosen: _native.Options = {
        "device": options.get("device"),
        "comm": options.get("comm"),
        "pids": options.get("pids"),
        "directions": options.get("directions"),
        "min_size": options.get("min_size"),
        "max_size": options.get("max_size"),
    }
    given = wants.take_rows
    take = (lambda window, rows: given(cells[window], rows)) if given else None
    found = read_blocks(file, windows, max(wants.slowest, SHOWN), take, **chosen)
    in_flight = InFlight([slow for _, slow in found])
    if wants.slowest:
        read_blocks(file, windows, 0, in_flight.take, **chosen)
    made = []
    for place, (cell, (sums, slow)) in enumerate(zip(cells, found, strict=True)):
        record = cell.record
        update: dict[str, Any] = {"blocks": sums, "warnings": missing.warnings(record, sums)}
        if record.invalid == NO_IO and sums["devices"] and not record.ios["dropped_lost"]:
            update["invalid"] = None
        record = missing.pruned(record.model_copy(update=update), sums)
        gone = [s for s in record.not_in_source if s not in cell.record.not_in_source]
        made.append(
            replace(
                cell,
                record=record,
                table=cell.table.without(gone),
                slow=slow,
                in_flight=tuple(in_flight.found[place]),
            )
        )
    return made


SHOWN = 12
"""Slow requests that a picture shows."""
