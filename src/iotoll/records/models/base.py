"""The words that all models share: clocks, units, sections, outcomes."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Base of all models: unknown keys, NaN and infinity are errors, instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    def contradiction(self) -> str:
        """What of a whole document cannot be true beside the rest of it; empty where all agrees.

        It is asked for whenever a document is read or written (`iotoll.records.results`).
        """
        return ""


class Clock(StrEnum):
    """What a figure was measured with; figures of different clocks are never compared."""

    INSTRUCTIONS = "instructions"
    TIME = "time"

    @property
    def unit(self) -> Unit:
        """The unit of every duration on this clock."""
        return Unit.INSTRUCTIONS if self is Clock.INSTRUCTIONS else Unit.NANOSECONDS


class Unit(StrEnum):
    """Units of durations."""

    INSTRUCTIONS = "instructions"
    NANOSECONDS = "ns"
    TICKS = "ticks"
    """Of a trace clock that counts something else than ns, and does not say how long a tick is."""


class Section(StrEnum):
    """The consecutive latency sections of one I/O (docs/method.md)."""

    VFS_FS = "vfs_fs"
    SUBMISSION = "submission"
    HARDWARE = "hardware"
    COMPLETION = "completion"
    RETURN = "return"


SOFTWARE_SECTIONS = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION)
"""Sections 1, 2 and 4, whose sum is the software overhead of the Micron white paper (2018)."""

REQUEST_SECTIONS = (Section.SUBMISSION, Section.COMPLETION)
"""Sections that are one request's; the others are the I/O's."""


class Outcome(StrEnum):
    """The typed outcome of a cell or of a whole run; each has its own exit code."""

    PASS = "pass"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"
    INFRASTRUCTURE = "infrastructure"
    BROKEN = "broken"

    @property
    def exit_code(self) -> int:
        """The process exit code; 2 (usage error) is no outcome of a run."""
        return {"pass": 0, "regression": 1, "inconclusive": 3, "infrastructure": 4, "broken": 5}[
            self.value
        ]
