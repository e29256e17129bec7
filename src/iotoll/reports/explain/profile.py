"""The table of `iotoll explain --profile`: calls and time per I/O, base beside candidate."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.records.models import ProfiledCell, ProfileRecord
from iotoll.reports.page.text import clean

SHOWN = 12
"""Functions of a cell that are printed."""

APPROXIMATE = (
    "Approximate: function_graph's profiler in separate boots, of kernels that trace every"
    " function. The profiler's cost is in all values, and nothing is gated on them."
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
        name = Text(clean(function.name), "bold" if function.changed else "")
        name.append(" (changed)" if function.changed else "")
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
