"""``iotoll experiment``: are boots exact, what does the gate say of patches made from a seed?"""

from __future__ import annotations

import ast
from pathlib import Path

import click

from iotoll_lab.experiments.both import both_command
from iotoll_lab.experiments.builds import builds_command
from iotoll_lab.experiments.contention import contention_command
from iotoll_lab.experiments.core import core_command
from iotoll_lab.experiments.culprits import culprits_command
from iotoll_lab.experiments.detector import detector_command
from iotoll_lab.experiments.exact import exact_command
from iotoll_lab.experiments.explained import explained_command
from iotoll_lab.experiments.gates import innocent_command, planted_command
from iotoll_lab.experiments.history_size import history_command
from iotoll_lab.experiments.layouts import layouts_command
from iotoll_lab.experiments.range_command import ranges_command
from iotoll_lab.experiments.realise import realise_command
from iotoll_lab.experiments.rule import rule_command
from iotoll_lab.experiments.search import search_command
from iotoll_lab.experiments.sized import sized_command
from iotoll_lab.experiments.timed import time_command
from iotoll_lab.experiments.tracing import tracing_command
from iotoll_lab.experiments.vector import vector_command


@click.group("experiment", context_settings={"help_option_names": ["-h", "--help"]})
def experiment_group() -> None:
    """Experiments on boards and on the gate itself."""


for _command in (
    both_command,
    builds_command,
    contention_command,
    core_command,
    detector_command,
    exact_command,
    explained_command,
    history_command,
    layouts_command,
    innocent_command,
    planted_command,
    culprits_command,
    ranges_command,
    realise_command,
    rule_command,
    search_command,
    sized_command,
    time_command,
    tracing_command,
    vector_command,
):
    experiment_group.add_command(_command)


def listed() -> list[dict[str, str]]:
    """Every experiment as `iotoll list studies` shows it: name, how to start it, what it
    answers.
    """
    found = [
        {
            "name": name,
            "start": f"iotoll experiment {name}",
            "description": command.get_short_help_str(limit=200),
        }
        for name, command in experiment_group.commands.items()
    ]
    for path in sorted(Path(__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text())
        # Only those that are commands; the others are their parts.
        if any(
            isinstance(node, ast.If) and "__name__" in ast.dump(node.test) for node in tree.body
        ):
            # A docstring may begin with the command itself.
            summary = (ast.get_docstring(tree) or "").splitlines()[0].split("``: ")[-1]
            start = f"python -m iotoll_lab.experiments.{path.stem}"
            found.append({"name": path.stem, "start": start, "description": summary})
    return found
