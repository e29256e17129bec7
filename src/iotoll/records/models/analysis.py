"""What the Rust analyser says about one trace of one cell (one boot)."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator

from iotoll.records.models.base import Clock, Model, Section, Unit
from iotoll.records.models.io_checks import FioCheck, SlowIo, StepRecord


class Stats(Model):
    """Summary of integer durations in the record's unit; only ``count`` when there are none.

    Quantiles are nearest-rank, so always an observed value, unless there is a ``resolution``: of
    more values than are kept one by one, quantiles and mode are known to that fraction, and
    ``trimmed_mean`` is made of such values. ``trimmed_mean`` drops 10 % at each end; ``histogram``
    rows are ``[lower, upper (exclusive), count]``.
    """

    count: int
    min: int | None = None
    median: int | None = None
    trimmed_mean: float | None = None
    mean: float | None = None
    p90: int | None = None
    p99: int | None = None
    p99_9: int | None = None
    max: int | None = None
    mode: int | None = None
    mode_count: int | None = None
    histogram: list[tuple[int, int, int]] | None = None
    resolution: float | None = None


class SectionRecord(Model):
    """One latency section over all measured I/Os of a cell.

    ``elapsed`` is wall-to-wall; ``own`` counts only what ran for this I/O; ``own_clean`` is
    ``own`` over the I/Os that nothing foreign interrupted. ``probe_events`` gives the mean number
    of trace events, by name, that were recorded inside the section of one I/O.
    ``first`` is ``own`` on the way of the I/O's first request alone, without what journal and
    flush requests add (sections 1, 2 and 4). ``corrected_median`` is the median of ``own`` less
    the calibrated cost of the probe events; absent where no calibration exists (gates on times),
    and where the probes of the mean I/O cost more than the median I/O. Where the board counted
    what recorded the trace, no value has it, and this is the median of ``own``.
    """

    elapsed: Stats
    own: Stats
    own_clean: Stats
    first: Stats = Stats(count=0)
    probe_events: dict[str, float] = Field(default_factory=dict)
    ended_by: dict[str, int] = Field(
        default_factory=dict,
        description="event that ended the section -> I/Os, by their first own request",
    )
    corrected_median: float | None = None


class SumRecord(Model):
    """A sum of sections per I/O: the software overhead (1+2+4) or the whole duration."""

    elapsed: Stats
    own: Stats
    own_clean: Stats


class PathRecord(Model):
    """The I/Os that took the same path (same sequence of requests) through the stack."""

    path: str
    ios: int
    clean: int | None = Field(None, description="absent where the source does not tell")
    sections: dict[Section, SumRecord]

    @property
    def requests(self) -> int:
        """How many requests it has: ``2xR512+hFF`` are three."""
        counts = (re.match(r"(\d+)x", step) for step in self.path.split("+"))
        return sum(int(found[1]) if found else 1 for found in counts)


class OrderedIos(Model):
    """What the gate pairs: every I/O of a cell, thread by thread, each in order of start.

    All lists have one entry per I/O. ``marks`` are indices into ``mark_kinds``; None is a section
    that the I/O has not.
    """

    thread: list[int] = Field(description="threads in order of their numbers, from 0")
    sections: dict[Section, list[int | None]] = Field(description="as in `gate`")
    whole: list[int] = Field(description="from call to return, waiting included")
    marks: list[int] = Field(default_factory=list)
    mark_kinds: list[dict[Section, str]] = Field(
        default_factory=list, description="events that bound each section, as 'begin > end'"
    )


class WorkRecord(Model):
    """All that the CPUs executed for a cell, from its beginning until what it put off has run.

    In instructions of all CPUs together, for all I/Os of the cell; idling is none of the others.
    """

    ios: int = Field(gt=0)
    kernel: int = Field(ge=0, description="of the kernel, without the recorder")
    recorder: int = Field(ge=0, description="of trace events and probes, by their functions")
    user: int = Field(ge=0, description="of programs")
    idle: int = Field(ge=0, description="of the idle task, for itself")
    functions: dict[str, int] = Field(
        description="`kernel` by function; those with less than one per I/O are together, without a"
        " name"
    )

    @property
    def per_io(self) -> float:
        """Instructions of the kernel for one I/O."""
        return self.kernel / self.ios


Runs = list[tuple[int | None, int]]
"""Values in order, each with how often it follows itself."""


class ElementRecord(Model):
    """What each I/O has of one element of cost (``pipelines/elements.toml``): counts, not times.

    In the order of `OrderedIos`, which has the same I/Os.
    """

    sections: dict[Section, Runs] = Field(description="as in `gate`: of the I/O's first request")
    whole: Runs = Field(description="from call to return, in any task or interrupt")
    functions: dict[str, int] = Field(
        description="how many each function has from the first I/O to the last; of what is called,"
        " who calls it"
    )


class PmuRecord(Model):
    """What the board's PMU counted of a cell, in a separate run without a trace, on all CPUs.

    fio's own beginning and end are in it. By event, as the board's file names them.
    """

    ios: int = Field(gt=0)
    counts: dict[str, int] = Field(description="of all I/Os together")
    missing: dict[str, str] = Field(description="events that were not counted, and why")

    @property
    def per_io(self) -> dict[str, float]:
        """What was counted, for one I/O."""
        return {event: round(count / self.ios, 4) for event, count in self.counts.items()}


class CellRecord(Model):
    """All values of one cell from one boot, in ``unit``, with the counts that qualify them."""

    schema_version: str = "iotoll.cell/1"
    cell: str
    clock: Clock
    unit: Unit
    trace_sha256: str | None = Field(
        None, description="absent where the board measured itself and kept its trace, if any"
    )
    trace: dict[str, Any]
    device: dict[str, str]
    ios: dict[str, int]
    requests: dict[str, int]
    marks: dict[str, dict[str, int]]
    sections: dict[Section, SectionRecord]
    not_in_source: dict[Section, str] = Field(
        default_factory=dict, description="sections that blktrace does not record, and why"
    )
    own_unknown: str | None = Field(
        None, description="why nothing tells whose code ran: all own times are absent"
    )
    overhead: SumRecord
    total: SumRecord
    paths: list[PathRecord]
    fio: dict[str, Any] = Field(default_factory=dict, description="fio's own totals, as read")
    gate: dict[Section, list[int]] = Field(
        default_factory=dict,
        description="per section one count per I/O, in order, without the first and empty ones",
    )
    in_order: OrderedIos | None = Field(
        None, description="what the gate pairs; absent on the clock `time`"
    )
    span: int | None = Field(
        None,
        description="from the first I/O's call to the last one's return, of cells with a depth",
    )
    tracing: int | None = Field(
        None,
        description="instructions that recorded the trace, in all measured I/Os: no value of this"
        " record has them, but fio's and its check; absent where they are in all values",
    )
    vector: dict[str, ElementRecord] | None = Field(
        None,
        description="other costs by element, those that no I/O has left out; absent where the"
        " board counts none",
    )
    counted: dict[str, float] | None = Field(
        None,
        description="elements that were counted in the trace: the mean of the measured I/Os, those"
        " that it cannot tell left out; absent where `vector` is there",
    )
    pmu: PmuRecord | None = Field(
        None, description="absent where the board's file names no events of its PMU"
    )
    affected: ElementRecord | None = Field(
        None,
        description="instructions of the functions that the candidate affects"
        " (`iotoll.kernels.changed`), of boards whose CPUs share a clock; absent where no I/O has"
        " any",
    )
    work: WorkRecord | None = Field(
        None, description="absent where nothing counts it: real boards, the clock `time`"
    )
    steps: list[StepRecord] = Field(
        default_factory=list, description="sub-steps of the sections, in order of the path"
    )
    fio_check: FioCheck | None = Field(None, description="absent without fio's JSON")
    filters: dict[str, str] = Field(
        default_factory=dict, description="option and value of each filter that was applied"
    )
    slowest: list[SlowIo] = Field(default_factory=list, description="slowest first, if asked for")
    blocks: dict[str, Any] | None = Field(
        None,
        description="requests and bios by device, with their durations in `unit`, where "
        "`iotoll analyze` looked at them (docs/outputs.md)",
    )
    warnings: list[str] | None = Field(
        None, description="what the trace lacks, where `iotoll analyze` found that it does"
    )
    invalid: str | None = Field(None, description="why this cell's values cannot be used")

    @field_validator("fio")
    @classmethod
    def _numbers(cls, found: dict[str, Any]) -> dict[str, Any]:
        """Refuse what no report could print: texts, and numbers that no fio counts up to."""
        for name, value in found.items():
            # NaN and infinity compare as false.
            if not isinstance(value, int | float) or not 0 <= value < 2**63:
                raise ValueError(f"{name[:40]} is not a number of fio's")
        return found


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
