"""``iotoll experiment core``: how long would a real core take, and how wrong is the estimate?

The model of a core (`iotoll_lab.estimate`) is tried on loops that others measured on the real one:
its error by group of loops, without those whose numbers it has. Of a RUN, what its first boots
executed is estimated, base beside candidate: three numbers each, by what is assumed of the core.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.records import results
from iotoll.records.rundir import SIDES, RunDir
from iotoll.run.opening import open_result
from iotoll_lab.estimate.core import load_core
from iotoll_lab.estimate.microbench import Row, loops
from iotoll_lab.estimate.microbench import estimates as of_loops
from iotoll_lab.estimate.sections import Estimate
from iotoll_lab.estimate.sections import estimates as of_boot


@dataclass(frozen=True)
class Group:
    """Loops of one kind: how wrong the model is of those whose numbers it does not have.

    ``used`` are those whose numbers the core's file has.
    """

    name: str
    used: int
    loops: int
    mean_error: float
    worst: str
    worst_error: float


@dataclass(frozen=True)
class Beside:
    """One section of a cell: mean ns per I/O of base and candidate, and what is between them.

    Each with the least, the taken and the most of what is assumed; the difference is taken under
    the same assumption on both sides. ``instructions`` are those of base and candidate.
    """

    cell: str
    section: str
    instructions: tuple[float, float]
    base: tuple[float, ...]
    candidate: tuple[float, ...]
    difference: tuple[float, ...]


def groups(rows: Sequence[Row]) -> list[Group]:
    """The error by group, in the order of the file."""
    found = []
    for name in dict.fromkeys(row.loop.group for row in rows):
        every = [row for row in rows if row.loop.group == name]
        mine = [row for row in every if not row.loop.sets]
        if mine:
            worst = max(mine, key=lambda row: abs(row.error))
            mean = fmean(abs(row.error) for row in mine)
            used = len(every) - len(mine)
            found.append(Group(name, used, len(mine), mean, worst.loop.body, worst.error))
    return found


def beside(base: Sequence[Estimate], candidate: Sequence[Estimate]) -> Iterator[Beside]:
    """Sections of both kernels; one that a side has not is left out."""
    other = {(one.cell, one.section): one for one in candidate}
    for one in base:
        two = other.get((one.cell, one.section))
        if two is not None and (any(one.ns) or any(two.ns)):
            difference = tuple(b - a for a, b in zip(one.ns, two.ns, strict=True))
            counts = (one.instructions, two.instructions)
            yield Beside(one.cell, one.section.value, counts, one.ns, two.ns, difference)


@click.command("core")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--core", default="cortex-a53", show_default=True, help="A core, or its file.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/core"))
def core_command(run: Path | None, core: str, out: Path) -> None:
    """Estimate the time of a real core for a RUN that was gated, with the error of the model.

    The RUN must have the misses of the core's caches: gate it with a policy whose [lines] name
    them.
    """
    found = groups(of_loops(load_core(core), loops()))
    estimated = list(_of_run(open_result(run), core)) if run else []
    table = {
        "core": core,
        "loops": [asdict(one) for one in found],
        "sections": [asdict(one) for one in estimated],
    }
    results.write_text(out / "table.json", json.dumps(table, indent=1) + "\n")
    results.write_text(out / "table.md", markdown(found, estimated))
    print_tables(found, estimated, Console())
    click.echo(f"written: {out / 'table.json'}, {out / 'table.md'}")


def _of_run(run: RunDir, core: str) -> Iterator[Beside]:
    progress = Progress()
    sides = []
    for side in SIDES:
        path = run.side(side) / "result.json"
        if not path.is_file():
            raise UsageError(f"{run.root}: has no {side}: give a run of two kernels, gated locally")
        with progress.step(f"estimate {side}"):
            image = run.build(side) / "Image"
            boots = run.first_folders(side).items()
            each = (of_boot(folder, image, cells, core) for folder, cells in boots)
            sides.append(list(chain.from_iterable(each)))
    yield from beside(*sides)


_LOOP_HEADS = ("Loops", "Used", "Tried", "Mean error", "Worst")
_HEADS = ("Cell", "Section", "Instructions", "Base, ns", "Candidate, ns", "Difference, ns")


def _loop_lines(found: Sequence[Group]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = [
        (
            g.name,
            str(g.used),
            str(g.loops),
            f"{g.mean_error:.1%}",
            f"`{g.worst}`: {g.worst_error:+.0%}",
        )
        for g in found
    ]
    for name, mine in (
        ("mean of the groups", found),
        ("of those of which none is used", [g for g in found if not g.used]),
    ):
        if mine:
            used, tried = sum(g.used for g in mine), sum(g.loops for g in mine)
            error = fmean(g.mean_error for g in mine)
            lines.append((name, str(used), str(tried), f"{error:.1%}", ""))
    return lines


def _lines(found: Sequence[Beside]) -> list[tuple[str, ...]]:
    return [
        (
            one.cell,
            one.section,
            f"{one.instructions[0]:.0f}, {one.instructions[1] - one.instructions[0]:+.1f}",
            _range(one.base),
            _range(one.candidate),
            _range(one.difference, "+"),
        )
        for one in found
    ]


def _range(ns: Sequence[float], sign: str = "") -> str:
    """What is taken, and between what it lies."""
    least, taken, most = ns
    low, high = sorted((least, most))
    return f"{taken:{sign}.0f} ({low:{sign}.0f} to {high:{sign}.0f})"


def print_tables(loops_: Sequence[Group], found: Sequence[Beside], console: Console) -> None:
    """The model's error, and the estimates."""
    for heads, lines in ((_LOOP_HEADS, _loop_lines(loops_)), (_HEADS, _lines(found))):
        if lines:
            table = Table(*heads)
            for line in lines:
                table.add_row(*map(escape, line))
            console.print(table)


def markdown(loops_: Sequence[Group], found: Sequence[Beside]) -> str:
    """The same for the docs."""
    parts = []
    for heads, lines in ((_LOOP_HEADS, _loop_lines(loops_)), (_HEADS, _lines(found))):
        if lines:
            rows = (heads, ("---",) * len(heads), *lines)
            parts.append("".join(f"| {' | '.join(line)} |\n" for line in rows))
    return "\n".join(parts)
