"""``iotoll experiment vector``: does the gate see costs that are no instructions, and name them?

Each planted patch (``vector.toml``) adds one thing to the way of an I/O: a register access, a
barrier, an atomic, a wake-up, an allocation, a lock. The table says for each whether the gate names
the element, first, with the function, and whether it blocks as its policy says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table

from iotoll.core.errors import UsageError
from iotoll.core.lock import alone
from iotoll.core.progress import Progress
from iotoll.core.toml import load_toml
from iotoll.records import results
from iotoll.records.models import Outcome, Section, VerdictRecord
from iotoll.records.models.base import Model
from iotoll.records.models.verdict import CellVerdict, ElementComparison
from iotoll.records.rundir import RunDir
from iotoll_lab.experiments.gates import gate_variant, reader
from iotoll_lab.experiments.variants import Read, Variant, made_of


class Planted(Model):
    """One planted cost, as ``vector.toml`` has it."""

    what: str
    file: str
    behind: str
    code: str
    globals: str = ""
    element: str
    function: str
    section: Section = Section.SUBMISSION
    cells: str
    blocks: bool = True

    def variant(self, name: str, read: Read) -> Variant:
        """The patch; raises UsageError where the line that it follows is not there once."""
        lines = read(self.file).split("\n")
        if lines.count(self.behind) != 1:
            raise UsageError(f"{name}: {self.file} has not one line {self.behind.strip()!r}")
        place = lines.index(self.behind) + 1
        lines[place:place] = self.code.split("\n")
        if self.globals:
            last = max(n for n, line in enumerate(lines) if line.startswith("#include")) + 1
            lines[last:last] = ["", self.globals]
        return made_of("vector", name, self.what, {self.file: "\n".join(lines)}, read)


@dataclass(frozen=True)
class VectorRow:
    """What the gate says of one patch; ``found`` is how much of the element, by cell."""

    name: str
    what: str
    outcome: str
    sentence: str
    element: str
    found: dict[str, float]
    is_first: bool
    names_function: bool
    as_policy: bool
    others: list[str]


@click.command("vector")
@click.option("--only", multiple=True, help="This patch of vector.toml; repeatable.")
@click.option("--board", default="virt-arm64", show_default=True)
@click.option("--matrix", default="default", show_default=True)
@click.option("--tree", default="debian", show_default=True, help="Kernel tree.")
@click.option("--policy", help="Name or path of a policy.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/vector"))
def vector_command(only: tuple[str, ...], out: Path, **options: object) -> None:
    """Gate patches that add a register access, a barrier, a lock ...: is each of them named?"""
    known = planted()
    if missing := set(only) - set(known):
        raise UsageError(f"--only {min(missing)}: there are {', '.join(known)}")
    out.mkdir(parents=True, exist_ok=True)
    why = f"{out}: another experiment is at work there: wait, or choose another --out"
    with alone(out / ".lock", UsageError(why)):
        rows = []
        progress = Progress()
        read = reader(str(options["tree"]), progress)
        for name in only or known:
            one = known[name]
            wanted = options | {"cells": one.cells, "again": None, "explain": False}
            gate_variant(one.variant(name, read), out, wanted, progress)
            rows.append(row_of(name, one, RunDir.open(out / f"vector-{name}")))
            progress.say(f"{name}: {rows[-1].outcome}: {rows[-1].sentence}")
            text = json.dumps([asdict(row) for row in rows], indent=1)
            results.write_text(out / "table.json", text + "\n")
        print_rows(rows, Console())
        click.echo(f"written: {out / 'table.json'}")


def planted() -> dict[str, Planted]:
    """The patches, by name."""
    data = load_toml(Path(__file__).with_name("vector.toml"))
    return TypeAdapter(dict[str, Planted]).validate_python(data)


def row_of(name: str, one: Planted, run: RunDir) -> VectorRow:
    """The line of a patch that was gated, from its files alone."""
    verdict = results.read(run.verdict, VerdictRecord)
    mine = {c.cell: e for c in verdict.cells if (e := _mine(one, c))}
    named = [any(f.name == one.function for f in e.functions) for e in mine.values()]
    blocked = verdict.outcome is Outcome.REGRESSION and any(e.gated for e in mine.values())
    first = verdict.headline[0] if verdict.headline else ""
    others = [
        f"{c.cell}: {e.element} {e.section or 'whole'} {e.delta:+g}"
        for c in verdict.cells
        for e in c.elements
        if e is not mine.get(c.cell) and e.moved == "grew"
    ]
    return VectorRow(
        name=name,
        what=one.what,
        outcome=verdict.outcome.value,
        sentence=verdict.sentence,
        element=one.element,
        found={cell: e.delta for cell, e in mine.items()},
        is_first=bool(mine) and (one.function in first or " instructions " not in first),
        names_function=bool(named) and all(named),
        as_policy=bool(mine) and blocked == one.blocks,
        others=others,
    )


def _mine(one: Planted, cell: CellVerdict) -> ElementComparison | None:
    return next(
        (
            e
            for e in cell.elements
            if (e.element, e.section, e.moved) == (one.element, one.section, "grew")
        ),
        None,
    )


def print_rows(rows: Sequence[VectorRow], console: Console) -> None:
    """One line for each patch."""
    table = Table("Patch", "What it adds", "Outcome", "Found", "First", "Function", "As the policy")
    for row in rows:
        sizes = ", ".join(sorted({f"{size:+g}" for size in row.found.values()}))
        marks = (row.is_first, row.names_function, row.as_policy)
        table.add_row(
            row.name, row.what, row.outcome, sizes, *("yes" if mark else "no" for mark in marks)
        )
    console.print(table)
