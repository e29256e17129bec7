"""What the CPUs of an exact board executed in each cell, by function: asked for, and made readable.

QEMU runs with the plugin of tools/plugin, which counts how often each piece of code runs between
the marks that a cell begins and ends with. After the boot the counts are summed by function of the
kernel that ran, and stored as ``counts.json`` with what else the boot left.

What the idle task does for itself is counted separately. It idles from when a function of the idle
loop runs until an exception is taken, or until it calls what works for others: the scheduler, and
what other CPUs asked for.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotoll.boards.plugin import (
    COUNTS,
    TRACING,
    WINDOWS,
    CountedCode,
    count_words,
    load_caches,
    records_all,
    tracing_words,
)
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import data_dir
from iotoll.core.toml import load_toml
from iotoll.kernels.symbols import ARM64, Symbols, read_functions
from iotoll.kernels.tracing import tracing_code
from iotoll.records.results import write_bytes, write_text

COUNTED = "counts.json"
"""In a boot's folder: what was executed in each window, by function."""

MARK = "tracing_mark_write"
"""What the job's scripts call when a cell begins and when it ends (lava-jobs/dut/lib.sh)."""

_IDLE_LOOP = (
    "do_idle", "cpuidle_idle_call", "default_idle_call", "cpu_idle_poll", "arch_cpu_idle",
    "arch_cpu_idle_enter", "arch_cpu_idle_exit", "arch_cpu_idle_prepare", "cpu_do_idle",
    "default_idle", "tick_nohz_idle_enter", "tick_nohz_idle_exit", "tick_nohz_idle_stop_tick",
    "tick_nohz_idle_retain_tick", "tick_nohz_idle_restart_tick", "cpuidle_enter",
    "cpuidle_enter_state", "cpuidle_select", "cpuidle_reflect", "menu_select", "teo_select",
)  # fmt: skip
"""Functions that only the idle task runs (kernel/sched/idle.c), in names of Linux 5.10 to 7.2."""

_WORKS_FOR_OTHERS = ("schedule_idle", "flush_smp_call_function_queue", "sched_ttwu_pending")
"""What the idle loop calls for others."""

_EXCEPTIONS = (
    "vectors", "asm_exc_*", "asm_sysvec_*", "asm_*_interrupt", "irq_entries_start",
    "spurious_entries_start",
)  # fmt: skip
"""Where exceptions are taken, as globs: arm64's table of vectors (arch/arm64/kernel/entry.S), and
x86-64's entries (arch/x86/include/asm/idtentry.h)."""

PACKED = b"IOTOLLWZ"
"""What a stored file of windows begins with; behind it, the plugin's own, packed by zlib."""

_MAGIC = b"IOTOLLC1"
PART = np.dtype(
    [("kind", "<u4"), ("number", "<u4"), ("cpu", "<u4"), ("width", "<u4"), ("count", "<u8")]
)
_COUNTED = np.dtype([("piece", "<u4"), ("times", "<u4"), ("idle", "<u4")])
_PIECE = np.dtype([("address", "<u8"), ("instructions", "<u8")])
_WINDOW, _PIECES, _END = 1, 2, 3
BLOCK = np.dtype([("address", "<u8"), ("instructions", "<u4"), ("special", "<u4")])
WINDOWS_MAGIC, WINDOWS_LAST = b"IOTOLLW1", 9
"""Of tools/plugin/windows.h: how its file begins, and the kind of its last part."""

FUNCTIONS = 10
"""The kind of the part that `pack_windows` adds."""

TOUCHES, TOUCH_COLUMNS = 12, 13
"""Kinds of the part of lines of cache: the plugin's entries, and columns one behind the other."""

TOUCHED = ("data_lines", "code_lines", "l1d_misses", "l1i_misses", "l2_misses")
"""The counts of an entry, in the plugin's order (tools/plugin/lines.h)."""

