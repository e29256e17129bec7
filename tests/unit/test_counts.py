"""What the plugin counts (tools/plugin/counts.c, compiled as a library), by function."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from iotoll.boards import plugin
from iotoll.boards.plugin import COUNTS, CountedCode, count_words, records_all
from iotoll.boots.counts import COUNTED, Counter, counted_code
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import data_dir
from iotoll.measure.windows import Windows
from iotoll.measure.work import read_work
from tests.unit.explain.kernels import NOP, RET, symbols

HELPER = """
#include "counts.h"
#include <stdlib.h>
struct counts *counts_new(const char *path, const struct span *spans, unsigned int count)
{
    struct counts *made = calloc(1, sizeof(*made));
    made->file = fopen(path, "wb");
    fwrite(COUNTS_MAGIC, 8, 1, made->file);
    counts_functions(made, spans, count);
    return made;
}
int counts_close(struct counts *counts)
{
    bool whole = counts_end(counts);
    return fclose(counts->file) == 0 && whole;
}
"""
KERNEL = symbols(
    {
        "vectors": [NOP, RET],
        "do_idle": [NOP, NOP, RET],
        "schedule_idle": [NOP, RET],
        "tracing_mark_write": [NOP, RET],
        "ktime_get": [NOP, NOP, NOP, RET],
        "ring_buffer_lock_reserve": [NOP, RET],
    }
)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed: apt-get install gcc")
    folder = tmp_path_factory.mktemp("counts")
    (folder / "helper.c").write_text(HELPER)
    source = data_dir("tools/plugin")
    words = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    files = [str(source / name) for name in ("counts.c", "record.c", "cache.c")]
    library = str(folder / "counts.so")
    helper = str(folder / "helper.c")
    subprocess.run([*words, "-I", str(source), "-o", library, helper, *files], check=True)
    loaded = ctypes.CDLL(library)
    loaded.counts_new.restype = ctypes.c_void_p
    loaded.counts_piece.restype = ctypes.c_uint32
    loaded.counts_piece.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]
    loaded.counts_cpu.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    loaded.counts_cpu.restype = ctypes.c_bool
    loaded.counts_now.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p]
    loaded.counts_idle.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
    loaded.counts_function.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    loaded.counts_new.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint32]
    for name in ("mark", "close", "free"):
        getattr(loaded, f"counts_{name}").argtypes = [ctypes.c_void_p]
    loaded.counts_leave.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    return loaded


class Board:
    """CPUs that execute functions of `KERNEL`, one piece each, while the plugin counts."""

    def __init__(self, core: ctypes.CDLL, path: Path, cpus: int) -> None:
        self.core = core
        self.spans = counted_code(KERNEL).functions
        self.counts = core.counts_new(str(path).encode(), self.spans.ctypes.data, len(self.spans))
        self.counters = [np.zeros(1 << 20, np.uint64) for _ in range(cpus)]
        self.idles = [False] * cpus
        for cpu, counters in enumerate(self.counters):
            assert core.counts_cpu(self.counts, cpu)
            core.counts_now(self.counts, cpu, counters.ctypes.data)

    def run(self, name: str, cpu: int = 0, times: int = 1) -> None:
        """As the code that QEMU makes of the plugin's wishes does it."""
        span = KERNEL.span(name)
        assert span is not None
        piece = self.core.counts_piece(self.counts, span[0], (span[1] - span[0]) // 4)
        if name == "tracing_mark_write":
            self.core.counts_mark(self.counts)
        if name in ("vectors", "schedule_idle"):
            self.core.counts_leave(self.counts, cpu)
            self.idles[cpu] = False
        elif name == "do_idle" or self.idles[cpu]:
            self.core.counts_idle(self.counts, cpu, self.core.counts_function(self.counts, span[0]))
            self.idles[cpu] = True
        self.counters[cpu][piece] += times

    def end(self) -> bool:
        whole = bool(self.core.counts_close(self.counts))
        self.core.counts_free(self.counts)
        return whole


@pytest.fixture
def board(core: ctypes.CDLL, tmp_path: Path) -> Iterator[Board]:
    yield Board(core, tmp_path / COUNTS, 2)


def test_g1_2_idling_is_told_apart_on_each_cpu(board: Board, tmp_path: Path) -> None:
    """The same function counts as idle or not by who runs it; an interrupt does not idle."""
    board.run("ktime_get")  # before the first mark
    board.run("tracing_mark_write")
    board.run("ktime_get", times=5)
    board.run("do_idle")
    board.run("ktime_get", times=2)  # called by the idle loop
    board.run("vectors")
    board.run("ktime_get", times=3)  # called by an interrupt
    board.run("do_idle")
    board.run("ktime_get")
    board.run("schedule_idle")
    board.run("ktime_get", cpu=1, times=7)  # another CPU, which does not idle
    board.run("do_idle", cpu=1)
    board.run("ktime_get", cpu=1, times=11)
    board.run("ring_buffer_lock_reserve")
    board.run("tracing_mark_write")
    board.run("ktime_get", times=100)  # behind the second
    assert board.end()
    Counter((), KERNEL).keep(tmp_path, tmp_path)
    found = json.loads((tmp_path / COUNTED).read_text())
    assert not (tmp_path / COUNTS).exists()
    window = found["windows"][0]
    rows = {
        found["functions"][place]: (busy, idle)
        for place, busy, idle in zip(
            *(window[n] for n in ("functions", "busy", "idle")), strict=True
        )
    }
    assert rows["ktime_get"] == (4 * (5 + 3 + 7), 4 * (2 + 1 + 11))
    assert rows["do_idle"] == (0, 3 * 3)
    assert rows["vectors"] == (2, 0)
    work = read_work(tmp_path, {"cell": 4}, ["cell"])["cell"]
    assert work.recorder == 2 + 2, "the ring buffer, and the marker's own write"
    assert work.kernel == 60 + 2 + 2
    assert work.idle == 56 + 9
    assert work.functions == {"ktime_get": 60, "": 4}, "less than one per I/O is together"


def test_the_recorder_is_what_a_boot_s_windows_leave_out(board: Board, tmp_path: Path) -> None:
    """Code that only runs while a tracepoint is on costs an untraced kernel nothing."""
    board.run("tracing_mark_write")
    board.run("ktime_get", times=5)
    board.run("do_idle")
    board.run("ktime_get", times=2)
    board.run("schedule_idle")
    board.run("tracing_mark_write")
    assert board.end()
    Counter((), KERNEL).keep(tmp_path, tmp_path)

    class Kept(Windows):
        def __init__(self, *cells: dict[str, int]) -> None:
            object.__setattr__(self, "cells", cells)

        def by_function(self) -> list[dict[str, int]]:
            return [*self.cells]  # type: ignore[attr-defined]

    traced = read_work(tmp_path, {"cell": 4}, ["cell"])["cell"]
    assert traced.functions["ktime_get"] == 20
    kept = Kept({"ktime_get": 12 + 8, "do_idle": 3})
    net = read_work(tmp_path, {"cell": 4}, ["cell"], kept)["cell"]
    assert net.functions == {"ktime_get": 12}, "2 of 5 calls were the recorder's"
    assert (net.kernel, net.idle) == (12, traced.idle)
    assert net.recorder + net.kernel == traced.recorder + traced.kernel
    with pytest.raises(InfrastructureError, match="2 cells of windows for 1 runs"):
        read_work(tmp_path, {"cell": 4}, ["cell"], Kept({}, {}))


def test_counts_that_do_not_fit_the_runs_are_an_error(board: Board, tmp_path: Path) -> None:
    for name in ("tracing_mark_write", "ktime_get", "tracing_mark_write"):
        board.run(name)
    assert board.end()
    data = (tmp_path / COUNTS).read_bytes()
    Counter((), KERNEL).keep(tmp_path, tmp_path)
    with pytest.raises(InfrastructureError, match="1 windows for 2 runs"):
        read_work(tmp_path, {"cell": 1}, ["cell", "other"])
    for cut in (0, 7, 40, len(data) - 1):
        (tmp_path / COUNTS).write_bytes(data[:cut])
        with pytest.raises(InfrastructureError, match=r"cut off|not a file of the plugin"):
            Counter((), KERNEL).keep(tmp_path, tmp_path)
    assert read_work(tmp_path / "none", {}, []) == {}


def test_a_kernel_whose_idling_nobody_sees_is_not_counted(tmp_path: Path) -> None:
    code = counted_code(KERNEL)
    assert code.mark == KERNEL.span("tracing_mark_write")[0]  # type: ignore[index]
    assert len(code.idle) == 1 and len(code.leave) == 2
    with pytest.raises(UsageError, match="no function do_idle"):
        counted_code(symbols({"tracing_mark_write": [RET], "vectors": [RET]}))
    (tmp_path / "Image").write_bytes(b"MZ")
    counter = Counter.of(tmp_path / "Image", tmp_path, ("-nodefaults",))
    assert counter.words == ("-nodefaults",)
    assert "Image: is not an uncompressed arm64 Image" in counter.why
    counter.keep(tmp_path, tmp_path)
    assert not (tmp_path / COUNTED).exists()


def test_the_plugin_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "plugin", lambda: Path("libiotoll-record.so"))
    functions = np.array([[0x10, 0x60]], np.uint64)
    code = CountedCode(0x10, [(0x30, 0x40), (0x20, 0x28)], [(0x50, 0x60)], functions)
    added = f",counts={tmp_path}/counts.bin,at=0x10:0,idle={tmp_path}/counts.idle"
    added += f",leave={tmp_path}/counts.leave,functions={tmp_path}/counts.functions"
    assert count_words(tmp_path, code) == ("-plugin", f"libiotoll-record.so{added}")
    assert np.fromfile(tmp_path / "counts.idle", "<u8").tolist() == [0x20, 0x28, 0x30, 0x40]
    words = count_words(tmp_path, code, ("-nodefaults",))
    assert words == ("-nodefaults", "-plugin", f"libiotoll-record.so{added}")
    assert not records_all(("-nodefaults",))
    assert records_all(("-plugin", "libiotoll-record.so,out=x,probes=0x1:0"))
