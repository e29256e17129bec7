"""Layouts of a kernel: their order and linker script, and what is said of their counts."""

from __future__ import annotations

import random

import pytest
from iotoll_lab.experiments.layouts import (
    Counts,
    LayoutRow,
    Moved,
    interval,
    intervals,
    markdown,
    modelled,
    moved,
)
from iotoll_lab.experiments.relink import Files, files_of, ordered, with_layout

from iotoll.core.errors import UsageError

LISTING = """
In archive vmlinux.a:

init/main.o:     file format elf64-littleaarch64

Sections:
Idx Name                    Size      VMA               LMA               File off  Algn  Flags
  0 .text                   00000400  0000000000000000  0000000000000000  00000040  2**6  CONTENTS, ALLOC, LOAD, RELOC, READONLY, CODE
  1 .text.unlikely          00000010  0000000000000000  0000000000000000  00000440  2**2  CONTENTS, ALLOC, LOAD, RELOC, READONLY, CODE

fs/empty.o:     file format elf64-littleaarch64
  0 .text                   00000000  0000000000000000  0000000000000000  00000040  2**6  CONTENTS, ALLOC, LOAD, READONLY, CODE

fs/file.o:     file format elf64-littleaarch64
  0 .text                   00000200  0000000000000000  0000000000000000  00000040  2**6  CONTENTS, ALLOC, LOAD, READONLY, CODE
"""  # noqa: E501

FILES = Files({f"fs/{n}.o": 64 for n in range(40)})


def test_files_are_those_that_have_functions() -> None:
    assert files_of(LISTING) == Files({"init/main.o": 0x400, "fs/file.o": 0x200})


def test_a_layout_is_the_same_again_and_has_each_file_once() -> None:
    one = list(ordered(FILES, 1, 7))
    assert one == list(ordered(FILES, 1, 7))
    assert sorted(name for _, name in one) == sorted(FILES.sizes)
    assert one != list(ordered(FILES, 1, 8))
    assert one != list(ordered(FILES, 2, 7))


def test_layout_0_is_the_order_of_the_link() -> None:
    assert list(ordered(FILES, 1, 0)) == [(0, name) for name in FILES.sizes]


def test_a_layout_never_needs_more_than_its_room() -> None:
    for number in range(1, 50):
        used = sum(padding + 64 for padding, _ in ordered(FILES, 3, number))
        assert used <= FILES.space


def test_a_linker_script_has_the_files_in_their_order_and_a_fixed_end() -> None:
    script = "A *(.text.hot) *(.text .text.fixup) *(.text.unlikely) B"
    text = with_layout(script, iter([(0, "b.o"), (8, "a.o")]), 4096)
    assert text.index("*b.o(") < text.index(". += 8;") < text.index("*a.o(")
    assert text.index("*a.o(") < text.index("*(.text .text.fixup)") < text.index(". = 4096;")
    assert text.startswith("A ")
    assert text.endswith(" B")


def test_a_linker_script_without_the_place_is_refused() -> None:
    with pytest.raises(UsageError, match="use another kernel"):
        with_layout("*(.text)", iter([]), 4096)


def test_what_differs_is_named_with_its_share_and_size() -> None:
    base = Counts({"submission instructions": [10, 10, None, 10], "whole dmb": [1, 1, 1, 1]})
    other = Counts({"submission instructions": [10, 14, None, 10], "whole dmb": [1, 1, 1, 1]})
    assert moved(base, base) == []
    assert moved(base, other) == [Moved("submission instructions", 0.25, 1.0)]


def test_a_count_that_one_layout_alone_has_moved() -> None:
    base = Counts({"submission instructions": [10, 10]})
    other = Counts({"submission instructions": [10, 10], "whole dsb": [0, 1]})
    assert moved(base, other) == [Moved("whole dsb", 0.5, 0.5)]


def test_lines_misses_and_times_are_modelled_and_counts_are_not() -> None:
    assert modelled("whole l1i_misses")
    assert modelled("submission ns")
    assert not modelled("submission instructions")
    assert not modelled("whole register_reads.UFS")


def test_intervals_hold_what_they_promise_of_layouts_they_were_not_made_of() -> None:
    chance = random.Random(1)
    hits = 0
    for _ in range(400):
        low, high = interval([chance.gauss(100, 5) for _ in range(12)])
        hits += low <= chance.gauss(100, 5) <= high
    assert 0.92 < hits / 400 < 0.98


def row(number: int, value: float, moves: list[Moved] | None = None) -> LayoutRow:
    name = "whole l1i_misses"
    cell = {"c": {name: value}}
    return LayoutRow("base", number, "", [], {"c": 9}, {"c": moves or []}, cell)


def test_intervals_are_made_of_some_layouts_and_tried_on_the_others() -> None:
    rows = [row(n, v) for n, v in enumerate([50, 10, 12, 11, 13, 12, 90, 11])]
    (one,) = intervals(rows, 4)
    assert (one.plain, one.layouts, one.covered, one.unseen) == (50, 4, 2, 3)
    text = markdown(rows, [one])
    assert "2 of 3 values of unseen layouts (66.7%)" in text
    assert "| base | c | 7 | 0 | 9 | 0 | 0.0% | none |" in text


def test_too_few_layouts_give_no_interval() -> None:
    assert intervals([row(n, 1.0) for n in range(5)], 3) == []
