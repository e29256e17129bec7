"""Cells that a gate tries where changed code ran in none of those that its paths selected.

The functions that lead to such code are looked for in the candidate's machine code: who calls it,
directly or through others that did not run either. A family of cells says which functions it is
there for (``runs`` in lava-jobs/families.toml). Where no family says so, a condition decides that
no caller shows, such as an operation, a flag or a depth: then the deepest cell of each family is
tried. What still does not run is named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from iotoll.boards.cells import parse_cell
from iotoll.boards.equip import families, fragments
from iotoll.explain import gate_coverage
from iotoll.explain.functions import Lines
from iotoll.explain.unseen import Traced
from iotoll.gate.conclude import some
from iotoll.measure.windows import read_windows
from iotoll.records import results
from iotoll.records.models import (
    CellChoice,
    CoverageRecord,
    Outcome,
    SelectionRecord,
    TriedRecord,
    VerdictRecord,
)
from iotoll.run.building import Building


@dataclass(frozen=True)
class Chosen:
    """Cells to try by family, and families that need another kernel."""

    cells: Mapping[str, Sequence[str]]
    left: Sequence[str]


def wanted(setup: Building, verdict: VerdictRecord) -> SelectionRecord | None:
    """The selection with the cells to try; None where there is nothing to try, or was already.

    Of a pass alone, on a board that this machine boots, and not where the user named the cells.
    """
    manifest = setup.run.manifest
    if verdict.outcome is not Outcome.PASS or not verdict.cells or setup.stored:
        return None
    if manifest.cells is not None or manifest.runner != "local" or manifest.kind != "gate":
        return None
    selected = results.read(setup.run.selection, SelectionRecord)
    if selected.tried is not None or not gate_coverage.is_asked_for(setup):
        return None
    idle = _idle(setup)
    chosen = _choose(setup, selected, idle) if idle else Chosen({}, ())
    if not chosen.cells:
        return None
    names = some(idle)
    cells = [
        CellChoice(cell=cell, why=f"{names} ran in no selected cell: family {family} is tried")
        for family, several in chosen.cells.items()
        for cell in several
    ]
    tried = TriedRecord(functions=idle, families=list(chosen.cells), left=list(chosen.left))
    return selected.model_copy(update={"cells": [*selected.cells, *cells], "tried": tried})


def reached(setup: Building) -> None:
    """Note in the selection which functions ran in no tried cell either."""
    selected = results.read(setup.run.selection, SelectionRecord)
    if selected.tried is not None:
        update = {"unreached": _idle(setup)}
        tried = selected.tried.model_copy(update=update)
        results.write(setup.run.selection, selected.model_copy(update={"tried": tried}))


def idle_functions(found: CoverageRecord) -> list[str]:
    """Functions of which no changed line ran or, where no line is known, no changed code."""
    by_lines: dict[str, bool] = {}
    for line in found.lines:
        by_lines[line.function] = by_lines.get(line.function, False) or bool(line.executions)
    idle = [name for name, ran in by_lines.items() if name and not ran]
    idle += [f.name for f in found.functions if f.name not in by_lines and not f.did_change_run]
    # What is inlined has no code of its own: its callers' stands for it only where it has no line.
    whole = {f.name for f in found.functions if f.did_change_run}
    return sorted({name for name in idle if name not in whole or name in by_lines})


def leading_to(traced: Traced, idle: Iterable[str], ran: Collection[str]) -> set[str]:
    """The idle functions, what calls them and did not run, and so on to the first that did."""
    source, target = traced.calls
    names = traced.symbols.names
    places = {name: number for number, name in enumerate(names)}
    new = {places[name] for name in idle if name in places}
    known = set(new)
    while new:
        callers = set(source[np.isin(target, list(new))].tolist())
        new = {number for number in callers - known if names[number] not in ran}
        known |= callers
    return {names[number] for number in known} | set(idle)


def _idle(setup: Building) -> list[str]:
    try:
        return idle_functions(gate_coverage.of_gate(setup, Lines(setup)))
    except Exception as error:  # as in `gate_coverage.after_verdict`: the verdict stands
        setup.progress.say(f"which changed code ran is not known: {error}")
        return []


def _choose(setup: Building, selected: SelectionRecord, idle: Sequence[str]) -> Chosen:
    folders = setup.run.first_folders("candidate")
    boots = [windows for folder in folders if (windows := read_windows(folder))]
    ran = {name for windows in boots for one in windows.by_function() for name in one}
    leading = leading_to(Traced(gate_coverage.symbols_of(setup.run, "candidate")), idle, ran)
    have = {choice.cell for choice in selected.cells}
    devices = {parse_cell(cell).device for cell in have}
    known = {
        name: [c for c in cells if c not in have and parse_cell(c).device in devices]
        for name, cells in families(setup.board, setup.matrix).items()
    }
    known = {name: cells for name, cells in known.items() if cells}
    other = [name for name, cells in known.items() if _needs_more(setup, selected, cells)]
    runs = {name: setup.matrix.families[name].runs for name in known}
    fits = [n for n in known if any(fnmatchcase(f, glob) for f in leading for glob in runs[n])]
    chosen = {n: known[n] for n in fits if n not in other}
    if not fits:
        chosen = {n: _deepest(cells) for n, cells in known.items() if n not in other}
    return Chosen(chosen, [name for name in other if name in fits])


def _needs_more(setup: Building, selected: SelectionRecord, cells: Sequence[str]) -> bool:
    """Whether a kernel with these cells has another configuration than the one that ran."""
    have = [choice.cell for choice in selected.cells]
    more = fragments(setup.board, [*have, *cells], selected.fragments)
    return set(more) != set(fragments(setup.board, have, selected.fragments))


def _deepest(cells: Sequence[str]) -> list[str]:
    """One cell of each device: that with the most I/Os at once."""
    found: dict[str, str] = {}
    for cell in sorted(cells, key=lambda one: -parse_cell(one).depth):
        found.setdefault(parse_cell(cell).device, cell)
    return list(found.values())
