"""A failure of a step as a record, for those who read it after the process has ended."""

from __future__ import annotations

from iotoll.core.errors import BrokenError, InfrastructureError
from iotoll.records.models import FailureRecord, Outcome


def failure_of(error: BrokenError | InfrastructureError, step: str) -> FailureRecord:
    """What failed; a BrokenError names its own step, ``step`` is that of any other failure."""
    outcome = Outcome.INFRASTRUCTURE
    if isinstance(error, BrokenError):
        outcome, step = Outcome.BROKEN, error.step
    return FailureRecord(outcome=outcome, step=step, message=str(error), log_tail=error.log_tail)
