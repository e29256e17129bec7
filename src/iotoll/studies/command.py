"""``iotoll study NAME``: a seed's study, measured here."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from iotoll.core.cli_support import Output, output_options
from iotoll.core.errors import UsageError
from iotoll.gate.flow import STEPS
from iotoll.patch import candidate
from iotoll.run.manifest import Runner, RunRequest
from iotoll.studies.data import load_study
from iotoll.studies.flow import Asked, default_folder, run_study
from iotoll.studies.page import terminal_lines, write_pages


@click.command("study")
@click.argument("name")
@click.option("--board", help="Board, or file. Default: the study's own.")
@click.option(
    "--runner",
    type=click.Choice(["local", "lava"]),
    default="local",
    show_default=True,
    help="Who boots the boards: this machine, or a LAVA lab.",
)
@click.option(
    "--lab", default="local", show_default=True, help="LAVA lab, or file (--runner lava)."
)
@click.option("--tree", help="Kernel git tree or source archive. Default: Debian's.")
@click.option("--base", help="Git revision of the kernel in --tree.")
@click.option(
    "--image",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Ready-made kernel image.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder. Default: runs/study-NAME; the same command resumes there.",
)
@click.option(
    "--until",
    type=click.Choice([name for name in STEPS if name != "judge"]),
    default="report",
    show_default=True,
    help="Stop after this step.",
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Boot again, even what an earlier run has booted; the same command resumes.",
)
@click.option(
    "--destroy-data",
    is_flag=True,
    help="Allow a study to overwrite a whole disk; it says which one.",
)
@output_options
def study_command(
    name: str,
    board: str | None,
    runner: Runner,
    lab: str,
    tree: str | None,
    base: str | None,
    image: Path | None,
    out: Path | None,
    until: str,
    fresh: bool,
    destroy_data: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Measure what a published study measured, and set its numbers beside ours.

    NAME is a study (iotoll list studies) or a file. Boots once for each of its device variants.
    """
    study = load_study(name)
    if study.destroys and not destroy_data:
        raise UsageError(f"study {name} destroys {study.destroys}: allow it with --destroy-data")
    if image is not None:
        choice = candidate.classify(None, base_image=image)
    else:
        choice = candidate.classify(None, tree=tree, base=base)
    command = ["iotoll", "study", name]
    for option, value in (("--board", board), ("--tree", tree), ("--base", base)):
        command += [option, value] if value else []
    command += ["--image", str(image)] if image else []
    command += ["--runner", runner, "--lab", lab] if runner != "local" else []
    command += ["--destroy-data"] if study.destroys else []
    request = RunRequest(tuple(command), "measure", choice, "", runner=runner, lab=lab)
    output = Output(quiet, as_json)
    folder = out or default_folder(study.name)
    asked = Asked(study, request, board, folder, output.progress, until, fresh)
    record = run_study(asked)
    if record is None or until != "report":
        output.progress.say(f"stopped after {until}: {folder}")
        return
    page = write_pages(record, folder)
    if as_json:
        click.echo(json.dumps(record.model_dump(mode="json"), indent=1, sort_keys=True))
        return
    output.show(terminal_lines(record, quiet))
    if not quiet:
        click.echo(f"repeat: {shlex.join(command)}")
        click.echo(f"report: {page}")
