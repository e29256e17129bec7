"""What an I/O costs besides instructions, counted in made-up windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from iotoll.measure.elements import ElementCounter, _counted, load_elements
from iotoll.measure.iotable import IoTable
from iotoll.measure.windows import _KINDS, ACCESS, CLOCK, NO_WINDOW, Windows
from tests.unit.explain.kernels import BASE, NOP, RET, call, symbols

DMB_ISH, DMB_OSHLD, DSB_SY, DSB_ISHST = 0xD5033BBF, 0xD50331BF, 0xD5033F9F, 0xD5033A9F
ISB, TLBI, DC_CVAC, DC_ZVA = 0xD5033FDF, 0xD508831F, 0xD50B7A20, 0xD50B7420
STXR, STLXR, LDXR, LDADD, CAS, STLR, SVC = (
    0xC8017C40, 0x8804FC03, 0xC85F7C40, 0xB8200000, 0xC8A07C00, 0x089FFC1F, 0xD4000001,
)  # fmt: skip
VECTORS = {"vectors": [NOP] * 512}
FUNCTIONS = {
    "send": [NOP, call(BASE + 4, BASE + 16), NOP, RET],
    "try_to_wake_up": [NOP, NOP, NOP, RET],
    **VECTORS,
    "wake_up_process": [NOP, NOP, NOP, RET],
}
SEND, WAKE, TABLE, PASS = BASE, BASE + 16, BASE + 32, BASE + 32 + 2048


def windows(
    blocks: Sequence[tuple[int, Sequence[int]]],
    contents: Sequence[Sequence[int]],
    *,
    times: Sequence[int] = (),
    ordered: Sequence[int] = (),
    accesses: Sequence[tuple[int, int, int]] = (),
    devices: Sequence[str] = (),
) -> Windows:
    """Blocks (address, words), windows of their numbers; one mark of the clock for each."""

    def made(kind: int, rows: Sequence[tuple[int, ...]]) -> np.ndarray:
        return np.array(list(rows), _KINDS[kind][1])

    return Windows(
        blocks=made(1, [(address, len(words), len(words)) for address, words in blocks]),
        special=made(2, [(n, word) for _, words in blocks for n, word in enumerate(words)]),
        devices=tuple(devices),
        accesses=made(4, accesses),
        contents=np.array([entry for one in contents for entry in one], np.uint32),
        windows=made(
            6,
            [(len(one), ordered[n] if ordered else 1, 0) for n, one in enumerate(contents)],
        ),
        marks=made(7, [(n, CLOCK, 0) for n in range(len(contents))]),
        switches=made(8, []),
        times=np.array(times or range(len(contents)), np.int64),
        symbols=symbols(FUNCTIONS),
    )


def sums(found: Windows) -> dict[str, int]:
    """How many of each element all windows have together."""
    counted = _counted(found, load_elements())
    return {one.key: int(one.count.sum()) for one in counted}


@pytest.mark.parametrize(
    ("word", "element"),
    [
        (DMB_ISH, "dmb"),
        (DMB_OSHLD, "dmb_one_way"),
        (DSB_SY, "dsb"),
        (DSB_ISHST, "dsb"),
        (ISB, "isb"),
        (TLBI, "tlb"),
        (DC_CVAC, "cache"),
        (STXR, "atomics"),
        (STLXR, "atomics"),
        (LDADD, "atomics"),
        (CAS, "atomics"),
        (DC_ZVA, None),
        (LDXR, None),
        (STLR, None),
        (SVC, None),
        (NOP, None),
    ],
)
def test_instructions_are_known_by_their_words(word: int, element: str | None) -> None:
    found = windows([(SEND, [word, NOP])], [[0]])
    assert sums(found) == ({element: 1} if element else {})


def test_a_window_has_what_its_blocks_have_as_often_as_they_are_there() -> None:
    found = windows([(SEND, [DMB_ISH, DMB_ISH]), (SEND + 8, [DSB_SY])], [[0, 1, 0], [1, 3]],
                    ordered=[1, 0])  # fmt: skip
    assert sums(found) == {"dmb": 4, "dsb": 1 + 3}


def test_registers_are_told_by_device_and_way() -> None:
    found = windows(
        [(SEND, [NOP])],
        [[0, ACCESS, ACCESS | 1, ACCESS | 2]],
        accesses=[(SEND, 0, 0), (SEND, 0, 1), (SEND + 4, 1, 0)],
        devices=["ufs", "gicv3_dist"],
    )
    assert sums(found) == {
        "register_reads.UFS": 1,
        "register_writes.UFS": 1,
        "register_reads.interrupt controller": 1,
    }


def test_a_call_belongs_to_who_calls_and_an_instruction_to_who_has_it() -> None:
    found = windows([(SEND, [NOP, NOP]), (WAKE, [DMB_ISH])], [[0, 1]])
    names = symbols(FUNCTIONS)
    owners = {
        one.key: [names.name(owner) for owner in one.owners[one.owner].tolist()]
        for one in _counted(found, load_elements())
    }
    assert owners == {"dmb": ["try_to_wake_up"], "wakeups": ["send"]}


def test_who_only_passes_a_call_on_is_not_the_one_who_calls() -> None:
    found = windows([(SEND, [NOP]), (PASS, [NOP]), (PASS + 4, [NOP]), (WAKE, [NOP])],
                    [[0, 1, 2, 3], [2, 3]])  # fmt: skip
    (one,) = _counted(found, load_elements())
    names = symbols(FUNCTIONS)
    assert [names.name(owner) for owner in one.owners[one.owner].tolist()] == ["send", "[unknown]"]


def test_exceptions_are_known_by_their_vectors() -> None:
    blocks = [(TABLE + offset, [NOP]) for offset in (0x200, 0x280, 0x400, 0x480)]
    assert sums(windows(blocks, [[0], [1], [2], [3]])) == {"exceptions": 1, "interrupts": 2}


def test_whole_ios_have_what_ran_from_call_to_return() -> None:
    found = windows(
        [(SEND, [DMB_ISH]), (WAKE, [NOP])], [[0], [1], [0, 0], [0]], times=[100, 200, 300, 400]
    )
    counter = ElementCounter(found)
    table = IoTable({"start": np.array([100, 200]), "end": np.array([300, 400])}, 2)
    whole = {
        one.key: counter._whole(place, table).tolist() for place, one in enumerate(counter._counted)
    }
    assert whole == {"dmb": [2, 3], "wakeups": [1, 0]}


def test_elements_are_named_in_plain_words() -> None:
    known = load_elements()
    assert known.text("register_reads.UFS", 1) == "+1 register read of UFS"
    assert known.text("dsb", -2) == "-2 dsb barriers"
    assert known.device("gicv3_redist_region[0]") == "interrupt controller"


def test_each_cell_has_what_the_kernel_executed_by_function() -> None:
    blocks = [(SEND, [NOP, NOP]), (WAKE, [NOP])]
    found = windows(blocks, [[0], [1, 1], [0, 3, 1, 2]], ordered=[1, 1, 0])
    marks = [(0,), (1,), (NO_WINDOW,), (2,), (2,), (NO_WINDOW,)]
    kept = replace(found, marks=np.array([(*m, CLOCK, 0) for m in marks], _KINDS[7][1]))
    assert kept.by_function() == [
        {"send": 2, "try_to_wake_up": 2},
        {"send": 12, "try_to_wake_up": 4},
    ]
    nothing = replace(found, marks=np.array([], _KINDS[7][1]))
    assert nothing.by_function() == []
