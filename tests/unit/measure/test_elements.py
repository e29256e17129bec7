"""What an I/O costs besides instructions, counted in made-up windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotoll.measure.boot_trace import BootTraceFile, Window, measure
from iotoll.measure.elements import (
    AFFECTED,
    ElementCounter,
    Readings,
    _counted,
    _kib,
    _of_trace,
    in_trace,
    load_elements,
)
from iotoll.measure.iotable import IoTable
from iotoll.measure.windows import _KINDS, ACCESS, CLOCK, NO_WINDOW, Windows
from iotoll.records.models import CellRecord, Clock
from iotoll.records.models.analysis import PathRecord
from iotoll.records.text import MINUS
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
TRACES = Path(__file__).parents[2] / "trace/data/kernels"
SEND, WAKE, TABLE, PASS = BASE, BASE + 16, BASE + 32, BASE + 32 + 2048


def windows(
    blocks: Sequence[tuple[int, Sequence[int]]],
    contents: Sequence[Sequence[int]],
    *,
    times: Sequence[int] = (),
    ordered: Sequence[int] = (),
    accesses: Sequence[tuple[int, int, int]] = (),
    devices: Sequence[str] = (),
    **more: Any,
) -> Windows:
    """Blocks (address, words), windows of their numbers; one mark of the clock for each."""

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
        **more,
    )


def made(kind: int, rows: Sequence[tuple[Any, ...]]) -> np.ndarray:
    return np.array(list(rows), _KINDS[kind][1])


def owners(found: Windows) -> dict[str, list[str]]:
    """Whose each element is, place by place."""
    return {
        one.key: [
            found.symbols.name(n) for part in one.parts for n in part.owners[part.owner].tolist()
        ]
        for one in _counted(found, load_elements().of(found.symbols.machine))
    }


def sums(found: Windows) -> dict[str, int]:
    """How many of each element all windows have together."""
    return {
        one.key: sum(int(part.until(found)[-1]) for part in one.parts)
        for one in _counted(found, load_elements().of(found.symbols.machine))
    }


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


LOCKED, REX_W = 0x01, 0x20


def x86_word(opcode: int, modrm: int = 0, flags: int = 0) -> int:
    """As tools/plugin/machine.h has it; of the map 0F, the opcode is above 0xFF."""
    return flags | (opcode >> 8) << 8 | (opcode & 0xFF) << 16 | modrm << 24


@pytest.mark.parametrize(
    ("word", "element"),
    [
        (x86_word(0x1AE, 0xF0), "mfence"),
        (x86_word(0x1AE, 0xE8), "lfence"),
        (x86_word(0x1AE, 0xF8), "sfence"),
        (x86_word(0x83, 0x44, LOCKED), "smp_mb"),
        (x86_word(0x1B1, 0x17, LOCKED | REX_W), "atomics"),
        (x86_word(0x83, 0x47, LOCKED), "atomics"),
        (x86_word(0x87, 0x05), "atomics"),
        (x86_word(0x87, 0x43, REX_W), "atomics"),
        (x86_word(0x86, 0x80), "atomics"),
        (x86_word(0x101, 0x38), "tlb"),
        (x86_word(0x122, 0xD8), "tlb"),
        (x86_word(0x282, 0x04, 0x02), "tlb"),
        (x86_word(0x1AE, 0x39), "cache"),
        (x86_word(0x1AE, 0x31, 0x02), "cache"),
        (x86_word(0x109), "cache"),
        (x86_word(0x130), "msr_writes"),
        (x86_word(0xEC), "port_reads"),
        (x86_word(0xE5), "port_reads"),
        (x86_word(0xEF), "port_writes"),
        (x86_word(0x101, 0xF8), None),  # swapgs
        (x86_word(0x101, 0xF9), None),  # rdtscp
        (x86_word(0x122, 0xE0), None),  # CR4
        (x86_word(0xCF, 0, REX_W), None),
        (x86_word(0x89, 0x47, REX_W), None),
    ],
)
def test_instructions_of_x86_64_are_known_by_their_words(word: int, element: str | None) -> None:
    found = windows([(SEND, [word, x86_word(0x90)])], [[0]])
    found = replace(found, symbols=replace(found.symbols, machine="x86_64"))
    assert sums(found) == ({element: 1} if element else {})


def test_interrupts_of_x86_64_are_their_handlers_own() -> None:
    found = windows([(SEND, [0]), (BASE + 16, [0]), (BASE + 32, [0])], [[0, 1, 0, 2, 0, 1]])
    names = ("send", "asm_sysvec_apic_timer_interrupt", "asm_exc_page_fault", "last")
    starts = np.array([BASE, BASE + 16, BASE + 32, BASE + 48], np.uint64)
    kernel = replace(found.symbols, starts=starts, names=names, machine="x86_64")
    found = replace(found, symbols=kernel)
    assert sums(found) == {"interrupts": 2, "faults": 1}
    assert owners(found)["faults"] == ["asm_exc_page_fault"]
    assert set(owners(found)["interrupts"]) == {"asm_sysvec_apic_timer_interrupt"}


def test_elements_of_one_machine_are_not_those_of_the_other() -> None:
    known = load_elements()
    arm64, x86_64 = (known.of(machine).elements for machine in ("arm64", "x86_64"))
    assert {"dmb", "dsb", "isb"} <= set(arm64) - set(x86_64)
    assert {"mfence", "smp_mb", "faults"} <= set(x86_64) - set(arm64)
    assert arm64["atomics"].words != x86_64["atomics"].words
    assert x86_64["atomics"].many == "atomics" and x86_64["wakeups"] == arm64["wakeups"]


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
    assert owners(found) == {"dmb": ["try_to_wake_up"], "wakeups": ["send"]}


def test_who_only_passes_a_call_on_is_not_the_one_who_calls() -> None:
    found = windows([(SEND, [NOP]), (PASS, [NOP]), (PASS + 4, [NOP]), (WAKE, [NOP])],
                    [[0, 1, 2, 3], [2, 3]])  # fmt: skip
    assert owners(found) == {"wakeups": ["send", "[unknown]"]}


def test_exceptions_are_known_by_their_vectors() -> None:
    blocks = [(TABLE + offset, [NOP]) for offset in (0x200, 0x280, 0x400, 0x480)]
    assert sums(windows(blocks, [[0], [1], [2], [3]])) == {"exceptions": 1, "interrupts": 2}


IDLE = {
    "do_idle": [NOP, NOP],
    "cpu_do_idle": [DSB_SY, RET],
    "ct_kernel_enter": [LDADD, RET],
    "schedule_idle": [DMB_ISH, RET],
    **VECTORS,
    "handle": [DSB_SY, RET],
}


def idling(contents: Sequence[Sequence[int]], ordered: Sequence[int] = ()) -> Windows:
    """Windows of blocks 0 to 5: one of each function of `IDLE`, in its order."""
    places = np.cumsum([0, *(4 * len(code) for code in IDLE.values())]).tolist()
    blocks = [(BASE + at, code[:1]) for at, code in zip(places, IDLE.values(), strict=False)]
    blocks[4] = (blocks[4][0] + 0x280, [NOP])
    return replace(windows(blocks, contents, ordered=ordered), symbols=symbols(IDLE))


LOOP, WAIT, LEAVE_RCU, OTHERS, INTERRUPT, HANDLE = range(6)


def test_what_a_cpu_does_while_it_idles_is_no_cost() -> None:
    idle = [LOOP, LEAVE_RCU, WAIT]
    assert sums(idling([idle])) == {}
    # An interrupt and what else is done for others is one, and idling goes on behind it.
    busy = {"interrupts": 1, "dsb": 1}
    assert sums(idling([[*idle, INTERRUPT, HANDLE, WAIT, LEAVE_RCU]])) == busy
    assert sums(idling([[*idle, OTHERS, LEAVE_RCU]])) == {"dmb": 1, "atomics": 1}
    # No window goes on with what another one ended with.
    assert sums(idling([idle, [HANDLE, LEAVE_RCU]])) == {"dsb": 1, "atomics": 1}


def test_without_order_only_the_idle_loop_s_own_functions_are_no_cost() -> None:
    pairs = [LOOP, 2, WAIT, 2, LEAVE_RCU, 2, HANDLE, 1]
    assert sums(idling([pairs], ordered=[0])) == {"atomics": 2, "dsb": 1}


def test_whole_ios_have_what_ran_from_call_to_return() -> None:
    found = windows(
        [(SEND, [DMB_ISH]), (WAKE, [NOP])], [[0], [1], [0, 0], [0]], times=[100, 200, 300, 400]
    )
    counter = ElementCounter(found)
    columns = {"start": np.array([100, 200]), "end": np.array([300, 400])}
    table = IoTable(columns, 2)
    whole = {
        one.key: counter._whole(place, table).tolist() for place, one in enumerate(counter._counted)
    }
    assert whole == {"dmb": [2, 3], "wakeups": [1, 0]}


def test_instructions_of_some_functions_are_counted_apart() -> None:
    found = windows(
        [(SEND, [NOP, NOP]), (WAKE, [DMB_ISH, NOP, NOP])],
        [[0, 1, 0], [1], [ACCESS]],
        times=[100, 200, 300],
        accesses=[(SEND, 0, 0)],
        devices=["ufs"],
    )
    counter = ElementCounter(found, {"send", "of_no_image"})
    table = IoTable({"start": np.array([50, 100]), "end": np.array([150, 250])}, 2)
    (place,) = [n for n, one in enumerate(counter._counted) if one.key == AFFECTED]
    assert counter._whole(place, table).tolist() == [4, 0]
    (part,) = counter._counted[place].parts
    assert [found.symbols.name(n) for n in part.owners.tolist()] == ["send"]
    assert AFFECTED not in {one.key for one in ElementCounter(found)._counted}


def test_elements_are_named_in_plain_words() -> None:
    known = load_elements()
    assert known.text("register_reads.UFS", 1) == "+1 register read of UFS"
    assert known.text("dsb", -2) == f"{MINUS}2 dsb barriers"
    assert known.device("gicv3_redist_region[0]") == "interrupt controller"


def test_what_functions_are_called_with_is_summed_and_belongs_to_who_calls() -> None:
    found = windows(
        [(SEND, [NOP]), (WAKE, [NOP])],
        [[0, 1], [0]],
        called=("__memcpy", "__dma_map_sg_attrs"),
        values=made(11, [(0, 1, 0, 4096), (0, 1, 1, 32), (1, NO_WINDOW, 0, 4), (9, 0, 0, 77)]),
    )
    assert {key: sums(found)[key] for key in ("copied", "segments")} == {
        "copied": 4100,
        "segments": 32,
    }
    assert owners(found)["segments"] == ["send"]
    assert owners(found)["copied"] == ["send", "[unknown]"]


def test_a_list_of_segments_adds_to_those_that_are_mapped_alone() -> None:
    alone = {"dma_map_page_attrs": [NOP, RET], **FUNCTIONS}
    found = windows([(BASE, [NOP])], [[0], [0]], called=("__dma_map_sg_attrs",),
                    values=made(11, [(1, 0, 0, 3)]))  # fmt: skip
    found = replace(found, symbols=symbols(alone))
    assert sums(found)["segments"] == 1 + 1 + 3
    (one,) = [one for one in ElementCounter(found)._counted if one.key == "segments"]
    assert [part.of(found, 1, 2).sum() for part in one.parts] == [1, 3]


def test_lines_of_cache_are_those_of_the_function_that_touched_them() -> None:
    found = windows(
        [(SEND, [NOP]), (WAKE, [NOP])],
        [[0], [1], [0]],
        touches=made(13, [(0, 0, 8, 1, 2, 0, 1), (1, 1, 3, 0, 0, 0, 0)]),
    )
    found_sums = sums(found)
    assert (found_sums["data_lines"], found_sums["code_lines"]) == (11, 1)
    assert (found_sums["l1d_misses"], found_sums["l2_misses"]) == (2, 1)
    assert owners(found)["data_lines"] == ["send", "try_to_wake_up"]


def test_the_bytes_of_requests_are_the_trace_s() -> None:
    table = IoTable(
        {"pid": np.array([2, 1, 1]), "path": np.array(["R4", "WS4+hWSM8", "4xR32+hFF"], object)}, 3
    )
    found = _of_trace(table, load_elements())
    assert found["bytes"].whole == [(12, 1), (128, 1), (4, 1)]
    assert found["bytes"].sections == {}
    assert set(found) == {"bytes"}, "the others are counted in what the boot executed"


@pytest.mark.parametrize(
    ("path", "requests", "kib"),
    [
        ("R4", 1, 4),
        ("4xR32+hFF", 5, 128),
        ("WS4+hWSM8+hFF+hWSM4+hFF", 5, 16),
        ("RA256d", 1, 256),
        ("R0.5+2xW1.5", 3, 3.5),
        ("FF", 1, 0),
    ],
)
def test_a_path_tells_its_requests_and_what_they_carry(
    path: str, requests: int, kib: float
) -> None:
    record = PathRecord(path=path, ios=1, sections={})
    assert (record.requests, _kib(path)) == (requests, kib)


# ---------------------------------------------------------------- what the trace itself counts


@pytest.fixture(scope="module")
def psync() -> CellRecord:
    return traced("6.12-arm64-nvme-psync")


def traced(name: str) -> CellRecord:
    """The record of a real trace, as a board on the clock `time` has it."""
    file = BootTraceFile(TRACES / f"{name}.dat")
    (found,) = measure(file, [Window("cell", 0, 2**63)], Clock.TIME)
    return CellRecord(cell="cell", clock=Clock.TIME, **found.data)


def test_a_trace_counts_the_elements_of_its_own_ios(psync: CellRecord) -> None:
    """Three of the four are facts of a 4 KiB read that sleeps: away and back, woken once."""
    found = in_trace(psync)
    assert list(found) == ["interrupts", "switches", "wakeups", "requests", "bytes"]
    assert (found["requests"], found["bytes"]) == (1, 4)
    assert 0.9 < found["interrupts"] <= 1.1 and 0.9 < found["wakeups"] <= 1.1
    assert 1.5 < found["switches"] <= 2.1
    busy = psync.trace["events"]["sched_switch"] / psync.ios["measured"]
    assert busy > 2 * found["switches"], "other tasks' are not those of the I/Os"


def test_requests_are_those_of_the_table() -> None:
    file = BootTraceFile(TRACES / "6.12-arm64-ufs-fsync.dat")
    (found,) = measure(file, [Window("cell", 0, 2**63)], Clock.TIME)
    counted = in_trace(CellRecord(cell="cell", clock=Clock.TIME, **found.data))
    assert counted["requests"] == pytest.approx(found.table["requests"].mean(), abs=1e-4)


def test_what_a_trace_has_no_event_of_is_not_counted() -> None:
    lean = in_trace(traced("6.12-arm64-nvme-lean"))
    assert "wakeups" not in lean and lean["switches"] > 1, "sched_waking was not recorded"
    bare = in_trace(traced("../virtio-split-flush"))
    assert set(bare) == {"requests", "bytes"}, "without sched_switch nothing tells whose code ran"


@pytest.mark.parametrize("name", ["6.12-arm64-nvme-libaio", "6.12-arm64-nvme-uring"])
def test_ios_that_end_before_their_wake_up_have_no_events_counted(name: str) -> None:
    assert set(in_trace(traced(name))) == {"requests", "bytes"}


def test_nothing_that_was_not_counted_reads_as_zero(psync: CellRecord) -> None:
    """No event was counted in own time: whose code ran is unknown, or nobody asked."""
    sections = {
        name: part.model_copy(update={"probe_events": {}}) for name, part in psync.sections.items()
    }
    assert set(in_trace(psync.model_copy(update={"sections": sections}))) == {"requests", "bytes"}
    rare = psync.paths[0].model_copy(update={"path": "other"})
    many = psync.model_copy(update={"paths": [*psync.paths, rare]})
    assert set(in_trace(many)) == {"interrupts", "switches", "wakeups"}
    assert in_trace(psync.model_copy(update={"paths": [], "sections": {}})) == {}


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


def test_each_cpu_has_its_own_count_and_a_whole_io_that_of_all() -> None:
    times = np.array([100, 300, 150, 250, 400])
    readings = Readings(times, [np.array([0, 1]), np.array([2, 3, 4])])
    until = np.array([3, 5, 1, 2, 9])
    begin, end = np.array([100, 90, 300]), np.array([300, 200, 400])
    assert readings.between(until, begin, end).tolist() == [2 + 2, 3 + 1, 7]
    rows = np.frombuffer(readings.counts(until, 200, 300), np.uint64).reshape(-1, 3)
    assert rows.tolist() == [[0, 100, 3], [0, 300, 5], [1, 150, 1], [1, 250, 2]]
