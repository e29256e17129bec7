"""Which of the changed code ran in the gate's own boots of the candidate, for a pass as well.

They have kept what they executed (`iotoll.measure.windows`), so no further boot is needed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from iotoll.explain.coverage import CellExecutions, ChangedCode, in_words, of_boot, with_data
from iotoll.explain.functions import Lines
from iotoll.explain.pieces import Pieces, make_pieces
from iotoll.explain.record import Ints
from iotoll.explain.stored import has_windows
from iotoll.explain.tables import io_tables
from iotoll.kernels.changed import changed_functions, changed_places
from iotoll.kernels.symbols import Symbols, read_functions
from iotoll.measure.iotable import IoTable
from iotoll.measure.windows import Windows, read_windows
from iotoll.records import results
from iotoll.records.models import CoverageRecord, ExplainRecord, VerdictRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir, images
from iotoll.run.building import Building
from iotoll.verdict.policy import Policy

_MOST = 100
"""Changed functions whose code is aligned with the base's; of others all of it counts."""


def is_asked_for(setup: Building) -> bool:
    """Whether the policy wants it, and the candidate's first boots kept what they executed."""
    policy = setup.policy
    return isinstance(policy, Policy) and policy.explain.ran and has_windows(setup.run, "candidate")


def after_verdict(setup: Building) -> None:
    """Write what ran as ``explain.json``, without any cell dissected."""
    run = setup.run
    try:
        found = of_gate(setup, Lines(setup))
    except Exception as error:  # its files come from where it booted; the verdict stands
        setup.progress.say(f"which changed code ran is not known: {error}")
        return
    verdict = results.read(run.verdict, VerdictRecord)
    record = ExplainRecord(
        board=run.manifest.board,
        outcome=verdict.outcome,
        cells=[],
        coverage=found,
        images=images(run),
    )
    results.write(run.explained, record)


_found: dict[tuple[object, ...], CoverageRecord] = {}


def of_gate(setup: Building, lines: Lines, pieces: Pieces | None = None) -> CoverageRecord:
    """What ran of the change in all cells, by the candidate's first boots.

    ``pieces`` are those of the changed functions, where they are known. Raises InfrastructureError
    or UsageError where boot or images cannot be read.
    """
    folders = setup.run.first_folders("candidate")
    boots = (results.identity(folder / "boot.json") for folder in folders)
    key = (str(setup.run.root), *boots, tuple(setup.cells), *images(setup.run))
    if key not in _found:
        _found.clear()
        _found[key] = _of_gate(setup, lines, pieces)
    return _found[key]


def _of_gate(setup: Building, lines: Lines, pieces: Pieces | None) -> CoverageRecord:
    if pieces is None:
        code, note = changed_code(setup)
    else:
        code, note = _changed_code(setup.run, lines, pieces), lines.note
    found: dict[str, CellExecutions] = {}
    for folder, cells in setup.run.first_folders("candidate").items() if code.places else ():
        windows = read_windows(folder)
        if windows is not None:
            tables = {cell: table for cell, table in io_tables(folder, cells).items() if len(table)}
            found |= executions(windows, tables, code.addresses)
    ordered = {cell: found[cell] for cell in setup.cells if cell in found}
    ran = of_boot(ordered, code).model_copy(update={"note": note})
    return with_data(in_words(ran), *_symbols(setup.run))


_remembered: dict[tuple[str, ...], tuple[ChangedCode, str | None]] = {}


def changed_code(setup: Building) -> tuple[ChangedCode, str | None]:
    """What changed in the run's candidate, and why lines are not known; the last is remembered."""
    key = (str(setup.run.root), *images(setup.run))
    if key not in _remembered:
        lines = Lines(setup)
        found = _changed_code(setup.run, lines)
        _remembered.clear()
        _remembered[key] = found, lines.note
    return _remembered[key]


def _changed_code(run: RunDir, lines: Lines, pieces: Pieces | None = None) -> ChangedCode:
    base, candidate = _symbols(run)
    changed = [name for name in changed_functions(base, candidate) if candidate.span(name)]
    places = {}
    for number, name in enumerate(changed):
        places[name] = changed_places(base if number < _MOST else None, candidate, name)
    if pieces is None:
        read = lines.read_changed(candidate, changed) if changed else {}
        pieces = make_pieces(candidate, read)
    return ChangedCode(candidate, places, frozenset(base.names), pieces, lines.added())


def executions(
    windows: Windows, tables: Mapping[str, IoTable], addresses: np.ndarray
) -> dict[str, CellExecutions]:
    """How often instructions ran from the first I/O of each cell to its last.

    ``addresses`` are those of the instructions, in order.
    """
    first = windows.blocks["address"]
    low, high = np.searchsorted(addresses, first), np.searchsorted(addresses, windows.ends)
    window, entry, often = windows.entries
    has_any = np.append(high > low, False)
    here = np.flatnonzero(has_any[np.minimum(entry, np.uint32(len(low)))])
    window, entry, often = window[here], entry[here], often[here]
    size = len(addresses) + 1
    found = {}
    for cell, table in tables.items():
        reach = windows.reach(int(table["start"].min()), int(table.end.max()))
        ran = np.sum([_times(windows, *span) for span in reach], axis=0)
        times = ran[window] * often
        counts = np.bincount(low[entry], times, size) - np.bincount(high[entry], times, size)
        found[cell] = CellExecutions(len(table), np.cumsum(counts)[:-1].round().astype(np.int64))
    return found


def _times(windows: Windows, begin: int, end: int) -> Ints:
    """How often each window is between two marks, by number; shape (windows,)."""
    ran = windows.marks["window"][begin:end].astype(np.int64)
    size = len(windows.windows)
    times: Ints = np.bincount(ran[ran < size], minlength=size)
    return times


def _symbols(run: RunDir) -> tuple[Symbols, Symbols]:
    return symbols_of(run, "base"), symbols_of(run, "candidate")


def symbols_of(run: RunDir, side: Side) -> Symbols:
    """The functions of a side's kernel; raises UsageError where its image has none to be read."""
    return read_functions(run.build(side) / "Image")
