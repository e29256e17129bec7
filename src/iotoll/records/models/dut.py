"""What a board measured of itself: the document that iotoll-dut prints for each cell."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from iotoll.records.models.base import Model


class DutRecord(Model):
    """One cell as the board measured it (crates/iotoll-dut/src/document.rs)."""

    schema_version: Literal["iotoll.dut/1"] = "iotoll.dut/1"
    cell: str
    trace_sha256: str | None = Field(
        None, description="absent where the board did not digest its trace, or had no file"
    )
    record: dict[str, Any] = Field(
        description="the analyser's record, as in CellRecord: checked when that is made of it"
    )
    columns: dict[str, list[int | None]] = Field(
        default_factory=dict,
        description="columns of the per-I/O table that the gate compares, one entry per I/O",
    )
