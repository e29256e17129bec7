"""The command ``iotoll explain``."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console

from iotoll.boards.plugin import CACHES, load_caches
from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.measure.explain.frames import cell_frames
from iotoll.records.models.base import Model
from iotoll.records.rundir import SIDES
from iotoll.reports.explain.caches import print_caches
from iotoll.reports.explain.terminal import print_explained, print_tree
from iotoll.reports.explain.untraced import print_untraced
from iotoll.run.explain import Explainer, write_pictures
from iotoll.run.reproduce import open_result
from iotoll.run.untraced import Untraced


@click.command("explain")
@click.argument("result", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--cell", "cells", multiple=True, help="Explain this cell; repeatable.")
@click.option("--all", "everything", is_flag=True, help="Explain all cells, show all sections.")
@click.option(
    "--io",
    "single",
    type=click.IntRange(0),
    help="Show the call tree of this I/O; needs one --cell.",
)
@click.option("--slowest", is_flag=True, help="As --io, of the candidate's slowest I/O.")
@click.option("--differs", is_flag=True, help="As --io, of an I/O whose difference is unusual.")
@click.option(
    "--cache", is_flag=True, help="Also report cache lines and misses, from a cache model."
)
@click.option("--cache-model", metavar="NAME", help="As --cache, with this model (name or file).")
@click.option(
    "--untraced", is_flag=True, help="Measure both kernels in boots without trace events."
)
@click.option("--json", "as_json", is_flag=True, help="Print explain.json on stdout.")
@click.option("--quiet", is_flag=True, help="Print only the tables.")
def explain_command(
    result: Path,
    cells: tuple[str, ...],
    everything: bool,
    single: int | None,
    slowest: bool,
    differs: bool,
    cache: bool,
    cache_model: str | None,
    untraced: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show which functions account for the differences of RUN (a run directory or file in it).

    Both kernels boot again on the same virtual board, while a plugin records every instruction.
    Without --cell the cells that moved are explained; all of them where none did. Leaves
    explain.json in RUN, and in RUN/explain for each cell a differential flame graph (CELL.svg) and
    both profiles for speedscope (CELL.speedscope.json). With --untraced both kernels boot without
    trace events instead, and untraced.json has what each section costs then. Exit code 0, whatever
    the verdict was.
    """
    ways = [name for name, on in (("slowest", slowest), ("differs", differs)) if on]
    if len(ways) + (single is not None) > 1:
        raise UsageError("--io, --slowest and --differs: give one of them")
    if (ways or single is not None) and len(cells) != 1:
        raise UsageError(f"--{ways[0] if ways else 'io'} needs one --cell")
    caches = load_caches(cache_model or CACHES) if cache or cache_model else None
    if untraced and (ways or single is not None or cache or cache_model):
        raise UsageError("--untraced: give no --io, --slowest, --differs or --cache beside it")
    explainer = Explainer(open_result(result), Progress(quiet or as_json), single, caches)
    chosen = explainer.choose(cells, everything)
    if untraced:
        without = Untraced(explainer).measure(chosen)
        _print_json(without) if as_json else print_untraced(without, Console())
        return
    if ways:
        explainer.pick(cells[0], ways[0])
    record, sides = explainer.explain(chosen)
    write_pictures(explainer.folder, sides)
    if as_json:
        _print_json(record)
        return
    console = Console()
    print_explained(record, console, everything=everything)
    if record.caches is not None:
        print_caches(record.caches, console, everything=everything)
    if explainer.single is not None:
        one = (sides[side].cells[cells[0]] for side in SIDES)
        print_tree(cell_frames(*one, single=True), explainer.single, console)


def _print_json(record: Model) -> None:
    document = record.model_dump(mode="json", exclude_none=True)
    click.echo(json.dumps(document, indent=1, sort_keys=True))
