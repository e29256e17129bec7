"""Which of the changed code ran, in words: of an explanation's record alone, for every reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iotoll.records.models import CoverageRecord, FunctionCoverage, LineCoverage
from iotoll.records.text import NBSP, cell_name, clean, plural, some_of

_SHOWN, _LINES = 4, 6
"""Functions and lines that are named."""


def coverage_sentence(record: CoverageRecord) -> str:
    """What ran of the changed code: lines first, which their author knows, then functions.

    Where lines are not known it says by what coverage was found, and why. A record without changed
    functions keeps its sentence, which says whether the images differ nevertheless.
    """
    if not record.functions:
        return clean(record.sentence)
    if not record.cells:
        names = _some([one.name for one in record.functions])
        return f"No I/O was recorded, so what of it runs is not known. Changed: {names}."
    said = [*_lines(record), *_functions(record), *_by_device(record)]
    return " ".join(said).replace(NBSP, " ")


def _lines(record: CoverageRecord) -> Iterable[str]:
    lines = record.lines
    idle = [one for one in lines if not one.executions]
    where = f"in {plural(len(record.cells), 'workload')}"
    if not lines:
        return
    if len(lines) == 1:
        yield f"The changed line {'never ran' if idle else 'ran'} {where}: {_places(lines)}."
    elif not idle:
        yield f"All {len(lines)} changed lines with code ran {where}."
    elif len(idle) == len(lines):
        yield f"None of the {len(lines)} changed lines with code ran {where}: {_places(idle)}."
    else:
        ran = len(lines) - len(idle)
        yield f"{ran} of {len(lines)} changed lines with code ran {where}, not {_places(idle)}."


def _functions(record: CoverageRecord) -> Iterable[str]:
    functions = record.functions
    by_code = any(one.changed is not None for one in functions)
    still = [one.name for one in functions if not one.did_change_run]
    inside = "" if by_code else "the I/Os of "
    where = "" if record.lines else f" in {inside}{plural(len(record.cells), 'workload')}"
    if not still:
        names = _some([one.name for one in functions])
        if len(functions) == 1:
            yield f"The changed function ran{where}: {names}."
        else:
            yield f"All {len(functions)} changed functions ran{where}: {names}."
    elif len(still) < len(functions):
        ran = len(functions) - len(still)
        yield f"{ran} of {len(functions)} changed functions ran{where}, not {_some(still)}."
    elif not record.lines:
        yield f"None of the changed code ran{where}: it is in {_some(still)}."
    elif other := [one.name for one in functions if one.executed]:
        yield f"Other code of {_some(other)} ran."
    if why := _not_by_lines(record):
        yield why


def _not_by_lines(record: CoverageRecord) -> str:
    """That lines are not known, or not of all, and why."""
    note = clean(record.note or "").rstrip(".")
    if record.lines:
        return f"Not every line is known: {note}." if note else ""
    by_code = any(one.changed is not None for one in record.functions)
    by = "by the code that the base has not" if by_code else "by function"
    none = "the patch adds no line" if by_code else ""
    why = note or ("no changed line has code" if record.changed_lines else none)
    return f"Found {by}, not by lines{why and ': '}{why}."


def _by_device(record: CoverageRecord) -> Iterable[str]:
    """In how many workloads of each device any of it ran, where it is in some and not in all."""
    ran = {cell for one in record.functions for cell in _cells_of(one)}
    ran |= {cell for line in record.lines for cell in line.executions}
    if not ran or len(ran) >= len(record.cells):
        return
    devices: dict[str, list[bool]] = {}
    for cell in record.cells:
        devices.setdefault(cell_name(cell).device_label, []).append(cell in ran)
    told = [
        f"{sum(mine) or 'none'} of {len(mine)}{f' {name}' if name else ''}"
        for name, mine in devices.items()
    ]
    yield f"Workloads that ran any of it: {', '.join(told)}."


def _cells_of(one: FunctionCoverage) -> Iterable[str]:
    return one.executions if one.changed is not None else one.calls


def _places(lines: Sequence[LineCoverage]) -> str:
    """Lines by file and function: ``a.c:7, 9 f()``."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in lines[:_LINES]:
        groups.setdefault((clean(one.file), clean(one.function)), []).append(str(one.line))
    told = [
        f"{file}:{', '.join(numbers)}{f' {function}()' if function else ''}"
        for (file, function), numbers in groups.items()
    ]
    more = f" and {len(lines) - _LINES} more" if len(lines) > _LINES else ""
    return ", ".join(told) + more


def _some(names: Sequence[str]) -> str:
    return some_of([clean(name) for name in names], _SHOWN)
