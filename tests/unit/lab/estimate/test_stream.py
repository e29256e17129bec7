"""Cycles of made-up windows: which way branches went, and what registers of devices take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from iotoll_lab.estimate.core import Core, load_core
from iotoll_lab.estimate.stream import Boot, Flow, ran_between

from iotoll.boots.counts import TOUCH
from iotoll.kernels.symbols import Symbols
from iotoll.measure.windows import ACCESS, Windows
from tests.unit.explain.kernels import BASE, NOP, RET, symbols
from tests.unit.measure.test_elements import made, windows

CBZ = 0xB4000060
"""``cbz x0, +12``"""
BLR = 0xD63F0020
DSB = 0xD5033F9F
FUNCTIONS = {"f": [NOP, CBZ, NOP, NOP, NOP, RET], "g": [BLR, NOP]}


@pytest.fixture
def core() -> Core:
    return load_core("cortex-a53")


@pytest.fixture
def image() -> Symbols:
    return symbols(FUNCTIONS)


def made_up(contents: list[list[int]], **more: object) -> Windows:
    """Blocks 0 (ends with the branch), 1 (behind it) and 2 (where it goes), without their words."""
    blocks = [(BASE, [NOP, CBZ]), (BASE + 8, [NOP, NOP]), (BASE + 16, [NOP, RET])]
    found = windows(blocks, contents, **more)  # type: ignore[arg-type]
    nothing = found.blocks.copy()
    nothing["special"] = 0
    return replace(found, blocks=nothing, special=made(2, []), symbols=symbols({}))


def flow(found: Windows, image: Symbols) -> Flow:
    return Boot(found, image, ran_between(found, 0, len(found.marks))).flow


def test_a_branch_that_goes_its_usual_way_is_predicted(image: Symbols) -> None:
    found = flow(made_up([[0, 2], [0, 2], [0, 2], [0, 1]]), image)
    firsts = found.block == 0
    assert found.taken[firsts].tolist() == [True, True, True, False]
    assert found.missed[firsts].tolist() == [False, False, False, True]


def test_behind_the_last_block_of_a_window_nothing_is_known(image: Symbols) -> None:
    found = flow(made_up([[0, 2], [0]]), image)
    assert not found.taken[-1]
    assert not found.missed[-1]


def test_a_mispredicted_branch_costs_its_window(core: Core, image: Symbols) -> None:
    found = made_up([[0, 2], [0, 2], [0, 1]])
    cycles = Boot(found, image, ran_between(found, 0, 3)).cycles(core)
    assert cycles[0] == cycles[1]
    assert cycles[2] - cycles[0] == core.branches.mispredicted - core.branches.taken - 1


def test_windows_that_did_not_run_cost_nothing(core: Core, image: Symbols) -> None:
    found = made_up([[0, 2], [0, 1]])
    assert Boot(found, image, ran_between(found, 0, 1)).cycles(core)[1] == 0


def test_a_register_of_a_device_takes_its_time(core: Core, image: Symbols) -> None:
    plain = made_up([[2], [2]])
    access = made_up(
        [[2, ACCESS], [2, ACCESS | 1]], accesses=[(BASE, 0, 0), (BASE, 0, 1)], devices=["ufs"]
    )
    often = ran_between(plain, 0, 2)
    more = Boot(access, image, often).cycles(core) - Boot(plain, image, often).cycles(core)
    assert more.tolist() == [600, 120]  # 500 and 100 ns at 1.2 GHz


def test_a_window_without_order_costs_what_others_do_on_average(core: Core, image: Symbols) -> None:
    found = made_up([[2, 2], [2, 2]], ordered=[1, 0])
    sizes = found.windows.copy()
    sizes["instructions"] = [4, 8]
    found = replace(found, windows=sizes)
    # The second is pairs of a block and how often it ran.
    cycles = Boot(found, image, ran_between(found, 0, 2)).cycles(core)
    assert cycles[1] == 2 * cycles[0]


def test_words_that_the_kernel_patched_are_taken_as_they_ran(core: Core, image: Symbols) -> None:
    found = made_up([[2]])
    blocks = found.blocks.copy()
    blocks["special"] = [0, 0, 1]
    patched = replace(found, blocks=blocks, special=made(2, [(0, DSB)]))
    often = ran_between(found, 0, 1)
    more = Boot(patched, image, often).cycles(core) - Boot(found, image, often).cycles(core)
    assert more.tolist() == [core.waits.dsb]


def test_misses_add_to_the_time_before_a_mark(core: Core, image: Symbols) -> None:
    found = made_up([[2], [2]])
    touches = np.zeros(1, TOUCH)
    touches["mark"], touches["l1i_misses"], touches["l2_misses"] = 1, 3, 1
    often = ran_between(found, 0, 2)
    plain = Boot(found, image, often).until(core)
    more = Boot(replace(found, touches=touches), image, often).until(core) - plain
    assert more.tolist() == [0, 3 * core.misses.l1i + core.misses.l2]
