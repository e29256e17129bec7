"""``iotoll experiment layouts``: do counts move with the place of functions in a kernel?

One kernel is linked again and again from the same objects, with its files in a seeded order
(`iotoll_lab.experiments.relink`), and each layout is compared with the linker's own, by the gate's
rule and I/O by I/O. Counts must not move: whatever differs is named. Lines of code and misses in a
model of caches do move, so they are given as intervals: made of some layouts, tried on others. With
a candidate the same layouts of both kernels are compared.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

import click
from rich.console import Console
from rich.table import Table

from iotoll.boards.board import load_virtual_board
from iotoll.boards.equip import fragments
from iotoll.boards.matrix import chosen_cells, load_matrix
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.lock import alone
from iotoll.core.paths import data_dir
from iotoll.core.progress import Progress
from iotoll.core.toml import named_file
from iotoll.gate.flow import Flow, execute
from iotoll.kernels.kernel_job import KernelJob
from iotoll.kernels.source import prepare
from iotoll.measure.elements import load_elements
from iotoll.patch import candidate
from iotoll.records import results
from iotoll.records.models import CellRecord, SideResult
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from iotoll.run.manifest import RunRequest, new_manifest
from iotoll.run.opening import keep_run
from iotoll.verdict.instructions.rule import judge_cells
from iotoll.verdict.policy import Policy, load_policy
from iotoll_lab.estimate.core import WHICH, load_core
from iotoll_lab.estimate.sections import estimates
from iotoll_lab.experiments.relink import relink

COVERED = 0.95
"""What an interval shall cover of layouts that it was not made of."""
_LEAST = 3
"""Layouts that an interval is made of at least, and that it is tried on at least."""

NS = "ns"
"""What estimated time is called behind its section."""

Values = list[int | None]


@dataclass(frozen=True)
class Counts:
    """What one layout's boot counted of a cell; ``values`` is one number for each I/O.

    Their names are as ``submission instructions`` or ``whole code_lines``.
    """

    values: dict[str, Values]

    @staticmethod
    def of(record: CellRecord) -> Counts:
        """The counts of a record; raises InfrastructureError where it has none in order."""
        if record.in_order is None or record.vector is None:
            raise InfrastructureError(f"{record.cell}: {record.invalid or 'counts no elements'}")
        found: dict[str, Values] = {
            f"{section.value} instructions": list(values)
            for section, values in record.in_order.sections.items()
        }
        for name, element in record.vector.items():
            parts = {section.value: runs for section, runs in element.sections.items()}
            for part, runs in (parts | {"whole": element.whole}).items():
                values = [value for value, often in runs for _ in range(often)]
                if any(values):
                    found[f"{part} {name}"] = values
        return Counts(found)

    def mean(self, name: str) -> float:
        """Per I/O; 0 of what no I/O has."""
        known = [value for value in self.values.get(name, []) if value is not None]
        return fmean(known) if known else 0.0


@dataclass(frozen=True)
class Moved:
    """A count that differs between two layouts: in which share of I/Os, and by how much each."""

    name: str
    share: float
    by: float


@dataclass(frozen=True)
class LayoutRow:
    """One layout of a kernel, from one boot.

    ``alarms`` are cells for which the gate would ask for further boots, if it were a candidate. By
    cell: ``moved`` are exact counts that differ from layout 0 in any I/O, of the ``compared``;
    ``means`` what is modelled per I/O.
    """

    side: Side
    number: int
    image_sha256: str
    alarms: list[str] = field(default_factory=list)
    compared: dict[str, int] = field(default_factory=dict)
    moved: dict[str, list[Moved]] = field(default_factory=dict)
    means: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Interval:
    """Where a modelled count of a further layout lies, made of ``layouts`` of them.

    ``low`` and ``high`` bound the mean per I/O with a probability of `COVERED`; ``plain`` is that
    of layout 0, and ``covered`` of the ``unseen`` layouts that it was not made of lie within.
    """

    cell: str
    name: str
    side: str
    plain: float
    low: float
    high: float
    layouts: int
    covered: int
    unseen: int


def modelled(name: str) -> bool:
    """Whether a count is a time, or one of lines or misses, which go by addresses."""
    if name.endswith(f" {NS}"):
        return True
    element = load_elements().elements.get(name.partition(" ")[2].partition(".")[0])
    return element is not None and element.touch is not None


def moved(base: Counts, other: Counts) -> list[Moved]:
    """The exact counts that differ in any I/O, by name."""
    found = []
    for name in sorted({*base.values, *other.values}):
        if modelled(name):
            continue
        size = len(next(iter(base.values.values())))
        one, two = (c.values.get(name, [0] * size) for c in (base, other))
        pairs = list(zip(one, two, strict=False))
        differ = sum(a != b for a, b in pairs) + abs(len(one) - len(two))
        if differ:
            by = [(b or 0) - (a or 0) for a, b in pairs]
            found.append(Moved(name, differ / max(len(one), len(two)), fmean(by)))
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the next value lies with a probability of `COVERED`, if they are normal."""
    # scipy takes a second to import, and other commands do without.
    from scipy.stats import t

    mean, size = fmean(values), len(values)
    half = float(t.ppf((1 + COVERED) / 2, size - 1)) * stdev(values) * sqrt(1 + 1 / size)
    return mean - half, mean + half


