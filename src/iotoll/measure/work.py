"""All that the CPUs executed for a cell, from its beginning until what its I/Os put off has run.

The counts are those of the gated boot itself (`iotoll.boots.counts`). What belongs to nobody's I/O
is counted separately: idling, the harness's own user space, and the recorder. Where the boot kept
its windows, the recorder is exactly what they leave out. Else it is known by the names of its
functions, and what it shares with others counts for the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field, ValidationError

from iotoll.boots.counts import COUNTED
from iotoll.core.errors import InfrastructureError
from iotoll.kernels.symbols import USER
from iotoll.measure.windows import Windows
from iotoll.records.models import WorkRecord
from iotoll.records.models.base import Model

_RECORDER = re.compile(
    r"(__|do_)?(trace|tracing|traceiter|perf_trace|perf_syscall|ftrace|syscall_trace|ring_buffer|rb|"
    r"event_trigger|kprobe|kprobes|kretprobe|aggr_pre|rethook|arch_rethook|single_step)_|"
    r"(asm_|do_)?(exc_)?int3$"
)
"""Functions of trace events, their ring buffer and kernel probes (kernel/trace)."""

LEAST = 1
"""Functions with fewer instructions per I/O are counted together, as the function of no name."""


class _Window(Model):
    functions: list[int]
    busy: list[int]
    idle: list[int]


class _Counts(Model):
    version: int = Field(ge=1, le=1)
    functions: list[str]
    windows: list[_Window]


def read_work(
    folder: Path, cells: Mapping[str, int], order: Sequence[str], windows: Windows | None = None
) -> dict[str, WorkRecord]:
    """What was executed for each of a boot's cells, by its name; raises InfrastructureError.

    ``cells`` has their numbers of I/Os; ``order`` names all runs of the boot as they followed each
    other, calibrations included: each is one window of the counts. ``windows`` are what the boot
    kept besides. Empty where nothing was counted.
    """
    path = folder / COUNTED
    if not path.is_file():
        return {}
    try:
        counts = _Counts.model_validate_json(path.read_text())
        # Fewer runs than windows would give a cell another one's work.
        if len(counts.windows) != len(order):
            raise ValueError(f"{len(counts.windows)} windows for {len(order)} runs")
        kinds = [_kind(name) for name in counts.functions]
        kept = windows.by_function() if windows else [None] * len(order)
        if len(kept) != len(order):
            raise ValueError(f"{len(kept)} cells of windows for {len(order)} runs")
        return {
            name: _record(counts, kinds, window, ran, cells[name])
            for name, window, ran in zip(order, counts.windows, kept, strict=True)
            if cells.get(name)
        }
    except (OSError, ValueError, IndexError, ValidationError) as error:
        raise InfrastructureError(f"{path}: not what a boot counted: {error}") from error


def _kind(function: str) -> str:
    if function == USER:
        return "user"
    return "recorder" if _RECORDER.match(function) else "kernel"


def _record(
    counts: _Counts,
    kinds: Sequence[str],
    window: _Window,
    ran: Mapping[str, int] | None,
    ios: int,
) -> WorkRecord:
    """``ran`` is what the kernel executed without the recorder, by function, idling included."""
    sums = {"user": 0, "recorder": 0, "kernel": 0}
    busy: dict[str, int] = {}
    for place, count in zip(window.functions, window.busy, strict=True):
        sums[kinds[place]] += count
        if kinds[place] == "kernel":
            busy[counts.functions[place]] = count
    if ran is not None:
        idle = {counts.functions[p]: n for p, n in zip(window.functions, window.idle, strict=True)}
        busy = {name: max(count - idle.get(name, 0), 0) for name, count in ran.items()}
        every, sums["kernel"] = sums["recorder"] + sums["kernel"], sum(busy.values())
        sums["recorder"] = max(every - sums["kernel"], 0)
    functions: dict[str, int] = {}
    for name, count in busy.items():
        if count:
            kept = name if count >= LEAST * ios else ""
            functions[kept] = functions.get(kept, 0) + count
    return WorkRecord(ios=ios, idle=sum(window.idle), functions=functions, **sums)
