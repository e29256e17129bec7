"""Elements that traces count: base against candidate on the clock `time`, shown only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from iotoll.records import results
from iotoll.records.models import CellRecord, CellVerdict, NoiseRecord, Outcome, SideResult
from iotoll.records.models.analysis import PmuRecord
from iotoll.records.models.run import Side
from iotoll.verdict.elements import compare_counted
from iotoll.verdict.findings import of_elements
from iotoll.verdict.instructions import rule as instructions
from iotoll.verdict.policy import CountedRule, load_policy, load_time_policy
from iotoll.verdict.time.judge import decide, with_elements
from iotoll.verdict.time.pairs import make_pairs
from tests.unit.runs import EXAMPLES, side_result
from tests.unit.verdict.gates import UFS, counts
from tests.unit.verdict.time.sides import CELLS, FIGURES, noisy, side

POLICY = load_time_policy("time")
RULE = POLICY.counted
EXAMPLE = results.read(EXAMPLES / "cell.json", CellRecord)
Counts = Mapping[str, Sequence[float]]
"""By element, one mean for each boot."""


def boots(name: Side, found: Counts, cells: Sequence[str] = CELLS) -> SideResult:
    """A side that never scatters in time; all its cells have these counts."""
    number = len(next(iter(found.values())))
    made = side(name, noisy(1, number)[name == "candidate"])
    return made.model_copy(update={"cells": {c: with_counts(made.cells[c], found) for c in cells}})


def with_counts(records: Sequence[CellRecord], found: Counts) -> list[CellRecord]:
    return [
        record.model_copy(update={"counted": {name: values[n] for name, values in found.items()}})
        for n, record in enumerate(records)
    ]


def moved(base: Sequence[float], candidate: Sequence[float], rule: CountedRule = RULE) -> str:
    before, after = (
        with_counts([EXAMPLE] * len(values), {"interrupts": values}) for values in (base, candidate)
    )
    found = compare_counted(before, after, rule)
    return found[0].moved if found else ""


def judged(base: SideResult, candidate: SideResult) -> list[CellVerdict]:
    pairs = make_pairs(base, candidate, CELLS, FIGURES, seed=4)
    empty = NoiseRecord(board="b", matrix="m", pairs=[])
    found = decide(pairs, CELLS, POLICY, empty, seed=4)
    return with_elements(found.cells, (base, candidate), pairs, RULE)


@pytest.mark.parametrize(
    ("base", "candidate", "said"),
    [
        ([1, 1, 1], [2, 2, 2], "grew"),
        ([2, 2, 2], [1, 1, 1], "shrank"),
        ([1, 1, 1], [1, 1, 1], ""),
        ([1.0, 1.2, 1.1], [1.3, 1.3, 1.3], ""),  # within what the base's boots differ by
        ([1.0, 1.02, 1.01], [1.3, 1.3, 1.3], "grew"),
        ([1.3, 1.3, 1.3], [1.0, 2.0, 1.0], ""),  # or the candidate's
        ([1, 1, 1], [1.005, 1.005, 1.005], ""),  # in five I/Os of a thousand
        ([128, 128, 128], [129, 129, 129], ""),  # less than a hundredth of it
        ([0, 0, 0], [0.02, 0.02, 0.02], "grew"),
        ([1, 1], [2, 2], ""),  # too few boots to know what is noise
    ],
)
def test_an_element_moved_by_more_than_boots_of_one_kernel_differ(
    base: Sequence[float], candidate: Sequence[float], said: str
) -> None:
    assert moved(base, candidate) == said


def test_noise_alone_is_hardly_ever_shown() -> None:
    """Of 1,000 cells whose kernels have the same noise, with three boots, six and twelve."""
    rng = np.random.default_rng(7)
    shown = {
        number: sum(
            bool(moved(*(1 + rng.normal(0, 0.1, (2, number)).round(4)).tolist()))
            for _ in range(1_000)
        )
        for number in (3, 6, 12)
    }
    assert shown[3] < 20 and shown[6] == shown[12] == 0


def test_what_moved_is_shown_and_blocks_nothing() -> None:
    base = boots("base", {"interrupts": [1.0, 1.01, 1.0], "requests": [1, 1, 1]})
    candidate = boots("candidate", {"interrupts": [2.0, 2.02, 2.0], "requests": [1, 1, 1]})
    cells = judged(base, candidate)
    assert all(cell.outcome is not Outcome.REGRESSION and not cell.blocks for cell in cells)
    (one,) = cells[0].elements
    assert (one.element, one.section, one.moved, one.gated) == ("interrupts", None, "grew", False)
    assert (one.base, one.candidate, one.delta) == (1, 2, 1)
    assert one.confidence.startswith("counted in the trace: medians of 3 and 3 boots")
    found = of_elements(cells)
    assert {finding.kind for finding in found} == {"ungated"}
    words = "per UFS I/O in the whole I/O, in ufs-4k-randread-t1-direct"
    assert found[0].sentence == f"+1 interrupt {words}, counted in the trace, shown only"


def test_the_pmu_s_counts_are_compared_and_marked() -> None:
    sides = [boots("base", {"requests": [1] * 3}), boots("candidate", {"requests": [1] * 3})]
    for side_, counts_ in zip(sides, ((5_000, 9), (5_600, 9)), strict=True):
        found = PmuRecord(
            ios=512,
            counts={"instructions": counts_[0] * 512, "exc_taken": counts_[1] * 512},
            missing={"cycles": "not supported"},
        )
        for records in side_.cells.values():
            records[:] = [record.model_copy(update={"pmu": found}) for record in records]
    cells = judged(*sides)
    (one,) = cells[0].elements
    assert (one.element, one.delta, one.gated) == ("pmu.instructions", 600, False)
    assert one.confidence.startswith("PMU, a separate run: medians of 3 and 3 boots")
    words = "+600 PMU counts of instructions per UFS I/O in the whole I/O"
    where = f"in {CELLS[0]}, PMU, a separate run, shown only"
    assert of_elements(cells)[0].sentence == f"{words}, {where}"


def test_what_one_side_could_not_count_is_not_compared() -> None:
    base = boots("base", {"requests": [1, 1, 1]})
    candidate = boots("candidate", {"requests": [1, 1, 1], "wakeups": [3, 3, 3]})
    assert all(not cell.elements for cell in judged(base, candidate))
    older = base.model_copy(
        update={"cells": {n: [r.model_copy(update={"counted": None}) for r in several]
                          for n, several in base.cells.items()}}
    )  # fmt: skip
    assert all(not cell.elements for cell in judged(older, candidate))


def test_boots_that_belong_to_no_pair_are_not_asked() -> None:
    """The last pair's boots had different boards: their counts are another board's."""
    base = boots("base", {"interrupts": [1, 1, 1, 1]})
    candidate = boots("candidate", {"interrupts": [2, 2, 2, 1]})
    assert not judged(base, candidate)[0].elements, "the fourth differs by as much"
    other = candidate.boots[3].model_copy(update={"board_sha256": "0" * 64})
    apart = candidate.model_copy(update={"boots": [*candidate.boots[:3], other]})
    assert judged(base, apart)[0].elements[0].moved == "grew"


def test_a_boot_whose_cell_is_invalid_counts_for_nothing() -> None:
    base = boots("base", {"interrupts": [1, 1, 1, 9]})
    candidate = boots("candidate", {"interrupts": [2, 2, 2, 2]})
    bad = {n: [*r[:3], r[3].model_copy(update={"invalid": "x"})] for n, r in base.cells.items()}
    assert judged(base.model_copy(update={"cells": bad}), candidate)[0].elements


def test_boards_of_the_other_clock_without_windows_show_them_as_well() -> None:
    """LAVA's virtual boards: three boots of each side, where something moved."""

    def boots_of(name: Side, value: float) -> SideResult:
        made = side_result(name, {UFS: counts(1)})
        (record,) = with_counts(made.cells[UFS], {"interrupts": [value]})
        return made.model_copy(update={"cells": {UFS: [record] * 3}, "boots": made.boots * 3})

    policy = load_policy("instructions")
    base, candidate = boots_of("base", 1.0), boots_of("candidate", 2.0)
    found = instructions.judge(base, candidate, policy, [UFS])
    assert found.outcome is Outcome.PASS and not found.open
    assert [(e.element, e.gated) for e in found.cells[0].elements] == [("interrupts", False)]
    assert "counted in the trace, shown only" in found.sentence
