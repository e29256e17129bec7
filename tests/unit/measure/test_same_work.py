"""A candidate that measures itself wrongly: what F6 had not tried."""

from __future__ import annotations

import pytest

from iotoll.measure.same_work import WITNESSES, unlike
from iotoll.records import results
from iotoll.records.models import CellRecord, Clock
from iotoll.records.models.io_checks import FigureCheck, FioCheck
from tests.unit.runs import CELLS, EXAMPLES


def record(ios: int = 256, excess: float = 1500.0, clock: Clock = Clock.INSTRUCTIONS) -> CellRecord:
    """A cell whose fio did ``ios`` I/Os of 4 KiB, whose mean was 35,000 ns in the trace."""
    figure = FigureCheck(
        figure="clat mean", fio=35000 + excess, trace=35000, difference=excess, low=0, high=9e9,
        agrees=True,
    )  # fmt: skip
    check = FioCheck(ios_agree=True, ios_in_trace=ios, figures=[figure], not_compared=[])
    one = results.read(EXAMPLES / "cell.json", CellRecord)
    fio = {"ios": ios, "bytes": ios * 4096, "error": 0}
    return one.model_copy(update={"cell": CELLS[0], "clock": clock, "fio": fio, "fio_check": check})


def test_the_same_work_is_the_same() -> None:
    assert unlike(record(), record()) is None
    assert unlike(record(), record(excess=1500 + 0.04 * 35000)) is None


def test_f6_a_forged_fio_result_beside_a_trace_that_hides_ios() -> None:
    """Trace and fio agree on 64 I/Os: those that the kernel let be seen."""
    why = unlike(record(), record(ios=64))
    assert why == "fio did 64 ios where it did 256 with the base, in the same job"
    less = record()
    less.fio["bytes"] = 4096
    assert "fio did 4096 bytes where" in str(unlike(record(), less))


@pytest.mark.parametrize("excess", [19524.8, -15000.0])
def test_f6_a_trace_clock_of_the_candidates_own(excess: float) -> None:
    why = str(unlike(record(), record(excess=excess)))
    assert why.endswith("the candidate's trace runs by another clock than fio")
    # The clock `time` knows noise of this size; there the number of I/Os alone is compared.
    timed = [record(clock=Clock.TIME), record(excess=excess, clock=Clock.TIME)]
    assert unlike(*timed) is None


@pytest.mark.parametrize("event", WITNESSES)
def test_f1_6_a_candidate_that_hides_for_whom_a_cpu_works(event: str) -> None:
    """A cost moved to a worker, and `sched_waking` taken out of the kernel, was a pass."""
    events = dict.fromkeys(WITNESSES, 2000)
    base, candidate = record(), record()
    base.trace["events"], candidate.trace["events"] = events, {**events, event: 0}
    assert str(unlike(base, candidate)).startswith(
        f"the candidate's trace has no {event}, of which the base's has 2,000"
    )
    del candidate.trace["events"][event]
    assert unlike(base, candidate) is not None
    # More of them than in the base is no hiding, nor is what the base has now and then.
    assert unlike(candidate, base) is None
    rare = record()
    rare.trace["events"] = {**events, event: 3}
    assert unlike(rare, candidate) is None
