"""``iotoll experiment contention``: is what CPUs take from each other found, and named?

Kernels of which only the sharing of lines differs (``contention.toml``) boot with a plugin that
writes what each CPU accesses, and a model of coherent caches (`iotoll_lab.contention`) counts what
went from CPU to CPU. A kernel is found to share more if a count grew by more than a threshold,
which innocent kernels have set: in one function, and of all functions together. What only moved
from one function to another, since they access a line in another order, is not more. Nothing here
gates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, Literal

import click
from pydantic import Field
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from iotoll.core.errors import UsageError
from iotoll.core.lock import alone
from iotoll.core.toml import load_toml
from iotoll.records import results
from iotoll.records.models.base import Model
from iotoll_lab.contention.cells import COUNTS, CellSharing
from iotoll_lab.experiments.contention_boots import Kernels, KernelSharing
from iotoll_lab.experiments.gates import reader
from iotoll_lab.experiments.variants import Read, innocent, inserted, made_of

Kind = Literal["innocent", "control", "planted"]
PLAIN = "plain"
_BOOTS = 2
_TRIED = ("transfers", "false", "hand_overs")
"""Counts that a threshold is of; an invalidation comes with the next CPU's transfer."""


class Place(Model):
    """Code behind the only line ``behind`` of a file, and what it needs behind the includes."""

    what: str
    file: str
    behind: str
    function: str
    globals: str = ""
    code: str

    def patch(self, name: str, read: Read, value: str = "") -> str:
        """The patch, with its constant; raises UsageError where the line is not there once."""
        more = self.globals.replace("VALUE", value)
        text = inserted(read(self.file), self.file, [(self.behind, self.code)], more)
        return made_of("contention", name, self.what, {self.file: text}, read).text


class Plant(Place):
    """Two kernels, by the constant; ``count`` is what grows from ``base`` to ``candidate``."""

    base: str
    candidate: str
    count: Literal["transfers", "false", "hand_overs"]


class ContentionFile(Model):
    """contention.toml; ``thresholds`` are per I/O and function, by count."""

    cells: str
    innocents: int = Field(ge=1)
    seed: int
    thresholds: dict[str, float]
    plants: dict[str, Plant]
    controls: dict[str, Place]


@dataclass(frozen=True)
class Grown:
    """A count of a function that is larger in the second kernel, by so much in an I/O's own time.

    ``data`` is what it accessed most of the difference at.
    """

    count: str
    function: str
    by: float
    data: str


@dataclass(frozen=True)
class Row:
    """Two kernels in one cell; ``grown`` are beyond the threshold, ``largest`` of each count.

    ``totals`` and ``own`` are per I/O by count, of both kernels: of all that ran, and in the I/Os'
    own time. ``same_code`` says that the images have the same instructions. ``found``: of a
    planted pair, its count grew most in its function, and no other function's did; of others,
    nothing grew.
    """

    kind: Kind
    kernels: tuple[str, str]
    what: str
    cell: str
    same_code: bool
    repeated: bool
    instructions: tuple[float, float]
    totals: dict[str, tuple[float, float]]
    own: dict[str, tuple[float, float]]
    false_lines: tuple[int, int]
    grown: list[Grown]
    largest: dict[str, float]
    found: bool


def load_plants() -> ContentionFile:
    """The planted kernels, as contention.toml has them."""
    return ContentionFile.model_validate(load_toml(Path(__file__).with_name("contention.toml")))


def grown(base: CellSharing, other: CellSharing, count: str) -> list[Grown]:
    """The functions that have more of a count in the other kernel, the most first.

    By no more than all functions together have: what another function has less of, since it comes
    second to a line, is not more.
    """
    found = []
    together = other.own[count] - base.own[count]
    for function in sorted({*base.functions, *other.functions}):
        by = _of(other.functions, function, count) - _of(base.functions, function, count)
        by = min(by, together)
        if by > 0:
            found.append(Grown(count, function, by, _data(base, other, function, count)))
    return sorted(found, key=lambda one: -one.by)


def _of(values: Mapping[str, Mapping[str, float]], name: str, count: str) -> float:
    return values.get(name, {}).get(count, 0.0)


