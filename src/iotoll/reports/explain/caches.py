"""Tables of `iotoll explain --cache`: lines and misses per I/O, as a model of caches has them."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.records.models import CacheCounts, CacheModel, CacheRecord, CacheSection, Difference
from iotoll.reports.page.text import clean, number

SHOWN = 8
"""Functions of a section; the number of those beyond is reported."""

_COLUMNS = {
    "data lines": "data_lines",
    "code lines": "code_lines",
    "L1D misses": "l1d_misses",
    "L1I misses": "l1i_misses",
    "L2 misses": "l2_misses",
}


def print_caches(record: CacheRecord, console: Console, *, everything: bool = False) -> None:
    """Print the model, then every section whose counts differ (or all of them)."""
    console.print()
    console.print(Text(describe(record.model), "bold"))
    console.print(Text("A model's values per I/O, not a board's: base, candidate (difference)."))
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
    table.add_row(*_row(section), Text("all of the section", "bold"))
    for function in section.functions[:SHOWN]:
        table.add_row(*_row(function), clean(function.name))
    console.print(table)
    more = len(section.functions) - SHOWN
    if more > 0:
        console.print(Text(f"{more} more functions differ in some I/Os", "dim"))


def _row(counts: CacheCounts) -> list[str]:
    return [_cell(_of(counts, name)) for name in _COLUMNS.values()]


def _cell(one: Difference) -> str:
    """Both sides' medians and the difference; the mean where I/Os differ from each other."""
    if one.base == one.candidate and not one.effect:
        return number(one.base)
    change = f"{one.delta:+d}" if one.share > 0.5 else f"mean {one.mean:+.2f}"
    return f"{number(one.base)}, {number(one.candidate)} ({change})"


def _of(counts: CacheCounts, name: str) -> Difference:
    found: Difference = getattr(counts, name)
    return found
