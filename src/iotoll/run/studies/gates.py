"""``iotoll experiment innocent`` and ``planted``: what the gate says of patches made from a seed.

Each patch is gated as a user's would be, in a run directory of its own; a command that was
interrupted resumes when it is started again. The table holds what was run and nothing else.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.table import Table

from iotoll.boards.matrix import chosen_cells, load_matrix
from iotoll.core.progress import Progress
from iotoll.kernels.source import base_of, open_tree
from iotoll.patch import candidate
from iotoll.records import results
from iotoll.records.models import Outcome, VerdictRecord
from iotoll.records.rundir import RunDir
from iotoll.run.flow import Flow, execute
from iotoll.run.manifest import new_manifest
from iotoll.run.studies import variants
from iotoll.run.studies.variants import Read, Variant


@dataclass(frozen=True)
class Row:
    """One gated patch; ``exact`` is the median share of I/Os that cost what their twin does.

    ``grew`` counts the gated sections that the verdict calls grown. ``cpu_seconds`` are of this
    command and its children, builds included.
    """

    name: str
    what: str
    outcome: str
    grew: int
    exact: float | None
    sentence: str
    seconds: float
    cpu_seconds: float


def _options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        [
            click.option("--patches", default=60, show_default=True, type=click.IntRange(1)),
            click.option("--seed", default=1, show_default=True),
            click.option("--board", default="virt-arm64", show_default=True),
            click.option("--matrix", default="default", show_default=True),
            click.option("--cells", help="Only these cells; * is allowed.", metavar="LIST"),
            click.option("--tree", default="debian", show_default=True, help="Kernel tree."),
            click.option("--out", type=click.Path(path_type=Path), help="Default: runs/KIND."),
        ]
    ):
        command = option(command)
    return command


@click.command("innocent")
@_options
def innocent_command(out: Path | None, **options: object) -> None:
    """Gate PATCHES kernels that differ in what no I/O executes: each block is a false alarm."""
    _run(variants.innocent, out or Path("runs/innocent"), options)


@click.command("planted")
@_options
def planted_command(out: Path | None, **options: object) -> None:
    """Gate PATCHES kernels with a planted cost: each pass is a miss."""
    _run(variants.planted, out or Path("runs/planted"), options)


def _run(make: Callable[[int, int, Read], Variant], out: Path, options: dict[str, object]) -> None:
    progress = Progress()
    read = reader(str(options["tree"]), progress)
    rows = []
    for number in range(1, int(str(options["patches"])) + 1):
        variant = make(int(str(options["seed"])), number, read)
        progress.say(f"{variant.name}: {variant.what}")
        rows.append(_gated(variant, out, options, progress))
        text = json.dumps([asdict(row) for row in rows], indent=1)
        results.write_text(out / "table.json", text + "\n")
    _print(rows, Console())
    click.echo(f"written: {out / 'table.json'}")


def reader(name: str, progress: Progress) -> Read:
    """Gives the files of a kernel tree's base by their paths."""
    tree = open_tree(name, progress)
    base = base_of(name, None, progress)

    def read(path: str) -> str:
        done = tree.git("cat-file", "blob", f"{base.git_tree}:{path}")
        return done.stdout.decode("utf-8", "surrogateescape")

    return read


def _gated(variant: Variant, out: Path, options: dict[str, object], progress: Progress) -> Row:
    """Gate one patch, or read what an earlier command found."""
    root = out / variant.name
    known = root / "row.json"
    if known.is_file():
        return Row(**json.loads(known.read_text()))
    patch = out / "patches" / f"{variant.name}.patch"
    results.write_text(patch, variant.text)
    started, cpu = time.monotonic(), _cpu_seconds()
    verdict = execute(Flow(_open(root, patch, options), progress))
    assert verdict is not None
    row = _row(variant, verdict, time.monotonic() - started, _cpu_seconds() - cpu)
    if verdict.outcome is not Outcome.INFRASTRUCTURE:
        results.write_text(known, json.dumps(asdict(row)) + "\n")
    return row


def _open(root: Path, patch: Path, options: dict[str, object]) -> RunDir:
    choice = candidate.classify(str(patch), tree=str(options["tree"]))
    matrix = load_matrix(str(options["matrix"]))
    cells = options["cells"]
    words = {
        "board": options["board"],
        "matrix": options["matrix"],
        "clock": None,
        "policy": None,
        "runner": "local",
        "lab": "local",
    }
    manifest = new_manifest(
        ["iotoll", "experiment"],
        words,
        kind="gate",
        tree=choice.tree,
        base=choice.base,
        candidate=choice.candidate,
        candidate_kind=choice.kind,
        # What the patch would select is another question: all cells, unless named.
        cells=chosen_cells(str(cells), matrix.cells, matrix.family_cells)
        if cells
        else matrix.cells,
    )
    if not (root / "run.json").is_file():
        results.write(root / "run.json", manifest)
    return RunDir.open(root)


def _row(variant: Variant, verdict: VerdictRecord, seconds: float, cpu: float) -> Row:
    sections = [s for cell in verdict.cells for s in cell.sections]
    exact = [s.twins.exact for s in sections if s.twins is not None]
    return Row(
        name=variant.name,
        what=variant.what,
        outcome=verdict.outcome.value,
        grew=sum(s.gated and s.moved == "grew" for s in sections),
        exact=round(median(exact), 4) if exact else None,
        sentence=verdict.sentence,
        seconds=round(seconds, 1),
        cpu_seconds=round(cpu, 1),
    )


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _print(rows: list[Row], console: Console) -> None:
    table = Table("Patch", "What it does", "Outcome", "Sections that grew", "Exact twins")
    for row in rows:
        exact = "" if row.exact is None else f"{row.exact:.0%}"
        table.add_row(row.name, row.what, row.outcome, str(row.grew), exact)
    console.print(table)
    for outcome in sorted({row.outcome for row in rows}):
        count = sum(row.outcome == outcome for row in rows)
        console.print(f"{outcome}: {count} of {len(rows)}")