def intervals(rows: Sequence[LayoutRow], fit: int) -> list[Interval]:
    """Intervals of each cell's modelled counts: of each side, and of candidate less base.

    Made of layouts 1 to ``fit``, and tried on those behind.
    """
    found = []
    sides = {side: {r.number: r.means for r in rows if r.side == side} for side in _sides(rows)}
    series: dict[str, dict[int, dict[str, dict[str, float]]]] = dict(sides.items())
    if "candidate" in sides:
        base, other = sides["base"], sides["candidate"]
        series["difference"] = {n: _less(other[n], base[n]) for n in base if n in other}
    for side, layouts in series.items():
        for cell in layouts.get(0, {}):
            names = sorted({name for means in layouts.values() for name in means[cell]})
            for name in names:
                value = {n: means[cell].get(name, 0.0) for n, means in sorted(layouts.items())}
                made = [v for n, v in value.items() if 0 < n <= fit]
                rest = [v for n, v in value.items() if n > fit]
                if min(len(made), len(rest)) < _LEAST:
                    continue
                low, high = interval(made)
                covered = sum(low - 1e-9 <= v <= high + 1e-9 for v in rest)
                sizes = (len(made), covered, len(rest))
                found.append(Interval(cell, name, side, value[0], low, high, *sizes))
    return found


def _sides(rows: Sequence[LayoutRow]) -> list[Side]:
    return sorted({row.side for row in rows})


