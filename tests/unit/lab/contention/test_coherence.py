"""What CPUs take from each other, in streams made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from iotoll_lab.contention.coherence import Shared, shared
from iotoll_lab.contention.recorder import LOAD, OPEN, RECORD, STORE, Accesses

LDR, LDAXR, LDXR, STXR, STLXR = 0xF9400000, 0xC85FFC00, 0xC85F7C00, 0xC8007C00, 0xC800FC00
CASA, CASAL, LDADDA, LDADDAL = 0xC8E07C00, 0xC8E0FC00, 0xF8A00000, 0xF8E00000

Access = tuple[int, int, int] | tuple[int, int, int, int] | tuple[int, int, int, int, int]


def stream(*accesses: Access) -> Accesses:
    """Accesses as (CPU, kind, address[, bytes[, word]]), 8 bytes of a plain load if not said."""
    rows, words = [], []
    for number, one in enumerate(accesses):
        cpu, kind, address = one[:3]
        size = one[3] if len(one) > 3 else 8
        words.append((4 * number, one[4] if len(one) > 4 else LDR))
        rows.append((address, address, number, cpu, size, kind, 0))
    sites = np.array(words, [("address", "<u8"), ("word", "<u8")])
    return Accesses(np.array(rows, RECORD), sites, np.zeros(0, np.uint64))


def told(*accesses: Access) -> tuple[list[int], list[int], list[int]]:
    """Transfers, those of them that are false, and invalidations."""
    found = shared(stream(*accesses), 0, len(accesses))
    false = found.transfers[found.is_false]
    return found.transfers.tolist(), false.tolist(), found.invalidations.tolist()


def test_a_line_of_one_cpu_is_never_transferred() -> None:
    assert told((0, STORE, 0), (0, LOAD, 0), (0, STORE, 8), (0, LOAD, 56)) == ([], [], [])


def test_what_nobody_writes_is_not_transferred() -> None:
    assert told(*((cpu, LOAD, 0) for cpu in (0, 1, 2, 3, 0, 1))) == ([], [], [])


def test_a_value_that_another_cpu_reads_is_a_true_transfer() -> None:
    assert told((0, STORE, 0), (1, LOAD, 0)) == ([1], [], [])
    assert told((0, LOAD, 0), (1, STORE, 0), (0, LOAD, 4, 1)) == ([2], [], [1])


def test_a_reader_has_its_line_until_another_cpu_writes() -> None:
    found = told((0, STORE, 0), (1, LOAD, 0), (1, LOAD, 8), (0, STORE, 0), (1, LOAD, 0))
    assert found == ([1, 4], [], [3])


def test_a_counter_for_all_is_transferred_each_time_and_never_in_vain() -> None:
    turns = [(cpu, kind, 0) for cpu in (0, 1, 2, 0, 1, 2) for kind in (LOAD, STORE)]
    assert told(*turns) == ([2, 4, 6, 8, 10], [], [3, 5, 7, 9, 11])


def test_counters_of_each_cpu_in_one_line_are_falsely_shared() -> None:
    turns = [(cpu, kind, 8 * cpu) for cpu in (0, 1, 2, 0, 1, 2) for kind in (LOAD, STORE)]
    found = told(*turns)
    assert found == ([2, 4, 6, 8, 10], [2, 4, 6, 8, 10], [3, 5, 7, 9, 11])


def test_counters_of_each_cpu_in_lines_of_their_own_are_silent() -> None:
    turns = [(cpu, kind, 64 * cpu) for cpu in (0, 1, 2, 0, 1, 2) for kind in (LOAD, STORE)]
    assert told(*turns) == ([], [], [])


def test_a_transfer_is_true_if_the_value_is_read_later_before_the_line_is_lost() -> None:
    # CPU 1 takes the line for its own bytes, and then reads what CPU 0 wrote.
    assert told((0, STORE, 0), (1, LOAD, 32), (1, LOAD, 0)) == ([1], [], [])
    # It has lost the line in between: the first time it was in vain.
    found = told((0, STORE, 0), (1, LOAD, 32), (0, STORE, 8), (1, LOAD, 0))
    assert found == ([1, 3], [1], [2])


def test_what_was_read_is_not_news_a_second_time() -> None:
    # CPU 1 knows byte 0 already; CPU 0 has written byte 8 since, which CPU 1 never asks for.
    found = told((0, STORE, 0), (1, LOAD, 0), (0, STORE, 8), (1, LOAD, 0))
    assert found == ([1, 3], [3], [2])


def test_a_write_takes_a_line_from_all_that_have_it() -> None:
    found = told((0, LOAD, 0), (1, LOAD, 0), (2, STORE, 0), (0, LOAD, 0), (1, LOAD, 0))
    assert found == ([3, 4], [], [2])


def test_an_access_across_the_end_of_a_line_is_of_both() -> None:
    assert told((0, STORE, 64), (1, LOAD, 60, 8))[0] == [1]
    assert told((0, STORE, 56), (1, LOAD, 60, 8))[0] == [1]
    assert told((0, STORE, 68, 4), (1, LOAD, 60, 8)) == ([1], [1], [])


def test_only_the_asked_records_count_and_marks_are_no_accesses() -> None:
    rows = stream((0, STORE, 0), (0, OPEN, 0), (1, LOAD, 0), (0, STORE, 0), (1, LOAD, 0))
    found = shared(rows, 1, 5)
    assert found.transfers.tolist() == [4]
    assert found.invalidations.tolist() == [3]
    nothing: Shared = shared(rows, 1, 2)
    assert not len(nothing.transfers) and not len(nothing.hand_overs)


def hand_overs(*accesses: Access) -> list[int]:
    found = shared(stream(*accesses), 0, len(accesses))
    return [int(number) for number in found.hand_overs]


def take(cpu: int, lock: int, load: int = LDAXR, store: int = STXR) -> tuple[Access, Access]:
    """A lock is taken by a pair of exclusives."""
    return (cpu, LOAD, lock, 4, load), (cpu, STORE, lock, 4, store)


def test_a_lock_that_another_cpu_had_is_handed_over() -> None:
    assert hand_overs(*take(0, 0), *take(0, 0), *take(1, 0), *take(1, 0), *take(0, 0)) == [5, 9]
    assert hand_overs(*take(0, 0), *take(1, 64), *take(0, 0)) == [], "locks of their own"
    # Two locks in one line are two locks.
    assert hand_overs(*take(0, 0), *take(1, 4), *take(0, 0), *take(1, 4)) == []


@pytest.mark.parametrize(("load", "store"), [(LDXR, STXR), (LDXR, STLXR)])
def test_other_atomics_take_no_lock(load: int, store: int) -> None:
    assert hand_overs(*take(0, 0, load, store), *take(1, 0, load, store)) == []


def test_an_exclusive_that_is_not_written_takes_nothing() -> None:
    failed = (1, LOAD, 0, 4, LDAXR)
    assert hand_overs(*take(0, 0), failed, *take(0, 0)) == []
    # The store belongs to the last exclusive load, which was of another word.
    assert hand_overs(*take(0, 0), failed, (1, LOAD, 8, 4, LDXR), (1, STORE, 8, 4, STXR)) == []


def test_cpus_that_take_turns_within_a_pair_are_told_apart() -> None:
    one, two = take(0, 0), take(1, 64)
    again = take(1, 0)
    assert hand_overs(one[0], two[0], one[1], two[1], *again) == [5]


@pytest.mark.parametrize(("word", "expected"), [(CASA, 1), (LDADDA, 1), (CASAL, 0), (LDADDAL, 0)])
def test_atomics_of_armv8_1_take_a_lock_by_acquire_alone(word: int, expected: int) -> None:
    rows = [(cpu, kind, 0, 4, word) for cpu in (0, 1) for kind in (LOAD, STORE)]
    assert len(hand_overs(*rows)) == expected
