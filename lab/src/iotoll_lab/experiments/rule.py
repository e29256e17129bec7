"""``iotoll experiment rule``: stored gates judged again by today's rule, without a boot.

Four questions. *Again*: what does today's rule say of each gate, beside the verdict that is stored
with it, and how many cells would need further boots after the first ones? *First*: what do the
first boots say by function evidence, beside all boots? *Null*: do two boots of one base differ?
*Shifts*: of exact costs that are added to the counts of stored cells, in how many cells is each
found? Nothing is written into the runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from iotoll.core.errors import UsageError
from iotoll.records import results
from iotoll.records.models import (
    CellRecord,
    CellVerdict,
    Comparison,
    OrderedIos,
    Outcome,
    Section,
    SideResult,
    VerdictRecord,
)
from iotoll.records.rundir import RunDir
from iotoll.verdict.instructions.rule import Judgement, judge_cells
from iotoll.verdict.policy import Policy, load_policy
from iotoll.verdict.words import all_parts, parts

LACKS = "needs boots"

Part = tuple[str, str]
"""A cell, and a section of it or ``whole``."""


@dataclass(frozen=True)
class Again:
    """One stored gate: what its verdict says by I/Os and what today's rule says.

    ``before`` and ``now`` are what moved, of ``comparisons`` in ``cells``; ``changed`` names each
    difference. ``outcome`` is `LACKS` where the rule asks for boots that the run has not.
    ``first`` are the cells that are open after the first boot of each side, and
    ``first_known`` those where all boots of the base are known by then.
    """

    run: str
    cells: int
    comparisons: int
    outcome_before: str
    outcome: str
    before: int
    now: int
    first: int
    first_known: int
    changed: list[str] = field(default_factory=list)


def again(run: RunDir, policy: Policy) -> Again:
    """Judge a stored gate by today's rule; raises ResultError where it lacks a file."""
    stored = results.read(run.verdict, VerdictRecord)
    base, candidate = sides_of(run)
    cells = [cell.cell for cell in stored.cells]
    judged = judge_cells(base, candidate, policy, cells)
    before, now = _moved(stored.cells), _moved(judged.cells)
    was, is_now = (
        _outcome(stored.cells, bool(stored.pools)),
        LACKS if judged.open else judged.outcome.value,
    )
    one = boots_of(candidate, [0])
    return Again(
        run=run.root.name,
        cells=len(cells),
        comparisons=len(now),
        outcome_before=was,
        outcome=is_now,
        before=sum(how in ("grew", "shrank") for how in before.values()),
        now=sum(how in ("grew", "shrank") for how in now.values()),
        first=len(judge_cells(boots_of(base, [0]), one, policy, cells).open),
        first_known=len(judge_cells(base, one, policy, cells).open),
        changed=[
            f"{cell} {name}: {before.get((cell, name), 'not judged')}, now {how}"
            for (cell, name), how in now.items()
            if how != before.get((cell, name))
        ],
    )


def _outcome(cells: Sequence[CellVerdict], pooled: bool) -> str:
    """The outcome by I/Os alone: what limits and work outside I/Os add is no part of the rule."""
    grew = any(p.gated and p.moved == "grew" for c in cells for _, p in _parts(c))
    if grew or pooled:
        return Outcome.REGRESSION.value
    bad = {c.outcome for c in cells} - {Outcome.PASS, Outcome.REGRESSION}
    return min(bad).value if bad else Outcome.PASS.value


def _parts(cell: CellVerdict) -> Iterator[tuple[str, Comparison]]:
    """A cell's parts that are compared I/O by I/O."""
    return ((name, part) for name, part in parts(cell) if name != "work")


def _moved(cells: Sequence[CellVerdict]) -> dict[Part, str]:
    return {(cell.cell, name): part.moved for cell in cells for name, part in _parts(cell)}


def sides_of(run: RunDir) -> tuple[SideResult, SideResult]:
    """Both sides of a stored gate, without what is counted outside of I/Os."""
    base, candidate = (
        results.read(run.side(side) / "result.json", SideResult) for side in ("base", "candidate")
    )
    return _without_work(base), _without_work(candidate)


def _without_work(side: SideResult) -> SideResult:
    cells = {
        name: [one.model_copy(update={"work": None}) for one in records]
        for name, records in side.cells.items()
    }
    return side.model_copy(update={"cells": cells})


