"""Does `iotoll explain` name the function that a planted patch changed, and its size?

The planted loop has a known number of instructions, so what is explained of each gated patch is
compared with it: function by function, in every part of an I/O (a section, or the whole) that was
dissected.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic

from rich.console import Console
from rich.table import Table

from iotoll.core.errors import IotollError
from iotoll.core.progress import Progress
from iotoll.explain.automatic import is_current
from iotoll.explain.explainer import Explainer
from iotoll.kernels.debuginfo import source_name
from iotoll.records import results
from iotoll.records.models import (
    CellDelta,
    ExplainRecord,
    FunctionDelta,
    Outcome,
    PartDelta,
    VerdictRecord,
)
from iotoll.records.rundir import RunDir
from iotoll.verdict.words import parts
from iotoll_lab.experiments.variants import Plant

AROUND = 6
"""Instructions beside the loop: its number of turns, a counter's test, registers saved for it."""

CELLS = ("4k-randread-t1-direct", "4k-randread-t1-sync", "4k-randwrite-t1-sync")
"""The workloads that are explained of a patch that passed: what ran of it, and what it cost."""

DEVICES = {"nvme": "nvme", "mmc": "emmc", "sdhci": "emmc"}
"""Their device, by how the planted function begins; UFS for all others, whose cells boot first."""

MOST = 4
"""Cells that are explained of a regression, those that grew most first."""

SECONDS = "explain-seconds.json"


@dataclass(frozen=True)
class Named:
    """What explain says of one planted patch.

    ``function``, ``cell``, ``part``, ``size`` and ``unexplained`` (of the gate's number) are where
    the planted function differs most. A size is per call where it always costs, else how much more
    the I/Os with such a call have than the others. ``runs`` counts the parts in which it usually
    runs, ``exact`` those of them where the size is right up to `AROUND`. ``grew`` counts the
    explained parts that the gate calls grown, ``first`` those of them that list the planted
    function first.
    """

    function: str = ""
    cell: str = ""
    part: str = ""
    size: float | None = None
    planted: float | None = None
    runs: int = 0
    exact: int = 0
    grew: int = 0
    first: int = 0
    unexplained: float | None = None
    explain_seconds: float | None = None
    why: str = ""


@dataclass(frozen=True)
class _Found:
    """The planted function in one part of one cell."""

    cell: str
    part: PartDelta
    name: str
    place: int
    function: FunctionDelta
    size: float
    planted: float

    @property
    def is_exact(self) -> bool:
        return 0 <= self.size - self.planted <= AROUND


def explain_gated(run: RunDir, plant: Plant, progress: Progress, *, boots: bool = True) -> Named:
    """Explain a gated run, unless that was done; without ``boots`` only what was done is read."""
    verdict = results.read(run.verdict, VerdictRecord)
    if not is_current(run):
        if not boots:
            return Named(why="not explained")
        began = monotonic()
        try:
            explainer = Explainer(run, progress)
            cells, left_out = _choose(explainer, verdict, plant)
            explainer.explain(cells, left_out=left_out)
        except IotollError as error:
            return Named(why=f"not explained: {error}")
        results.write_text(run.root / SECONDS, f"{monotonic() - began:.1f}\n")
    row = named(plant, results.read(run.explained, ExplainRecord), verdict)
    took = run.root / SECONDS
    return replace(row, explain_seconds=json.loads(took.read_text())) if took.is_file() else row


def _choose(explainer: Explainer, verdict: VerdictRecord, plant: Plant) -> tuple[list[str], int]:
    known = explainer.choose((), everything=True)
    if len(known) <= MOST:
        return known, 0
    if verdict.outcome is Outcome.REGRESSION:
        return explainer.largest(MOST)
    device = next((d for word, d in DEVICES.items() if plant.function.startswith(word)), "ufs")
    wanted = {f"{device}-{workload}" for workload in CELLS}
    return [c for c in known if c in wanted] or known[:MOST], 0


