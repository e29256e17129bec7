"""Reads a user's trace: per cell the record, the table of its I/Os, and what names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iotoll import _native
from iotoll.boots.job import is_calibration
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.measure.boot_trace import BootTraceFile, Measured, Window, make_record, measure
from iotoll.measure.fio import FioJob, joined, read_jobs
from iotoll.measure.iotable import IoTable
from iotoll.records.models import CellRecord, Clock, Unit
from iotoll.reports.trace.filters import Filters, resolve_device


@dataclass(frozen=True)
class TraceCell:
    """One cell of a trace (or all of a trace without markers), after the filters."""

    file: BootTraceFile
    record: CellRecord
    table: IoTable
    tasks: Mapping[int, str]

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
    if not trace.is_file():
        return BootTraceFile(trace)
    try:
        return BootTraceFile(trace, _native.open_recording(str(trace)))
    except _native.TraceError as error:
        raise UsageError(str(error)) from error


def load(trace: Path, clock: Clock, filters: Filters, fio: Path | None = None) -> list[TraceCell]:
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
        found = measure(file, inside, clock, **filters.options(device))
        return [_cell(measured, clock, filters, jobs, digest) for measured in found]
    except InfrastructureError as error:
        raise UsageError(str(error)) from error


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
