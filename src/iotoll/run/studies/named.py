"""``iotoll experiment explained``: does `iotoll explain` name the function that a patch changed?

Each planted patch is gated and explained. The planted loop has a known number of instructions, so
the difference of the named function is compared with it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic

import click
from rich.console import Console
from rich.table import Table

from iotoll.core.errors import IotollError
from iotoll.core.progress import Progress
from iotoll.records import results
from iotoll.records.models import ExplainRecord, FunctionDelta
from iotoll.records.rundir import RunDir
from iotoll.run.explain import Explainer
from iotoll.run.studies import variants
from iotoll.run.studies.gates import SECONDS, gate_variant, reader
from iotoll.run.studies.variants import Plant

AROUND = 6
"""Instructions beside the loop: its number of turns, a counter's test, registers saved for it."""

CELLS = "*-4k-randread-t1-direct,ufs-4k-randwrite-t1-sync"


@dataclass(frozen=True)
class Named:
    """What explain says of one planted patch: the changed function's largest difference.

    ``size`` is per call where it always costs, else the mean per call; ``planted`` likewise.
    ``first`` tells whether its section lists it first; ``exact`` whether the sizes agree up to
    `AROUND`.
    """

    name: str
    what: str
    outcome: str
    function: str = ""
    cell: str = ""
    section: str = ""
    size: float | None = None
    planted: float = 0.0
    first: bool = False
    exact: bool = False
    unexplained: float | None = None
    gate_seconds: float | None = None
    explain_seconds: float | None = None
    why: str = ""


def loop_size(cost: int) -> int:
    """Instructions of the planted loop: two a turn, and a turn counts two (variants.py)."""
    return 2 * -(-cost // 2)


def named(name: str, what: str, plant: Plant, record: ExplainRecord) -> Named:
    """Find the planted function in what was explained."""
    planted = loop_size(plant.cost) / plant.every
    best: Named | None = None
    for cell in record.cells:
        for section in cell.sections:
            for place, function in enumerate(section.functions):
                calls = max(function.calls_candidate, 1.0)
                size = (function.effect if plant.every == 1 else function.mean) / calls
                if not _is(function, plant) or (best and abs(best.size or 0) >= abs(size)):
                    continue
                best = Named(
                    name=name,
                    what=what,
                    outcome=record.outcome.value,
                    function=function.name,
                    cell=cell.cell,
                    section=section.section.value,
                    size=round(size, 2),
                    planted=planted,
                    first=place == 0,
                    exact=0 <= size - planted <= AROUND,
                    unexplained=section.unexplained,
                )
    return best or Named(name, what, record.outcome.value, planted=planted, why=_why(record))


def _is(function: FunctionDelta, plant: Plant) -> bool:
    """Whether it is the planted function, or one that the compiler inlined that into."""
    inlined = {name for one in function.inlined for name in (one.name, *one.into)}
    return function.changed and (function.name == plant.function or plant.function in inlined)


def _why(record: ExplainRecord) -> str:
    return record.failure or record.coverage.sentence


@click.command("explained")
@click.option("--patches", default=10, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option("--cells", default=CELLS, show_default=True, metavar="LIST")
@click.option("--board", default="virt-arm64", show_default=True)
@click.option("--tree", default="debian", show_default=True, help="Kernel tree.")
@click.option("--policy", help="Of the gates, or file. Default: the clock's.")
@click.option("--out", type=click.Path(path_type=Path), help="Default: runs/explained.")
def explained_command(patches: int, seed: int, out: Path | None, **options: str | None) -> None:
    """Gate and explain PATCHES kernels with a planted cost: is the function named, and its size?

    A command that was interrupted resumes. The table holds what ran and nothing else.
    """
    progress, root = Progress(), out or Path("runs/explained")
    read = reader(str(options["tree"]), progress)
    known = {**options, "matrix": "default", "again": None}
    rows: list[Named] = []
    for number in range(1, patches + 1):
        variant = variants.planted(seed, number, read)
        assert variant.plant is not None
        gate_variant(variant, root, known, progress)
        rows.append(_explain(RunDir.open(root / variant.name), variant.what, variant.plant))
        text = json.dumps([asdict(row) for row in rows], indent=1)
        results.write_text(root / "named.json", text + "\n")
    print_named(rows, Console())
    click.echo(f"written: {root / 'named.json'}")


def _explain(run: RunDir, what: str, plant: Plant) -> Named:
    """Explain a gated run, unless an earlier command did."""
    seconds = run.root / "explain-seconds.json"
    name = run.root.name
    if not seconds.is_file():
        began = monotonic()
        try:
            explainer = Explainer(run, Progress())
            explainer.explain(explainer.choose((), everything=True))
        except IotollError as error:
            return Named(name, what, "not explained", why=str(error))
        results.write_text(seconds, f"{monotonic() - began:.1f}\n")
    row = named(name, what, plant, results.read(run.explained, ExplainRecord))
    gate = run.root / SECONDS
    took = json.loads(gate.read_text()) if gate.is_file() else None
    fields = {**asdict(row), "gate_seconds": took, "explain_seconds": float(seconds.read_text())}
    return Named(**fields)


def print_named(rows: Sequence[Named], console: Console) -> None:
    """One line for each patch, then how many were named first with their size."""
    table = Table("Patch", "Planted", "Function named", "Where", "Per call", "First", "Exact")
    for row in rows:
        where = f"{row.cell} {row.section}" if row.function else row.why
        size = "" if row.size is None else f"{row.size:+g} of {row.planted:g}"
        marks = ("yes" if mark else "no" for mark in (row.first, row.exact))
        table.add_row(row.name, row.what, row.function or "-", where, size, *marks)
    console.print(table)
    ran = [row for row in rows if row.function]
    good = sum(row.first and row.exact for row in ran)
    console.print(f"named first with its size: {good} of {len(ran)} whose code ran")
