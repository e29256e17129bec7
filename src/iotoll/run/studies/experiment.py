"""``iotoll experiment``: are boots exact, what does the gate say of patches made from a seed?"""

from __future__ import annotations

import click

from iotoll.run.studies.builds import builds_command
from iotoll.run.studies.detector import detector_command
from iotoll.run.studies.exact import exact_command
from iotoll.run.studies.explained import explained_command
from iotoll.run.studies.gates import innocent_command, planted_command
from iotoll.run.studies.history import history_command
from iotoll.run.studies.range_command import ranges_command
from iotoll.run.studies.search import search_command
from iotoll.run.studies.sized import sized_command


@click.group("experiment", context_settings={"help_option_names": ["-h", "--help"]})
def experiment_group() -> None:
    """Experiments on boards and on the gate itself."""


for _command in (
    builds_command,
    detector_command,
    exact_command,
    explained_command,
    history_command,
    innocent_command,
    planted_command,
    ranges_command,
    search_command,
    sized_command,
):
    experiment_group.add_command(_command)
