"""``iotoll publish``: a run directory in, files for GitLab, dashboards, KCIDB and people out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.records.rundir import RunDir
from iotoll.reports.publish import FORMATS, Source, allure, write
from iotoll.reports.publish.links import parse_link

ALLURE = "allure"
NAMES = (*FORMATS, ALLURE)


@click.command("publish")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder."
)
@click.option("--only", metavar="NAME", multiple=True, help=f"Repeatable; of: {', '.join(NAMES)}.")
@click.option("--link", "links", metavar="LABEL=URL", multiple=True, help="For note and reports.")
@click.option(
    "--history",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Allure's history: read, and this run added. Default: OUT/allure-history.jsonl.",
)
@click.option("--origin", default="iotoll", show_default=True, help="Name of this CI in KCIDB.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the names of the files as JSON on stdout."
)
@click.option("--quiet", is_flag=True, help="Print only errors.")
def publish_command(
    run: Path,
    out: Path,
    only: tuple[str, ...],
    links: tuple[str, ...],
    history: Path | None,
    origin: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write the published formats of a RUN directory (docs/reports.md).

    The exit code tells whether the files were written; the verdict is in them.
    """
    unknown = [name for name in only if name not in NAMES]
    if unknown:
        raise UsageError(f"--only {unknown[0]}: no such format; there are {', '.join(NAMES)}")
    names = [name for name in NAMES if not only or name in only]
    if history is not None and ALLURE not in names:
        raise UsageError("--history is Allure's: leave it out, or add --only allure")
    parsed = [parse_link(text) for text in links]
    source = Source(RunDir.open(run), parsed, origin, history)
    if ALLURE in names and (lacking := allure.missing()):
        if ALLURE in only or history is not None:
            raise UsageError(lacking)
        # Asked for everything, one gets all that this machine can make.
        names.remove(ALLURE)
        if not quiet:
            click.echo(f"without allure.html: {lacking}", err=True)
    if history is not None:
        _check_history(history)
    _usable_folder(out)
    progress = Progress(quiet or as_json)
    with progress.step("write the files"):
        made = write(source, out, [name for name in names if name in FORMATS])
    if ALLURE in names:
        with progress.step("judge under pytest, make Allure's report"):
            made.append(allure.allure_report(source, out))
    if as_json:
        click.echo(json.dumps({"out": str(out), "files": [path.name for path in made]}, indent=1))
    elif not quiet:
        for path in made:
            click.echo(f"{path}  {path.stat().st_size / 1000:,.1f} kB")


def _check_history(path: Path) -> None:
    """Raise UsageError where Allure would end with a stack of its own: it takes lines of JSON."""
    if not path.name:
        raise UsageError("--history: name a file")
    folder = path.resolve().parent
    if not path.exists():
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise UsageError(f"--history {path}: folder {path.parent} cannot be written")
        return
    try:
        lines = [line for line in path.read_text().splitlines() if line.strip()]
        good = all(isinstance(json.loads(line), dict) for line in lines)
    except (OSError, ValueError, RecursionError):
        good = False
    if not good:
        raise UsageError(
            f"--history {path}: is not a history of Allure's: name another, or remove it"
        )


def _usable_folder(out: Path) -> None:
    """Raise UsageError where ``out`` cannot be a folder that is written into."""
    at = out
    while not at.exists() and at != at.parent:
        at = at.parent
    if not at.is_dir():
        raise UsageError(f"--out {out}: {at} is a file: name a folder")
    if not os.access(at, os.W_OK):
        raise UsageError(f"--out {out}: folder {at} may not be written")
    # The folder is the user's and may hold links of theirs; what is written there may not be one.
    for name in (*(made.file for made in FORMATS.values()), *allure.FILES):
        if (out / name).is_symlink():
            raise UsageError(f"--out {out}: {name} is a symbolic link: remove it")
