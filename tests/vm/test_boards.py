"""The x86-64 board: it boots, gives every cell, and its probes are calibrated.

That its boots are the same is shown by `tests.vm.test_exact`.
"""

from __future__ import annotations

import os
from fnmatch import fnmatch

import pytest

from iotoll.boards.matrix import load_matrix
from iotoll.records import results
from iotoll.records.models import Section, SideResult, Unit
from tests.conftest import LONG
from tests.vm.conftest import measure

pytestmark = pytest.mark.vm
BOARD = "virt-x86_64"
# A workload of each device is enough to see that the board works; make test-long runs them all.
CELLS = "*" if os.environ.get(LONG) else "*-4k-randread-t1-direct"
SOFTWARE = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION)


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> SideResult:
    """One boot."""
    run = tmp_path_factory.mktemp("x86") / "run"
    measure(run, BOARD, "--cells", CELLS, "--json")
    return results.read(run / "sides/base/result.json", SideResult)


def test_every_cell_has_values(side: SideResult) -> None:
    known = load_matrix("default").cells
    assert sorted(side.cells) == sorted(cell for cell in known if fnmatch(cell, CELLS))
    for name, records in side.cells.items():
        assert [r.invalid for r in records] == [None], name
        assert {r.trace["clock"] for r in records} == {"x86-tsc"}
        assert {r.unit for r in records} == {Unit.INSTRUCTIONS}


def test_sections_are_of_a_sane_size(side: SideResult) -> None:
    for name, (record,) in side.cells.items():
        if not name.endswith("4k-randread-t1-direct"):
            continue
        for section in SOFTWARE:
            median = record.sections[section].first.median
            assert median is not None
            assert 500 < median < 15_000, f"{name} {section}: not an instruction count"


def test_probes_are_calibrated(side: SideResult) -> None:
    costs = side.boots[0].event_cost
    assert set(costs) >= {
        "block_bio_queue",
        "block_rq_issue",
        "ufshcd_command",
        "nvme_sq",
        "mmc_request_start",
    }
    assert all(300 < cost < 1500 for cost in costs.values())
