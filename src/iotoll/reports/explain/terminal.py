"""Tables of `iotoll explain`: functions with instructions per I/O, base beside candidate."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.measure.explain.frames import Frame
from iotoll.records.models import (
    CoverageRecord,
    ExplainRecord,
    FunctionDelta,
    InlinedDelta,
    LineCoverage,
    PartDelta,
)
from iotoll.reports.page.text import clean, number

SHOWN = 8
"""Functions of a section; the number of those beyond is reported."""

_OFTEN = 0.01
"""Share of I/Os from which a function's second commonest difference is shown."""

_INLINED = 4  # inlined functions of one function
_LINES = 12


def print_explained(record: ExplainRecord, console: Console, *, everything: bool = False) -> None:
    """Print every section that differs (or all of them), and what ran of the changed code."""
    console.print(Text(f"{record.board}: the verdict was {record.outcome.value}", "bold"))
    console.print(Text(record.coverage.sentence))
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
    if coverage.note:
        console.print(Text(f"! {clean(coverage.note)}", "yellow"))


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
            f"; not taken apart: {section.missing_base} I/Os of the base,"
            f" {section.missing_candidate} of the candidate"
        )
    return text


def print_tree(root: Frame, number_of_io: int, console: Console) -> None:
    """Print one I/O as a call tree; what is the same on both sides is one line with its total."""
    console.print()
    console.print(Text(f"{root.name}, I/O {number_of_io}: instructions of both sides", "bold"))
    if not root.children:
        console.print(Text("! it could not be taken apart on either side", "yellow"))
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
