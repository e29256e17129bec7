"""What a board sent of one boot over its serial line: records, fio's totals, what it consists of.

``received.jsonl`` holds the documents as they came, one per line (lava-jobs/dut/serial.sh).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from iotoll.boots.job import is_calibration
from iotoll.core.errors import InfrastructureError, ResultError
from iotoll.measure.boot_trace import gate_values, invalid
from iotoll.measure.calibrate import event_costs
from iotoll.measure.fio import FioJob, jobs_of
from iotoll.measure.io_order import GATE_COLUMNS, ordered_columns
from iotoll.measure.pmu import pmu_records
from iotoll.records import results
from iotoll.records.facts import read_facts, read_limits
from iotoll.records.models import BootRecord, CellRecord, Clock, DutRecord
from iotoll.records.models.analysis import PmuRecord
from iotoll.records.models.base import Model
from iotoll.records.models.run import FactRecord


def cell_of_dut(text: str, clock: Clock, fio: dict[str, Any] | None = None) -> CellRecord:
    """The record of a cell that the board measured itself (``text``: iotoll-dut's document).

    It equals what the analysis makes of the same trace, but for what needs more than the record
    and the gate's columns: sub-steps, and the comparison with fio. ``fio`` are a job's totals.
    Raises ResultError when the document is not of its schema, or of another clock's unit.
    """
    where = Path("record of iotoll-dut")
    dut = results.parsed(text, DutRecord, where)
    where = Path(f"record of iotoll-dut, cell {dut.cell}")
    if dut.record.get("unit") != clock.unit:
        raise ResultError(
            f"{where}: its unit is not {clock.unit}: run iotoll-dut with --unit {clock.unit}"
        )
    lacking = [column for column in GATE_COLUMNS.values() if column not in dut.columns]
    if clock is Clock.INSTRUCTIONS and lacking:
        raise ResultError(f"{where}: no column {lacking[0]}: run iotoll-dut with --columns")
    # Names that are set here would be no part of a record; the schema refuses the others.
    if strange := set(dut.record) & {
        "cell",
        "clock",
        "trace_sha256",
        "fio",
        "gate",
        "in_order",
        "invalid",
    }:
        raise ResultError(f"{where}: field record/{min(strange)} does not belong there")
    own = {**dut.record, "cell": dut.cell, "clock": clock.value}
    results.parsed(json.dumps(own), CellRecord, where)
    gate, in_order = {}, None
    if clock is Clock.INSTRUCTIONS:
        gate = {part: gate_values(dut.columns[column]) for part, column in GATE_COLUMNS.items()}
        in_order = ordered_columns(dut.columns)
    record = CellRecord(
        cell=dut.cell,
        clock=clock,
        trace_sha256=dut.trace_sha256,
        fio=fio or {},
        gate=gate,
        in_order=in_order,
        **dut.record,
    )
    try:
        problem = invalid(record) or _fewer_than_fio(record)
        return record.model_copy(update={"invalid": problem})
    except KeyError as error:
        raise ResultError(f"{where}: field record/ios: no {error}") from error


def _fewer_than_fio(record: CellRecord) -> str | None:
    """Say it when the board saw fewer I/Os than fio did."""
    done, seen = record.fio.get("ios", 0), record.ios["seen"]
    return f"fio did {done} I/Os, the board saw {seen}" if seen < done else None


NAME = "received.jsonl"
FIO = "fio."
PMU = "pmu"
TRACE = "trace."
BOOT = "boot"
AFTER = "after"
TOOLS_LIMIT = 50
TRACES_LIMIT = 64  # raw traces of one boot: one of each batch
WORD_LIMIT = 200  # characters of a tool's version


class SentTrace(Model):
    """What a board says of a raw trace that it sent to the file server."""

    cell: str = Field(pattern=r"^trace\.[A-Za-z0-9._-]{1,48}$", description="trace.BATCH")
    size: int = Field(ge=0, description="bytes")
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    problem: str = Field(max_length=WORD_LIMIT, description="the server's words; '' if it took it")


@dataclass
class Documents:
    """The documents of one boot, sorted by what they are; cells and calibrations as text.

    ``texts`` are all of them, as they came. ``traces`` are raw traces by their batch, ``said`` the
    lines of the board's facts, ``pmu`` what its PMU counted by cell.
    """

    texts: Sequence[str]
    cells: dict[str, str] = field(default_factory=dict)
    fio: dict[str, FioJob] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    traces: dict[str, SentTrace] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    pmu: dict[str, PmuRecord] = field(default_factory=dict)

    @property
    def facts(self) -> FactRecord:
        """What the board said of itself before and after the workload."""
        before, after = (self.said.get(when, "") for when in (BOOT, AFTER))
        return FactRecord(
            before=read_facts(before), after=read_facts(after), limits=read_limits(before, after)
        )


def sort(texts: Sequence[str], where: str) -> Documents:
    """Sort what `serialrecord.receive` delivered; InfrastructureError for what is not ours."""
    found = Documents(texts)
    for text in texts:
        try:
            data = json.loads(text)
            name = data["cell"]
        except (ValueError, RecursionError, LookupError, TypeError) as error:
            raise InfrastructureError(f"{where}: a document is not ours: {error!r}") from error
        if name == BOOT:
            found.tools = _tools(data.get("tools"), where)
            found.said[BOOT] = _said(data)
        elif name == AFTER:
            found.said[AFTER] = _said(data)
        elif name == PMU:
            lines = data.get("counts")
            texts_of = map(str, lines) if isinstance(lines, list) else ()
            found.pmu = pmu_records(texts_of, f"{where}: {name}")
        elif str(name).startswith(FIO):
            found.fio.update(jobs_of(data.get("fio"), f"{where}: {name}"))
        elif str(name).startswith(TRACE):
            sent = _sent(data, where)
            found.traces[sent.cell.removeprefix(TRACE)] = sent
            if len(found.traces) > TRACES_LIMIT:
                raise InfrastructureError(
                    f"{where}: the board says it sent over {TRACES_LIMIT} traces"
                )
        else:
            found.cells[str(name)] = text
    return found


def _sent(data: Any, where: str) -> SentTrace:
    try:
        return SentTrace.model_validate(data)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise InfrastructureError(f"{where}: a trace's document is not ours: {problem}") from error


def _tools(lines: Any, where: str) -> dict[str, str]:
    if not isinstance(lines, list) or len(lines) > TOOLS_LIMIT:
        raise InfrastructureError(f"{where}: the board did not say what it consists of")
    pairs = [str(line)[:WORD_LIMIT].partition(" ") for line in lines]
    return {name: version for name, _, version in pairs}


def _said(data: Any) -> str:
    lines = data.get("facts")
    return "\n".join(map(str, lines)) if isinstance(lines, list) else ""


def board_records(path: Path, boot: BootRecord) -> tuple[dict[str, CellRecord], dict[str, float]]:
    """As `iotoll.measure.boot_trace.analyze_boot`, of a boot whose board measured itself.

    Raises InfrastructureError when a cell of ``boot.cells`` is missing.
    """
    try:
        documents = sort(path.read_text().splitlines(), str(path))
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}: run the boot again") from error
    missing = [c for c in boot.cells if c not in documents.cells or c not in documents.fio]
    if missing:
        raise InfrastructureError(f"{path}: the board sent no record of {missing[0]}")
    records = {
        name: cell_of_dut(
            documents.cells[name], boot.clock, documents.fio[name].totals()
        ).model_copy(update={"pmu": documents.pmu.get(name)})
        for name in boot.cells
    }
    calibration = {}
    for name, text in documents.cells.items():
        if is_calibration(name):
            dut = results.parsed(text, DutRecord, path)
            calibration[name] = (dut.record, dut.columns)
    return records, event_costs(calibration, boot.clock)
