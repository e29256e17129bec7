"""The command line: words in, a flow or a table out, the outcome as exit code."""

from __future__ import annotations

import importlib
from typing import cast

import click

from iotoll import __version__
from iotoll.core.cli_support import guarded

COMMANDS = {
    "analyze": "iotoll.reports.trace.command:analyze_command",
    "ci": "iotoll.ci.command:ci_command",
    "doctor": "iotoll.doctor:doctor_command",
    "experiment": "iotoll.run.studies.experiment:experiment_group",
    "explain": "iotoll.run.explain_command:explain_command",
    "gate": "iotoll.run.command:gate_command",
    "image": "iotoll.boards.command:image_command",
    "lab": "iotoll.labs.local.command:lab_command",
    "lava": "iotoll.run.lava_command:lava_command",
    "measure": "iotoll.run.command:measure_command",
    "noise": "iotoll.verdict.time.command:noise_command",
    "publish": "iotoll.reports.publish.command:publish_command",
    "receive": "iotoll.measure.serial:receive_command",
    "report": "iotoll.run.command:report_command",
    "reproduce": "iotoll.run.reproduce_command:reproduce_command",
    "simboard": "iotoll.labs.simboard.command:simboard_group",
    "simulate": "iotoll.verdict.time.command:simulate_command",
    "step": "iotoll.run.command:step_command",
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


def main() -> None:
    """Entry point of the ``iotoll`` command."""
    guarded(cli)
