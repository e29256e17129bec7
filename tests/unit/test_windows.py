"""What a board executed between its marks: the plugin's core, and how its file is read."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iotoll.boards.plugin import TRACING, WINDOWS
from iotoll.boots.counts import pack_windows
from iotoll.core.errors import InfrastructureError
from iotoll.core.paths import data_dir
from iotoll.measure.windows import (
    ACCESS,
    NO_WINDOW,
    Windows,
    read_windows,
)
from tests.unit.explain.kernels import BASE, NOP, symbols

DMB, LDR = 0xD5033BBF, 0xF9400000
CLOCK, SWITCH, EXCEPTION, ENTRY = range(4)
ORDERED = 1 << 13

SHIM = """
#include "lines.h"
#include "windows.h"
static struct window_store store;
static struct windows cpus[2], all;
static int count, now;
int start(const char *path, int of) {
    count = of;
    now = 0;
    store = (struct window_store){0};
    store.file = fopen(path, "wb");
    for (int i = 0; i < count; i++) {
        cpus[i] = (struct windows){0};
        if (!windows_make(&cpus[i], &store))
            return 0;
    }
    all = cpus[0];
    return store.file && fwrite(WINDOWS_MAGIC, 8, 1, store.file) == 1 && store_make(&store);
}
void turn(int cpu) {
    cpus[now] = all;
    now = cpu;
    all = cpus[now];
}
void open_now(int on, uint64_t user) { windows_open(&all, on, user); }
void enter(uint64_t address, const uint32_t *words, uint32_t number) {
    const struct translated code = {MACHINE_ARM64, number, words, NULL};
    windows_enter(&all, windows_stretch(&store, address, &code));
}
void enter_x86(uint64_t address, const uint8_t *bytes, const uint16_t *places, uint32_t number) {
    uint32_t words[16];
    const struct translated code = {MACHINE_X86_64, number, words, places};
    for (uint32_t i = 0; i < number; i++)
        words[i] = machine_word(MACHINE_X86_64, bytes + places[i], places[i + 1] - places[i]);
    windows_enter(&all, windows_stretch(&store, address, &code));
}
uint32_t word_of(const uint8_t *bytes, uint32_t size) {
    return machine_word(MACHINE_X86_64, bytes, size);
}
int is_special(uint32_t word) { return machine_is_special(MACHINE_X86_64, word); }
int is_access(uint32_t word) { return machine_is_access(MACHINE_X86_64, word); }
int is_probe(uint32_t word) { return machine_is_probe(MACHINE_X86_64, word); }
int is_counter(uint32_t word) { return machine_reads_counter(MACHINE_X86_64, word); }
int is_back_again(uint32_t word) { return machine_is_return(MACHINE_X86_64, word); }
int is_nop(uint32_t word) { return machine_is_nop(MACHINE_X86_64, word); }
void leave(uint64_t address) { windows_leave(&all, address); }
void back(uint64_t address) { windows_return(&all, address); }
void stop(uint64_t address) { windows_stop(&all, address); }
void device(uint64_t address, const char *name, int store) {
    windows_access(&all, address, address + 4, name, store);
}
void mark(uint64_t address, int kind, uint64_t user) { windows_mark(&all, address, kind, user); }
void task(uint64_t address, uint64_t user, uint64_t from, uint64_t to) {
    windows_switch(&all, address, user, from, to);
}
static struct lines touched;
void value(uint32_t which, uint64_t amount) { windows_value(&all, which, amount); }
int with_lines(void) {
    const uint64_t sizes[] = {128, 128, 256}, ways[] = {1, 1, 2};
    touched = (struct lines){0};
    all.touches = &touched.found;
    all.touch_width = sizeof(struct line_counts);
    return caches_make(&touched.caches, 64, sizes, ways) && lines_make(&touched);
}
void call(void) { lines_call(&touched); }
void touch(uint64_t address, uint64_t bytes, int is_code) {
    lines_touch(&touched, &all, address, bytes, is_code);
}
uint64_t executed(void) { return all.executed; }
int finish_all(void) {
    struct windows *each[] = {&cpus[0], &cpus[1]};
    int whole;
    turn(0);
    whole = store_end(&store, each, count);
    fclose(store.file);
    for (int i = 0; i < count; i++)
        windows_free(&cpus[i]);
    store_free(&store);
    return whole;
}
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed: apt-get install gcc")
    folder, source = tmp_path_factory.mktemp("core"), data_dir("tools/plugin")
    (folder / "shim.c").write_text(SHIM)
    words = ["gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    files = [
        folder / "shim.c",
        *(source / f"{name}.c" for name in ("windows", "record", "cache", "lines", "machine")),
    ]
    subprocess.run([*words, f"-I{source}", "-o", folder / "core.so", *files], check=True)
    loaded = ctypes.CDLL(str(folder / "core.so"))
    number, count = ctypes.c_uint64, ctypes.c_uint32
    loaded.enter.argtypes = [number, ctypes.POINTER(count), count]
    loaded.enter_x86.argtypes = [
        number, ctypes.POINTER(ctypes.c_uint8), ctypes.POINTER(ctypes.c_uint16), count,
    ]  # fmt: skip
    loaded.word_of.argtypes = [ctypes.POINTER(ctypes.c_uint8), count]
    loaded.word_of.restype = count
    for name in ("special", "access", "probe", "counter", "back_again", "nop"):
        getattr(loaded, f"is_{name}").argtypes = [count]
    loaded.device.argtypes = [number, ctypes.c_char_p, ctypes.c_int]
    loaded.mark.argtypes = [number, ctypes.c_int, number]
    loaded.task.argtypes = [number] * 4
    loaded.open_now.argtypes = [ctypes.c_int, number]
    loaded.start.argtypes = [ctypes.c_char_p, ctypes.c_int]
    loaded.value.argtypes = [count, number]
    loaded.touch.argtypes = [number, number, ctypes.c_int]
    for name in ("leave", "back", "stop"):
        getattr(loaded, name).argtypes = [number]
    loaded.executed.restype = number
    return loaded


