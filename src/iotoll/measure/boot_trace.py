"""The steps *collect* and *analyze*: the traces of a boot become one checked record per cell."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from iotoll import _native
from iotoll.boards.cells import parse_cell
from iotoll.boards.plugin import TRACING
from iotoll.boards.qemu import TURNS
from iotoll.boots.job import is_calibration
from iotoll.core.digest import file_sha256, files_sha256
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.measure.calibrate import event_costs
from iotoll.measure.elements import AFFECTED, ElementCounter
from iotoll.measure.fio import FioJob, read_jobs
from iotoll.measure.fio_choice import Calls
from iotoll.measure.io_order import GATE_COLUMNS, ordered
from iotoll.measure.iotable import IoTable, from_native
from iotoll.measure.load_ran import other_load
from iotoll.measure.reconcile import TOLERANCES, reconcile, reconcile_without_calls
from iotoll.measure.substeps import steps
from iotoll.measure.windows import read_windows
from iotoll.measure.work import read_work
from iotoll.records.models import BootRecord, CellRecord, Clock, Section, SectionRecord

if TYPE_CHECKING:
    from iotoll._native import Options

MARKER = "iotoll cell "
COMM = "fio"
Ints = npt.NDArray[np.int64]

CALLS = "calls"
"""Fact of a board (lava-jobs/dut/facts.sh): what marks I/Os where system calls have no events."""
LOSS_LIMIT = 0.001  # dropped I/Os per I/O; above it a cell is invalid, not fast


@dataclass(frozen=True)
class Window:
    """One run (cell or calibration) in the trace of a batch: half-open, in trace clock units."""

    name: str
    start: int
    end: int


class BootTraceFile:
    """A trace, of which each thing is read once. Raises InfrastructureError when it is corrupt."""

    def __init__(self, path: Path, recording: _native.Recording | None = None) -> None:
        """``recording`` is the trace.dat that a file of another format became."""
        self.path = path
        self.recording = recording

    @property
    def data(self) -> Path:
        """Where the trace is read: ``path``, or the trace.dat that it became."""
        return self.recording.path if self.recording else self.path

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turns what the native reader says into an InfrastructureError that names the file."""
        try:
            yield
        except _native.TraceError as error:
            text = str(error).replace(str(self.data), str(self.path))
            raise InfrastructureError(f"corrupt trace: {text}") from error

    @cached_property
    def parts(self) -> list[Path]:
        """The files that it consists of: itself, or one for each CPU of a blktrace run.

        Raises UsageError when they are not there.
        """
        if self.recording:
            return [self.path]
        try:
            return _native.files(str(self.path))
        except _native.TraceError as error:
            raise UsageError(str(error)) from error

    @property
    def is_blktrace(self) -> bool:
        """Whether it is a blktrace run: block events alone."""
        return self.parts != [self.path] or _native.is_blktrace(str(self.data))

    @property
    def name(self) -> str:
        """What it is called: a file's name without ending, or the name of a run."""
        if self.parts != [self.path]:
            return self.path.name.partition(".blktrace.")[0]
        name = self.path.name
        packing = self.recording.packing if self.recording else None
        return Path(name).stem if packing is None else Path(Path(name).stem).stem

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the trace; of a blktrace run, over its files."""
        if self.parts != [self.path]:
            return files_sha256(self.parts, self.path.parent)
        return file_sha256(self.path)

    @cached_property
    def outline(self) -> tuple[int | None, Mapping[int, str]]:
        """Time of the first event, and the tasks' names by thread number."""
        with self.reading():
            return _native.outline(str(self.data))

    @cached_property
    def calls(self) -> list[tuple[str, int, int, int, int]]:
        """The calls that read, write or flush: name, pid, start, end, what each returned."""
        with self.reading():
            return _native.calls(str(self.data))

    @cached_property
    def windows(self) -> list[Window]:
        """The runs of a batch, in order; the trace's markers say where each begins."""
        with self.reading():
            marks = [
                (t, m.removeprefix(MARKER))
                for t, m in _native.markers(str(self.data))
                if m.startswith(MARKER)
            ]
        ends = [t for t, _ in marks[1:]] + [2**63]  # one too many where there are no marks
        return [Window(name, t, end) for (t, name), end in zip(marks, ends, strict=False)]


