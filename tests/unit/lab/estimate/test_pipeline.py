"""The pipeline's parts, each on a few instructions; and its error on loops of the real core."""

from __future__ import annotations

from statistics import fmean

import pytest
from iotoll_lab.estimate.core import WHICH, Core, load_core
from iotoll_lab.estimate.decode import Decoder, Op
from iotoll_lab.estimate.microbench import assembled, estimates, loops
from iotoll_lab.estimate.pipeline import cycles, issued

from iotoll.core.errors import UsageError


@pytest.fixture
def core() -> Core:
    return load_core("cortex-a53")


def ops(core: Core, *lines: str) -> list[Op]:
    return Decoder(core).ops(assembled(lines))


def took(core: Core, *lines: str) -> int:
    return cycles([(op, False, False) for op in ops(core, *lines)], core)


def test_two_independent_instructions_are_issued_in_a_cycle(core: Core) -> None:
    assert took(core, "add x0, x1, x2", "add x3, x4, x5") == 1
    assert took(core, "add x0, x1, x2", "add x3, x0, x5") == 2


def test_an_address_is_needed_before_an_operand_is(core: Core) -> None:
    assert took(core, "add x0, x1, x2", "ldr x3, [x0]") == 4
    assert took(core, "ldr x0, [x1]", "add x3, x0, x5") == 2
    assert took(core, "ldr x0, [x1]", "add x3, x5, x0, lsl #2") == 3


def test_a_dependent_chain_costs_more_than_the_same_instructions_side_by_side(core: Core) -> None:
    chain = took(core, *["ldr x0, [x0]"] * 8)
    beside = took(core, *[f"ldr x{n}, [x20]" for n in range(8)])
    assert chain > 2 * beside


def test_stalls_rank_as_the_real_core_has_them(core: Core) -> None:
    kinds = {
        "additions": took(core, *["add x0, x0, x1"] * 16),
        "loads": took(core, *["ldr x0, [x0]"] * 16),
        "small loads": took(core, *["ldrb w0, [x0, x28]"] * 16),
        "products": took(core, *["umulh x0, x0, x1"] * 16),
        "divisions": took(core, *["udiv x0, x0, x1"] * 16),
    }
    assert sorted(kinds, key=lambda kind: kinds[kind]) == list(kinds)


def test_a_mispredicted_branch_costs_more_than_one_that_is_taken(core: Core) -> None:
    (branch, add) = ops(core, "cbz x0, .", "add x1, x2, x3")
    ways = [
        cycles([(branch, *way), (add, False, False)], core)
        for way in ((False, False), (True, False), (True, True))
    ]
    assert ways == [1, 4, 10]


def test_a_barrier_lets_nothing_pass(core: Core) -> None:
    assert took(core, "dsb sy", "nop") == core.waits.dsb + 1


def test_a_load_of_what_was_just_stored_waits(core: Core) -> None:
    assert took(core, "str x0, [x1]", "ldr x2, [x3]") == 2
    assert took(core, "str x0, [x1]", "ldr x2, [x1]") == 3
    # Another value of the register is another place.
    moved = ops(core, "str x0, [x1]", "add x1, x1, #8", "ldr x2, [x1]")
    assert issued([(op, False, False) for op in moved], core) == [0, 0, 3]


def test_flags_and_zero_are_no_common_registers(core: Core) -> None:
    (compare, branch, zero) = ops(core, "cmp x0, x1", "b.eq .", "mov x2, xzr")
    assert dict(compare.writes).keys() == {"nzcv"}
    assert dict(branch.reads).keys() == {"nzcv"}
    assert zero.reads == ()


def test_what_is_no_instruction_is_a_plain_one(core: Core) -> None:
    assert Decoder(core).ops([0]) == [Op()]


def test_the_mean_error_of_loops_whose_numbers_are_not_used_is_below_a_tenth(core: Core) -> None:
    rows = [row for row in estimates(core, loops()) if not row.loop.sets]
    assert len(rows) > 200
    groups = {row.loop.group for row in rows}
    errors = {g: fmean(abs(r.error) for r in rows if r.loop.group == g) for g in groups}
    assert fmean(errors.values()) < 0.1
    assert max(errors.values()) < 0.25, errors


def test_what_is_assumed_has_a_range(core: Core) -> None:
    least, taken, most = (load_core("cortex-a53", which) for which in WHICH)
    assert least.waits.dsb < taken.waits.dsb < most.waits.dsb
    assert taken == core
    assert least.ready.load == most.ready.load, "measured"


def test_an_unknown_core_names_those_that_are_there() -> None:
    with pytest.raises(UsageError, match=r"core m1: .*cortex-a53"):
        load_core("m1")
