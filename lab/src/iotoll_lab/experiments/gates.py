"""``iotoll experiment innocent`` and ``planted``: what the gate says of patches made from a seed.

Each patch is gated as a user's would be, in a run directory of its own; a command that was
interrupted resumes when it is started again. Traces and results stay, so that changed rules are
tried on them without a boot (``--again``). The table holds what was run and nothing else.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.table import Table

from iotoll.boards.matrix import chosen_cells, load_matrix
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.lock import alone
from iotoll.core.progress import Progress
from iotoll.gate.conclude import failed
from iotoll.gate.flow import STEPS, Flow, execute
from iotoll.kernels.source import base_of, open_tree
from iotoll.patch import candidate
from iotoll.records import results
from iotoll.records.models import (
    CellVerdict,
    Outcome,
    RunManifest,
    SideResult,
    VerdictRecord,
)
from iotoll.records.rundir import RunDir
from iotoll.run.manifest import RunRequest, new_manifest
from iotoll.run.opening import keep_run
from iotoll.verdict.instructions.rule import judge
from iotoll.verdict.policy import load_policy
from iotoll.verdict.words import parts
from iotoll_lab.experiments import variants
from iotoll_lab.experiments.named import Named, explain_gated, named_markdown, print_named
from iotoll_lab.experiments.variants import Read, Variant

SECONDS = "seconds.json"
"""How long a patch's gate took, by the command that ran it; beside the run's verdict."""


@dataclass(frozen=True)
class GateRow:
    """One gated patch; ``exact`` is the median share of I/Os that cost what their pair does.

    ``grew`` names what the verdict calls grown, by device and section: how many cells, and the
    median of their sizes in instructions. ``alarms`` counts the cells that the first boots of each
    side show, before further boots are asked. ``unsure`` names each cell without a judgement.
    ``named`` is what explain says of a planted patch.
    """

    name: str
    what: str
    outcome: str
    sentence: str
    grew: dict[str, tuple[int, float]] = field(default_factory=dict)
    alarms: int = 0
    cells: int = 0
    unsure: dict[str, str] = field(default_factory=dict)
    exact: float | None = None
    seconds: float | None = None
    named: Named | None = None


def gate_options(patches: int = 60) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options of commands that gate many patches, so many of them unless told otherwise."""
    options = (
        click.option("--patches", default=patches, show_default=True, type=click.IntRange(1)),
        click.option(
            "--first",
            default=1,
            show_default=True,
            type=click.IntRange(1),
            help="Number of the first patch: several machines share an experiment.",
        ),
        click.option("--seed", default=1, show_default=True, type=click.IntRange(0)),
        click.option("--board", default="virt-arm64", show_default=True),
        click.option("--matrix", default="default", show_default=True),
        click.option("--cells", help="Only these cells; * is allowed.", metavar="LIST"),
        click.option("--tree", default="debian", show_default=True, help="Kernel tree."),
        click.option("--out", type=click.Path(path_type=Path), help="Default: runs/KIND."),
        click.option(
            "--abreast",
            default=1,
            show_default=True,
            type=click.IntRange(1),
            help="Patches at a time: one builds while another one boots.",
        ),
        click.option(
            "--again",
            type=click.Choice(["collect", "judge"]),
            help="Nothing is built or booted: take this step and what follows again, with the"
            " rules of today, for every patch that was gated.",
        ),
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.command("innocent")
@gate_options()
def innocent_command(out: Path | None, **options: object) -> None:
    """Gate PATCHES kernels that differ in what no I/O executes: each block is a false alarm."""
    run_gates(variants.innocent, out or Path("runs/innocent"), options)


@click.command("planted")
@gate_options()
@click.option(
    "--explain/--no-explain",
    default=True,
    show_default=True,
    help="Also explain each: is the planted function named, with its size?",
)
def planted_command(out: Path | None, **options: object) -> None:
    """Gate PATCHES kernels with a planted cost: each pass is a miss."""
    run_gates(variants.planted, out or Path("runs/planted"), options)


def run_gates(
    make: Callable[[int, int, Read], Variant], out: Path, options: dict[str, object]
) -> None:
    """Gate what ``make`` makes of a seed and each number; leaves ``table.json`` in ``out``.

    Raises UsageError while another experiment works in ``out``.
    """
    out.mkdir(parents=True, exist_ok=True)
    why = f"{out}: another experiment is at work there: wait, or choose another --out"
    with alone(out / ".lock", UsageError(why)):
        _run_gates(make, out, options)


def _run_gates(
    make: Callable[[int, int, Read], Variant], out: Path, options: dict[str, object]
) -> None:
    progress = Progress()
    read = reader(str(options["tree"]), progress)
    abreast = int(str(options["abreast"]))
    seed, first, count = (int(str(options[name])) for name in ("seed", "first", "patches"))
    made = (make(seed, number, read) for number in range(first, first + count))
    rows: list[GateRow] = []
    # Side by side, live bars and lines of several gates would overwrite each other.
    quiet = Progress(quiet=True) if abreast > 1 else progress
    for row in _in_order(made, abreast, lambda v: gate_variant(v, out, options, quiet)):
        if row is None:
            continue
        rows.append(row)
        progress.say(f"{row.name}: {row.what}: {row.outcome}: {row.sentence}")
        text = json.dumps([asdict(row) for row in rows], indent=1)
        results.write_text(out / "table.json", text + "\n")
    print_rows(rows, Console())
    if explained := [(row.name, row.what, row.named) for row in rows if row.named is not None]:
        print_named(explained, Console())
        results.write_text(out / "named.md", named_markdown(explained))
    click.echo(f"written: {out / 'table.json'}")


def _in_order(
    made: Iterator[Variant], abreast: int, gated: Callable[[Variant], GateRow | None]
) -> Iterator[GateRow | None]:
    """What ``gated`` returns for each variant, in order, ``abreast`` at a time."""
    with ThreadPoolExecutor(abreast) as pool:
        futures: list[Future[GateRow | None]] = []
        try:
            for variant in made:
                futures.append(pool.submit(gated, variant))
                if len(futures) > abreast:
                    yield futures.pop(0).result()
            for future in futures:
                yield future.result()
        finally:
            # One gate failed, or Ctrl-C: those that did not begin stay for the next command.
            pool.shutdown(wait=False, cancel_futures=True)


def reader(name: str, progress: Progress) -> Read:
    """Gives the files of a kernel tree's base by their paths."""
    tree = open_tree(name, progress)
    base = base_of(name, None, progress)

    def read(path: str) -> str:
        done = tree.git("cat-file", "blob", f"{base.git_tree}:{path}")
        return done.stdout.decode("utf-8", "surrogateescape")

    return read


def gate_variant(
    variant: Variant, out: Path, options: Mapping[str, object], progress: Progress
) -> GateRow | None:
    """Gate one patch, or read what an earlier command found; None where ``--again`` has no run."""
    root = out / variant.name
    patch = out / "patches" / f"{variant.name}.patch"
    if options["again"]:
        if not (root / "verdict.json").is_file():
            return None
        _again(RunDir.open(root), str(options["again"]), progress)
    elif not _is_done(root):
        results.write_text(patch, variant.text)
        started = time.monotonic()
        # The report of each of many runs is not what is asked for, and costs as much as a boot.
        execute(Flow(_open(root, patch, options), progress), until="judge")
        seconds = round(time.monotonic() - started, 1)
        results.write_text(root / SECONDS, json.dumps(seconds) + "\n")
    run = RunDir.open(root)
    row = row_of(variant.name, variant.what, run)
    if variant.plant is None or not options.get("explain"):
        return row
    boots = not options["again"]
    return replace(row, named=explain_gated(run, variant.plant, progress, boots=boots))


def _is_done(root: Path) -> bool:
    path = root / "verdict.json"
    if not path.is_file():
        return False
    return results.read(path, VerdictRecord).outcome is not Outcome.INFRASTRUCTURE


def _again(run: RunDir, since: str, progress: Progress) -> None:
    """Judge a stored run by the rules of today; boots that they need and it lacks fail it."""
    flow = Flow(run, progress, stored=True)
    before = results.read(run.verdict, VerdictRecord)
    if before.failure is not None and before.failure.outcome is Outcome.BROKEN:
        return
    try:
        if since == "collect":
            STEPS["collect"](flow)
        STEPS["judge"](flow)
    except InfrastructureError as error:
        results.write(run.verdict, failed(flow, "judge", error))


def _open(root: Path, patch: Path, options: Mapping[str, object]) -> RunDir:
    choice = candidate.classify(str(patch), tree=str(options["tree"]))
    matrix = load_matrix(str(options["matrix"]))
    asked = options["cells"]
    # What the patch would select is another question: all cells, unless named.
    named = chosen_cells(str(asked) if asked else None, matrix.cells, matrix.family_cells)
    words = {"candidate": patch, "cells": asked or "*"}
    words |= {name: options.get(name) for name in ("tree", "board", "matrix", "policy")}
    told = (f"--{name}={value}" for name, value in words.items() if value)
    manifest = new_manifest(
        RunRequest(
            # The experiment's own would gate all of its kernels again.
            command=("iotoll", "gate", *told),
            kind="gate",
            choice=choice,
            board=str(options["board"]),
            matrix=str(options["matrix"]),
            cells=tuple(named or matrix.cells),
            policy=str(options["policy"]) if options.get("policy") else None,
        )
    )
    return keep_run(root, manifest)


def row_of(name: str, what: str, run: RunDir) -> GateRow:
    """The line of a run that was gated, from its files alone."""
    verdict = results.read(run.verdict, VerdictRecord)
    sections = [s for cell in verdict.cells for s in cell.sections]
    exact = [s.paired.exact for s in sections if s.paired is not None]
    seconds = run.root / SECONDS
    return GateRow(
        name=name,
        what=what,
        outcome=verdict.outcome.value,
        sentence=verdict.sentence,
        grew=_grew(verdict.cells),
        alarms=_alarms(run, verdict),
        cells=len(verdict.cells),
        unsure={
            c.cell: c.why
            for c in verdict.cells
            if c.outcome in (Outcome.INCONCLUSIVE, Outcome.INFRASTRUCTURE)
        },
        exact=round(median(exact), 4) if exact else None,
        seconds=json.loads(seconds.read_text()) if seconds.is_file() else None,
    )


def _grew(cells: list[CellVerdict]) -> dict[str, tuple[int, float]]:
    sizes: dict[str, list[float]] = {}
    for cell in cells:
        for name, found in parts(cell):
            if found.gated and found.moved == "grew":
                device = cell.cell.partition("-")[0]
                sizes.setdefault(f"{device} {name}", []).append(found.delta)
    return {name: (len(found), median(found)) for name, found in sorted(sizes.items())}


def _alarms(run: RunDir, verdict: VerdictRecord) -> int:
    """How many cells the first boots show, of a run that has more of them."""
    if verdict.failure is not None or not verdict.cells:
        return 0
    sides = [results.read(run.side(s) / "result.json", SideResult) for s in ("base", "candidate")]
    policy = load_policy(results.read(run.root / "run.json", RunManifest).policy)
    if all(len(records) < 2 for side in sides for records in side.cells.values()):
        return 0
    base, other = (
        side.model_copy(
            update={
                "boots": side.boots[:1],
                "cells": {name: records[:1] for name, records in side.cells.items()},
            }
        )
        for side in sides
    )
    return len(judge(base, other, policy, [c.cell for c in verdict.cells]).open)


def print_rows(rows: list[GateRow], console: Console) -> None:
    """One line for each patch, then how many there are of each outcome."""
    table = Table("Patch", "What it does", "Outcome", "What grew", "First alarms", "Exact pairs")
    for row in rows:
        grew = "; ".join(f"{k} {d:+.0f} in {n}" for k, (n, d) in row.grew.items())
        exact = "" if row.exact is None else f"{row.exact:.0%}"
        table.add_row(row.name, row.what, row.outcome, grew, str(row.alarms or ""), exact)
    console.print(table)
    counts = Counter(row.outcome for row in rows)
    for outcome, count in sorted(counts.items()):
        low, high = interval(count, len(rows))
        console.print(f"{outcome}: {count} of {len(rows)} ({low:.1%} to {high:.1%})")


def interval(hits: int, of: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share (Clopper and Pearson 1934)."""
    # scipy takes a second to import, and gates do without.
    from scipy.stats import binomtest

    found = binomtest(hits, of).proportion_ci(0.95, method="exact")
    return float(found.low), float(found.high)
