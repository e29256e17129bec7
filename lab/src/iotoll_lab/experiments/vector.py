"""``iotoll experiment vector``: does the gate see costs that are no instructions, and name them?

Each planted patch (``vector.toml``) adds one thing to the way of an I/O: a register access, a
barrier, an atomic, a wake-up, an allocation, a lock. The table says for each whether the gate names
the element, first, with the function, and whether it blocks as its policy says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from pydantic import Field, field_validator
from rich.console import Console
from rich.table import Table

from iotoll.core.errors import UsageError
from iotoll.core.lock import alone
from iotoll.core.paths import data_dir
from iotoll.core.progress import Progress
from iotoll.core.toml import load_toml, named_file
from iotoll.measure.elements import load_elements
from iotoll.records import results
from iotoll.records.models import Outcome, Section, VerdictRecord
from iotoll.records.models.base import Model
from iotoll.records.models.verdict import CellVerdict, ElementComparison
from iotoll.records.rundir import RunDir
from iotoll.verdict.policy import Policy, load_policy
from iotoll_lab.experiments.gates import gate_variant, reader
from iotoll_lab.experiments.variants import Read, Variant, inserted, made_of


class Planted(Model):
    """One planted cost: ``code`` behind each line of ``behind`` and ``skip`` lines more."""

    what: str
    file: str
    behind: list[str]
    code: str
    skip: int = 0
    globals: str = ""
    element: str
    function: str = Field("", description="empty: any")
    section: Section | None = Field(Section.SUBMISSION, description="None: from call to return")
    cells: str

    @field_validator("behind", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("section", mode="before")
    @classmethod
    def _whole_is_none(cls, value: object) -> object:
        return None if value == "whole" else value

    def variant(self, name: str, read: Read) -> Variant:
        """The patch; raises UsageError where a line that it follows is not there once."""
        codes = [self.code.replace("NUMBER", str(n)) for n in range(len(self.behind))]
        places = zip(self.behind, codes, strict=True)
        try:
            text = inserted(read(self.file), self.file, places, self.globals, self.skip)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
        return made_of("vector", name, self.what, {self.file: text}, read)


class Cost(Model):
    """A cost for several layers, by the layer's name; ``all``: those that are not named."""

    what: str
    code: dict[str, str]
    element: dict[str, str]
    globals: str = ""


class Layer(Model):
    """Where costs are planted in one layer; the fields are those of `Planted`."""

    file: str
    behind: str
    function: str
    section: Section
    cells: str


class PlantedFile(Model):
    """``vector.toml``: each cost in each layer that has it, and more."""

    layers: dict[str, Layer]
    costs: dict[str, Cost]
    more: dict[str, Planted]

    def all(self) -> dict[str, Planted]:
        """The patches by name, cost by cost."""
        found = {
            f"{layer}-{name}": Planted(
                what=f"{cost.what} in {place.function}()",
                code=cost.code.get(layer, cost.code.get("all", "")),
                element=cost.element.get(layer, cost.element.get("all", "")),
                globals=_used(cost.globals, cost.code.get(layer, cost.code.get("all", ""))),
                **place.model_dump(),
            )
            for name, cost in self.costs.items()
            for layer, place in self.layers.items()
            if layer in cost.code or "all" in cost.code
        }
        return found | self.more


def _used(globals_: str, code: str) -> str:
    """The lines that define what the code names: GCC warns of others."""
    names = re.compile(r"iotoll_\w+")
    wanted = set(names.findall(code))
    return "\n".join(
        line for line in globals_.split("\n") if wanted.intersection(names.findall(line))
    )


@dataclass(frozen=True)
class VectorRow:
    """What the gate says of one patch; ``found`` is how much of the element, by cell.

    ``functions`` are those that the verdict names for it, ``first`` what it says first.
    """

    name: str
    what: str
    outcome: str
    sentence: str
    element: str
    found: dict[str, float]
    functions: list[str]
    first: str
    is_first: bool
    names_function: bool
    as_policy: bool
    others: list[str]