def boots_of(side: SideResult, numbers: Sequence[int]) -> SideResult:
    """A side with these of its boots alone (from 0), in this order."""
    cells = {
        name: [records[n] for n in numbers if n < len(records)]
        for name, records in side.cells.items()
    }
    boots = [side.boots[n] for n in numbers if n < len(side.boots)]
    return side.model_copy(update={"cells": cells, "boots": boots})


@dataclass(frozen=True)
class First:
    """A stored gate by its first boots alone, as functions tell (`evidence`), and by all of them.

    ``open`` of its ``cells`` need further boots. In the others, ``said`` of what grew in ``all``
    boots grew; ``lost`` did in all boots alone, ``new`` in the first alone.
    """

    run: str
    outcome: str
    outcome_first: str
    cells: int
    open: int
    all: int
    said: int
    lost: list[str]
    new: list[str]


def first(run: RunDir, policy: Policy) -> First:
    """Judge a gate by its first boots; raises UsageError where a cell that moved has no others."""
    base, candidate = (
        results.read(run.side(side) / "result.json", SideResult) for side in ("base", "candidate")
    )
    cells = list(candidate.cells)
    whole = judge_cells(base, candidate, policy, cells)
    if whole.open:
        raise UsageError("it has not all boots that it needs without evidence: gate with --boots 3")
    firsts = boots_of(base, [0]), boots_of(candidate, [0])
    alone = judge_cells(firsts[0], firsts[1], policy, cells, by_evidence=True)
    grown, told = ({p for p in _grown(found) if p[0] not in alone.open} for found in (whole, alone))
    return First(
        run=run.root.name,
        outcome=whole.outcome.value,
        outcome_first=LACKS if alone.open else alone.outcome.value,
        cells=len(cells),
        open=len(alone.open),
        all=len(grown),
        said=len(grown & told),
        lost=sorted(map(" ".join, grown - told)),
        new=sorted(map(" ".join, told - grown)),
    )


def _grown(judged: Judgement) -> Iterator[Part]:
    """What grew that is gated, elements as well; work outside I/Os always needs all boots."""
    for cell in judged.cells:
        for name, part in all_parts(cell):
            if name != "work" and part.gated and part.moved == "grew":
                yield cell.cell, name


@dataclass(frozen=True)
class Null:
    """Boots of one base against each other: how many of ``comparisons`` moved, and which."""

    run: str
    pairs: int
    comparisons: int
    moved: list[str]


def null(run: RunDir, policy: Policy) -> Null:
    """Each boot of the base as a candidate against the others, which know their own noise."""
    base, _ = sides_of(run)
    count, moved = 0, []
    numbers = range(max(map(len, base.cells.values()), default=0))
    for number in numbers:
        others = [n for n in numbers if n != number]
        candidate, rest = boots_of(base, [number]), boots_of(base, others)
        cells = [name for name, records in candidate.cells.items() if records and rest.cells[name]]
        if not others:
            continue
        found = _moved(judge_cells(rest, candidate, policy, cells).cells)
        count += len(found)
        moved += [
            f"boot {number + 1}: {cell} {name} {how}"
            for (cell, name), how in found.items()
            if how in ("grew", "shrank")
        ]
    return Null(run.root.name, len(numbers) if len(numbers) > 1 else 0, count, moved)


@dataclass(frozen=True)
class Exchanged:
    """A stored gate with base and candidate exchanged, and ``grew``: a cost is an improvement."""

    run: str
    outcome: str
    grew: list[str]


def exchanged(run: RunDir, policy: Policy) -> Exchanged:
    """Judge the base as the candidate's candidate, by the boots that both have."""
    base, candidate = sides_of(run)
    both = range(min(len(base.boots), len(candidate.boots)))
    sides = boots_of(candidate, both), boots_of(base, both)
    judged = judge_cells(*sides, policy, sorted(base.cells))
    grew = [f"{cell} {part}" for cell, part in _grown(judged)]
    outcome = LACKS if judged.open else judged.outcome.value
    return Exchanged(run.root.name, outcome, grew)


@dataclass(frozen=True)
class Shift:
    """An exact cost: ``cost`` more in each I/O that ``hits`` says, of I/Os in order of a boot."""

    name: str
    cost: int
    hits: Callable[[int, np.random.Generator], np.ndarray]

    def of(self, ios: int, chance: np.random.Generator) -> list[int]:
        """The cost of each of so many I/Os."""
        return [int(one) for one in self.hits(ios, chance) * self.cost]


