"""The record of a cell that the board measured itself: what `iotoll-dut` delivered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from iotoll.core.errors import ResultError
from iotoll.measure.boot_trace import gate_values, invalid
from iotoll.measure.io_order import GATE_COLUMNS, ordered_columns
from iotoll.records import results
from iotoll.records.models import CellRecord, Clock, DutRecord


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
