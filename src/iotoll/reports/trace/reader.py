"""Reads a user's trace: per cell the record, the table of its I/Os, and what names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from iotoll.boots.job import is_calibration
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.measure.boot_trace import BootTraceFile, Measured, Window, make_record, measure
from iotoll.measure.fio import FioJob, read_jobs
from iotoll.measure.iotable import IoTable
from iotoll.records.models import CellRecord, Clock
from iotoll.reports.trace.filters import Filters, resolve_device


@dataclass(frozen=True)
class TraceCell:
    """One cell of a trace (or all of a trace without markers), after the filters."""

    trace: Path
    record: CellRecord
    table: IoTable
    tasks: Mapping[int, str]

    def task(self, pid: int) -> str:
        """Name of a task; ``?`` where the trace does not know it."""
        return self.tasks.get(pid, "?")

    @property
    def dev(self) -> str:
        """The device that the analyser measured, as major:minor."""
        return self.record.device.get("dev", "")


def load(trace: Path, clock: Clock, filters: Filters, fio: Path | None = None) -> list[TraceCell]:
    """Read one trace; raises UsageError for what is wrong with the words or the file."""
    file = BootTraceFile(trace)
    try:
        if file.is_blktrace and fio:
            raise UsageError(f"--fio: {trace} is a blktrace run, which records no system calls")
        device = resolve_device(filters.device, trace)
        first, _ = file.outline
        jobs: Mapping[str, FioJob] = read_jobs(fio) if fio else {}
        begin, end = filters.span(first or 0)
        digest = file.digest
        parts = file.windows or [Window(file.name, 0, 2**63)]
        parts = [w for w in parts if not is_calibration(w.name)]
        if fio:
            jobs = _named(jobs, [w.name for w in parts], fio)
        inside = [Window(w.name, max(w.start, begin), min(w.end, end)) for w in parts]
        inside = [w for w in inside if w.start < w.end]
        found = measure(file, inside, clock, **filters.options(device))
        return [_cell(measured, clock, filters, jobs, digest) for measured in found]
    except InfrastructureError as error:
        raise UsageError(str(error)) from error


def _named(jobs: Mapping[str, FioJob], names: list[str], path: Path) -> Mapping[str, FioJob]:
    """A single job belongs to a single cell whatever the two are called."""
    if len(jobs) == 1 and len(names) == 1:
        return {names[0]: next(iter(jobs.values()))}
    if not set(jobs) & set(names):
        raise UsageError(f"--fio {path}: none of its jobs is called like a cell: {names[0]}")
    return jobs


def _cell(
    measured: Measured,
    clock: Clock,
    filters: Filters,
    jobs: Mapping[str, FioJob],
    digest: str,
) -> TraceCell:
    record = make_record(measured, jobs, clock, digest)
    record = record.model_copy(update={"filters": filters.described()})
    _, tasks = measured.file.outline
    return TraceCell(measured.file.path, record, measured.table, tasks)
