"""The steps *collect* and *analyze*: the traces of a boot become one checked record per cell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iotoll import _native, results
from iotoll.calibrate import event_costs, is_calibration
from iotoll.digest import file_sha256
from iotoll.errors import InfrastructureError, ResultError, UsageError
from iotoll.models import BootRecord, CellRecord, Clock, DutRecord, Section

MARKER = "iotoll cell "
COMM = "fio"
LOSS_LIMIT = 0.001  # dropped I/Os per I/O; above it a cell is invalid, not fast

GATE_COLUMNS = {
    Section.VFS_FS: "first_vfs_fs",
    Section.SUBMISSION: "first_submission",
    Section.COMPLETION: "first_completion",
    Section.RETURN: "own_return",
}
"""Which column of the analyser's per-I/O table the gate compares for each section."""


@dataclass(frozen=True)
class Window:
    """One run (cell or calibration) in the trace of a batch: half-open, in trace clock units."""

    name: str
    trace: Path
    start: int
    end: int


def windows(trace: Path) -> list[Window]:
    """The runs of a batch, in order; the trace's markers say where each begins."""
    try:
        marks = [
            (t, m.removeprefix(MARKER))
            for t, m in _native.markers(str(trace))
            if m.startswith(MARKER)
        ]
    except _native.TraceError as error:
        raise InfrastructureError(f"corrupt trace: {error}") from error
    ends = [t for t, _ in marks[1:]] + [2**63]  # one too many where there are no marks
    return [Window(name, trace, t, end) for (t, name), end in zip(marks, ends, strict=False)]


def analyze_boot(folder: Path, boot: BootRecord) -> tuple[dict[str, CellRecord], dict[str, float]]:
    """Analyse all batches of a boot; returns the cells' records and the events' calibrated costs.

    Costs are empty when the boot ran no calibration. Raises InfrastructureError when a trace is
    corrupt or a cell of ``boot.cells`` is missing: partial results never pass.
    """
    devices = _devices(folder / "boot/devices")
    found: dict[str, Window] = {}
    fio: dict[str, dict[str, Any]] = {}
    digests: dict[Path, str] = {}
    for trace in sorted(folder.glob("*/trace.dat")):
        digests[trace] = file_sha256(trace)
        found.update({w.name: w for w in windows(trace)})
        fio.update(fio_jobs(trace.with_name("fio.json")))
    missing = [cell for cell in boot.cells if cell not in found or cell not in fio]
    if missing:
        raise InfrastructureError(f"{folder}: the board handed over no trace of {missing[0]}")
    records = {}
    calibration = {}
    for name, window in found.items():
        device = devices.get(name.removeprefix("calibration-").partition("-")[0])
        if device is None:
            raise InfrastructureError(f"{folder}: the board did not say which disk {name} is on")
        text = _analyze(window, device, boot.clock)
        if is_calibration(name):
            calibration[name] = (json.loads(text), _table(window, device))
        elif name in boot.cells:
            records[name] = _record(
                window,
                json.loads(text),
                boot.clock,
                fio[name],
                device,
                digests[window.trace],
            )
    return records, event_costs(calibration)


def analyze_trace(trace: Path, clock: Clock, comm: str | None = None) -> list[CellRecord]:
    """Analyse one trace.dat of the user's: a record per marked cell, or one for the whole trace."""
    if not trace.is_file():
        raise UsageError(f"{trace}: no such file")
    try:
        parts: list[Window] = windows(trace) or [Window(trace.stem, trace, 0, 2**63)]
        digest = file_sha256(trace)
        return [
            _record(w, json.loads(_analyze(w, None, clock, comm)), clock, {}, None, digest, comm)
            for w in parts
            if not is_calibration(w.name)
        ]
    except (InfrastructureError, _native.TraceError) as error:
        raise UsageError(str(error)) from error


def corrected(record: CellRecord, costs: Mapping[str, float]) -> CellRecord:
    """The record with medians less the probes' own cost (same unit as the record)."""
    if not costs:
        return record
    sections = {}
    for section, part in record.sections.items():
        if part.own.median is None:
            sections[section] = part
            continue
        probes = sum(n * cost_of(event, costs) for event, n in part.probe_events.items())
        value = round(part.own.median - probes, 1)
        sections[section] = part.model_copy(update={"corrected_median": value})
    return record.model_copy(update={"sections": sections})


