"""``iotoll simboard …``, also as ``python3 -m iotoll.simboard`` where only Python is there."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from iotoll.errors import InfrastructureError, IotollError, UsageError
from iotoll.proc import require_tool
from iotoll.simboard import client, profile
from iotoll.simboard.board import Board
from iotoll.simboard.faults import FAULTS


def main(words: Sequence[str] | None = None) -> None:
    """Run one command; raises IotollError."""
    words = list(sys.argv[1:] if words is None else words)
    if words[:1] == ["fastboot"]:  # its options are fastboot's own
        _fastboot(words[1:])
    options = _parser().parse_args(words)
    options.run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="iotoll simboard", description="A simulated HiKey960: docs/boards.md."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    state = argparse.ArgumentParser(add_help=False)
    state.add_argument("--state", type=Path, default=Path("simboards"), help="folder of the boards")

    serve = commands.add_parser(
        "serve", parents=[state], help="run a board until it is interrupted"
    )
    serve.add_argument("name", help="its folder in --state")
    serve.add_argument("--profile", default="hikey960", help="kind of board, or file")
    serve.add_argument("--serial", help="fastboot serial number (default: from the name)")
    serve.add_argument(
        "--port", type=int, required=True, help="UART; fastboot and control are next"
    )
    serve.add_argument("--baud", type=int, default=0, help="limit of the serial line (0: none)")
    serve.set_defaults(run=_serve)

    power = commands.add_parser("power", parents=[state], help="the power relay of a board")
    power.add_argument("name")
    power.add_argument("how", choices=["on", "off", "reset"])
    power.set_defaults(run=_power)

    listed = "\n".join(f"  {name:15} {what}" for name, what in FAULTS.items())
    fault = commands.add_parser(
        "fault",
        parents=[state],
        help="make something go wrong",
        epilog=f"faults:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fault.add_argument("name")
    fault.add_argument("fault", choices=list(FAULTS))
    fault.add_argument("value", nargs="?", type=float, default=0.0)
    fault.add_argument("--when", default="", help="begin at a line on the UART that holds this")
    fault.set_defaults(run=_fault)

    show = commands.add_parser("state", parents=[state], help="the boards that run, as JSON lines")
    show.set_defaults(run=_state)
    commands.add_parser(
        "fastboot", help="fastboot [--state DIR] WORDS: find the board, run the real one"
    )
    return parser


def _fastboot(words: list[str]) -> None:
    state, real = Path("simboards"), "fastboot"
    while words[:1] in (["--state"], ["--real"]) and len(words) > 1:
        option, value = words.pop(0), words.pop(0)
        state, real = (Path(value), real) if option == "--state" else (state, value)
    client.fastboot(state, words, real)


def _serve(options: argparse.Namespace) -> None:
    kind = profile.load(options.profile)
    require_tool(kind.soc.binary, kind.soc.package)
    if not 1024 <= options.port <= 65533:
        raise UsageError(f"--port {options.port}: choose one from 1024 to 65533")
    serial = options.serial or options.name.upper().replace("-", "")
    folder = options.state / options.name
    board = Board(kind, options.name, serial, options.port, folder.absolute(), options.baud)
    try:
        asyncio.run(_until_ended(board))
    except OSError as error:
        raise InfrastructureError(f"board {options.name}: {error}: is --port in use?") from error


async def _until_ended(board: Board) -> None:
    task = asyncio.ensure_future(board.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return


def _power(options: argparse.Namespace) -> None:
    client.ask(options.state / options.name, {"do": "power", "how": options.how})


def _fault(options: argparse.Namespace) -> None:
    request = {"do": "fault", "fault": options.fault, "value": options.value, "when": options.when}
    client.ask(options.state / options.name, request)


def _state(options: argparse.Namespace) -> None:
    for board in client.boards(options.state):
        print(json.dumps(board, sort_keys=True))


def standalone() -> None:
    """Entry of ``python3 -m iotoll.simboard``."""
    try:
        main()
    except IotollError as error:
        print(f"iotoll simboard: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None
