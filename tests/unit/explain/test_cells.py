"""Which cells are worth explaining, and of which the whole I/O."""

from __future__ import annotations

from typing import Any

import pytest

from iotoll.core.errors import UsageError
from iotoll.explain.explainer import check_cells, moved_cells, whole_cells
from iotoll.records import results
from iotoll.records.models import (
    CellVerdict,
    Comparison,
    PairedIosRecord,
    PoolRecord,
    VerdictRecord,
)
from tests.unit.runs import EXAMPLES

EXAMPLE = results.read(EXAMPLES / "verdict.json", VerdictRecord)
PART = EXAMPLE.cells[0].sections[0]
OPS = ("read", "write", "rw", "trim")
CELLS = ["ufs-4k-randread-t1-direct", "nvme-4k-randread-t8-sync", "nvme-4k-randread-t1-sync"]


def cell(name: str, section: float, whole: float | None) -> CellVerdict:
    """A cell whose section and whole moved by so much; 0: it did not move."""
    part = PART.model_copy(update=moved(section))
    known = set(Comparison.model_fields)
    fields = {k: v for k, v in PART.model_dump().items() if k in known}
    found = None if whole is None else Comparison(**{**fields, **moved(whole)})
    return CellVerdict(cell=name, outcome=EXAMPLE.outcome, sections=[part], whole=found)


def moved(size: float) -> dict[str, Any]:
    how = "grew" if size > 0 else "shrank" if size < 0 else "same"
    return {"gated": True, "moved": how, "delta": size}


def verdict(*cells: CellVerdict, **changes: Any) -> VerdictRecord:
    return EXAMPLE.model_copy(update={"cells": list(cells), "pools": [], **changes})


def test_sections_come_before_whole_ios_and_large_before_small() -> None:
    found = verdict(cell(CELLS[0], 0, 5000), cell(CELLS[1], 10, 9000), cell(CELLS[2], -20, None))
    assert moved_cells(found) == [CELLS[2], CELLS[1], CELLS[0]]


def test_the_whole_is_taken_apart_where_the_sections_do_not_account_for_it() -> None:
    found = verdict(cell(CELLS[0], 0, 5000), cell(CELLS[1], 300, 310), cell(CELLS[2], 300, 5000))
    assert whole_cells(found) == {CELLS[0], CELLS[2]}
    assert whole_cells(verdict(cell(CELLS[0], 300, 0))) == frozenset()


def test_what_moved_together_is_explained_in_its_own_cells() -> None:
    numbers: dict[str, Any] = {"pairs": 256, "exact": 0.9, "commonest": 0, "commonest_share": 0.9}
    paired = PairedIosRecord(**numbers, mean=1.0, above=9, below=0, size=12)
    one = PoolRecord(
        device="nvme", threads=8, section=None, cells=1, moved="grew", paired=paired, sentence="x"
    )
    cells = [cell(name, 0, 0) for name in CELLS]
    assert moved_cells(verdict(*cells, pools=[one])) == [CELLS[1]]
    every = one.model_copy(update={"threads": None})
    assert moved_cells(verdict(*cells, pools=[every])) == CELLS[1:]
    assert moved_cells(verdict(*cells)) == []


def test_a_cell_that_a_run_has_not_is_said_with_those_like_it() -> None:
    known = [f"{device}-4k-rand{op}-t1-direct" for device in ("ufs", "nvme") for op in OPS]
    check_cells(known[:1], known)
    with pytest.raises(UsageError) as found:
        check_cells(["ufs-4k-randraed-t1-direct"], known)
    text = str(found.value)
    assert text.endswith(f"the run has no such cell: did you mean {known[0]}?")
