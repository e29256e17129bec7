"""What is told of single I/Os and of fio's own view beside a cell's statistics."""

from __future__ import annotations

from pydantic import Field

from iotoll.records.models.base import Model, Section


class StepRecord(Model):
    """A sub-step: the time between two consecutive marks on the way of the first requests.

    Durations are elapsed, in the record's unit. ``section`` is the latency section that the later
    mark belongs to; ``ios`` counts the I/Os that passed these two marks one after the other.
    """

    section: Section
    step: str = Field(description="the two marks: 'bio_queue -> getrq'")
    meaning: str = Field(description="what happens there, in plain words")
    ios: int
    median: int
    mean: float
    p99: int
    max: int


class FigureCheck(Model):
    """One figure of fio's against the trace's; all in ns of the trace's clock.

    ``difference`` is fio minus trace; it must lie from ``low`` to ``high``.
    """

    figure: str = Field(description="such as 'clat p99'")
    fio: float
    trace: float
    difference: float
    low: float
    high: float
    agrees: bool


class FioCheck(Model):
    """The reconciliation of a cell with fio's own JSON (docs/outputs.md)."""

    ios_agree: bool = Field(description="the trace holds exactly the I/Os that fio did")
    ios_in_trace: int = Field(description="I/Os in the trace, less those of fio's marker job")
    bytes_agree: bool | None = Field(None, description="absent where it could not be compared")
    figures: list[FigureCheck]
    not_compared: list[str] = Field(description="what was not compared, and why")

    @property
    def agrees(self) -> bool:
        """Whether everything that was compared agrees."""
        figures = all(f.agrees for f in self.figures)
        return self.ios_agree and self.bytes_agree is not False and figures


class IoEvent(Model):
    """One trace event of an I/O; ``at`` is relative to the I/O's start, clock units."""

    at: int
    cpu: int
    pid: int
    task: str
    event: str
    fields: dict[str, str]


class SlowIo(Model):
    """One of the slowest I/Os, with its sections and its events in order of time."""

    start: int = Field(description="absolute, clock units of the trace")
    duration: int
    pid: int
    task: str
    op: str
    path: str
    bytes: int
    elapsed: dict[Section, int]
    events: list[IoEvent]
    events_left_out: int = Field(description="events beyond the limit")