TOUCH = np.dtype([("mark", "<u4"), ("block", "<u4"), *((name, "<u2") for name in TOUCHED)])
_PADDED = np.dtype([*TOUCH.descr, ("none", "<u2")])
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Counter:
    """Counts one boot: QEMU's words for it, and the kernel's functions; ``why`` not, if it cannot.

    ``words`` are then the ones that the boot has without. ``is_traced``: what the kernel's own
    tracing executes is counted as well; else ``why`` says why it is not.
    """

    words: tuple[str, ...]
    symbols: Symbols | None = None
    why: str = ""
    is_traced: bool = False
    values: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, kernel: Path, folder: Path, words: Sequence[str], caches: str | None = None
    ) -> Counter:
        """To count what a kernel's image executes, with files in ``folder``.

        ``caches`` is the model of caches in which lines are counted; None: they are not.
        """
        try:
            if records_all(words):
                return cls(tuple(words), why="each instruction is recorded instead")
            symbols = read_functions(kernel)
            counting = count_words(folder, counted_code(symbols), words)
        except (UsageError, InfrastructureError) as error:
            return cls(tuple(words), why=str(error))
        try:
            code = tracing_code(symbols)
        except UsageError as error:
            return cls(counting, symbols, why=str(error))
        values = called_with(symbols)
        asked = [(span[0], number) for span, number in values.values()]
        model = load_caches(caches) if caches else None
        all_words = tracing_words(folder, code, counting, asked, model)
        return cls(all_words, symbols, is_traced=True, values=tuple(values))

    def keep(self, folder: Path, target: Path) -> None:
        """Store in ``target`` what was counted: ``counts.json``, and `TRACING` with `WINDOWS`."""
        if self.symbols is None:
            return
        path, tracing = folder / COUNTS, folder / TRACING
        if not path.is_file() or tracing.is_file() != self.is_traced:
            raise InfrastructureError("QEMU's plugin left no counts")
        if self.is_traced:
            shutil.move(tracing, target / TRACING)
            pack_windows(folder / WINDOWS, target / WINDOWS, self.symbols, self.values)
        text = json.dumps(_by_function(path, self.symbols), separators=(",", ":"))
        write_text(target / COUNTED, text + "\n")
        path.unlink()


def asked_values(machine: str) -> dict[str, int]:
    """Functions (globs) of which an argument is kept, with its number: of elements.toml."""
    known = load_toml(data_dir("pipelines") / "elements.toml").get("elements", {})
    parts = ({**one, **one.get("on", {}).get(machine, {})} for one in known.values())
    return {name: number for one in parts for name, number in one.get("values", {}).items()}


def called_with(symbols: Symbols) -> dict[str, tuple[tuple[int, int], int]]:
    """The kernel's functions of `asked_values`: where each is, and the argument's number."""
    asked = asked_values(symbols.machine)
    found = {}
    for name in symbols.names:
        number = next((n for glob, n in asked.items() if fnmatchcase(name, glob)), None)
        span = symbols.span(name) if number is not None else None
        if span is not None and number is not None:
            found[name] = (span, number)
    return found


def pack_windows(path: Path, target: Path, symbols: Symbols, values: Sequence[str] = ()) -> None:
    """Store the plugin's file of windows, packed: windows that nearly repeat are much alike.

    With the functions of its blocks, so that whoever reads it needs no image, and the names of
    those of which ``values`` were kept. Raises
    InfrastructureError where it is not whole.
    """
    data = path.read_bytes()
    last = np.frombuffer(data[-PART.itemsize :], PART)
    if not data.startswith(WINDOWS_MAGIC) or len(last) != 1 or last[0]["kind"] != WINDOWS_LAST:
        raise InfrastructureError(f"{path.name}: the plugin's windows are cut off")
    head = np.frombuffer(data, PART, 1, 8)[0]
    blocks = np.frombuffer(data, BLOCK, int(head["count"]), 8 + PART.itemsize)
    numbers = np.unique(symbols.index(blocks["address"]))
    numbers = numbers[numbers >= 0]
    functions = {
        "starts": symbols.starts[numbers].tolist(),
        "names": [symbols.name(number) for number in numbers.tolist()],
        "base": symbols.base,
        "size": len(symbols.image),
        "values": list(values),
    }
    if symbols.machine != ARM64:
        functions["machine"] = symbols.machine
    text = json.dumps(functions, separators=(",", ":")).encode()
    part = np.array([(FUNCTIONS, 0, 0, 1, len(text))], PART).tobytes()
    whole = _by_column(data[: -PART.itemsize]) + part + text + data[-PART.itemsize :]
    write_bytes(target, PACKED + zlib.compress(whole, 1))


def _by_column(data: bytes) -> bytes:
    """The plugin's file, with lines of cache in columns: a third of the size, packed."""
    at, kept, parts = len(WINDOWS_MAGIC), 0, []
    while at + PART.itemsize <= len(data):
        head = np.frombuffer(data, PART, 1, at).copy()
        begin = at + PART.itemsize
        end = begin + int(head["width"][0]) * int(head["count"][0])
        if head["kind"][0] == TOUCHES:
            rows = np.frombuffer(data, _PADDED, int(head["count"][0]), begin)
            columns = [np.diff(rows["mark"], prepend=np.uint32(0))]
            columns += [rows[name] for name in ("block", *TOUCHED)]
            head["kind"], head["width"] = TOUCH_COLUMNS, TOUCH.itemsize
            parts += [data[kept:at], head.tobytes(), *(column.tobytes() for column in columns)]
            kept = end
        at = end
    return b"".join((*parts, data[kept:]))