def analyze_boot(
    folder: Path, boot: BootRecord, affected: Collection[str] = ()
) -> tuple[dict[str, CellRecord], dict[str, float]]:
    """Analyse all batches of a boot; returns the cells' records and the events' calibrated costs.

    ``affected`` are functions whose instructions are counted separately as well. Costs are empty
    when the boot ran no calibration. Raises InfrastructureError when a trace is corrupt or a cell
    of ``boot.cells`` is missing: partial results never pass.
    """
    devices = _devices(folder / "boot/devices")
    files = [BootTraceFile(path) for path in sorted(folder.glob("*/trace.dat"))]
    fio = _jobs(folder, boot, files)
    virtual = boot.accelerator in ("tcg", "kvm")
    tracing = folder / TRACING if (folder / TRACING).is_file() else None
    # It has what each CPU executed itself, to the instruction.
    turns = folder / TURNS if (folder / TURNS).is_file() and not tracing else None
    recording = Recording.read(tracing) if tracing else None
    windows = read_windows(folder)
    elements = ElementCounter(windows, affected) if windows else None
    records: dict[str, CellRecord] = {}
    calibration = {}
    for file in files:
        for device, runs in groupby(file.windows, lambda window: _device(devices, window, folder)):
            options: Options = {"device": device, "comm": COMM, "turns": turns, "tracing": tracing}
            options["without_calls"] = boot.facts.before.get(CALLS) == "iomap"
            every = list(measure(file, list(runs), boot.clock, **options))
            for measured in every:
                name = measured.window.name
                if is_calibration(name):
                    calibration[name] = (measured.data, measured.table.columns)
                elif name in boot.cells:
                    record = make_record(measured, fio, boot.clock, file.digest, virtual, recording)
                    cell = parse_cell(name)
                    why = record.invalid or other_load(cell, measured.table)
                    span = _span(measured.table) if cell.depth > 1 else None
                    records[name] = record.model_copy(update={"invalid": why, "span": span})
            if elements:
                known = [m for m in every if m.window.name in records and len(m.table)]
                for name, counted in _counted(elements, device, known).items():
                    records[name] = records[name].model_copy(update=counted)
    in_order = sorted((w for file in files for w in file.windows), key=lambda w: w.start)
    ios = {name: record.ios["seen"] for name, record in records.items()}
    for name, work in read_work(folder, ios, [w.name for w in in_order], windows).items():
        records[name] = records[name].model_copy(update={"work": work})
    return records, event_costs(calibration, boot.clock)


def _jobs(folder: Path, boot: BootRecord, files: Sequence[BootTraceFile]) -> dict[str, FioJob]:
    """fio's jobs by name; raises InfrastructureError where a cell has none, or no trace."""
    fio: dict[str, FioJob] = {}
    for file in files:
        fio.update(read_jobs(file.path.with_name("fio.json")))
    found = {window.name for file in files for window in file.windows}
    missing = [cell for cell in boot.cells if cell not in found or cell not in fio]
    if missing:
        raise InfrastructureError(f"{folder}: the board handed over no trace of {missing[0]}")
    return fio


def _counted(
    elements: ElementCounter, device: str, cells: Sequence[Measured]
) -> dict[str, dict[str, Any]]:
    """The fields of the records of cells of one trace and device that tell other counts."""
    if not cells:
        return {}
    file = cells[0].file
    spans = [(one.window.start, one.window.end) for one in cells]
    tables = [one.table for one in cells]
    with file.reading():
        vectors = elements.of_cells(str(file.data), device, spans, tables, COMM)
    return {
        one.window.name: {"affected": vector.pop(AFFECTED, None), "vector": vector}
        for one, vector in zip(cells, vectors, strict=True)
    }