def _every(nth: int) -> Callable[[int, np.random.Generator], np.ndarray]:
    return lambda ios, chance: (np.arange(ios) + chance.integers(nth)) % nth == 0


def _some(share: float) -> Callable[[int, np.random.Generator], np.ndarray]:
    return lambda ios, chance: chance.random(ios) < share


SHIFTS = (
    *(Shift(f"+{cost} in each I/O", cost, _every(1)) for cost in (5, 8, 20, 50, 305)),
    *(Shift(f"+{cost} in every 3rd", cost, _every(3)) for cost in (8, 20, 305)),
    *(Shift(f"+{cost} in every 16th", cost, _every(16)) for cost in (50, 305, 5000)),
    *(Shift(f"+{cost} in 6 %", cost, _some(0.06)) for cost in (50, 305, 5000)),
)
"""Costs that are added, in one section of the I/Os and so in the whole I/O."""


@dataclass(frozen=True)
class Power:
    """In how many of ``cells`` a shift is found in its section; ``whole``: in the whole I/O alone.

    ``elsewhere`` counts sections without the cost that are called grown and were not before.
    """

    run: str
    shift: str
    section: str
    cells: int
    found: int
    whole: int
    elsewhere: int
    missed: list[str]


def power(run: RunDir, policy: Policy, seed: int) -> Iterator[Power]:
    """Add each shift to each section of the cells that have all boots, and judge."""
    base, candidate = sides_of(run)
    names = [
        name
        for name, records in candidate.cells.items()
        if len(records) >= policy.perturb.boots and all(r.in_order is not None for r in records)
    ]
    if not names:
        return
    plain = _moved(judge_cells(base, candidate, policy, names).cells)
    for section in policy.sections:
        for shift in SHIFTS:
            chance = np.random.default_rng([seed, SHIFTS.index(shift)])
            shifted = with_shift(candidate, section, shift, chance, names)
            yield _found(run, shift, section, judge_cells(base, shifted, policy, names), plain)


def _found(
    run: RunDir, shift: Shift, section: Section, judged: Judgement, plain: dict[Part, str]
) -> Power:
    moved = _moved(judged.cells)
    cells = [cell for cell, name in moved if name == section.value]
    missed = [cell for cell in cells if moved[cell, section.value] != "grew"]
    return Power(
        run=run.root.name,
        shift=shift.name,
        section=section.value,
        cells=len(cells),
        found=len(cells) - len(missed),
        whole=sum(moved.get((cell, "whole")) == "grew" for cell in missed),
        elsewhere=sum(
            how == "grew" and plain[part] != "grew" and part[1] not in (section.value, "whole")
            for part, how in moved.items()
        ),
        missed=missed,
    )


def with_shift(
    side: SideResult,
    section: Section,
    shift: Shift,
    chance: np.random.Generator,
    names: Sequence[str],
) -> SideResult:
    """The side with the cost in these cells."""
    cells = dict(side.cells)
    for name in names:
        cells[name] = [_shifted(record, section, shift, chance) for record in cells[name]]
    return side.model_copy(update={"cells": cells})


def _shifted(
    record: CellRecord, section: Section, shift: Shift, chance: np.random.Generator
) -> CellRecord:
    ios = record.in_order
    assert ios is not None
    values = ios.sections.get(section, [])
    costs = [
        0 if value is None else cost
        for value, cost in zip(values, shift.of(len(values), chance), strict=True)
    ]
    update: dict[str, object] = {
        "sections": {
            **ios.sections,
            section: [
                None if value is None else value + cost
                for value, cost in zip(values, costs, strict=True)
            ],
        }
    }
    if values:
        update["whole"] = [whole + cost for whole, cost in zip(ios.whole, costs, strict=True)]
    changed: OrderedIos = ios.model_copy(update=update)
    return record.model_copy(update={"in_order": changed})


Row = Again | First | Null | Exchanged | Power


