"""The core of tools/plugin without QEMU: compiled as a library, driven through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
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
    )


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed: apt-get install gcc")
    library = tmp_path_factory.mktemp("core") / "record.so"
    words = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([*words, "-o", str(library), str(SOURCE / "record.c")], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.blocks_number.restype = ctypes.c_uint32
    loaded.recorder_end.restype = ctypes.c_bool
    loaded.blocks_number.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]
    for name, values in (("enter", 2), ("mark", 4), ("end", 1)):
        function = getattr(loaded, f"recorder_{name}")
        function.argtypes = [ctypes.c_void_p, *[ctypes.c_uint64] * values]
    loaded.read_spans.restype = ctypes.c_int64
    return loaded


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