def _data(base: CellSharing | None, other: CellSharing, function: str, count: str) -> str:
    names = [name for name in sorted(other.data) if name.startswith(f"{function}: ")]
    before = {} if base is None else base.data
    by = {name: _of(other.data, name, count) - _of(before, name, count) for name in names}
    return max(by, key=by.__getitem__).removeprefix(f"{function}: ")


def rows_of(
    kind: Kind,
    what: str,
    pair: tuple[KernelSharing, KernelSharing],
    thresholds: Mapping[str, float],
    wanted: tuple[str, str] | None = None,
) -> Iterator[Row]:
    """A row for each cell; ``wanted`` are count and function of what was planted."""
    one, two = pair
    for base, other in zip(one.cells, two.cells, strict=True):
        every = {count: grown(base, other, count) for count in _TRIED}
        beyond = [g for count in _TRIED for g in every[count] if g.by > thresholds[count]]
        functions = {g.function for g in beyond}
        found = not beyond
        if wanted is not None:
            first = next((g.function for g in beyond if g.count == wanted[0]), None)
            found = first == wanted[1] and functions == {wanted[1]}
        yield Row(
            kind=kind,
            kernels=(one.name, two.name),
            what=what,
            cell=base.cell,
            same_code=one.code_sha256 == two.code_sha256,
            repeated=one.is_repeated and two.is_repeated,
            instructions=(base.instructions, other.instructions),
            totals={count: (base.totals[count], other.totals[count]) for count in COUNTS},
            own={count: (base.own[count], other.own[count]) for count in COUNTS},
            false_lines=(base.false_lines, other.false_lines),
            grown=beyond,
            largest={count: most[0].by if most else 0.0 for count, most in every.items()},
            found=found,
        )


@click.command("contention")
@click.option("--only", multiple=True, help="This plant or control, or innocents; repeatable.")
@click.option("--board", default="virt-arm64-smp4", show_default=True)
@click.option("--matrix", default="default", show_default=True)
@click.option("--cells", help="In place of contention.toml's.", metavar="LIST")
@click.option("--tree", default="debian", show_default=True, help="Kernel tree.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/contention"))
def contention_command(only: tuple[str, ...], out: Path, **options: Any) -> None:
    """Boot kernels of which only the sharing between CPUs differs: is it found, and named?

    Beside innocent kernels, which the thresholds are from, and controls, which must be silent.
    """
    known = load_plants()
    if missing := set(only) - {"innocents", *known.plants, *known.controls}:
        names = ", ".join(("innocents", *known.plants, *known.controls))
        raise UsageError(f"--only {min(missing)}: there are {names}")
    out.mkdir(parents=True, exist_ok=True)
    why = f"{out}: another experiment is at work there: wait, or choose another --out"
    with alone(out / ".lock", UsageError(why)):
        board, matrix, tree = (str(options[name]) for name in ("board", "matrix", "tree"))
        kernels = Kernels(out.resolve(), board, matrix, options["cells"] or known.cells, tree)
        plain = kernels.sharing(PLAIN, "", _BOOTS)
        rows: list[Row] = []
        for row in _rows(known, kernels, plain, set(only), tree):
            rows.append(row)
            if _is_shown(row):
                kernels.progress.say(" ".join(_cells(row)))
            table = {"thresholds": known.thresholds, "rows": [asdict(row) for row in rows]}
            results.write_text(out / "table.json", json.dumps(table, indent=1) + "\n")
            text = f"{markdown(rows)}\n{of_kernel(plain, known.thresholds)}"
            results.write_text(out / "table.md", text)
        print_rows(rows, Console())
        click.echo(f"written: {out / 'table.json'}, {out / 'table.md'}")


def _rows(
    known: ContentionFile, kernels: Kernels, plain: KernelSharing, only: set[str], tree: str
) -> Iterator[Row]:
    read = reader(tree, kernels.progress)
    limits = known.thresholds
    if not only or "innocents" in only:
        made = [innocent(known.seed, number + 1, read) for number in range(known.innocents)]
        # One boot: what is asked of them is how far another layout moves a count.
        alike = [plain, *(kernels.sharing(one.name, one.text, 1) for one in made)]
        for pair in permutations(alike, 2):
            yield from rows_of("innocent", "nothing", pair, limits)
    for name, place in known.controls.items():
        if not only or name in only:
            other = kernels.sharing(name, place.patch(name, read), _BOOTS)
            yield from rows_of("control", place.what, (plain, other), limits)
    for name, plant in known.plants.items():
        if only and name not in only:
            continue
        base, other = (
            kernels.sharing(f"{name}-{side}", plant.patch(name, read, value), _BOOTS)
            for side, value in (("base", plant.base), ("candidate", plant.candidate))
        )
        # What is planted without contention is a control as well.
        yield from rows_of("control", f"{plant.what}: the first", (plain, base), limits)
        wanted = (plant.count, plant.function)
        yield from rows_of("planted", plant.what, (base, other), limits, wanted)


