"""The command ``iotoll reproduce``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from iotoll.core.progress import Progress
from iotoll.run import reproduce


@click.command("reproduce")
@click.argument("result", type=click.Path(path_type=Path))
@click.option(
    "--again", is_flag=True, help="Boot both kernels again, on the virtual board, and compare."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
@click.option("--quiet", is_flag=True, help="Print only the verdict and what differs.")
def reproduce_command(result: Path, again: bool, as_json: bool, quiet: bool) -> None:
    """Derive the verdict of RESULT (a run directory or a file in it) again.

    Without --again from what is stored, bit for bit, with no board. Exit code 0: the same verdict;
    1: another one, and what differs.
    """
    run = reproduce.open_result(result)
    work = reproduce.again if again else reproduce.from_stored
    found = work(run, Progress(quiet or as_json))
    if as_json:
        said = {"run": str(run.root), "reproduced": found.same, **found.as_json()}
        click.echo(json.dumps(said, indent=1, sort_keys=True))
    else:
        for line in found.lines(quiet):
            click.echo(line)
    raise SystemExit(0 if found.same else 1)