@click.command("rule")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--what",
    type=click.Choice(["again", "first", "null", "exchanged", "shifts"]),
    default="again",
    show_default=True,
    help="Judge the gates again, by their first boots alone, their base against itself, with base"
    " and candidate exchanged, or with costs added to their counts.",
)
@click.option("--policy", default="instructions", show_default=True)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option("--out", type=click.Path(path_type=Path), help="Default: runs/rule-WHAT.json.")
def rule_command(
    runs: tuple[Path, ...], what: str, policy: str, seed: int, out: Path | None
) -> None:
    """Judge stored gates (RUNS) by today's rule: what changes, what is noise, what is found."""
    chosen = load_policy(policy)
    rows: list[Row] = []
    for root in runs:
        try:
            rows += _rows(RunDir.open(root), chosen, what, seed)
        except UsageError as error:
            click.echo(f"{root}: left out: {error}", err=True)
    target = out or Path(f"runs/rule-{what}.json")
    results.write_text(target, json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    _print(rows, Console())
    click.echo(f"written: {target}")


def _rows(run: RunDir, policy: Policy, what: str, seed: int) -> Iterator[Row]:
    if what == "again":
        yield again(run, policy)
    elif what == "first":
        yield first(run, policy)
    elif what == "null":
        yield null(run, policy)
    elif what == "exchanged":
        yield exchanged(run, policy)
    else:
        yield from power(run, policy, seed)


def _print(rows: Sequence[Row], console: Console) -> None:
    gates = [row for row in rows if isinstance(row, Again)]
    nulls = [row for row in rows if isinstance(row, Null)]
    for row in gates:
        console.print(
            f"{row.run}: {row.outcome_before}, now {row.outcome}; {row.before} of"
            f" {row.comparisons} comparisons in {row.cells} cells moved, now {row.now}; open after"
            f" the first boots {row.first}, with the base's known {row.first_known}"
        )
        for line in row.changed:
            console.print(f"  {line}")
    if gates:
        console.print(
            f"{len(gates)} gates, {sum(g.cells for g in gates)} cells,"
            f" {sum(g.comparisons for g in gates)} comparisons;"
            f" other outcome: {sum(g.outcome not in (g.outcome_before, LACKS) for g in gates)};"
            f" without boots that are asked for: {sum(g.outcome == LACKS for g in gates)};"
            f" moved {sum(g.before for g in gates)}, now {sum(g.now for g in gates)};"
            f" open after the first boots: {sum(g.first > 0 for g in gates)} gates,"
            f" with the base's boots known: {sum(g.first_known > 0 for g in gates)}"
        )
    firsts = [row for row in rows if isinstance(row, First)]
    for found in firsts:
        console.print(
            f"{found.run}: {found.outcome}, by the first boots {found.outcome_first}; open"
            f" {found.open} of {found.cells} cells; grew {found.said} of {found.all};"
            f" lost {found.lost}; new {found.new}"
        )
    if firsts:
        decided = [r for r in firsts if r.outcome == "regression" and not r.open]
        console.print(
            f"{sum(r.outcome == 'regression' for r in firsts)} regressions, {len(decided)} of"
            f" them by the first boots; grew {sum(r.said for r in firsts)} of"
            f" {sum(r.all for r in firsts)}; lost {sum(len(r.lost) for r in firsts)}; new"
            f" {sum(len(r.new) for r in firsts)}"
        )
    for one in nulls:
        console.print(f"{one.run}: {len(one.moved)} of {one.comparisons} moved: {one.moved}")
    swaps = [row for row in rows if isinstance(row, Exchanged)]
    for swap in swaps:
        console.print(f"{swap.run}: exchanged {swap.outcome}; grew: {swap.grew}")
    if swaps:
        console.print(f"{sum(bool(s.grew) for s in swaps)} of {len(swaps)} have what grew")
    powers = [row for row in rows if isinstance(row, Power)]
    if powers:
        console.print(_power_table(powers))


def _power_table(rows: Sequence[Power]) -> Table:
    sections = list(dict.fromkeys(row.section for row in rows))
    table = Table("Cost", *sections, "Whole alone", "Elsewhere")
    for name in dict.fromkeys(row.shift for row in rows):
        mine = [row for row in rows if row.shift == name]
        found = [
            f"{sum(r.found for r in mine if r.section == section)} of"
            f" {sum(r.cells for r in mine if r.section == section)}"
            for section in sections
        ]
        whole, elsewhere = (sum(getattr(r, key) for r in mine) for key in ("whole", "elsewhere"))
        table.add_row(name, *found, str(whole), str(elsewhere))
    return table
