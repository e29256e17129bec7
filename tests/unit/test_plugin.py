"""The core of tools/plugin without QEMU: compiled as a library, driven through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from iotoll.core.paths import data_dir

SOURCE = data_dir("tools/plugin")
NO_BLOCK = 2**32 - 1


class Blocks(ctypes.Structure):
    """struct blocks of record.h."""

    _fields_ = (
        ("list", ctypes.c_void_p),
        ("count", ctypes.c_uint32),
        ("room", ctypes.c_uint32),
        ("slots", ctypes.c_void_p),
        ("slot_count", ctypes.c_uint32),
    )


class Span(ctypes.Structure):
    """struct span of record.h."""

    _fields_ = (("first", ctypes.c_uint64), ("last", ctypes.c_uint64))


class Recorder(ctypes.Structure):
    """struct recorder of record.h."""

    _fields_ = (
        ("runs", ctypes.c_void_p),
        ("marks", ctypes.c_void_p),
        ("spans", ctypes.POINTER(Span)),
        ("span_count", ctypes.c_size_t),
        ("on", ctypes.c_bool),
        ("failed", ctypes.c_bool),
        ("block", ctypes.c_uint32),
        ("began", ctypes.c_uint64),
        ("run_count", ctypes.c_uint64),
        ("mark_count", ctypes.c_uint64),
        ("caches", ctypes.c_void_p),
        ("known", ctypes.c_void_p),
        ("lines", ctypes.c_void_p),
        ("touches", ctypes.c_void_p),
        ("touched", ctypes.c_uint32),
        ("begun", ctypes.c_bool),
        ("line_count", ctypes.c_uint64),
    )


class Cache(ctypes.Structure):
    """struct cache of cache.h."""

    _fields_ = (("sets", ctypes.c_uint64), ("ways", ctypes.c_uint32), ("tags", ctypes.c_void_p))


class Caches(ctypes.Structure):
    """struct caches of cache.h."""

    _fields_ = (("line_bits", ctypes.c_uint), ("level", Cache * 3))


CODE, MISS_L1, MISS_L2 = 1, 2, 4
Three = ctypes.c_uint64 * 3


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed: apt-get install gcc")
    library = tmp_path_factory.mktemp("core") / "record.so"
    words = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    sources = [str(SOURCE / name) for name in ("record.c", "cache.c")]
    subprocess.run([*words, "-o", str(library), *sources], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.blocks_number.restype = ctypes.c_uint32
    loaded.recorder_end.restype = ctypes.c_bool
    loaded.blocks_number.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]
    for name, values in (("enter", 2), ("mark", 4), ("end", 1)):
        function = getattr(loaded, f"recorder_{name}")
        function.argtypes = [ctypes.c_void_p, *[ctypes.c_uint64] * values]
    loaded.recorder_access.argtypes = [ctypes.c_void_p, *[ctypes.c_uint64] * 2]
    loaded.read_spans.restype = ctypes.c_int64
    loaded.caches_make.restype = ctypes.c_bool
    loaded.caches_make.argtypes = [ctypes.c_void_p, ctypes.c_uint64, Three, Three]
    loaded.caches_touch.restype = ctypes.c_uint
    loaded.caches_touch.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_bool]
    return loaded


@pytest.fixture
def small(core: ctypes.CDLL) -> Iterator[Caches]:
    """Lines of 64 bytes; 2 sets of 2 ways for code and for data, 4 sets of 2 ways behind them."""
    made = Caches()
    assert core.caches_make(ctypes.byref(made), 64, Three(256, 256, 512), Three(2, 2, 2))
    yield made
    core.caches_free(ctypes.byref(made))


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[str], ctypes.c_void_p]:
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p

    def open_file(name: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(libc.fopen(str(tmp_path / name).encode(), b"wb"))

    return open_file


def test_a_block_has_one_number(core: ctypes.CDLL) -> None:
    blocks = Blocks()
    pairs = [(0xFFFF800080000000 + 4 * place, 1 + place % 7) for place in range(20000)]
    numbers = [core.blocks_number(ctypes.byref(blocks), *pair) for pair in pairs]
    assert numbers == list(range(20000)), "in the order in which they came"
    again = [core.blocks_number(ctypes.byref(blocks), *pair) for pair in reversed(pairs)]
    assert again == numbers[::-1]
    assert core.blocks_number(ctypes.byref(blocks), pairs[0][0], 512) == 20000, "another length"
    core.blocks_free(ctypes.byref(blocks))


def test_runs_end_where_the_next_block_begins(
    core: ctypes.CDLL, opened: Callable[[str], ctypes.c_void_p], tmp_path: Path
) -> None:
    recorder = Recorder(runs=opened("runs"), marks=opened("marks"), block=NO_BLOCK)
    this = ctypes.byref(recorder)
    core.recorder_enter(this, 0, 7)
    core.recorder_mark(this, 5, 0, 1000, 8)  # recording begins with the first mark
    core.recorder_enter(this, 9, 3)
    core.recorder_enter(this, 9, 4)  # nothing of block 3 ran
    core.recorder_mark(this, 12, 1, 0xABC, 5)
    assert core.recorder_end(this, 20)
    runs = np.fromfile(tmp_path / "runs", "<u4")
    assert [(int(r) >> 10, int(r) & 1023) for r in runs] == [(8, 4), (4, 3), (5, 8)]
    marks = np.fromfile(tmp_path / "marks", "<u8").reshape(-1, 4).tolist()
    assert marks == [[0, 5, 0, 1000], [2, 12, 1, 0xABC]]


def test_spans_of_the_clock_switch_recording(
    core: ctypes.CDLL, opened: Callable[[str], ctypes.c_void_p], tmp_path: Path
) -> None:
    spans = (Span * 2)(Span(100, 200), Span(400, 500))
    recorder = Recorder(
        runs=opened("runs"), marks=opened("marks"), block=NO_BLOCK, spans=spans, span_count=2
    )
    this = ctypes.byref(recorder)
    for number, value in enumerate((99, 100, 200, 201, 450)):
        core.recorder_mark(this, 10 * number, 0, value, number)
    core.recorder_mark(this, 50, 2, 7, 5)  # another probe switches nothing
    assert core.recorder_end(this, 60)
    marks = np.fromfile(tmp_path / "marks", "<u8").reshape(-1, 4)
    assert marks[:, 3].tolist() == [100, 200, 450, 7]
    runs = np.fromfile(tmp_path / "runs", "<u4")
    assert [int(r) >> 10 for r in runs] == [1, 2, 4, 5]


def test_a_run_that_cannot_be_told_is_a_failure(
    core: ctypes.CDLL, opened: Callable[[str], ctypes.c_void_p]
) -> None:
    recorder = Recorder(runs=opened("runs"), marks=opened("marks"), block=NO_BLOCK)
    this = ctypes.byref(recorder)
    core.recorder_mark(this, 0, 0, 1, 1)
    core.recorder_enter(this, 1024, 2)  # no block is that long
    assert not core.recorder_end(this, 1024)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("0x10:0,32:1", [(16, 0), (32, 1)]),
        ("1:2,", None),
        ("1", None),
        ("", None),
        ("-1:2", None),
        ("1:2,3:4,5:6", None),
    ],
)
def test_pairs(core: ctypes.CDLL, text: str, pairs: list[tuple[int, int]] | None) -> None:
    found = (Span * 2)()
    count = core.parse_pairs(text.encode(), found, 2)
    assert count == (-1 if pairs is None else len(pairs))
    if pairs:
        assert [(one.first, one.last) for one in found] == pairs


def test_a_file_of_spans(core: ctypes.CDLL, tmp_path: Path) -> None:
    path = tmp_path / "spans"
    np.array([[1, 2], [3, 4]], "<u8").tofile(path)
    found = ctypes.POINTER(Span)()
    assert core.read_spans(str(path).encode(), ctypes.byref(found)) == 2
    assert (found[1].first, found[1].last) == (3, 4)
    path.write_bytes(b"short")
    assert core.read_spans(str(path).encode(), ctypes.byref(found)) == -1
    assert core.read_spans(str(tmp_path / "absent").encode(), ctypes.byref(found)) == -1


def touches(
    core: ctypes.CDLL, caches: Caches, lines: Sequence[int], *, code: bool = False
) -> list[int]:
    return [core.caches_touch(ctypes.byref(caches), 64 * line, code) for line in lines]


def test_a_cache_keeps_what_was_used_last(core: ctypes.CDLL, small: Caches) -> None:
    both = MISS_L1 | MISS_L2
    # Even lines share a set of level 1: it holds two of them.
    assert touches(core, small, [0, 2, 0, 2]) == [both, both, 0, 0]
    assert touches(core, small, [4]) == [both], "in the place of 0, which was used longest ago"
    assert touches(core, small, [2, 0]) == [0, MISS_L1], "level 2 still has it"
    assert touches(core, small, [1, 3]) == [both, both], "the other set"
    assert core.caches_touch(ctypes.byref(small), 64 + 63, False) == 0, "the line's last byte"


def test_code_and_data_share_only_the_second_level(core: ctypes.CDLL, small: Caches) -> None:
    both = MISS_L1 | MISS_L2
    assert touches(core, small, [8]) == [both]
    assert touches(core, small, [8], code=True) == [both], "virtual 8 is not physical 8"
    assert touches(core, small, [8]) == [0] and touches(core, small, [8], code=True) == [0]
    # Three of a set of level 2, of which it holds two: data's line 8 is the oldest.
    touches(core, small, [12], code=True)
    touches(core, small, [16, 20], code=True)
    assert touches(core, small, [10, 12, 14, 8])[-1] == both


def test_caches_agree_with_a_plain_model(core: ctypes.CDLL) -> None:
    line, sizes, ways = 32, (1024, 2048, 8192), (4, 2, 8)
    made = Caches()
    assert core.caches_make(ctypes.byref(made), line, Three(*sizes), Three(*ways))
    model: list[dict[int, list[tuple[bool, int]]]] = [{}, {}, {}]

    def holds(level: int, key: tuple[bool, int]) -> bool:
        sets = sizes[level] // line // ways[level]
        kept = model[level].setdefault(key[1] % sets, [])
        found = key in kept
        kept[:] = [key, *(one for one in kept if one != key)][: ways[level]]
        return found

    random = np.random.default_rng(5)
    hits = 0
    places, kinds = random.integers(0, 1 << 14, 20000), random.random(20000) < 0.4
    for address, code in zip(places, kinds, strict=True):
        key = bool(code), int(address) // line
        expected = 0
        if not holds(0 if code else 1, key):
            expected = MISS_L1 if holds(2, key) else MISS_L1 | MISS_L2
        hits += expected == 0
        assert core.caches_touch(ctypes.byref(made), int(address), bool(code)) == expected
    assert 1000 < hits < 19000, "both happen"
    core.caches_free(ctypes.byref(made))


@pytest.mark.parametrize(
    ("line", "size", "ways"), [(48, 256, 2), (8, 256, 2), (64, 192, 1), (64, 256, 0), (64, 100, 1)]
)
def test_impossible_caches(core: ctypes.CDLL, line: int, size: int, ways: int) -> None:
    made = Caches()
    args = line, Three(size, 256, 512), Three(ways, 2, 2)
    assert not core.caches_make(ctypes.byref(made), *args)


def test_the_lines_of_each_run_are_recorded(
    core: ctypes.CDLL, opened: Callable[[str], ctypes.c_void_p], small: Caches, tmp_path: Path
) -> None:
    blocks = Blocks()
    first = core.blocks_number(ctypes.byref(blocks), 0x10000, 20)
    second = core.blocks_number(ctypes.byref(blocks), 0x10038, 4)  # reaches into the next line
    spans = (Span * 1)(Span(100, 200))
    recorder = Recorder(
        runs=opened("runs"),
        marks=opened("marks"),
        lines=opened("lines"),
        touches=opened("touches"),
        block=NO_BLOCK,
        spans=spans,
        span_count=1,
        caches=ctypes.cast(ctypes.byref(small), ctypes.c_void_p),
        known=ctypes.cast(ctypes.byref(blocks), ctypes.c_void_p),
    )
    this = ctypes.byref(recorder)
    core.recorder_access(this, 0x4000, 8)  # before the first mark: not looked up
    core.recorder_mark(this, 0, 0, 50, first)  # not yet recorded, but looked up
    core.recorder_access(this, 0x4000, 8)
    core.recorder_mark(this, 5, 0, 100, first)
    core.recorder_access(this, 0x4000, 8)
    core.recorder_access(this, 0x407C, 8)  # two lines
    core.recorder_enter(this, 9, second)
    assert core.recorder_end(this, 13)
    lines = np.fromfile(tmp_path / "lines", "<u8").tolist()
    both = MISS_L1 | MISS_L2
    data = [0x4000, 0x4040 | both, 0x4080 | both]
    assert lines == [*data, 0x10000 | CODE, 0x10000 | CODE, 0x10040 | CODE | both]
    assert np.fromfile(tmp_path / "touches", "<u2").tolist() == [4, 2]
    assert recorder.line_count == 6
    core.blocks_free(ctypes.byref(blocks))
