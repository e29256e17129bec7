"""Values of a study's formulas, of cells with and without what records the trace."""

from __future__ import annotations

import pytest

from iotoll.studies.quantities import Known, quantity
from tests.unit.studies.studies import record


def test_probed_has_what_records_the_trace_also_where_the_board_counted_it() -> None:
    cell = record()
    software = quantity(Known.make(cell, {}), "probed")
    counted = cell.model_copy(update={"tracing": 3_000 * cell.ios["measured"]})
    assert quantity(Known.make(counted, {}), "probed") == pytest.approx(software + 3)
