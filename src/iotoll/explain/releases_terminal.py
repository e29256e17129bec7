"""Two kernel releases by function, for a terminal: an overview, and the tables of single cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.records.models.releases import (
    FunctionCost,
    ReleaseCell,
    ReleaseFunction,
    ReleasePart,
    ReleasesRecord,
)
from iotoll.records.text import clean, number, signed, signed_percent

SHOWN = 12
"""Functions of a section; one row has the others."""

_PARTS = 6
"""Functions that one answers for; one row has the others."""

_NAMED = 2
"""Functions that the overview names of a section."""

EXACT = (
    "Instructions per I/O: means over all I/Os with all their requests, without the recorder."
    " Each column adds up."
)


def per_io(values: Sequence[int], ios: int) -> list[int]:
    """Sums over all I/Os as whole numbers per I/O, whose sum is that of the whole.

    Each is off by less than 1 from its own quotient.
    """
    running = [0, *accumulate(values)]
    return [after - before for before, after in pairwise(_round(one, ios) for one in running)]


def _round(value: int, ios: int) -> int:
    return (2 * value + ios) // (2 * ios) if ios else 0


def print_overview(record: ReleasesRecord, console: Console) -> None:
    """Print how much each section of each cell differs, and in which functions most."""
    _print_head(record, console)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("cell", overflow="fold")
    table.add_column("section")
    for heading in ("change", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("most of it", overflow="fold")
    for cell in sorted(record.cells, key=_largest, reverse=True):
        for place, part in enumerate(part for part in cell.parts if part.change):
            name = cell.cell if place == 0 else ""
            table.add_row(Text(clean(name)), part.section.value, *_change(part, cell.ios))
    console.print(table)


def _largest(cell: ReleaseCell) -> float:
    """The largest change of a section, per I/O."""
    return max((abs(part.change) / cell.ios for part in cell.parts), default=0.0)


def _change(part: ReleasePart, ios: int) -> tuple[str, str, Text]:
    (change,) = per_io([part.change], ios)
    share = signed_percent(part.change / part.first) if part.first else ""
    most = [f for f in part.functions if f.change * part.change > 0][:_NAMED]
    words = [f"{clean(f.name)} {signed(per_io([f.change], ios)[0])}" for f in most]
    return signed(change), share if change else "", Text(", ".join(words))


def print_cells(record: ReleasesRecord, console: Console, everything: bool = False) -> None:
    """Print the functions of each cell that differ: the largest, or ``everything``."""
    _print_head(record, console)
    for cell in record.cells:
        differ = [part for part in cell.parts if part.functions or part.change]
        for part in differ:
            _print_part(cell, part, record.kernels, console, everything)
        if not differ:
            console.print(Text(f"{clean(cell.cell)}: no function costs more or less"))


def _print_head(record: ReleasesRecord, console: Console) -> None:
    first, second = map(clean, record.kernels)
    console.print(Text(f"Linux {first} and {second} on {record.board}", "bold"))
    console.print(Text(EXACT))
    names = [f"{clean(r.first)} is {clean(r.second)} ({r.likeness:.0%})" for r in record.renamed]
    if names:
        console.print(Text(f"Renamed, by likeness of their code: {', '.join(names)}", "dim"))
    for remark in record.remarks:
        console.print(Text(f"{clean(remark)}.", "yellow"))
    for cell, why in record.left_out.items():
        console.print(Text(f"! {clean(cell)} is not compared: {clean(why)}", "yellow"))


def _print_part(
    cell: ReleaseCell,
    part: ReleasePart,
    kernels: tuple[str, str],
    console: Console,
    everything: bool,
) -> None:
    console.print()
    change = per_io([part.change], cell.ios)[0]
    title = f"{clean(cell.cell)} {part.section.value}: {signed(change)} in {cell.ios} I/Os"
    console.print(Text(title, "bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("change", *map(clean, kernels)):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("function", overflow="fold")
    rows = list(_rows(part, None if everything else SHOWN))
    columns = [
        per_io([getattr(cost, name) for _, cost in rows], cell.ios)
        for name in ("change", "first", "second")
    ]
    for place, (text, cost) in enumerate(rows):
        values = [column[place] for column in columns]
        table.add_row(signed(values[0]), number(values[1]), number(values[2]), text)
        if isinstance(cost, ReleaseFunction):
            for line in _part_rows(cost, cell.ios, None if everything else _PARTS):
                table.add_row("", "", "", line)
    total = [sum(column) for column in columns]
    table.add_row(signed(total[0]), number(total[1]), number(total[2]), Text("the section", "bold"))
    console.print(table)


def _rows(part: ReleasePart, most: int | None) -> Iterator[tuple[Text, FunctionCost]]:
    """The rows of a section's table; their sums are the section's."""
    for function in part.functions[:most]:
        name = Text(clean(function.name))
        name.append(f" (was {clean(function.was)})" if function.was else "", "dim")
        yield name, function
    left = part.functions[most:] if most is not None else []
    if left:
        others = FunctionCost(
            name="", first=sum(f.first for f in left), second=sum(f.second for f in left)
        )
        yield Text(f"{len(left)} more functions that differ", "dim"), others
    if part.unchanged:
        same = FunctionCost(name="", first=part.unchanged, second=part.unchanged)
        yield Text("functions that cost the same", "dim"), same
    if any(part.rest):
        rest = FunctionCost(name="", first=part.rest[0], second=part.rest[1])
        yield Text("of no function", "dim"), rest


def _part_rows(function: ReleaseFunction, ios: int, most: int | None) -> Iterator[Text]:
    """What a row is made of: the function itself, and what one kernel alone runs for it."""
    shown = function.parts[:most]
    changes = per_io([cost.change for cost in function.parts], ios)
    for cost, change in zip(shown, changes, strict=False):
        alone = "" if cost.first and cost.second else _alone(cost, cost.name == function.name)
        yield Text(f"  {signed(change)} {clean(cost.name)}{alone}", "dim")
    if len(function.parts) > len(shown):
        rest = sum(changes[len(shown) :])
        yield Text(f"  {signed(rest)} {len(function.parts) - len(shown)} more", "dim")


def _alone(cost: FunctionCost, itself: bool) -> str:
    if itself:
        return ""
    return ", new here" if cost.second else ", gone from here"