def touches_of(data: bytes, count: int, at: int) -> npt.NDArray[np.void]:
    """What `pack_windows` stored of lines of cache; shape (count,), of `TOUCH`."""
    rows = np.zeros(count, TOUCH)
    for name in ("mark", "block", *TOUCHED):
        column = np.frombuffer(data, TOUCH[name], count, at)
        rows[name] = np.cumsum(column) if name == "mark" else column
        at += column.nbytes
    return rows


def idle_functions(symbols: Symbols) -> tuple[list[str], list[str]]:
    """Functions from which on a CPU idles, and from which on not; the kernel may lack some."""
    exceptions = [n for n in symbols.names if any(fnmatchcase(n, glob) for glob in _EXCEPTIONS)]
    return list(_IDLE_LOOP), [*_WORKS_FOR_OTHERS, *exceptions]


def counted_code(symbols: Symbols) -> CountedCode:
    """Where a kernel idles, and where it is marked; UsageError if it lacks a function for that."""
    mark = symbols.span(MARK)
    idles, leaves = idle_functions(symbols)
    idle = [span for name in idles if (span := symbols.span(name))]
    leave = [span for name in leaves if (span := symbols.span(name))]
    exceptions = leaves[len(_WORKS_FOR_OTHERS) :]
    for name in (MARK, "do_idle", *(exceptions or _EXCEPTIONS[:1])):
        if symbols.span(name) is None:
            raise UsageError(f"the kernel has no function {name}: what runs cannot be counted")
    assert mark is not None
    end = np.array([symbols.base + len(symbols.image)], np.uint64)
    ends = np.concatenate([symbols.starts[1:], end])
    return CountedCode(mark[0], idle, leave, np.column_stack((symbols.starts, ends)))


def _by_function(path: Path, symbols: Symbols) -> dict[str, object]:
    """The plugin's file, summed by function: instructions of all CPUs, idle ones separately."""
    parts = list(_parts(path))
    ends = [head for head, _ in parts if head["kind"] == _END]
    pieces = [entries for head, entries in parts if head["kind"] == _PIECES]
    if len(ends) != 1 or len(pieces) != 1:
        raise InfrastructureError(f"{path.name}: the plugin's counts are cut off")
    function = symbols.index(pieces[0]["address"])
    length = pieces[0]["instructions"].astype(np.int64)
    windows: list[list[Counts]] = []
    for head, entries in parts:
        if head["kind"] != _WINDOW:
            continue
        totals = np.zeros((2, len(symbols.names) + 2), np.int64)
        which, sizes = function[entries["piece"]], length[entries["piece"]]
        for row, name in enumerate(("times", "idle")):
            np.add.at(totals[row], which, entries[name].astype(np.int64) * sizes)
        if int(head["number"]) == len(windows):
            windows.append([])
        windows[int(head["number"])].append(totals)
    return _readable([sum(window[1:], window[0]) for window in windows], symbols)


def _readable(windows: Sequence[Counts], symbols: Symbols) -> dict[str, object]:
    """Names once, and per window the functions that ran, by their place in the list of names."""
    ran = np.flatnonzero(sum((w[0] for w in windows), np.zeros(len(symbols.names) + 2, np.int64)))
    count = len(symbols.names)
    names = [symbols.name(i if i < count else i - count - 2) for i in ran.tolist()]
    rows = []
    for window in windows:
        times, idle = window[:, ran]
        here = np.flatnonzero(times)
        rows.append(
            {
                "functions": here.tolist(),
                "busy": (times - idle)[here].tolist(),
                "idle": idle[here].tolist(),
            }
        )
    return {"version": 1, "functions": names, "windows": rows}


def _parts(path: Path) -> Iterator[tuple[np.void, npt.NDArray[np.void]]]:
    data = path.read_bytes()
    if not data.startswith(_MAGIC):
        raise InfrastructureError(f"{path.name}: is not a file of the plugin's counts")
    at = len(_MAGIC)
    kinds = {_WINDOW: _COUNTED, _PIECES: _PIECE, _END: _PIECE}
    while at + PART.itemsize <= len(data):
        head = np.frombuffer(data, PART, 1, at)[0]
        at += PART.itemsize
        size = int(head["width"]) * int(head["count"])
        kind = kinds.get(int(head["kind"]))
        if at + size > len(data):
            return
        if kind is not None:
            yield head, np.frombuffer(data, kind, int(head["count"]), at)
        at += size