class Board:
    """Tells the core what happens; places are instructions from `BASE`."""

    def __init__(self, core: ctypes.CDLL, folder: Path, cpus: int = 1) -> None:
        self.core, self.folder = core, folder
        self.times: list[tuple[int, int]] = []
        self._cpus, self._now = cpus, 0
        assert core.start(str(folder / WINDOWS).encode(), cpus)
        self.open(True)

    def turn(self, cpu: int) -> None:
        self._now = cpu
        self.core.turn(cpu)

    def open(self, is_open: bool, user: int = 0) -> None:
        now = self._now
        for cpu in range(self._cpus):
            self.turn(cpu)
            self.core.open_now(is_open, user)
        self.turn(now)

    def enter(self, place: int, words: Sequence[int]) -> None:
        array = (ctypes.c_uint32 * len(words))(*words)
        self.core.enter(BASE + 4 * place, array, len(words))

    def plain(self, place: int, count: int) -> None:
        self.enter(place, [NOP] * count)

    def leave(self, place: int) -> None:
        self.core.leave(BASE + 4 * place)

    def back(self, place: int | None) -> None:
        self.core.back(0 if place is None else BASE + 4 * place)

    def clock(self, time: int, place: int | None = None, user: int = 0) -> None:
        self.times.append((time, self._now))
        self.core.mark(0 if place is None else BASE + 4 * place, CLOCK, user)

    def enter_x86(self, place: int, code: Sequence[str]) -> None:
        """A block of x86-64, ``place`` bytes from `BASE`."""
        data = bytes.fromhex("".join(code))
        places = np.cumsum([0, *(len(one) // 2 for one in code)]).tolist()
        array = (ctypes.c_uint8 * len(data))(*data)
        self.core.enter_x86(BASE + place, array, (ctypes.c_uint16 * 16)(*places), len(code))

    def read(self, machine: str = "arm64") -> Windows:
        assert self.core.finish_all()
        write_times(self.folder, self.times)
        path = self.folder / WINDOWS
        kernel = replace(symbols({"all": [NOP] * 4096}), machine=machine)
        pack_windows(path, path, kernel, ("copy", "map"))
        found = read_windows(self.folder)
        assert found is not None
        return found


def write_times(folder: Path, times: Sequence[tuple[int, int]]) -> None:
    """The plugin's other file (tracing.h): nothing was executed by tracing, or at all."""
    several = any(cpu for _, cpu in times)
    data, last = bytearray(b"IOTOLLT2" if several else b"IOTOLLT1"), 0
    for time, cpu in times:
        left = (time - last) << 1 ^ (time - last) >> 63
        last = time
        while left > 0x7F:
            data.append(left & 0x7F | 0x80)
            left >>= 7
        data += bytes([left, 0, *((2 * cpu, 0) if several else ())])
    (folder / TRACING).write_bytes(data)


@pytest.fixture
def board(core: ctypes.CDLL, tmp_path: Path) -> Board:
    return Board(core, tmp_path)


def content(found: Windows, mark: int) -> list[tuple[int, int]]:
    """A mark's window: place and length of its blocks; of an access -1, and its number."""
    number = int(found.marks["window"][mark])
    entries = found.contents[found.starts[number] : found.starts[number + 1]].tolist()
    blocks = [((int(b["address"]) - BASE) // 4, int(b["instructions"])) for b in found.blocks]
    return [(-1, e & ~ACCESS) if e & ACCESS else blocks[e] for e in entries]


def test_windows_that_repeat_are_kept_once(board: Board) -> None:
    for time in (100, 200, 300):
        board.plain(0, 4)
        board.plain(10, 3)
        board.clock(time)
    board.plain(0, 4)
    board.clock(400)
    found = board.read()
    assert found.marks["window"].tolist() == [0, 0, 0, 1]
    assert content(found, 0) == [(0, 4), (10, 3)] and content(found, 3) == [(0, 4)]
    assert found.windows["instructions"].tolist() == [7, 4]
    assert found.sums(found.windows["instructions"].astype(np.int64)).tolist() == [7, 14, 21, 25]


def test_what_tracing_executes_is_in_no_window(board: Board) -> None:
    board.plain(0, 8)
    board.leave(3)
    board.plain(50, 20)
    board.clock(100)
    board.plain(80, 9)
    board.back(84)
    board.plain(0, 8)
    board.clock(200, 8)
    found = board.read()
    assert content(found, 0) == [(0, 3)]
    assert content(found, 1) == [(84, 5), (0, 8)]
    assert board.core.executed() == 8 + 20 + 9 + 8


def test_tracing_that_ends_in_the_block_in_which_it_began(board: Board) -> None:
    board.plain(0, 8)
    board.leave(3)
    board.back(6)
    board.leave(7)
    board.back(None)
    board.plain(20, 1)
    board.clock(100)
    assert content(board.read(), 0) == [(0, 3), (6, 1), (20, 1)]


def test_a_mark_in_a_block_divides_it(board: Board) -> None:
    board.plain(0, 8)
    board.clock(100, 3)
    board.clock(110, 8)
    found = board.read()
    assert content(found, 0) == [(0, 3)] and content(found, 1) == [(3, 5)]


def test_an_access_to_a_device_ends_its_block(board: Board) -> None:
    board.plain(0, 8)
    board.core.device(BASE + 4 * 4, b"ufs", 1)
    board.plain(5, 3)
    board.core.device(BASE + 4 * 7, b"anon5511", 0)
    board.clock(100)
    found = board.read()
    assert content(found, 0) == [(0, 5), (-1, 0), (5, 3), (-1, 1)]
    assert found.devices == ("ufs", "anon") and board.core.executed() == 8
    assert found.accesses["is_store"].tolist() == [1, 0]
    assert found.accesses["address"].tolist() == [BASE + 16, BASE + 28]


def test_what_a_fault_leaves_of_a_block(board: Board) -> None:
    board.plain(0, 8)
    board.core.stop(BASE + 4 * 2)
    board.plain(100, 3)
    board.core.stop(BASE)  # not of this block: it ran whole
    board.clock(100)
    assert content(board.read(), 0) == [(0, 2), (100, 3)]
    assert board.core.executed() == 5


def test_words_that_readers_want_go_with_parts_of_blocks(board: Board) -> None:
    board.enter(0, [NOP, DMB, LDR, DMB, LDR])
    board.leave(2)
    board.back(3)
    board.clock(100)
    found = board.read()
    owner = np.repeat(np.arange(len(found.blocks)), found.blocks["special"])
    special = [
        (int(o), int(s["place"]), hex(int(s["word"])))
        for o, s in zip(owner, found.special, strict=True)
    ]
    assert [w for o, _, w in special if o == 0] == [hex(NOP), hex(DMB), hex(DMB)]
    assert (1, 1, hex(DMB)) in special and (2, 0, hex(DMB)) in special


LOCK_INC, MFENCE, MOV, LONG_NOP = "f0ff00", "0faef0", "48897c2408", "0f1f440000"


def test_blocks_of_x86_64_are_cut_where_their_instructions_are(board: Board) -> None:
    """Instructions of 5, 3, 3, 1 and 5 bytes: tracing is the third one."""
    board.enter_x86(0, [MOV, MFENCE, LOCK_INC, "90", LONG_NOP])
    board.core.leave(BASE + 8)
    board.core.back(BASE + 11)
    board.clock(100)
    board.enter_x86(64, [MOV, LOCK_INC, MOV])
    board.core.stop(BASE + 64 + 5)
    board.enter_x86(96, [MOV, MOV])
    board.core.device(BASE + 96, b"ufs", 1)
    board.clock(200)
    found = board.read("x86_64")
    numbers = found.contents.tolist()
    blocks = [
        (int(b["address"]) - BASE, int(b["instructions"]), int(end) - BASE)
        for b, end in zip(found.blocks, found.ends, strict=True)
    ]
    first, second = numbers[:2], numbers[2:]
    assert [blocks[n] for n in first] == [(0, 2, 8), (11, 2, 17)]
    assert [blocks[n] for n in second if not n & ACCESS] == [(64, 1, 69), (96, 1, 101)]
    assert found.windows["instructions"].tolist() == [4, 2]
    # The instruction's, and that behind it.
    assert found.accesses["address"].tolist() == [BASE + 96] and found.symbols.machine == "x86_64"
    owner = np.repeat(np.arange(len(found.blocks)), found.blocks["special"])
    special = [(int(o), int(s["place"])) for o, s in zip(owner, found.special, strict=True)]
    whole, part = blocks.index((0, 5, 17)), blocks.index((0, 2, 8))
    assert special[:2] == [(whole, 1), (whole, 2)] and (part, 1) in special


def test_what_the_kernel_patches_is_what_ran(board: Board) -> None:
    """With one CPU, 3E is in the place of LOCK; an alternative has other lengths."""
    for code in ([LOCK_INC, MOV, "90"], ["3eff00", MFENCE, MOV]):
        board.enter_x86(0, code)
    board.clock(100)
    found = board.read("x86_64")
    assert [int(s["place"]) for s in found.special] == [0, 1]
    assert found.ends.tolist() == [BASE + 11]


@pytest.mark.parametrize(
    ("code", "word", "kinds"),
    [
        (LOCK_INC, 0x00FF0001, {"special", "access"}),
        ("3eff00", 0x00FF0001, {"special", "access"}),
        ("3effe0", 0xE0FF0000, set()),  # a jump that is not tracked
        ("f04c0fb111", 0x11B10121, {"special", "access"}),
        (MFENCE, 0xF0AE0100, {"special"}),
        ("66410fae3c24", 0x3CAE0102, {"special", "access"}),  # clflushopt
        ("8703", 0x03870000, {"special", "access"}),
        ("87d8", 0xD8870000, set()),
        (MOV, 0x7C890020, {"access"}),
        ("cc", 0x00CC0000, {"probe"}),
        ("0f31", 0x00310100, {"access", "counter"}),  # whatever is behind it
        ("0f01f9", 0xF9010100, {"special", "counter"}),
        ("48cf", 0x00CF0020, {"special", "back_again"}),
        (LONG_NOP, 0x441F0100, {"access", "nop"}),
        ("6690", 0x00900002, {"nop"}),
        ("f390", 0x00900004, set()),  # pause
        ("f3a4", 0x00A40004, {"access"}),
        ("e811223344", 0x11E80000, set()),
        ("55", 0x00550000, set()),
        ("ff742408", 0x74FF0000, set()),  # pushes
        ("c3", 0x00C30000, set()),
        ("660f3882c1", 0xC1820202, {"special"}),  # invpcid
    ],
)
def test_words_of_x86_64(core: ctypes.CDLL, code: str, word: int, kinds: set[str]) -> None:
    data = bytes.fromhex(code)
    found = core.word_of((ctypes.c_uint8 * len(data))(*data), len(data))
    assert hex(found) == hex(word)
    every = ("special", "access", "probe", "counter", "back_again", "nop")
    assert {kind for kind in every if getattr(core, f"is_{kind}")(found)} == kinds


def test_windows_without_order_have_how_often(board: Board) -> None:
    for _ in range(2 * ORDERED + 10):
        board.plain(0, 2)
    board.plain(10, 3)
    board.clock(100)
    found = board.read()
    assert found.windows["is_ordered"].tolist() == [0]
    window, entry, often = found.entries
    assert window.tolist() == [0, 0] and entry.tolist() == [0, 1]
    assert often.tolist() == [2 * ORDERED + 10, 1]


def test_user_space_is_counted_and_its_exceptions_are_marks(board: Board) -> None:
    board.plain(0, 2)
    board.core.mark(0, ENTRY, 30)
    board.plain(5, 2)
    board.clock(100, user=30)
    found = board.read()
    assert found.marks["kind"].tolist() == [ENTRY, CLOCK]
    assert found.marks["user"].tolist() == [30, 0]


def test_nothing_is_kept_outside_of_what_is_measured(board: Board) -> None:
    board.open(False)
    board.plain(0, 2)
    board.clock(100)
    board.core.task(BASE, 0, 1, 2)
    board.open(True, 5)
    board.plain(8, 2)
    board.clock(200, user=6)
    found = board.read()
    assert found.marks["window"].tolist() == [NO_WINDOW, 0]
    assert content(found, 1) == [(8, 2)] and found.marks["user"].tolist()[1] == 1
    assert found.sums(found.windows["instructions"].astype(np.int64)).tolist() == [0, 2]


def test_what_is_translated_after_the_last_cell_is_left_out(board: Board) -> None:
    board.plain(0, 2)
    board.clock(100)
    board.open(False)
    board.plain(8, 2)  # between two cells
    board.open(True)
    board.plain(16, 2)
    board.clock(200)
    board.open(False)
    board.plain(24, 2)  # how many of these there are depends on the host
    found = board.read()
    assert [(int(one["address"]) - BASE) // 4 for one in found.blocks] == [0, 8, 16]


def test_a_switch_of_tasks_is_a_mark(board: Board) -> None:
    board.plain(0, 4)
    board.core.task(BASE, 0, 7, 9)
    board.clock(100, 4)
    found = board.read()
    assert found.marks["kind"].tolist() == [SWITCH, CLOCK]
    assert content(found, 0) == [] and content(found, 1) == [(0, 4)]
    assert found.switches.tolist() == [(7, 9)]


def test_a_mark_that_an_interrupt_overtook_stands_where_that_began(board: Board) -> None:
    board.plain(0, 4)
    board.clock(100)
    board.plain(10, 3)
    board.leave(13)
    board.core.mark(0, EXCEPTION, 0)  # an interrupt of the clock's reading
    board.back(None)
    board.plain(20, 5)
    board.clock(300)
    board.plain(30, 6)
    board.leave(36)
    board.clock(200)
    found = board.read()
    assert found.places.tolist() == [1, 3, 2]
    lengths = found.windows["instructions"].astype(np.int64)
    assert found.sums(lengths).tolist() == [4, 4 + 3 + 5, 4 + 3]


def test_a_mark_that_was_overtaken_between_two_cells_is_in_none(
    core: ctypes.CDLL, tmp_path: Path
) -> None:
    """45.1: no exception is a mark there, and another CPU's stood for it, or none: no values."""
    board = Board(core, tmp_path, cpus=2)
    board.core.mark(0, EXCEPTION, 0)
    board.plain(0, 4)
    board.clock(50)
    board.turn(1)
    board.plain(0, 5)
    board.clock(60)
    board.open(False)
    board.core.mark(0, EXCEPTION, 0)
    board.clock(300)
    board.clock(200)
    board.open(True)
    board.plain(0, 6)
    board.clock(400)
    found = board.read()
    assert found.times.tolist() == [50, 60, 300, 200, 400]
    lengths = found.windows["instructions"].astype(np.int64)
    assert found.sums(lengths).tolist() == [4, 5, 5, 5, 11]
    assert [found.in_time[cpu].tolist() for cpu in (0, 1)] == [[0], [1, 3, 2, 4]]


def test_a_mark_that_nothing_overtook_is_refused(board: Board) -> None:
    board.plain(0, 4)
    board.clock(300)
    board.plain(0, 4)
    board.clock(200)
    with pytest.raises(InfrastructureError, match="out of order"):
        _ = board.read().places


def test_what_was_not_understood_makes_no_file(core: ctypes.CDLL, tmp_path: Path) -> None:
    board = Board(core, tmp_path)
    board.plain(0, 4)
    board.leave(9)
    assert not board.core.finish_all()
    with pytest.raises(InfrastructureError, match="cut off"):
        pack_windows(tmp_path / WINDOWS, tmp_path / "packed", symbols({"all": [NOP]}))


def test_what_is_stored_has_the_functions_of_its_blocks(core: ctypes.CDLL, tmp_path: Path) -> None:
    board = Board(core, tmp_path)
    board.plain(1, 2)
    board.plain(10, 2)
    board.clock(100)
    assert board.core.finish_all()
    write_times(tmp_path, board.times)
    path = tmp_path / WINDOWS
    known = symbols({"first": [NOP] * 4, "unused": [NOP] * 4, "last": [NOP] * 4})
    pack_windows(path, path, known)
    found = read_windows(tmp_path)
    assert found is not None and found.symbols.names == ("first", "last")
    numbers = found.symbols.index(found.blocks["address"])
    assert [found.symbols.name(number) for number in numbers.tolist()] == ["first", "last"]
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InfrastructureError, match="not what the plugin writes"):
        read_windows(tmp_path)


def test_marks_of_another_boot_are_refused(board: Board) -> None:
    board.plain(0, 4)
    board.clock(100)
    board.read()
    write_times(board.folder, [(100, 0), (200, 0)])
    with pytest.raises(InfrastructureError, match="contradict"):
        read_windows(board.folder)


def test_values_are_of_the_window_that_goes_on_and_of_its_last_block(board: Board) -> None:
    board.plain(0, 4)
    board.core.value(0, 4096)
    board.plain(10, 3)
    board.core.value(1, 1 << 40)
    board.clock(100)
    board.leave(13)
    board.core.value(0, 7)
    board.back(13)
    board.core.value(0, 9)
    found = board.read()
    assert found.called == ("copy", "map")
    rows = [tuple(row) for row in found.values.tolist()]
    # What tracing calls is not kept; nor is anything larger than 32 bits hold.
    assert rows[:2] == [(0, 0, 0, 4096), (0, 1, 1, 2**32 - 1)]
    assert [row[3] for row in rows] == [4096, 2**32 - 1, 9]


def test_a_line_counts_once_between_two_system_calls(board: Board) -> None:
    assert board.core.with_lines()
    board.plain(0, 4)
    board.core.touch(0x1000, 8, 0)
    board.core.touch(0x1038, 16, 0)  # the same line, and the next one
    board.core.touch(BASE, 16, 1)
    board.clock(100)
    board.plain(0, 4)
    board.core.touch(0x1000, 8, 0)
    board.clock(200)
    board.core.call()
    board.core.touch(0x1000, 8, 0)
    board.clock(300)
    found = board.read()
    assert found.touches is not None
    rows = [(t["mark"], t["block"], list(t.tolist()[2:])) for t in found.touches]
    # Two lines of data, one of code, which all miss; afterwards level 1 has them.
    assert rows == [(0, 0, [2, 1, 2, 1, 3]), (2, 0, [1, 0, 0, 0, 0])]


def test_lines_that_another_one_replaced_miss_again_and_count_once(board: Board) -> None:
    assert board.core.with_lines()
    board.plain(0, 4)
    for address in (0x0, 0x80, 0x0):  # two sets of one way: both are in the first
        board.core.touch(address, 4, 0)
    board.clock(100)
    board.leave(4)
    board.core.touch(0x4000, 4, 0)  # tracing's
    board.back(None)
    board.plain(0, 4)
    board.clock(200)
    found = board.read()
    assert found.touches is not None
    assert [list(t.tolist()[2:]) for t in found.touches] == [[2, 0, 3, 0, 2]]


def test_a_boot_that_counted_no_lines_says_so(board: Board) -> None:
    board.plain(0, 4)
    board.clock(100)
    assert board.read().touches is None


def test_each_of_several_cpus_has_marks_of_its_own(core: ctypes.CDLL, tmp_path: Path) -> None:
    board = Board(core, tmp_path, cpus=2)
    board.plain(0, 4)
    board.clock(100)
    board.turn(1)
    board.plain(10, 3)
    board.core.value(0, 4096)
    board.clock(130)
    board.turn(0)
    board.plain(0, 4)
    board.turn(1)
    board.plain(20, 6)
    board.clock(140)
    board.core.value(1, 7)  # no mark ends what it is in
    board.turn(0)
    board.plain(20, 6)
    board.clock(150)
    found = board.read()
    assert found.of_cpu == [(0, 2), (2, 4)]
    assert found.times.tolist() == [100, 150, 130, 140] and found.cpu.tolist() == [0, 0, 1, 1]
    assert content(found, 1) == [(0, 4), (20, 6)] and content(found, 3) == [(20, 6)]
    lengths = found.windows["instructions"].astype(np.int64)
    assert found.sums(lengths).tolist() == [4, 14, 3, 9]
    assert [row[0] for row in found.values.tolist()] == [2, 4]
    # From 100 to 145: CPU 0 read nothing in between, CPU 1 twice.
    assert found.reach(100, 145) == [(1, 1), (2, 4)]


def test_a_cell_is_one_on_all_cpus(core: ctypes.CDLL, tmp_path: Path) -> None:
    board = Board(core, tmp_path, cpus=2)
    board.plain(0, 4)
    board.clock(100)
    board.open(False)
    board.open(True)
    board.plain(0, 4)
    board.clock(200)
    board.turn(1)
    board.plain(0, 5)
    board.clock(210)
    board.open(False)
    board.open(True)
    board.plain(0, 6)
    board.clock(300)
    assert board.read().by_function() == [{"all": 4}, {"all": 9}, {"all": 6}]


def test_an_interrupt_of_another_cpu_moves_no_mark(core: ctypes.CDLL, tmp_path: Path) -> None:
    board = Board(core, tmp_path, cpus=2)
    board.plain(0, 4)
    board.turn(1)
    board.plain(10, 3)
    board.clock(120)  # CPU 0 has read 110, and its turn ended
    board.turn(0)
    board.clock(110)
    found = board.read()
    assert found.places.tolist() == [1, 2]
    assert found.sums(found.windows["instructions"].astype(np.int64)).tolist() == [4, 3]
