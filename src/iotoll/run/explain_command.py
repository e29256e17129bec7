"""The command ``iotoll explain``."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console

from iotoll.core.progress import Progress
from iotoll.reports.explain.terminal import print_explained
from iotoll.run.explain import Explainer
from iotoll.run.reproduce import open_result


@click.command("explain")
@click.argument("result", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--cell", "cells", multiple=True, help="Explain this cell; repeatable.")
@click.option("--all", "everything", is_flag=True, help="Explain all cells, show all sections.")
@click.option("--json", "as_json", is_flag=True, help="explain.json on stdout.")
@click.option("--quiet", is_flag=True, help="Nothing but the tables.")
def explain_command(
    result: Path, cells: tuple[str, ...], everything: bool, as_json: bool, quiet: bool
) -> None:
    """Say which functions account for the differences of RUN, a run directory or a file of one.

    Both kernels boot again on the same virtual board, while a plugin records every instruction.
    Without --cell the cells that moved are explained; all of them where none did. Leaves
    explain.json in RUN. Exit code 0, whatever the verdict was.
    """
    explainer = Explainer(open_result(result), Progress(quiet or as_json))
    record, _ = explainer.explain(explainer.choose(cells, everything))
    if as_json:
        text = record.model_dump(mode="json", exclude_none=True)
        click.echo(json.dumps(text, indent=1, sort_keys=True))
    else:
        print_explained(record, Console(), everything=everything)
