"""Judges a run directory: ``pytest tests/gate --iotoll-run runs/NAME``.

One test for the run and one per cell and section. A regression fails, what failed around the
candidate is an error, whatever nobody judged is skipped with its reason.
"""

from __future__ import annotations

import pytest

from iotoll.reports.publish.checks import Check, Status


def test_gate(iotoll_check: Check) -> None:
    if iotoll_check.status is Status.FAILURE:
        pytest.fail(iotoll_check.reason, pytrace=False)
    assert iotoll_check.status is Status.PASSED