def cost_of(event: str, costs: Mapping[str, float]) -> float:
    """An event's calibrated cost; of a kin event, or the median, when it never fired itself."""
    if event in costs:
        return costs[event]
    kin = [cost for name, cost in costs.items() if name.split("_")[:2] == event.split("_")[:2]]
    known = sorted(kin or costs.values())
    return known[len(known) // 2]


def fio_jobs(path: Path) -> dict[str, dict[str, Any]]:
    """fio's own totals per job: ``ios``, ``error``, and means of its latencies in ns."""
    try:
        text = path.read_text()
        data = json.loads(text[text.index("{\n") :])  # fio writes notes before its JSON
        return {job["jobname"]: _fio_totals(job) for job in data["jobs"]}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InfrastructureError(f"{path}: not fio's JSON: {error!r}") from error


def _fio_totals(job: Mapping[str, Any]) -> dict[str, Any]:
    sides = [job["read"], job["write"]]
    busy = next((side for side in sides if side["total_ios"]), sides[0])
    return {
        "ios": sum(side["total_ios"] for side in sides),
        "error": job["error"],
        "lat_mean_ns": busy["lat_ns"]["mean"],
        "clat_mean_ns": busy["clat_ns"]["mean"],
    }


def _devices(path: Path) -> dict[str, str]:
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
        return {row[0]: row[2] for row in rows}
    except (OSError, IndexError) as error:
        raise InfrastructureError(f"{path}: the board did not say which disk is which") from error


def _analyze(window: Window, device: str | None, clock: Clock, comm: str | None = COMM) -> str:
    try:
        return _native.analyze(
            str(window.trace),
            comm=comm,
            device=device,
            unit=clock.unit.value,
            window=(window.start, window.end),
        )
    except _native.TraceError as error:
        raise InfrastructureError(f"corrupt trace: {error}") from error


def _table(window: Window, device: str | None, comm: str | None = COMM) -> Mapping[str, Any]:
    return _native.io_table(
        str(window.trace), comm=comm, device=device, window=(window.start, window.end)
    )


def _record(
    window: Window,
    data: dict[str, Any],
    clock: Clock,
    fio: dict[str, Any],
    device: str | None,
    digest: str,
    comm: str | None = COMM,
) -> CellRecord:
    table = _table(window, device, comm) if clock is Clock.INSTRUCTIONS else {}
    return _cell(window.name, data, table, clock, fio, digest)


def _cell(
    name: str,
    data: dict[str, Any],
    table: Mapping[str, Any],
    clock: Clock,
    fio: dict[str, Any],
    digest: str | None,
) -> CellRecord:
    gate = {}
    if clock is Clock.INSTRUCTIONS:
        # The first I/O meets cold caches of the file system; it is in the statistics, not here.
        gate = {
            section: [v for v in table[column][1:] if v] for section, column in GATE_COLUMNS.items()
        }
    record = CellRecord(cell=name, clock=clock, trace_sha256=digest, fio=fio, gate=gate, **data)
    return record.model_copy(update={"invalid": _invalid(record)})


def cell_of_dut(text: str, clock: Clock, fio: dict[str, Any] | None = None) -> CellRecord:
    """The record of a cell that the board measured itself (``text``: iotoll-dut's document).

    It equals what `analyze_trace` makes of the same trace. ``fio`` is as from `fio_jobs`. Raises
    ResultError when the document is not of its schema, or of another clock's unit.
    """
    where = Path("record of iotoll-dut")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{where}: no JSON ({error}): send it again") from error
    dut = results.checked(data, DutRecord, where)
    where = Path(f"record of iotoll-dut, cell {dut.cell}")
    if dut.record.get("unit") != clock.unit:
        raise ResultError(
            f"{where}: its unit is not {clock.unit}: run iotoll-dut with --unit {clock.unit}"
        )
    lacking = [column for column in GATE_COLUMNS.values() if column not in dut.columns]
    if clock is Clock.INSTRUCTIONS and lacking:
        raise ResultError(f"{where}: no column {lacking[0]}: run iotoll-dut with --columns")
    # Names that _cell sets itself would be no part of a record; the schema refuses the others.
    if strange := set(dut.record) & {"cell", "clock", "trace_sha256", "fio", "gate", "invalid"}:
        raise ResultError(f"{where}: field record/{min(strange)} does not belong there")
    results.checked({**dut.record, "cell": dut.cell, "clock": clock.value}, CellRecord, where)
    try:
        return _cell(dut.cell, dut.record, dut.columns, clock, fio or {}, dut.trace_sha256)
    except KeyError as error:
        raise ResultError(f"{where}: field record/ios: no {error}") from error


def _invalid(record: CellRecord) -> str | None:
    """Rules that cannot see the measured values: may this cell's figures be used?"""
    ios = record.ios
    if record.fio.get("error"):
        return f"fio reported error {record.fio['error']}"
    if ios["measured"] == 0:
        return "no I/O reached the device"
    if ios["dropped_lost"] > LOSS_LIMIT * ios["seen"]:
        return f"{ios['dropped_lost']} of {ios['seen']} I/Os touch lost trace events"
    if record.fio and ios["seen"] < record.fio["ios"]:
        return f"fio did {record.fio['ios']} I/Os, the trace has {ios['seen']}"
    return None
