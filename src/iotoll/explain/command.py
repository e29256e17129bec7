"""The command ``iotoll explain``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from iotoll.boards.plugin import CACHES, load_caches
from iotoll.core.cli_support import Output, first_lines, full_option
from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.explain import automatic
from iotoll.explain.explainer import Explainer, write_pictures
from iotoll.explain.frames import cell_frames
from iotoll.explain.profiled import Profiler
from iotoll.explain.releases import compare_releases
from iotoll.explain.releases_terminal import print_cells, print_overview
from iotoll.explain.terminal import (
    print_caches,
    print_explained,
    print_profile,
    print_tree,
    print_untraced,
)
from iotoll.explain.untraced import Untraced
from iotoll.records import results
from iotoll.records.models import ExplainRecord, Model
from iotoll.records.rundir import SIDES, RunDir
from iotoll.run.opening import open_result


@click.command("explain")
@click.argument("result", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--cell", "cells", multiple=True, help="Explain this cell; repeatable.")
@click.option(
    "--since",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="Another run, of an older kernel: which functions account for what RUN's costs more.",
)
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
    "--cache", is_flag=True, help="Also report cache lines and misses (a model): boots again."
)
@click.option("--again", is_flag=True, help="Boot both kernels again, whatever the run has kept.")
@click.option("--cache-model", metavar="NAME", help="As --cache, with this model (name or file).")
@click.option(
    "--untraced", is_flag=True, help="Measure both kernels in boots without trace events."
)
@click.option(
    "--profile",
    is_flag=True,
    help="Approximate, for any board: build both kernels with function_graph's profiler and boot"
    " them once, in the run's lab if it has one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print explain.json on stdout.")
@click.option("--quiet", is_flag=True, help="Print only the tables.")
@full_option
def explain_command(
    result: Path,
    cells: tuple[str, ...],
    since: Path | None,
    everything: bool,
    single: int | None,
    cache_model: str | None,
    untraced: bool,
    profile: bool,
    as_json: bool,
    quiet: bool,
    **ways: bool,
) -> None:
    """Show which functions account for the differences of RUN (a run directory or file in it).

    What the gate has explained is printed at once. Its boots have kept what they executed, so that
    other cells need none; else, and with --again or --cache, both kernels boot again.
    Without --cell the cells that moved are explained; all of them where none did. Leaves
    explain.json in RUN, and in RUN/explain for each cell a differential flame graph (CELL.svg) and
    both profiles (CELL.speedscope.json). With --untraced both kernels boot without
    trace events instead (untraced.json). Real boards can be profiled (profile.json). With --since
    two runs of any two releases are compared, of `iotoll measure` too. The exit code is 0.
    """
    marked = {**ways, "io": single is not None}
    ones = [name for name in ("io", "slowest", "differs") if marked[name]]
    modelled, again = ways["cache"] or cache_model is not None, ways["again"]
    chosen_ways = {"untraced": untraced, "profile": profile, "since": since is not None}
    _check(ones, len(cells), chosen_ways, modelled, everything, again)
    if since is not None:
        _since(since, result, cells, everything, as_json, Progress(quiet or as_json))
        return
    caches = load_caches(cache_model or CACHES) if modelled else None
    run, progress = open_result(result), Progress(quiet or as_json)
    if profile:
        _profile(run, cells, as_json, progress)
        return
    fresh = ones or modelled or untraced or everything or again
    if not fresh and (known := _stored(run, cells)) is not None:
        _show(known, as_json)
        return
    explainer = Explainer(run, progress, single, caches, again or untraced)
    chosen = explainer.choose(cells, everything)
    if untraced:
        _untraced(explainer, chosen, as_json)
        return
    if ways["slowest"] or ways["differs"]:
        explainer.pick(cells[0], ones[0])
    elif ones:
        explainer.check_single(cells[0])
    _explain(explainer, chosen, cells[:1], everything, as_json)


def _check(
    ones: Sequence[str],
    cells: int,
    ways: Mapping[str, bool],
    modelled: bool,
    everything: bool,
    again: bool,
) -> None:
    """Raise UsageError for options that do not fit; ``ones`` are those that name a single I/O."""
    if len(ones) > 1:
        raise UsageError("--io, --slowest and --differs: give one of them")
    if ones and cells != 1:
        raise UsageError(f"--{ones[0]} needs one --cell")
    if ways["since"] and (ones or modelled or again or ways["untraced"] or ways["profile"]):
        raise UsageError("--since: give nothing but --cell, --all, --json, --quiet beside it")
    if ways["untraced"] and (ones or modelled):
        raise UsageError("--untraced: give no --io, --slowest, --differs or --cache beside it")
    if ways["profile"] and (ones or modelled or everything or ways["untraced"]):
        raise UsageError("--profile: give no option but --cell, --json and --quiet beside it")


def _untraced(explainer: Explainer, chosen: Sequence[str], as_json: bool) -> None:
    without = Untraced(explainer).measure(chosen)
    _print_json(without) if as_json else _screen(partial(print_untraced, without))


def _since(
    older: Path,
    newer: Path,
    cells: Sequence[str],
    everything: bool,
    as_json: bool,
    progress: Progress,
) -> None:
    """Compare the kernels of two runs: an overview, or the functions of the cells asked for."""
    record = compare_releases(older, newer, cells, progress)
    if as_json:
        _print_json(record)
    elif cells or everything:
        _screen(partial(print_cells, record, everything=everything), everything)
    else:
        _screen(partial(print_overview, record))


def _profile(run: RunDir, cells: Sequence[str], as_json: bool, progress: Progress) -> None:
    profiler = Profiler(run, progress)
    found = profiler.measure(profiler.choose(cells))
    _print_json(found) if as_json else _screen(partial(print_profile, found))


def _stored(run: RunDir, cells: Sequence[str]) -> ExplainRecord | None:
    """What the run holds of these cells, or of any, for the kernels that it has; None: nothing."""
    if not automatic.is_current(run):
        return None
    record = results.read(run.explained, ExplainRecord)
    if not cells:
        return record
    kept = [cell for cell in record.cells if cell.cell in cells]
    whole = {cell.cell for cell in kept} == set(cells)
    return record.model_copy(update={"cells": kept}) if whole else None


def _show(record: ExplainRecord, as_json: bool) -> None:
    if as_json:
        _print_json(record)
        return
    console = Console()
    print_explained(record, console)
    if record.left_out:
        console.print(f"{record.left_out} more cells moved: --cell NAME or --all explains them")


def _explain(
    explainer: Explainer,
    chosen: Sequence[str],
    first: Sequence[str],
    everything: bool,
    as_json: bool,
) -> None:
    """Record both kernels, write the pictures and print; a single I/O is of the cell ``first``."""
    record, sides = explainer.explain(chosen)
    write_pictures(explainer.folder, sides, record)
    if as_json:
        _print_json(record)
        return

    def tell(console: Console) -> None:
        if explainer.single is not None:
            one = (sides[side].cells[first[0]] for side in SIDES)
            print_tree(cell_frames(*one, single=True), explainer.single, console)
        print_explained(record, console, everything=everything)
        if record.caches is not None:
            print_caches(record.caches, console, everything=everything)

    _screen(tell, everything or explainer.single is not None or record.caches is not None)


def _screen(tell: Callable[[Console], None], everything: bool = False) -> None:
    """Print a screen of what ``tell`` prints, or all of it where more was asked for."""
    console = Console()
    with console.capture() as made:
        tell(console)
    click.echo(
        "\n".join(first_lines(made.get().splitlines(), everything or Output(False, False).full))
    )


def _print_json(record: Model) -> None:
    document = record.model_dump(mode="json", exclude_none=True)
    click.echo(json.dumps(document, indent=1, sort_keys=True))