def _less(
    one: Mapping[str, Mapping[str, float]], other: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    return {
        cell: {
            name: means.get(name, 0.0) - other[cell].get(name, 0.0)
            for name in sorted({*means, *other[cell]})
        }
        for cell, means in one.items()
    }


@click.command("layouts")
@click.argument("patch", required=False, type=click.Path(path_type=Path))
@click.option("--layouts", default=60, show_default=True, type=click.IntRange(2))
@click.option("--fit", type=click.IntRange(_LEAST), help="Layouts that intervals are made of.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option("--cells", required=True, help="Comma-separated; * is allowed.", metavar="LIST")
@click.option("--core", default="cortex-a53", show_default=True, help="Whose time is estimated.")
@click.option("--board", default="virt-arm64", show_default=True)
@click.option("--matrix", default="default", show_default=True)
@click.option("--tree", default="debian", show_default=True, help="Kernel tree.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/layouts"))
def layouts_command(out: Path, **options: Any) -> None:
    """Link a kernel in LAYOUTS orders of its files, and boot each: do counts move?

    With a PATCH, the patched kernel as well. Two thirds of the layouts make the intervals, unless
    --fit names a number.
    """
    out.mkdir(parents=True, exist_ok=True)
    why = f"{out}: another experiment is at work there: wait, or choose another --out"
    with alone(out / ".lock", UsageError(why)):
        rows = _Experiment(out, options).rows()
        fit = options["fit"] or options["layouts"] * 2 // 3
        found = intervals(rows, fit)
        table = {"rows": [asdict(r) for r in rows], "intervals": [asdict(i) for i in found]}
        results.write_text(out / "table.json", json.dumps(table, indent=1) + "\n")
        results.write_text(out / "table.md", markdown(rows, found))
        print_tables(rows, found, Console())
        click.echo(f"written: {out / 'table.json'}, {out / 'table.md'}")


class _Experiment:
    """The layouts of one command, in its folder."""

    def __init__(self, out: Path, options: Mapping[str, Any]) -> None:
        self.out = out
        self.options = options
        self.progress = Progress()
        self.numbers = range(int(options["layouts"]) + 1)
        matrix = load_matrix(str(options["matrix"]))
        asked = chosen_cells(str(options["cells"]), matrix.cells, matrix.family_cells)
        self.cells = tuple(asked or ())
        self.board = load_virtual_board(str(options["board"]))
        self.core = str(options["core"])
        self.policy = with_caches(load_core(self.core).caches, out)

    def rows(self) -> list[LayoutRow]:
        """Link, boot and compare all layouts; what an earlier command finished is read."""
        sides = self._link()
        return [self._row(side, number) for side in sides for number in self.numbers]

    def _link(self) -> list[Side]:
        patch = self.options["patch"]
        choice = candidate.classify(str(patch) if patch else None, tree=self.options["tree"])
        manifest = new_manifest(self._request("gate", choice))
        run = keep_run(self.out / "kernels", manifest)
        sources = prepare(run, self.progress, self.cells)
        space = 0
        names = fragments(self.board, self.cells)
        for side, source in sources.items():
            job = KernelJob.make(source, self.board.arch, names)
            seed = int(self.options["seed"])
            folder = self.out / "kernels" / side
            told, space = relink(job, seed, self.numbers, folder, self.progress, space)
            self.progress.say(f"{side}: {len(told.sizes)} files in {space >> 10} KiB")
        return list(sources)

    def _request(
        self, kind: Literal["gate", "measure"], choice: candidate.CandidateChoice
    ) -> RunRequest:
        return RunRequest(
            command=("iotoll", "experiment", "layouts"),
            kind=kind,
            choice=choice,
            board=str(self.options["board"]),
            matrix=str(self.options["matrix"]),
            policy=str(self.policy),
            cells=self.cells,
            lines=True,
        )

    def _row(self, side: Side, number: int) -> LayoutRow:
        """One layout, from its boot or from what an earlier command left."""
        stored = self.out / "layouts" / f"{side}-{number}.json"
        if stored.is_file():
            return row_from(json.loads(stored.read_text()))
        run = self._measured(side, number)
        plain = results.read(self._root(side, 0) / "sides/base/result.json", SideResult)
        row = row_of(run, plain, side, number, load_policy(str(self.policy)))
        for one in estimates(
            run.boot("base", 1), run.build("base") / "Image", self.cells, self.core, WHICH[1:2]
        ):
            row.means[one.cell][f"{one.section.value} {NS}"] = round(one.ns[0], 1)
        results.write_text(stored, json.dumps(asdict(row)) + "\n")
        if number and not any(row.moved.values()):
            shutil.rmtree(run.root)
        self.progress.say(f"{side} {number}: {len(row.alarms)} of {len(self.cells)} cells moved")
        return row

    def _root(self, side: Side, number: int) -> Path:
        return self.out / "runs" / f"{side}-{number}"

    def _measured(self, side: Side, number: int) -> RunDir:
        image = self.out / "kernels" / side / f"{number}.Image.gz"
        request = self._request("measure", candidate.classify(None, base_image=image))
        run = keep_run(self._root(side, number), new_manifest(request))
        execute(Flow(run, self.progress), until="collect")
        return run


def with_caches(name: str, out: Path) -> Path:
    """The default policy with another model of caches, in ``out``."""
    text = named_file(data_dir("pipelines") / "policies", "instructions").read_text()
    path = out / "policy.toml"
    results.write_text(path, re.sub(r'^caches = ".*?"', f'caches = "{name}"', text, flags=re.M))
    return path.resolve()


def row_of(run: RunDir, plain: SideResult, side: Side, number: int, policy: Policy) -> LayoutRow:
    """The line of a layout that was measured; ``plain`` is what layout 0 has, in one boot."""
    mine = results.read(run.side("base") / "result.json", SideResult)
    judged = judge_cells(plain, mine, policy, list(mine.cells))
    base, other = (
        {cell: Counts.of(records[0]) for cell, records in found.cells.items()}
        for found in (plain, mine)
    )
    return LayoutRow(
        side=side,
        number=number,
        image_sha256=mine.build.image_sha256,
        alarms=sorted(judged.open),
        compared={c: sum(not modelled(n) for n in counts.values) for c, counts in other.items()},
        moved={cell: moved(base[cell], counts) for cell, counts in other.items()},
        means={
            cell: {name: counts.mean(name) for name in counts.values if modelled(name)}
            for cell, counts in other.items()
        },
    )


def row_from(stored: dict[str, Any]) -> LayoutRow:
    """A row as it was stored."""
    moves = {c: [Moved(**one) for one in found] for c, found in stored.pop("moved").items()}
    return LayoutRow(**stored, moved=moves)


_EXACT_HEADS = (
    "Kernel",
    "Cell",
    "Layouts",
    "Alarms",
    "Exact counts",
    "Layouts where any I/O differs",
    "Most I/Os",
    "Largest mean difference",
)
_HEADS = ("Kernel", "Cell", "Count", "Linker's layout", "Interval", "Unseen within")


def _exact_lines(rows: Sequence[LayoutRow]) -> list[tuple[str, ...]]:
    lines = []
    for side in _sides(rows):
        mine = [row for row in rows if row.side == side and row.number]
        for cell in mine[0].compared if mine else ():
            moves = [one for row in mine for one in row.moved[cell]]
            share = max((one.share for one in moves), default=0.0)
            most = max(moves, key=lambda one: abs(one.by), default=None)
            numbers = (
                len(mine),
                sum(cell in row.alarms for row in mine),
                max(row.compared[cell] for row in mine),
                sum(bool(row.moved[cell]) for row in mine),
            )
            words = f"{most.by:+.2f} {most.name}" if most else "none"
            lines.append((side, cell, *map(str, numbers), f"{share:.1%}", words))
    return lines


def _interval_lines(found: Sequence[Interval]) -> list[tuple[str, ...]]:
    return [
        (
            one.side,
            one.cell,
            one.name,
            f"{one.plain:.2f}",
            f"{one.low:.2f} to {one.high:.2f}",
            f"{one.covered} of {one.unseen}",
        )
        for one in found
    ]


def covered_line(found: Sequence[Interval]) -> str:
    """What share of values of unseen layouts lies within, over all counts."""
    covered, unseen = sum(one.covered for one in found), sum(one.unseen for one in found)
    share = f"{covered / unseen:.1%}" if unseen else "none"
    return f"Intervals hold {covered} of {unseen} values of unseen layouts ({share})."


def print_tables(rows: Sequence[LayoutRow], found: Sequence[Interval], console: Console) -> None:
    """What moved, and the intervals."""
    for heads, lines in ((_EXACT_HEADS, _exact_lines(rows)), (_HEADS, _interval_lines(found))):
        table = Table(*heads)
        for line in lines:
            table.add_row(*line)
        console.print(table)
    console.print(covered_line(found))


def markdown(rows: Sequence[LayoutRow], found: Sequence[Interval]) -> str:
    """The same for the docs."""
    parts = []
    for heads, lines in ((_EXACT_HEADS, _exact_lines(rows)), (_HEADS, _interval_lines(found))):
        text = [f"| {' | '.join(line)} |\n" for line in (heads, ("---",) * len(heads), *lines)]
        parts.append("".join(text))
    return "\n".join([*parts, covered_line(found) + "\n"])
