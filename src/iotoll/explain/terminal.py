"""What `iotoll explain` found, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.explain.frames import Frame
from iotoll.records.models import (
    CacheCounts,
    CacheModel,
    CacheRecord,
    CacheSection,
    CoverageRecord,
    Difference,
    ExplainRecord,
    FunctionDelta,
    InlinedDelta,
    LineCoverage,
    PartDelta,
    ProfiledCell,
    ProfileRecord,
    UnseenFunction,
    UntracedRecord,
    UntracedSection,
)
from iotoll.records.rundir import SIDES
from iotoll.records.text import clean, number, signed, some_of
from iotoll.reports.page.coverage import coverage_sentence

SHOWN = 8
"""Functions of a section; the number of those beyond is reported."""

_OFTEN = 0.01
"""Share of I/Os from which a function's second commonest difference is shown."""

_INLINED = 4  # inlined functions of one function
_LINES = 12


def print_explained(record: ExplainRecord, console: Console, *, everything: bool = False) -> None:
    """Print every section that differs (or all of them), and what ran of the changed code."""
    console.print(Text(f"{record.board}: the verdict was {record.outcome.value}", "bold"))
    console.print(Text(coverage_sentence(record.coverage)))
    for function in record.coverage.functions:
        new = ", new" if function.new else ""
        calls = ", ".join(f"{clean(c)} {n:g}" for c, n in list(function.calls.items())[:3])
        more = f" … {len(function.calls)} cells" if len(function.calls) > 3 else ""
        text = f"{function.executed} of {function.instructions} instructions ran"
        text += f"; calls per I/O: {calls}{more}" if calls else ""
        console.print(Text(f"  {clean(function.name)}{new}: {text}"))
    _print_lines(record.coverage, console)
    for cell in record.cells:
        for section in cell.sections:
            if everything or section.judged or section.delta:
                _print_part(cell.cell, section.section.value, section, console)
        if cell.whole is not None:
            _print_part(cell.cell, "whole I/O", cell.whole, console)
        for side, same in (("base", cell.same_base), ("candidate", cell.same_candidate)):
            if not same:
                words = "its I/Os are not, count by count, those of the gate's boot"
                console.print(Text(f"! {cell.cell}, {side}: {words}", "yellow"))


def _print_lines(coverage: CoverageRecord, console: Console) -> None:
    """Print the changed lines with code: those that never ran, then how often the others did."""
    lines = sorted(coverage.lines, key=lambda line: bool(line.executions))
    for line in lines[:_LINES]:
        console.print(Text(f"  {clean(line.file)}:{line.line}: {_often(line)}"))
    if len(lines) > _LINES:
        console.print(Text(f"  and {len(lines) - _LINES} more changed lines: see explain.json"))


def _often(line: LineCoverage) -> str:
    if not line.executions:
        return "never ran"
    low, high = min(line.executions.values()), max(line.executions.values())
    times = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    cells = "cell" if len(line.executions) == 1 else "cells"
    return f"ran {times} times per I/O in {len(line.executions)} {cells}"


