"""Planted contention: what the patches are, and when a pair of kernels is as it should be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from iotoll_lab.contention.cells import COUNTS, CellSharing
from iotoll_lab.experiments.contention import (
    Row,
    grown,
    load_plants,
    markdown,
    of_kernel,
    rows_of,
)
from iotoll_lab.experiments.contention_boots import KernelSharing

LIMITS = {"transfers": 0.5, "false": 0.5, "hand_overs": 0.5}
CELL = CellSharing(
    cell="nvme-4k-randread-t8-direct",
    ios=256,
    instructions=11850.0,
    totals=dict.fromkeys(COUNTS, 10.0),
    own=dict.fromkeys(COUNTS, 5.0),
    false_lines=1,
    functions={"f": {"transfers": 1.0, "false": 0.2}, "g": {"hand_overs": 2.0}},
    data={"f: heap": {"transfers": 1.0, "false": 0.2}, "g: lock": {"hand_overs": 2.0}},
)


def kernel(name: str, cell: CellSharing = CELL, code: str = "c") -> KernelSharing:
    return KernelSharing(name, name, code, ["d", "d"], [cell])


def with_more(function: str, data: str, **counts: float) -> CellSharing:
    """The cell with more of some counts in a function."""
    functions = {name: dict(values) for name, values in CELL.functions.items()}
    sets = {name: dict(values) for name, values in CELL.data.items()}
    for values in (
        functions.setdefault(function, {}),
        sets.setdefault(f"{function}: {data}", {}),
    ):
        for count, more in counts.items():
            values[count] = values.get(count, 0.0) + more
    own = {count: one + counts.get(count, 0.0) for count, one in CELL.own.items()}
    return replace(CELL, own=own, functions=functions, data=sets)


def row(other: CellSharing, wanted: tuple[str, str] | None = None) -> Row:
    (found,) = rows_of("planted", "x", (kernel("a"), kernel("b", other)), LIMITS, wanted)
    return found


def test_two_kernels_that_share_the_same_are_silent() -> None:
    found = row(CELL)
    assert found.found and found.grown == []
    assert found.largest == dict.fromkeys(LIMITS, 0.0)
    assert found.same_code and found.repeated


def test_what_grows_is_named_with_its_data() -> None:
    other = with_more("f", "iotoll_counts", transfers=0.9, false=0.9)
    assert [(g.function, g.data) for g in grown(CELL, other, "transfers")] == [
        ("f", "iotoll_counts")
    ]
    found = row(other, ("false", "f"))
    assert found.found
    assert [g.count for g in found.grown] == ["transfers", "false"]
    wanted = "5.00, 5.90 | 5.00, 5.90 | 5.00, 5.00 | 1, 1 | `f`, iotoll_counts | yes |"
    assert wanted in markdown([found])


@pytest.mark.parametrize("wanted", [("false", "g"), ("hand_overs", "f")])
def test_another_function_or_count_than_the_planted_one_is_not_found(
    wanted: tuple[str, str],
) -> None:
    assert not row(with_more("f", "heap", transfers=0.9, false=0.9), wanted).found


def test_a_second_function_that_grows_spoils_a_planted_pair() -> None:
    other = with_more("f", "heap", transfers=0.9)
    more = {**other.functions, "h": {"transfers": 0.6}}
    data = {**other.data, "h: heap": {"transfers": 0.6}}
    both = replace(other, functions=more, data=data)
    assert row(other, ("transfers", "f")).found
    assert not row(both, ("transfers", "f")).found


def test_what_stays_below_the_threshold_or_shrinks_is_none() -> None:
    assert row(with_more("f", "heap", transfers=0.5)).found
    assert row(with_more("f", "heap", transfers=-0.9)).found
    assert not row(with_more("f", "heap", transfers=0.51)).found, "a control must be silent"


def test_what_only_moved_to_another_function_is_not_more() -> None:
    other = with_more("f", "heap", transfers=0.9)
    found = row(replace(other, own=CELL.own))
    assert found.found and found.largest["transfers"] == 0
    some = row(replace(other, own={**CELL.own, "transfers": 5.2}))
    assert some.found and some.largest["transfers"] == pytest.approx(0.2)


def test_innocent_pairs_are_counted_and_shown_where_they_are_wrong() -> None:
    pairs = [
        (kernel("a"), kernel("b")),
        (kernel("c"), kernel("d", with_more("f", "heap", false=1))),
    ]
    rows = [one for pair in pairs for one in rows_of("innocent", "nothing", pair, LIMITS)]
    text = markdown(rows)
    assert "innocent: 1 of 2 are right" in text
    assert "1.000 grew at most" in text
    assert "| `c, d` |" in text and "`a, b`" not in text


def test_kernels_of_other_code_or_boots_that_differ_are_told() -> None:
    pair = (kernel("a"), kernel("b", code="d"))
    (found,) = rows_of("control", "x", pair, LIMITS)
    assert not found.same_code
    once = replace(pair[1], boots=["d"])
    (found,) = rows_of("control", "x", (pair[0], once), LIMITS)
    assert not found.repeated


def test_what_a_kernel_shares_is_a_table_of_functions_beyond_the_threshold() -> None:
    text = of_kernel(kernel("plain"), LIMITS)
    rows = [line for line in text.splitlines() if line.startswith("| nvme")]
    assert rows == [
        "| nvme-4k-randread-t8-direct | `f` | heap | 1.00 | 0.20 | 0.00 |",
        "| nvme-4k-randread-t8-direct | `g` | lock | 0.00 | 0.00 | 2.00 |",
    ]


SOURCE = """#include <a.h>

\ttrace_block_rq_issue(rq);
\tbio_set_ioprio(bio);
\tiod->meta_sgt.nents = 0;
\t__u16 command_id = READ_ONCE(cqe->command_id);
"""


def test_both_kernels_of_a_plant_differ_in_one_constant() -> None:
    known = load_plants()
    assert len(known.plants) == 4
    for name, plant in known.plants.items():
        one, two = (
            plant.patch(name, lambda path: SOURCE, value).splitlines()
            for value in (plant.base, plant.candidate)
        )
        pairs = [(a, b) for a, b in zip(one, two, strict=True) if a != b]
        assert len(pairs) == 1 and "static const volatile" in pairs[0][0], name


def test_controls_and_thresholds_are_there() -> None:
    known = load_plants()
    assert {"percpu", "setting"} <= set(known.controls)
    assert set(known.thresholds) == {"transfers", "false", "hand_overs"}
    for name, place in known.controls.items():
        assert place.code.strip() in place.patch(name, lambda path: SOURCE)
