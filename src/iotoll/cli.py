"""The command line: words in, a flow or a table out, the outcome as exit code."""

from __future__ import annotations

import importlib
import signal
import traceback
from typing import cast

import click

from iotoll import __version__
from iotoll.errors import BrokenError, InfrastructureError, IotollError

INTERRUPTED = 130  # as a shell reports a process that SIGINT ended

COMMANDS = {
    "analyze": "iotoll.outputs.command:analyze_command",
    "ci": "iotoll.ci.command:ci_command",
    "doctor": "iotoll.doctor:doctor_command",
    "gate": "iotoll.runcommand:gate_command",
    "image": "iotoll.imagecommand:image_command",
    "lab": "iotoll.lab.command:lab_command",
    "lava": "iotoll.lava.command:lava_command",
    "measure": "iotoll.runcommand:measure_command",
    "noise": "iotoll.timegate.command:noise_command",
    "publish": "iotoll.publish.command:publish_command",
    "receive": "iotoll.serialrecord:receive_command",
    "report": "iotoll.runcommand:report_command",
    "reproduce": "iotoll.reproducecommand:reproduce_command",
    "simboard": "iotoll.simboard.command:simboard_group",
    "simulate": "iotoll.timegate.command:simulate_command",
    "step": "iotoll.runcommand:step_command",
}
"""Name → module and name of the command."""


class Lazy(click.Group):
    """Imports a command when it is asked for, so that none waits for another's libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None when there is none."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].split(":")
        return cast(click.Command, getattr(importlib.import_module(module), name))


@click.group(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__)
def cli() -> None:
    """Gate Linux storage patches on software overhead per I/O.

    Exit codes: 0 pass, 1 regression, 2 usage error, 3 inconclusive, 4 infrastructure, 5 broken.
    """


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Entry point of the ``iotoll`` command."""
    guarded(cli)


def guarded(command: click.Command) -> None:
    """Run a command; never shows a traceback for an expected failure."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        command(standalone_mode=False)
    except click.exceptions.Exit as done:
        raise SystemExit(done.exit_code) from done
    except click.ClickException as error:
        error.show()
        raise SystemExit(2) from error
    except (KeyboardInterrupt, click.Abort):
        click.echo("iotoll: interrupted; the same command resumes", err=True)
        raise SystemExit(INTERRUPTED) from None
    except IotollError as error:
        click.echo(f"iotoll: {error}", err=True)
        if isinstance(error, BrokenError | InfrastructureError) and error.log_tail:
            click.echo(error.log_tail, err=True)
        raise SystemExit(error.exit_code) from error
    except BrokenPipeError:
        raise SystemExit(0) from None
    except Exception:
        # A bug of ours. Python's own exit code for it, 1, would read as a regression.
        traceback.print_exc()
        raise SystemExit(InfrastructureError.exit_code) from None
