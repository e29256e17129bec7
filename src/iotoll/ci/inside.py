"""What runs inside the sandbox: one step of a run directory, its failure written to a file.

``python -m iotoll.ci.inside build RUN SIDE SPEC [--warm]``, ``… boot PLAN``, ``… gate RUN``,
``… measure RUN SIDE CELLS``. Exit codes are those of outcomes; SPEC and PLAN are JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import click

# What a single step needs is imported there: a build or a boot takes seconds.
from iotoll.core.cli_support import guarded
from iotoll.core.errors import BrokenError, InfrastructureError
from iotoll.records import results
from iotoll.records.models.base import Outcome
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir

run_argument = click.argument("run", type=click.Path(path_type=Path))


@click.group()
def inside() -> None:
    """Steps that a candidate has a hand in."""


@inside.command("build")
@run_argument
@click.argument("side", type=click.Choice(SIDES))
@click.argument("spec")
@click.option("--warm", is_flag=True)
@click.option("--quiet", is_flag=True)
def build_command(run: Path, side: str, spec: str, warm: bool, quiet: bool) -> None:
    """Build one side's kernel."""
    from iotoll.core.progress import Progress
    from iotoll.kernels.build import KernelSpec, build_side
    from iotoll.records.failure import failure_of

    directory = RunDir.open(run)
    kernel = KernelSpec(**json.loads(spec))
    try:
        build_side(directory, cast(Side, side), kernel, Progress(quiet), warm=warm)
    except (BrokenError, InfrastructureError) as error:
        failure = failure_of(error, "build")
        results.write(directory.build_failure(cast(Side, side)), failure)
        raise SystemExit(failure.outcome.exit_code) from error


@inside.command("boot")
@click.argument("plan")
def boot_command(plan: str) -> None:
    """Boot one kernel, as a desk's run asks."""
    from iotoll.boots import sandboxed_boot

    raise SystemExit(sandboxed_boot.inside(plan))


@inside.command("gate")
@run_argument
def gate_command(run: Path) -> None:
    """Boot, collect, judge and report."""
    from iotoll.core.progress import Progress
    from iotoll.gate.flow import Flow, execute

    flow = Flow(RunDir.open(run), Progress(), explains=True)
    verdict = execute(flow, since="boot")
    assert verdict is not None
    if verdict.outcome is Outcome.REGRESSION and not verdict.can_gate:
        flow.progress.say("this board informs and blocks nothing: its regression fails no job")
        raise SystemExit(Outcome.INCONCLUSIVE.exit_code)
    raise SystemExit(verdict.exit_code)


@inside.command("measure")
@run_argument
@click.argument("side", type=click.Choice(SIDES))
@click.argument("cells")
def measure_command(run: Path, side: str, cells: str) -> None:
    """Boot one side once, for a search; its records are left in the run directory."""
    from iotoll.bisect import sandboxed_commits

    sandboxed_commits.measure(RunDir.open(run), cast(Side, side), cells.split(","))


if __name__ == "__main__":
    guarded(inside)