def _print_part(cell: str, name: str, section: PartDelta, console: Console) -> None:
    console.print()
    judged = "not judged" if section.judged is None else f"gate {section.judged:+.0f}"
    console.print(Text(f"{cell} {name}: {judged}", "bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("difference", "share", "mean", "base", "candidate"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("function", overflow="fold")
    for function in section.functions[:SHOWN]:
        table.add_row(*_row(function))
        for inlined in function.inlined[:_INLINED]:
            table.add_row(*_inlined_row(inlined))
    if section.functions:
        console.print(table)
    more = len(section.functions) - SHOWN
    if more > 0:
        console.print(Text(f"{more} more functions differ in some I/Os", "dim"))
    console.print(Text(_sum(section), "dim"))


def _row(function: FunctionDelta) -> tuple[str | Text, ...]:
    name = Text(clean(function.name), "bold" if function.changed else "")
    if function.changed:
        name.append(" (changed)")
    if function.file:
        name.append(f", {clean(function.file)}:{function.line}")
    if function.next_delta and (function.next_share or 0.0) >= _OFTEN:
        name.append(f", {function.next_delta:+d} in {function.next_share:.0%} of I/Os")
    if function.callers:
        name.append(f", called by {clean(function.callers[0])}", "dim")
    return (
        f"{function.delta:+d}",
        f"{function.share:.0%}",
        f"{function.mean:+.1f}",
        number(function.base),
        number(function.candidate),
        name,
    )


def _inlined_row(inlined: InlinedDelta) -> tuple[str | Text, ...]:
    name = Text(f"  of it {clean(inlined.name)} (inlined)")
    name.append(f", {clean(inlined.file)}:{inlined.line}")
    if len(inlined.into) > 1:
        name.append(f", by way of {clean(inlined.into[0])}", "dim")
    return (
        f"{inlined.delta:+d}",
        f"{inlined.share:.0%}",
        f"{inlined.mean:+.1f}",
        number(inlined.base),
        number(inlined.candidate),
        name,
    )


def _sum(section: PartDelta) -> str:
    text = (
        f"explained {section.explained:+.0f}; all of it {section.delta:+d} in"
        f" {section.share:.0%} of {section.paired} I/Os, mean {section.mean:+.1f}"
    )
    if section.unexplained is not None:
        text += f"; not explained of the gate's {section.unexplained:+.0f}"
    left = section.missing_base + section.missing_candidate
    if left:
        text += (
            f"; not dissected: {section.missing_base} I/Os of the base,"
            f" {section.missing_candidate} of the candidate"
        )
    return text


def print_tree(root: Frame, number_of_io: int, console: Console) -> None:
    """Print one I/O as a call tree; what is the same on both sides is one line with its total."""
    console.print()
    console.print(Text(f"{root.name}, I/O {number_of_io}: instructions of both sides", "bold"))
    if not root.children:
        console.print(Text("! it could not be dissected on either side", "yellow"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("base", "candidate", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("function, with all that it calls", overflow="fold")
    for child in root.children.values():
        _tree_rows(child, 0, table)
    console.print(table)


def _tree_rows(frame: Frame, depth: int, table: Table) -> None:
    base, candidate = frame.total
    change = candidate - base
    style = "" if frame.differs else "dim"
    own = frame.own[1] - frame.own[0]
    name = Text("  " * depth + clean(frame.name), "bold" if own else style)
    if own and frame.children:
        name.append(f"  (itself {own:+.0f})")
    table.add_row(number(base), number(candidate), f"{change:+.0f}" if change else "", name)
    if frame.differs:
        for child in frame.children.values():
            _tree_rows(child, depth + 1, table)


CACHE_FUNCTIONS_SHOWN = 8
"""Functions of a section; the number of those beyond is reported."""

_COLUMNS = {
    "data": "data_lines",
    "code": "code_lines",
    "L1D": "l1d_misses",
    "L1I": "l1i_misses",
    "L2": "l2_misses",
}
_LEGEND = (
    "A model's values per I/O, not a board's: lines of data and code, misses in L1D, L1I and L2.",
    "Alone: the same on both sides. 18+2: the base's median, and the commonest difference."
    " 18~+0.4: no difference is common, so the mean one.",
)


def print_caches(record: CacheRecord, console: Console, *, everything: bool = False) -> None:
    """Print the model, then every section whose counts differ (or all of them)."""
    console.print()
    console.print(Text(describe(record.model), "bold"))
    for line in _LEGEND:
        console.print(Text(line))
    same = 0
    for section in record.sections:
        if everything or any(_of(section, name).effect for name in _COLUMNS.values()):
            _print_section(section, console)
        else:
            same += 1
    if same:
        console.print(Text(f"{same} sections touch the same number of lines on both sides", "dim"))


def describe(model: CacheModel) -> str:
    """A model of caches in one line."""
    levels = {"L1I": model.l1i, "L1D": model.l1d, "L2": model.l2}
    sizes = ", ".join(f"{k} {one.size_kib} KiB {one.ways}-way" for k, one in levels.items())
    return f"Modelled caches {clean(model.name)}: {sizes}, lines of {model.line} bytes, LRU"


def _print_section(section: CacheSection, console: Console) -> None:
    console.print()
    title = f"{section.cell} {section.section.value}: {section.paired} I/Os of both sides"
    console.print(Text(title, "bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in _COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("function", overflow="fold")
    table.add_row(*_cache_row(section), Text("the whole section", "bold"))
    for function in section.functions[:CACHE_FUNCTIONS_SHOWN]:
        table.add_row(*_cache_row(function), clean(function.name))
    console.print(table)
    more = len(section.functions) - CACHE_FUNCTIONS_SHOWN
    if more > 0:
        console.print(Text(f"{more} more functions differ in some I/Os", "dim"))


def _cache_row(counts: CacheCounts) -> list[str]:
    return [_cell(_of(counts, name)) for name in _COLUMNS.values()]


def _cell(one: Difference) -> str:
    if abs(one.effect) < 0.05:
        return number(one.base)
    change = f"{one.delta:+d}" if one.share > 0.5 else f"~{one.mean:+.1f}"
    return f"{number(one.base)}{change}"


def _of(counts: CacheCounts, name: str) -> Difference:
    found: Difference = getattr(counts, name)
    return found


PROFILE_FUNCTIONS_SHOWN = 12
"""Functions of a cell that are printed."""

_NAMED = 3
"""Functions that are named of a list."""

_WHY = {
    "untraced": "declared inline or notrace, so the tracer cannot enter it",
    "absent": "no separate function there; the one that has its code is changed",
    "cut": "the kernel cuts its name, and others begin so",
    "idle": "nothing called it in this cell",
}

APPROXIMATE = (
    "Approximate: function_graph's profiler in separate boots, of kernels that trace their"
    " functions. The profiler's cost is in all values, and nothing is gated on them."
)


def print_profile(record: ProfileRecord, console: Console) -> None:
    """Print the changed functions and the largest differences of each cell."""
    console.print(Text(f"{record.board}: functions of both kernels, per I/O", "bold"))
    console.print(Text(APPROXIMATE, "yellow"))
    for cell in record.cells:
        _print_cell(cell, console)


def _print_cell(cell: ProfiledCell, console: Console) -> None:
    console.print()
    console.print(Text(f"{clean(cell.cell)}: {cell.ios} I/Os of each kernel", "bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("calls", "then", "ns", "then", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("function, without what it calls", overflow="fold")
    for function in cell.functions[:PROFILE_FUNCTIONS_SHOWN]:
        marked = function.changed or function.holds
        name = Text(clean(function.name), "bold" if marked else "")
        name.append(" (changed)" if function.changed else "")
        if function.holds:
            name.append(f" (with {_some(function.holds)}, changed)")
        table.add_row(
            f"{function.base_calls:.2f}",
            f"{function.candidate_calls:.2f}",
            f"{function.base_ns:,.0f}",
            f"{function.candidate_ns:,.0f}",
            f"{function.change:+,.0f}",
            name,
        )
    console.print(table)
    more = len(cell.functions) + cell.left_out - PROFILE_FUNCTIONS_SHOWN
    if more > 0:
        console.print(Text(f"{more} more functions: see profile.json", "dim"))
    for line in _unseen(cell.unseen):
        console.print(Text(line, "yellow"))


def _unseen(functions: Sequence[UnseenFunction]) -> Iterator[str]:
    """Why changed functions have no line: one line for each reason, kernels and holders."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in functions:
        sides = "both kernels" if len(one.sides) == len(SIDES) else f"the {one.sides[0]}"
        groups.setdefault((one.why, sides, *one.holders), []).append(one.name)
    for (why, sides, *holders), names in groups.items():
        text = f"! no line of {_some(names)} (changed) in {sides}: {_WHY[why]}"
        if holders:
            text += f"; the time is in {_some(holders)}"
        elif why == "untraced":
            text += "; none of its callers has a line here"
        yield text


def _some(names: Sequence[str]) -> str:
    return some_of([clean(name) for name in names], _NAMED)


_HEADINGS = ("I/Os", "counted", "untraced", "off")
"""Cut without events; the gate's count, without what records the trace; without events; less."""


def print_untraced(record: UntracedRecord, console: Console) -> None:
    """Print medians of instructions per I/O, section by section, for each cell and kernel."""
    console.print(Text(f"{record.board}: instructions per I/O, medians", "bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("cell", "kernel", "section"):
        table.add_column(heading, overflow="fold")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for cell in record.cells:
        for section in cell.sections:
            name = section.section.value
            table.add_row(clean(cell.cell), cell.side, name, number(section.ios), *_pair(section))
    console.print(table)
    for cell in record.cells:
        if not cell.sections:
            console.print(Text(f"! {clean(cell.cell)}, {cell.side}: no I/O was cut", "yellow"))


def _pair(section: UntracedSection) -> tuple[str, str, str]:
    if section.counted is None:
        return "-", number(section.untraced), "-"
    off = section.counted - section.untraced
    return number(section.counted), number(section.untraced), signed(off)
