"""Test cases of a job: the figures that a board reports to LAVA, so that LAVA's charts show them.

They are for those who look at LAVA alone; a verdict is derived from the whole records.
"""

from __future__ import annotations

from collections.abc import Iterable

from iotoll.records.models import Clock, Section

STATISTICS = ("median", "mean", "p99")
"""What crates/iotoll-dut/src/figures.rs says of each section."""
WORKLOAD = "workload"
"""The test case that says whether the workload ended well; also the test definition's name."""


def expected_cases(cells: Iterable[str], clock: Clock) -> list[str]:
    """The test cases of a boot; LAVA itself calls one failed that does not come.

    LAVA compares names without their test set, which is the cell: so they also hold it.
    """
    sections = [s for s in Section if s is not Section.HARDWARE or clock is Clock.TIME]
    figures = [f"{c}.{s.value}.{name}" for c in cells for s in sections for name in STATISTICS]
    return [WORKLOAD, *figures]
