"""The table of `iotoll explain --profile`: calls and time per I/O, base beside candidate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.records.models import ProfiledCell, ProfileRecord, UnseenFunction
from iotoll.records.rundir import SIDES
from iotoll.reports.page.text import clean

SHOWN = 12
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
    for function in cell.functions[:SHOWN]:
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
    more = len(cell.functions) + cell.left_out - SHOWN
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
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(clean, names[:_NAMED])) + more
