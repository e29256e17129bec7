"""Coverage: which instructions of chosen functions ran in the recorded I/Os, and how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from iotoll.explain.attribute import CellParts
from iotoll.explain.pieces import executions_by_line
from iotoll.explain.record import Record
from iotoll.kernels.symbols import Symbols
from iotoll.records.models import CoverageRecord, FunctionCoverage, LineCoverage

_SIZE = 4  # bytes of an instruction
_SHOWN = 4
ONLY_DATA = (
    "No function's machine code changed; the images differ in data, such as limits, tables or"
    " line numbers. Limits were compared (docs/method.md)."
)
"""What is said of a change without code where the images differ."""


def executed_instructions(record: Record, symbols: Symbols, names: Sequence[str]) -> dict[str, int]:
    """How many different instructions of each function ran at least once while it was recorded."""
    longest: dict[int, int] = {}
    for block, count in zip(*record.split(record.distinct()), strict=True):
        longest[int(block)] = max(int(count), longest.get(int(block), 0))
    addresses = record.blocks["address"].astype(object)
    spans = {name: span for name in names if (span := symbols.span(name))}
    ran: dict[str, set[int]] = {name: set() for name in spans}
    for block, count in longest.items():
        first = addresses[block]
        last = first + _SIZE * count
        for name, (low, high) in spans.items():
            if first < high and last > low:
                ran[name].update(range(max(first, low), min(last, high), _SIZE))
    return {name: len(places) for name, places in ran.items()}


def coverage(
    cells: Mapping[str, CellParts],
    executed: Mapping[str, int],
    symbols: Symbols,
    changed: Sequence[str],
    base_names: frozenset[str],
    added: Mapping[str, Sequence[int]] | None = None,
    note: str | None = None,
) -> CoverageRecord:
    """Join what ran of the changed functions with how often each cell's I/Os called them.

    ``added`` are the lines of the change by file; ``note`` says why lines are not known.
    """
    added = added or {}
    lines = line_coverage(cells, added)
    calls = {
        name: {c: n for c, p in cells.items() if (n := _calls(p, name)) > 0} for name in changed
    }
    functions = _functions(symbols, changed, base_names, executed, calls)
    return CoverageRecord(
        cells=list(cells),
        functions=functions,
        gone=sorted(base_names - set(symbols.names)),
        sentence=sentence(functions, len(cells)) + line_sentence(lines),
        changed_lines=sum(len(numbers) for numbers in added.values()),
        lines=lines,
        note=note,
    )


@dataclass(frozen=True)
class CellTime:
    """The time of a cell's I/Os on the trace's clock, from the first start to the last end."""

    first: int
    last: int
    ios: int


def ran(
    record: Record,
    cells: Mapping[str, CellTime],
    symbols: Symbols,
    changed: Sequence[str],
    base_names: frozenset[str],
) -> CoverageRecord:
    """What ran of the changed functions in a boot that recorded them alone.

    A run's time is that of the last reading of the clock before it. No line is known.
    """
    marks = record.marks
    counts = np.diff([*marks["run"].astype(np.int64), len(record.runs)])
    times = marks["value"].astype(np.int64)
    spans = {name: span for name in changed if (span := symbols.span(name))}
    calls: dict[str, dict[str, float]] = {name: {} for name in spans}
    seen = [np.zeros(0, np.uint32)]
    untouched = []
    for cell, time in cells.items():
        during = (times >= time.first) & (times < time.last)
        runs, often = np.unique(record.runs[np.repeat(during, counts)], return_counts=True)
        seen.append(runs)
        untouched += [] if len(runs) else [cell]
        begins = record.blocks["address"][record.split(runs)[0]]
        for name, (low, _) in spans.items():
            if count := int(often[begins == low].sum()):
                calls[name][cell] = round(count / time.ios, 3)
    ran_at_all = np.unique(np.concatenate(seen)).astype(np.uint32)
    executed = executed_instructions(replace(record, runs=ran_at_all), symbols, changed)
    functions = _functions(symbols, changed, base_names, executed, calls)
    return CoverageRecord(
        cells=list(cells),
        functions=functions,
        gone=sorted(base_names - set(symbols.names)),
        sentence=sentence(functions, len(cells)) + _untouched(untouched, len(cells)),
    )


def _functions(
    symbols: Symbols,
    changed: Sequence[str],
    base_names: frozenset[str],
    executed: Mapping[str, int],
    calls: Mapping[str, Mapping[str, float]],
) -> list[FunctionCoverage]:
    """What is said of each changed function; ``calls`` are per I/O, by function and cell."""
    return [
        FunctionCoverage(
            name=name,
            new=name not in base_names,
            instructions=len(symbols.code(name)) // _SIZE,
            executed=executed.get(name, 0),
            calls=dict(calls.get(name, {})),
        )
        for name in changed
    ]


def _untouched(names: Sequence[str], cells: int) -> str:
    """In which cells nothing of it ran; empty where that is all, which is said, or none."""
    if not names or len(names) == cells:
        return ""
    return f" Nothing of it ran in {len(names)} of them: {_some(names)}."


def line_coverage(
    cells: Mapping[str, CellParts], added: Mapping[str, Sequence[int]]
) -> list[LineCoverage]:
    """The lines of a change that have machine code, and how often each ran per I/O of a cell."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    wanted = {(path, number) for path, numbers in added.items() for number in numbers}
    for cell, parts in cells.items():
        if parts.pieces is None or parts.executions is None:
            continue
        for place, count in executions_by_line(parts.pieces, parts.executions).items():
            if place in wanted:
                mine = found.setdefault(place, {})
                if count and parts.ios:
                    mine[cell] = round(count / parts.ios, 3)
    return [LineCoverage(file=p[0], line=p[1], executions=found[p]) for p in sorted(found)]


def line_sentence(lines: Sequence[LineCoverage]) -> str:
    """How many changed lines ran; empty where no line is known."""
    ran = sum(bool(line.executions) for line in lines)
    return f" {ran} of {len(lines)} changed lines with code ran." if lines else ""


def _calls(parts: CellParts, name: str) -> float:
    """Calls of a function per I/O, over everything that ran from the first I/O to the last."""
    return round(parts.calls.get(name, 0) / parts.ios, 3) if parts.ios else 0.0


def sentence(functions: Sequence[FunctionCoverage], cells: int) -> str:
    """Whether the changed code ran, in one sentence."""
    where = f"in the I/Os of {cells} recorded {'cell' if cells == 1 else 'cells'}"
    if not functions:
        return "No function's machine code changed."
    idle = [f.name for f in functions if not f.executed]
    if len(idle) == len(functions):
        return f"None of the changed code ran {where}: {_some(idle)}."
    if idle:
        ran = len(functions) - len(idle)
        return f"{ran} of {len(functions)} changed functions ran {where}; not {_some(idle)}."
    names = _some([f.name for f in functions])
    return f"Every changed function ran {where}: {names}."


def with_data(found: CoverageRecord, base: Symbols, candidate: Symbols) -> CoverageRecord:
    """The same, of a change without code: whether the images differ nevertheless."""
    if found.functions or base.image == candidate.image:
        return found
    return found.model_copy(update={"sentence": ONLY_DATA})


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