def corrected(record: CellRecord, costs: Mapping[str, float]) -> CellRecord:
    """The record with medians less the probes' own cost (same unit as the record).

    A section whose probes cost more than its median has no corrected one: the mean I/O has probes
    that the median one has not (journal writes of some I/Os), and nothing tells how many.
    """
    if not costs or record.tracing is not None:
        return record
    sections = {}
    for section, part in record.sections.items():
        if part.own.median is None:
            sections[section] = part
            continue
        probes = sum(n * cost_of(event, costs) for event, n in part.probe_events.items())
        value = round(part.own.median - probes, 1)
        kept = value if value >= 0 else None
        sections[section] = part.model_copy(update={"corrected_median": kept})
    return record.model_copy(update={"sections": sections})


def cost_of(event: str, costs: Mapping[str, float]) -> float:
    """An event's calibrated cost; of a kin event, or the median, when it never fired itself."""
    if event in costs:
        return costs[event]
    kin = [cost for name, cost in costs.items() if name.split("_")[:2] == event.split("_")[:2]]
    known = sorted(kin or costs.values())
    return known[len(known) // 2]


def _devices(path: Path) -> dict[str, str]:
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
        return {row[0]: row[2] for row in rows}
    except (OSError, IndexError, ValueError) as error:
        raise InfrastructureError(f"{path}: the board did not say which disk is which") from error


def disk_of(window: Window) -> str:
    """Which disk of the board a window's I/Os are on: raw ones are on the device's second disk."""
    label = window.name.removeprefix("calibration-").partition("-")[0]
    if not is_calibration(window.name) and parse_cell(window.name).is_raw:
        label += "2"
    return label


def _device(devices: Mapping[str, str], window: Window, folder: Path) -> str:
    label = disk_of(window)
    if label not in devices:
        raise InfrastructureError(f"{folder}: the board did not say which disk {window.name} is on")
    return devices[label]


_BEHIND_DEVICE = frozenset(
    ("at_irq", "at_softirq", "at_driver_done", "at_rq_complete", "at_io_done", "at_dio_complete")
) | {"at_uring_complete", "at_waking", "at_sched_in", "end"}
"""Columns of times at which an I/O's device has done its work."""


@dataclass(frozen=True)
class Recording:
    """What recording the trace of a boot executed: instructions until each of its times, rising."""

    times: Ints
    executed: Ints

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Read what the board counted; raises InfrastructureError when it is damaged."""
        try:
            marks = np.array(_native.tracing(path), np.int64).reshape(-1, 3)
        except _native.TraceError as error:
            raise InfrastructureError(str(error)) from error
        times, executed, _ = marks[np.argsort(marks[:, 0], kind="stable")].T
        return cls(times, executed)

    def without(self, table: IoTable) -> IoTable:
        """The I/Os by a clock that stands still while the trace is recorded.

        It goes on while a request is at the device, which works on: marks behind that are as much
        later. Of several requests the last one's end is right, and the marks between are not used.
        """
        names = [name for name in table.columns if name in ("start", "end") or name[:3] == "at_"]
        found = {name: self._less(table[name]) for name in names}
        length = sum(table[f"elapsed_{section.value}"] for section in table.sections)
        at_device = length - (found["end"] - found["start"])
        found |= {name: found[name] + at_device for name in _BEHIND_DEVICE & found.keys()}
        return IoTable({**table.columns, **found}, len(table))

    def _less(self, times: npt.NDArray[Any]) -> npt.NDArray[Any]:
        place = np.searchsorted(self.times, np.ma.getdata(times), side="right")
        left: npt.NDArray[Any] = times - np.concatenate([[0], self.executed])[place]
        return left


@dataclass(frozen=True)
class Measured:
    """What the analyser says of one window: its record as JSON values, and its I/Os."""

    file: BootTraceFile
    window: Window
    data: dict[str, Any]
    table: IoTable
    comm: str | None
    without_calls: bool = False


def measure(
    file: BootTraceFile, windows: Sequence[Window], clock: Clock, **options: Unpack[Options]
) -> Iterator[Measured]:
    """Run the analyser over windows that follow each other, in one walk over the trace."""
    options["unit"] = "instructions" if clock is Clock.INSTRUCTIONS else "ns"
    options["count_events"] = True  # calibration, on both clocks, needs how many a section has
    spans = [(window.start, window.end) for window in windows]
    with file.reading():
        found = _native.analyze(str(file.data), windows=spans, **options)
    for window, (text, raw) in zip(windows, found, strict=True):
        yield Measured(
            file,
            window,
            json.loads(text),
            from_native(raw),
            options.get("comm"),
            bool(options.get("without_calls")),
        )


def make_record(
    measured: Measured,
    jobs: Mapping[str, FioJob],
    clock: Clock,
    digest: str,
    virtual: bool = False,
    recording: Recording | None = None,
) -> CellRecord:
    """Return the record of a cell, reconciled with fio's job of the same name if there is one.

    ``virtual`` says that the board is a virtual one, ``recording`` what ``measured`` left out.
    """
    table, name = measured.table, measured.window.name
    alone = recording.without(table) if recording else table
    gate, in_order = {}, None
    if clock is Clock.INSTRUCTIONS and "selected" not in measured.data["ios"]:
        gate = {section: _values(table, column) for section, column in GATE_COLUMNS.items()}
        in_order = ordered(alone)
    job = jobs.get(name)
    seen = measured.data["ios"]["seen"]
    check = None
    if job:
        allowed = None if virtual and clock is Clock.TIME else TOLERANCES[clock]
        marker = jobs.get(f"mark-{name}")
        beside = jobs.get(f"beside-{name}")
        check = (
            reconcile_without_calls(job, table, seen)
            if measured.without_calls
            else reconcile(job, marker, table, seen, allowed, lambda: _unmeasured(measured), beside)
        )
    record = CellRecord(
        cell=name,
        clock=clock,
        trace_sha256=digest,
        fio=job.totals() if job else {},
        fio_check=check,
        steps=steps(alone),
        tracing=int((table.duration - alone.duration).sum()) if recording else None,
        gate=gate,
        in_order=in_order,
        **measured.data,
    )
    if recording:
        record = record.model_copy(update={"sections": _uncorrected(record)})
    return record.model_copy(update={"invalid": invalid(record)})


def _uncorrected(record: CellRecord) -> dict[Section, SectionRecord]:
    """The sections of a record without the trace's recording: nothing is to be taken off."""
    return {
        section: part.model_copy(update={"corrected_median": part.own.median})
        for section, part in record.sections.items()
    }


def _span(table: IoTable) -> int | None:
    """From the first I/O's call to the last one's return."""
    return int(table.end.max() - table["start"].min()) if len(table) else None


def _unmeasured(measured: Measured) -> Calls:
    """The system calls of the window, by the same tasks, that the table lacks."""
    window, table, comm = measured.window, measured.table, measured.comm
    known = set(zip(table["pid"].tolist(), table["start"].tolist(), strict=True))
    _, tasks = measured.file.outline
    found = [
        (name, start, end - start, returned)
        for name, pid, start, end, returned in measured.file.calls
        if window.start <= start and end < window.end
        if (pid, start) not in known and comm in (None, tasks.get(pid))
    ]
    names = np.array([name for name, *_ in found], np.object_)
    starts, durations, returned = np.array([call[1:] for call in found], np.int64).reshape(-1, 3).T
    return Calls(names, starts, durations, returned, unfinished=measured.data["ios"]["incomplete"])


def _values(table: IoTable, column: str) -> list[int]:
    found = table.get(column)
    return gate_values([] if found is None else np.ma.array(found).tolist())


def gate_values(column: Sequence[int | None]) -> list[int]:
    """What the gate compares of a per-I/O column: all but the first I/O and empty ones.

    The first I/O meets cold caches of the file system; it is in the statistics, not here.
    """
    return [value for value in column[1:] if value]


def invalid(record: CellRecord) -> str | None:
    """Rules that cannot see the measured values: may this cell's figures be used?"""
    ios = record.ios
    if record.fio.get("error"):
        return f"fio reported error {record.fio['error']}"
    if ios["measured"] == 0:
        return "no I/O reached the device"
    if ios["dropped_lost"] > LOSS_LIMIT * ios["seen"]:
        return f"{ios['dropped_lost']} of {ios['seen']} I/Os touch lost trace events"
    if record.fio_check and not record.fio_check.ios_agree:
        return f"fio did {record.fio['ios']} I/Os, the trace has {record.fio_check.ios_in_trace}"
    return None