def named(plant: Plant, record: ExplainRecord, verdict: VerdictRecord) -> Named:
    """Compare what was explained with what was planted."""
    grown = {
        (cell.cell, name)
        for cell in verdict.cells
        for name, one in parts(cell)
        if one.gated and one.moved == "grew"
    }
    taken = [(c.cell, name) for c in record.cells for name, part in _parts(c) if part.functions]
    found = [one for cell in record.cells for one in _planted_in(cell, plant)]
    if not found:
        return Named(why=record.failure or record.coverage.sentence)
    best = max(found, key=lambda one: abs(one.size))
    # Where a condition does not hold there is little to be found, and nothing to be first with.
    ran = [one for one in found if one.function.calls_candidate >= 1 and _has_cost(one, plant)]
    return Named(
        function=best.function.name,
        cell=best.cell,
        part=best.name,
        size=round(best.size, 2),
        planted=best.planted,
        runs=len(ran),
        exact=sum(one.is_exact for one in ran),
        grew=sum(one in grown for one in taken),
        first=sum(one.place == 0 and (one.cell, one.name) in grown for one in found),
        unexplained=best.part.unexplained,
    )


def _parts(cell: CellDelta) -> Iterator[tuple[str, PartDelta]]:
    for section in cell.sections:
        yield section.section.value, section
    if cell.whole is not None:
        yield "whole", cell.whole


def _planted_in(cell: CellDelta, plant: Plant) -> Iterator[_Found]:
    """The planted function, or the first of those that it was inlined into, in a cell's parts."""
    for name, part in _parts(cell):
        for place, function in enumerate(part.functions):
            if _is(function, plant):
                sizes = _size(function, plant), plant.size(cell.cell)
                yield _Found(cell.cell, part, name, place, function, *sizes)
                break


def _has_cost(one: _Found, plant: Plant) -> bool:
    """Whether a cost of every Nth call met any of the I/Os: not where they all differ as much."""
    return plant.every == 1 or one.function.next_delta is not None


def _size(function: FunctionDelta, plant: Plant) -> float:
    if plant.every == 1:
        return function.effect / max(function.calls_candidate, 1.0)
    # The counter's test is in every call: what some I/Os have beyond it is the cost.
    second = function.delta if function.next_delta is None else function.next_delta
    return float(abs(second - function.delta))


def _is(function: FunctionDelta, plant: Plant) -> bool:
    """Whether it is the planted function, or one that the compiler inlined that into."""
    inlined = {name for one in function.inlined for name in (one.name, *one.into)}
    own = source_name(function.name)
    return function.changed and (own == plant.function or plant.function in inlined)


Rows = Sequence[tuple[str, str, Named]]
"""Of each patch its name, what was planted, and what explain says."""

_HEADINGS = ("Patch", "Planted", "Named", "Where", "Size", "First", "Exact", "Unexplained")


def print_named(rows: Rows, console: Console) -> None:
    """One line for each patch, then the sums."""
    table = Table(*_HEADINGS)
    for line in map(_line, rows):
        table.add_row(*line)
    console.print(table)
    for sentence in _sums(rows):
        console.print(sentence)


def named_markdown(rows: Rows) -> str:
    """The same as Markdown, to be published."""
    lines = [_HEADINGS, ("---",) * len(_HEADINGS), *map(_line, rows)]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return table + "".join(f"\n{sentence}.\n" for sentence in _sums(rows))


def _line(row: tuple[str, str, Named]) -> tuple[str, ...]:
    name, what, found = row
    if not found.function:
        return name, what, "-", found.why, "-", "-", "-", "-"
    return (
        name,
        what,
        found.function,
        f"{found.cell} {found.part}",
        f"{found.size:+g} of {found.planted:g}",
        f"{found.first} of {found.grew}",
        f"{found.exact} of {found.runs}",
        "-" if found.unexplained is None else f"{found.unexplained:+g}",
    )


def _sums(rows: Rows) -> tuple[str, ...]:
    grew = [row for _, _, row in rows if row.grew]
    ran = [row for _, _, row in rows if row.runs]
    first = sum(row.first == row.grew for row in grew)
    exact = sum(row.exact == row.runs for row in ran)
    return (
        f"first in all explained parts that grew: {first} of {len(grew)} patches",
        f"its size in all parts where it runs: {exact} of {len(ran)} patches",
    )
