"""``iotoll simboard …``: run simulated boards, look at them, make them fail."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import click

from iotoll.core.cli_support import FiniteRange
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.proc import require_tool
from iotoll_lab.simboard import client, profile
from iotoll_lab.simboard.faults import FAULTS
from iotoll_lab.simboard.machine import SimulatedBoard


@click.group("simboard")
def simboard_group() -> None:
    """Simulated HiKey960 boards for a lab without boards (docs/boards.md)."""


@simboard_group.command("serve")
@click.argument("name")
@click.option("--state", type=click.Path(path_type=Path), default="simboards", show_default=True)
@click.option("--profile", "kind", default="hikey960", show_default=True, help="Board or file.")
@click.option("--serial", help="Fastboot serial number. Default: from the name.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="TCP port of the UART.")
@click.option(
    "--baud", type=click.IntRange(0), default=0, help="Speed limit of the UART in baud; 0: none."
)
def serve_command(
    name: str, state: Path, kind: str, serial: str | None, port: int, baud: int
) -> None:
    """Run the board NAME until it is interrupted; its disks stay in STATE/NAME."""
    found = profile.load(kind)
    require_tool(found.soc.binary, found.soc.package)
    if not name.replace("-", "").replace("_", "").isalnum():
        raise UsageError(f"board name {name}: use letters, digits, - and _")
    number = serial or "".join(c for c in name.upper() if c.isalnum())
    folder = (state / name).absolute()
    try:
        asyncio.run(_until_ended(SimulatedBoard(found, name, number, folder, port, baud)))
    except OSError as error:
        raise InfrastructureError(
            f"board {name}: {error.strerror or error}: does it run already, or is --port in use?"
        ) from error


@simboard_group.command("power")
@click.argument("name")
@click.argument("how", type=click.Choice(["on", "off", "reset"]))
def power_command(name: str, how: str) -> None:
    """Switch the power relay of the board NAME."""
    _ask(name, {"do": "power", "how": how})


@simboard_group.command("fault")
@click.argument("name")
@click.argument("fault", type=click.Choice(list(FAULTS)))
@click.argument("value", type=FiniteRange(), default=0.0)
@click.option("--when", default="", help="Begin at the first UART line that contains this text.")
def fault_command(name: str, fault: str, value: float, when: str) -> None:
    """Inject a fault into the board NAME (docs/boards.md lists them)."""
    _ask(name, {"do": "fault", "fault": fault, "value": value, "when": when})


@simboard_group.command("state")
def state_command() -> None:
    """Print the boards that run on this machine, one line of JSON each."""
    for board in client.boards():
        click.echo(json.dumps(board, sort_keys=True))


@simboard_group.command("uart")
@click.argument("name")
def uart_command(name: str) -> None:
    """Connect to the serial line of the board NAME."""
    try:
        client.uart(name)
    except client.ClientError as error:
        raise InfrastructureError(str(error)) from error


@simboard_group.command("install")
@click.argument("folder", type=click.Path(path_type=Path))
def install_command(folder: Path) -> None:
    """Write the commands that LAVA's device dictionaries call into FOLDER, for a worker's PATH."""
    for path in client.install(folder):
        click.echo(str(path))


def _ask(name: str, request: dict[str, object]) -> None:
    try:
        client.ask(name, request)
    except client.ClientError as error:
        raise InfrastructureError(str(error)) from error


async def _until_ended(board: SimulatedBoard) -> None:
    task = asyncio.ensure_future(board.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return
