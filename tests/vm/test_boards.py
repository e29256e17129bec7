"""The x86-64 board: it boots, and counts every cell without the recorder.

That its boots are the same is shown by `tests.vm.test_exact`.
"""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path

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
            assert 200 < median < 15_000, f"{name} {section}: not an instruction count"


def test_counts_are_without_the_recorder(side: SideResult) -> None:
    assert not side.boots[0].event_cost, "nothing is calibrated"
    for name, (record,) in side.cells.items():
        work, vector = record.work, record.vector
        assert record.tracing is not None and work is not None and vector is not None, name
        # An event costs hundreds of instructions, and an I/O has some ten of them.
        assert work.recorder > 3000 * work.ios and work.idle > 0, name
        assert any(key.startswith("register_writes.") for key in vector), name


def test_functions_are_those_that_ran(side: SideResult) -> None:
    record = side.cells["nvme-4k-randread-t1-direct"][0]
    assert record.work is not None
    assert record.work.functions["nvme_setup_cmd"] >= 40 * record.work.ios


def test_probes_are_calibrated_where_the_recorder_is_not_counted(tmp_path: Path) -> None:
    run = tmp_path / "run"
    measure(run, f"{BOARD}-stock", "--cells", "nvme-4k-randread-t1-direct", "--json")
    (boot,) = results.read(run / "sides/base/result.json", SideResult).boots
    assert set(boot.event_cost) >= {"block_bio_queue", "block_rq_issue", "nvme_sq"}
    assert all(300 < cost < 1500 for cost in boot.event_cost.values())
