"""What the guest's tracing executes: the plugin's core, and where tracing begins and ends."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.kernels.symbols import RET, Symbols
from iotoll.kernels.tracing import (
    BEGIN,
    BRANCH,
    END,
    END_BEHIND,
    TracingCode,
    tracing_code,
)
from tests.unit.explain.kernels import BASE, HEAD, NOP, TracedImage

BRK, BLR = 0xD42000E0, 0xD63F0060


class Tracing(ctypes.Structure):
    """struct tracing of tracing.h, as large as it may be."""

    _fields_ = (("all", ctypes.c_uint64 * 128),)


class File(ctypes.Structure):
    """struct tracing_file of tracing.h; the rest is as large as it may be."""

    _fields_ = (("file", ctypes.c_void_p), ("rest", ctypes.c_uint64 * 8))


class Reading(ctypes.Structure):
    """struct reading of tracing.h."""

    _fields_ = (("tracing", ctypes.c_uint64), ("own", ctypes.c_uint64))


class Edge(ctypes.Structure):
    """struct edge of tracing.h."""

    _fields_ = (("address", ctypes.c_uint64), ("kind", ctypes.c_uint32), ("group", ctypes.c_uint32))


class Guest:
    """Tells the core what happens on its CPUs, and reads what it wrote."""

    def __init__(self, core: ctypes.CDLL, path: Path, cpus: int = 1) -> None:
        libc = ctypes.CDLL(None)
        libc.fopen.restype = ctypes.c_void_p
        self._core, self._path, self._several = core, path, cpus > 1
        self._file = File(file=libc.fopen(str(path).encode(), b"wb"))
        self._cpus = [Tracing() for _ in range(cpus)]
        assert core.tracing_begin(ctypes.byref(self._file), self._several)

    def edge(self, executed: int, kind: int, group: int, cpu: int = 0) -> None:
        this = ctypes.byref(self._cpus[cpu])
        self._core.tracing_edge(this, executed, ctypes.byref(Edge(0, kind, group)))

    def happens(self, executed: int, what: str) -> None:
        getattr(self._core, f"tracing_{what}")(ctypes.byref(self._cpus[0]), executed)

    def read(self, executed: int, cpu: int = 0, others: int = 0) -> None:
        """The counter is read; ``others`` is what tracing executed on other CPUs."""
        this = ctypes.byref(self._cpus[cpu])
        own = self._core.tracing_total(this, executed)
        self._core.tracing_read(this, Reading(own + others, executed - own))

    def told(self, time: int, cpu: int = 0) -> None:
        this, file = ctypes.byref(self._cpus[cpu]), ctypes.byref(self._file)
        self._core.tracing_clock(this, file, cpu, time)

    def clock(self, executed: int, time: int) -> None:
        self.read(executed)
        self.told(time)

    def marks(self) -> list[tuple[int, ...]]:
        """The sums of what was written, but the CPU's number as it is."""
        assert self._core.tracing_end(ctypes.byref(self._file))
        data, numbers, at = self._path.read_bytes(), [], 8
        assert data[:8] == (b"IOTOLLT2" if self._several else b"IOTOLLT1")
        while at < len(data):
            value, shift = 0, 0
            while True:
                value |= (data[at] & 0x7F) << shift
                shift += 7
                at += 1
                if not data[at - 1] & 0x80:
                    break
            numbers.append(value >> 1 ^ -(value & 1))
        rows = np.array(numbers).reshape(-1, 4 if self._several else 2)
        sums = np.cumsum(rows, axis=0)
        for cpu in range(len(self._cpus)) if self._several else ():
            mine = rows[:, 2] == cpu
            sums[mine, 3] = np.cumsum(rows[mine, 3])
        if self._several:
            sums[:, 2] = rows[:, 2]
        return [tuple(row) for row in sums.tolist()]


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed: apt-get install gcc")
    library = tmp_path_factory.mktemp("core") / "tracing.so"
    folder = data_dir("tools/plugin")
    sources = [str(folder / name) for name in ("tracing.c", "record.c", "cache.c")]
    words = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([*words, "-o", str(library), *sources], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.tracing_edge.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
    pointer = ctypes.c_void_p
    loaded.tracing_clock.argtypes = [pointer, pointer, ctypes.c_uint32, ctypes.c_uint64]
    for name in ("break", "exception", "return", "total"):
        getattr(loaded, f"tracing_{name}").argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    loaded.tracing_read.argtypes = [ctypes.c_void_p, Reading]
    loaded.tracing_total.restype = ctypes.c_uint64
    loaded.tracing_end.restype = loaded.tracing_begin.restype = ctypes.c_bool
    return loaded


@pytest.fixture
def guest(core: ctypes.CDLL, tmp_path: Path) -> Guest:
    return Guest(core, tmp_path / "tracing")


def test_only_what_runs_between_the_edges_counts(guest: Guest) -> None:
    guest.edge(100, BEGIN, 7)
    guest.clock(110, 1110)
    guest.edge(150, END, 7)
    guest.edge(160, END, 7)  # the same code, untraced
    guest.edge(300, BEGIN, 8)
    guest.clock(305, 1305)
    assert guest.marks() == [(1110, 10), (1305, 55)]


def test_traced_code_that_tracing_calls_ends_nothing(guest: Guest) -> None:
    guest.edge(100, BEGIN, 7)
    guest.edge(120, BEGIN, 9)
    guest.edge(130, END, 9)
    guest.clock(140, 1140)
    guest.edge(200, END, 7)
    guest.edge(300, BEGIN, 7)
    guest.clock(301, 1301)
    assert guest.marks() == [(1140, 40), (1301, 101)]


def test_an_interrupt_of_tracing_is_none_unless_it_is_traced(guest: Guest) -> None:
    guest.edge(100, BEGIN, 7)
    guest.happens(110, "exception")
    guest.edge(200, BEGIN, 8)
    guest.clock(204, 1204)
    guest.happens(210, "exception")  # within the interrupt
    guest.happens(260, "return")
    guest.edge(270, END, 8)
    guest.happens(400, "return")
    guest.clock(405, 1405)
    assert guest.marks() == [(1204, 10 + 4), (1405, 10 + 10 + 10 + 5)]


def test_exceptions_outside_tracing_change_nothing(guest: Guest) -> None:
    guest.happens(100, "exception")
    guest.edge(110, BEGIN, 7)
    guest.edge(120, END, 7)
    guest.happens(130, "return")
    guest.edge(200, BEGIN, 7)
    guest.clock(201, 1201)
    assert guest.marks() == [(1201, 11)]


def test_a_probe_s_breakpoint_counts_until_its_exception_returns(guest: Guest) -> None:
    guest.happens(100, "break")
    guest.happens(101, "exception")
    guest.clock(150, 1150)
    guest.happens(200, "return")
    guest.happens(201, "break")  # behind the instruction that was moved
    guest.happens(202, "exception")
    guest.happens(230, "return")
    guest.edge(300, BEGIN, 7)
    guest.clock(301, 1301)
    assert guest.marks() == [(1150, 50), (1301, 100 + 29 + 1)]


def test_a_clock_that_an_interrupt_read_in_between_has_its_own_count(guest: Guest) -> None:
    guest.edge(100, BEGIN, 7)
    guest.clock(105, 1105)
    guest.edge(110, END, 7)
    guest.edge(200, BEGIN, 7)
    guest.read(202)
    guest.read(204)
    # The counter was read at 204; then an interrupt is traced.
    guest.happens(204, "exception")
    guest.edge(210, BEGIN, 8)
    guest.clock(215, 1215)
    guest.edge(220, END, 8)
    guest.happens(230, "return")
    guest.told(1204)
    times = {time: executed for time, executed in guest.marks()}
    assert times[1204] == 10 + 4, "as if no interrupt had come"
    assert times[1215] == 10 + 4 + 5


def test_each_of_several_cpus_has_a_state_and_a_count(core: ctypes.CDLL, tmp_path: Path) -> None:
    guest = Guest(core, tmp_path / "tracing", cpus=3)
    guest.edge(100, BEGIN, 7)
    guest.read(110)
    # Its turn ends here; the next CPU's tracing is another one.
    guest.edge(5000, BEGIN, 9, cpu=2)
    guest.edge(5010, END, 7, cpu=2)
    guest.read(5020, cpu=2, others=10)
    guest.told(2020, cpu=2)
    guest.told(1110)
    guest.edge(5030, END, 9, cpu=2)
    guest.read(5100, cpu=2, others=10)
    guest.told(2100, cpu=2)
    assert guest.marks() == [(2020, 30, 2, 5000), (1110, 10, 0, 100), (2100, 40, 2, 5070)]


def _b(place: int, target: int) -> int:
    return 0x14000000 | (target - place) // 4 & 0x3FFFFFF


def _cbz(place: int, target: int) -> int:
    return 0xB4000000 | ((target - place) // 4 & 0x7FFFF) << 5


def _kernel(traced: Callable[[int], list[int]]) -> tuple[TracedImage, int]:
    start = BASE + 4 * HEAD
    image = TracedImage(
        {
            "traced": traced(start),
            "vectors": [NOP] * 4,
            "trace_clock_local": [NOP, NOP, RET],
            "cpu_switch_to": [NOP, RET],
            "__traceiter_one": [NOP, RET],
            "filler": [NOP] * 32,
            "last": [RET],
        }
    )
    return image, start


def _edges(code: TracingCode, start: int) -> list[tuple[int, int]]:
    return [((int(e["address"]) - start) // 4, int(e["kind"])) for e in code.edges]


@pytest.mark.parametrize("packed", [False, True])
def test_tracing_ends_where_its_block_meets_the_traced_code(packed: bool) -> None:
    def traced(at: int) -> list[int]:
        return [NOP, NOP, NOP, RET, NOP, _cbz(at + 20, at + 12), BLR, _b(at + 28, at + 8)]

    image, start = _kernel(traced)
    code = tracing_code(image.symbols([(start, start + 16, "one")], packed))
    assert _edges(code, start) == [(0, BRANCH), (2, END), (3, END), (7, END)]
    assert code.sites == {"one": (start,)}
    assert code.clock == (image.starts["trace_clock_local"], image.starts["trace_clock_local"] + 8)


def test_a_block_that_returns_ends_tracing_behind_it() -> None:
    image, start = _kernel(lambda at: [NOP, RET, NOP, RET, NOP])
    code = tracing_code(image.symbols([(start, start + 8, "one")]))
    assert _edges(code, start) == [(0, BRANCH), (3, END), (3, END_BEHIND)]


def test_other_branches_of_the_table_are_part_of_the_code() -> None:
    image, start = _kernel(lambda at: [NOP, NOP, RET, NOP, _b(at + 16, at + 4)])
    symbols = image.symbols([(start, start + 12, "")])
    assert not len(tracing_code(symbols).edges)


@pytest.mark.parametrize("inlined", [False, True])
def test_slow_path_of_system_calls_and_trampolines(inlined: bool) -> None:
    start = BASE + 4 * HEAD
    image = TracedImage(
        {
            "syscall_trace_enter": [NOP, RET],
            "syscall_trace_exit": [NOP, RET, _b(start + 16, start + 400)],
            "inlined" if inlined else "invoke_syscall.constprop.0": [NOP, RET],
            "arch_rethook_trampoline": [NOP, RET],
            "__kretprobe_trampoline": [BRK, NOP],
            "vectors": [NOP],
            "trace_clock_local": [RET],
            "cpu_switch_to": [RET],
            "filler": [NOP] * 32,
            "last": [RET],
        }
    )
    code = tracing_code(image.symbols([]))
    assert _edges(code, start) == [
        (0, BEGIN),
        *([(1, END_BEHIND)] if inlined else []),
        (2, BEGIN),
        (3, END_BEHIND),
        (4, END_BEHIND),
        *([] if inlined else [(5, END)]),
        (7, BEGIN),
        (8, END_BEHIND),
    ], "a trampoline that ends in a breakpoint is found as it happens"


def test_kernels_that_do_not_tell_are_refused() -> None:
    image, start = _kernel(lambda at: [NOP, RET])
    symbols = image.symbols([(start, start + 4, "one")])
    cut = Symbols(symbols.starts, symbols.names, symbols.image[: 4 * HEAD + 200], BASE)
    with pytest.raises(UsageError, match="no jump table"):
        tracing_code(cut)
    other = Symbols(symbols.starts[:2], symbols.names[:2], symbols.image, BASE)
    with pytest.raises(UsageError, match="trace_clock_local"):
        tracing_code(other)


def test_a_copy_of_the_traced_code_is_not_tracing() -> None:
    add = 0x91000400  # add x0, x0, #1
    # The block's two last instructions stand for those between the branch and where it goes on.
    image, start = _kernel(
        lambda at: [NOP, add, add, NOP, RET, NOP, NOP, add, _b(at + 32, at + 12)]
    )
    code = tracing_code(image.symbols([(start, start + 20, "one")]))
    assert _edges(code, start) == [(0, BRANCH), (3, END), (7, END)]
    # A block that returns has copied all the rest.
    image, start = _kernel(lambda at: [NOP, add, RET, NOP, add, RET])
    code = tracing_code(image.symbols([(start, start + 12, "one")]))
    assert _edges(code, start) == [(0, BRANCH), (4, END), (5, END_BEHIND)]


def test_a_copy_may_end_in_a_branch_but_nothing_is_called_behind_it() -> None:
    def traced(at: int) -> list[int]:
        block = [BLR, _cbz(at + 24, at + 20), NOP, _cbz(at + 32, at + 12), _b(at + 36, at + 16)]
        return [NOP, NOP, _cbz(at + 8, at + 16), NOP, RET, *block]

    image, start = _kernel(traced)
    code = tracing_code(image.symbols([(start, start + 20, "one")]))
    # The loop of calls (5, 6) is tracing, also where it could be the copy's first instruction.
    assert _edges(code, start) == [(0, BRANCH), (3, END), (4, END), (7, END), (9, END)]