@click.command("vector")
@click.option("--only", multiple=True, help="This patch of vector.toml; repeatable.")
@click.option("--board", default="virt-arm64", show_default=True)
@click.option("--matrix", default="default", show_default=True)
@click.option("--tree", default="debian", show_default=True, help="Kernel tree.")
@click.option("--policy", default="instructions", show_default=True)
@click.option(
    "--boots", type=click.IntRange(1), help="Boots of each side, in place of the policy's."
)
@click.option("--again", type=click.Choice(["collect", "judge"]), help="From stored boots alone.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/vector"))
def vector_command(only: tuple[str, ...], out: Path, boots: int | None, **options: object) -> None:
    """Gate patches that add a register access, a barrier, a lock ...: is each of them named?"""
    known = planted()
    if missing := set(only) - set(known):
        raise UsageError(f"--only {min(missing)}: there are {', '.join(known)}")
    out.mkdir(parents=True, exist_ok=True)
    why = f"{out}: another experiment is at work there: wait, or choose another --out"
    with alone(out / ".lock", UsageError(why)):
        if boots:
            options["policy"] = str(_with_boots(str(options["policy"]), boots, out))
        policy = load_policy(str(options["policy"]))
        rows = []
        progress = Progress()
        read = reader(str(options["tree"]), progress)
        for name in only or known:
            one = known[name]
            wanted = options | {"cells": one.cells, "explain": False}
            if gate_variant(one.variant(name, read), out, wanted, progress) is None:
                continue
            rows.append(row_of(name, one, RunDir.open(out / f"vector-{name}"), policy))
            progress.say(f"{name}: {rows[-1].outcome}: {rows[-1].sentence}")
            text = json.dumps([asdict(row) for row in rows], indent=1)
            results.write_text(out / "table.json", text + "\n")
            results.write_text(out / "table.md", markdown(rows))
        print_rows(rows, Console())
        click.echo(f"written: {out / 'table.json'}, {out / 'table.md'}")


def _with_boots(name: str, boots: int, out: Path) -> Path:
    """The policy with another number of boots, in ``out``."""
    text = named_file(data_dir("pipelines") / "policies", name).read_text()
    path = out / "policy.toml"
    results.write_text(path, re.sub(r"^boots = \d+", f"boots = {boots}", text, flags=re.M))
    return path


def planted() -> dict[str, Planted]:
    """The patches, by name."""
    return PlantedFile.model_validate(load_toml(Path(__file__).with_name("vector.toml"))).all()


def row_of(name: str, one: Planted, run: RunDir, policy: Policy) -> VectorRow:
    """The line of a patch that was gated, from its files alone."""
    verdict = results.read(run.verdict, VerdictRecord)
    mine = {c.cell: e for c in verdict.cells if (e := _mine(one, c))}
    rule = policy.element(one.element)
    functions = [e.functions[0].name if e.functions else "" for e in mine.values()]
    first = _first(verdict, any(e.gated for e in mine.values()))
    known = load_elements().elements[one.element.partition(".")[0]]
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
        functions=functions,
        first=first,
        is_first=any(f" {word} " in first for word in (known.one, known.many)),
        names_function=bool(mine) and all(f and one.function in ("", f) for f in functions),
        as_policy=bool(mine)
        and all(e.gated == (rule.gated and e.delta > rule.threshold) for e in mine.values())
        and (verdict.outcome is Outcome.REGRESSION or not any(e.gated for e in mine.values())),
        others=others,
    )


def _first(verdict: VerdictRecord, blocks: bool) -> str:
    """The first finding that blocks, or of those that are shown only."""
    if blocks and verdict.headline:
        return verdict.headline[0]
    return verdict.sentence.partition(" Also ")[2].partition("; ")[0]


def _mine(one: Planted, cell: CellVerdict) -> ElementComparison | None:
    return next(
        (
            e
            for e in cell.elements
            if (e.element, e.section, e.moved) == (one.element, one.section, "grew")
        ),
        None,
    )


_HEADS = ("Patch", "What it adds", "Outcome", "Element", "First", "Function", "As the policy")


def _cells(row: VectorRow) -> list[str]:
    sizes = ", ".join(sorted({f"{size:+g}" for size in row.found.values()})) or "not found"
    marks = (row.is_first, row.names_function, row.as_policy)
    named = ["yes" if mark else "no" for mark in marks]
    return [row.name, row.what, row.outcome, f"{sizes} {row.element}", *named]


def print_rows(rows: Sequence[VectorRow], console: Console) -> None:
    """One line for each patch."""
    table = Table(*_HEADS)
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)


def markdown(rows: Sequence[VectorRow]) -> str:
    """The same as a table for the docs."""
    lines = [_HEADS, ("---",) * len(_HEADS), *map(_cells, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
