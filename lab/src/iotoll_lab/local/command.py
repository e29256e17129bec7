"""The command ``iotoll lab``."""

from __future__ import annotations

from pathlib import Path

import click

from iotoll.core.progress import Progress
from iotoll.labs.lava.config import load_lab
from iotoll_lab.local.lifecycle import LocalLab

folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder of the lab. Default: in iotoll's cache.",
)


@click.group("lab")
def lab_command() -> None:
    """Run a whole LAVA on this machine: server, worker, file server, boards."""


@lab_command.command("up")
@click.option("--lab", "name", default="local", show_default=True, help="Lab file: its boards.")
@folder_option
@click.option("--quiet", is_flag=True)
def up_command(name: str, folder: Path | None, quiet: bool) -> None:
    """Bring the lab up, if it is not; it stays until `iotoll lab down`."""
    lab = LocalLab(folder)
    state = lab.up(load_lab(name), Progress(quiet))
    click.echo(f"LAVA {state.lava}: {state.url} (user {state.user}, token in {state.token_file})")
    click.echo(f"boards: {', '.join(state.devices)}")


@lab_command.command("down")
@folder_option
def down_command(folder: Path | None) -> None:
    """End the lab and all that runs in it; only the cached root file system remains."""
    click.echo("the lab is down" if LocalLab(folder).down() else "no lab was up")


@lab_command.command("status")
@folder_option
@click.option("--json", "as_json", is_flag=True, help="Print the lab's addresses as JSON.")
def status_command(folder: Path | None, as_json: bool) -> None:
    """Print whether the lab is up; exit code 4 when it is not."""
    state = LocalLab(folder).state
    if state is None:
        click.echo("no lab is up: iotoll lab up", err=True)
        raise SystemExit(4)
    if as_json:
        click.echo(state.model_dump_json(indent=1))
        return
    click.echo(f"up: LAVA {state.lava}, {state.url}, files at {state.files_url}")
    for device, kind in state.devices.items():
        behind = state.simulated.get(device)
        click.echo(f"  {device} ({kind})" + (f", iotoll simboard: {behind}" if behind else ""))


@lab_command.command("service")
@click.argument("what", type=click.Choice(["stop", "start", "kill"]))
@click.argument("name")
@folder_option
def service_command(what: str, name: str, folder: Path | None) -> None:
    """Stop, start or kill a service of the lab, to test failures; killed services restart."""
    LocalLab(folder).control(what, name)