_HEADS = ("Kernel", "Cell", "Transfers", "False", "Hand-overs", "Lines", "Grew in", "Right")


def _is_shown(row: Row) -> bool:
    """Of innocent pairs those that show something: of the others, how many there are."""
    return row.kind != "innocent" or not row.found


def _cells(row: Row) -> list[str]:
    one, two = row.kernels
    name = {"planted": two.rpartition("-")[0], "innocent": f"{one}, {two}"}.get(row.kind, two)
    counts = [f"{one:.2f}, {two:.2f}" for one, two in (row.own[count] for count in _TRIED)]
    lines = f"{row.false_lines[0]}, {row.false_lines[1]}"
    places = dict.fromkeys(f"`{one.function}`, {one.data}" for one in row.grown)
    right = "yes" if row.found else "no"
    return [f"`{name}`", row.cell, *counts, lines, "; ".join(places) or "none", right]


def print_rows(rows: Sequence[Row], console: Console) -> None:
    """One line for each pair of kernels and cell."""
    table = Table(*_HEADS)
    for row in filter(_is_shown, rows):
        table.add_row(*map(escape, _cells(row)))
    console.print(table)
    console.print(escape(summary(rows)))


def summary(rows: Sequence[Row]) -> str:
    """How many rows of each kind are right, and how far their kernels differ."""
    lines = []
    for kind in dict.fromkeys(row.kind for row in rows):
        mine = [row for row in rows if row.kind == kind]
        differ = max(abs(two - one) for one, two in (row.instructions for row in mine))
        most = max(size for row in mine for size in row.largest.values())
        lines.append(
            f"{kind}: {sum(row.found for row in mine)} of {len(mine)} are right,"
            f" {sum(row.same_code for row in mine)} of the same code,"
            f" {sum(row.repeated for row in mine)} with two boots of the same bytes each;"
            f" {most:.3f} grew at most, and instructions per I/O differ by {differ:.1f} at most\n"
        )
    return "".join(lines)


def markdown(rows: Sequence[Row]) -> str:
    """The same as a table for the docs, in which cells lack what all their names have."""
    short = _short([row.cell for row in rows])
    lines = [_HEADS, ("---",) * len(_HEADS)]
    for row in filter(_is_shown, rows):
        name, cell, *rest = _cells(row)
        lines.append((name, short[cell], *rest))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{summary(rows)}"


def _short(cells: Sequence[str]) -> dict[str, str]:
    """Names of cells without the words that all have at the same place, if any are left."""
    words = {cell: cell.split("-") for cell in cells}
    every = list(zip(*words.values(), strict=False))
    kept = [at for at, column in enumerate(every) if len(set(column)) > 1]
    return {cell: "-".join(own[at] for at in kept) or cell for cell, own in words.items()}


def of_kernel(kernel: KernelSharing, thresholds: Mapping[str, float]) -> str:
    """What the I/Os of one kernel take from other CPUs, by function, as a table for the docs."""
    short = _short([cell.cell for cell in kernel.cells])
    heads = ("Cell", "Function", "Data", "Transfers", "False", "Hand-overs")
    lines: list[Sequence[str]] = [heads, ("---",) * len(heads)]
    for cell in kernel.cells:
        shown = {
            name: values
            for name, values in cell.functions.items()
            if any(values.get(count, 0.0) > limit for count, limit in thresholds.items())
        }
        for name in sorted(shown, key=lambda name: -_of(shown, name, _TRIED[0])):
            counts = [f"{_of(shown, name, count):.2f}" for count in _TRIED]
            lines.append(
                (short[cell.cell], f"`{name}`", _data(None, cell, name, _TRIED[0]), *counts)
            )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
