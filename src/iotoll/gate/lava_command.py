"""The command ``iotoll lava``: the steps of the LAVA runner, one by one, and device files."""

from __future__ import annotations

from pathlib import Path

import click

from iotoll.boards.board import load_virtual_board
from iotoll.boots.local import BootPlan
from iotoll.boots.schedule import health_plan, open_plans
from iotoll.core.errors import UsageError
from iotoll.core.plain import plain
from iotoll.core.progress import Progress, Step
from iotoll.gate.flow import Flow
from iotoll.labs.lava import check
from iotoll.labs.lava.config import Lab, load_lab
from iotoll.labs.lava.control import BoardFinding, control
from iotoll.labs.lava.dictionary import virtual_device
from iotoll.labs.lava.runner import LavaRunner, lava_folder, lava_runner
from iotoll.labs.lava.server import connect
from iotoll.records.models import Clock
from iotoll.records.results import write_text
from iotoll.records.rundir import RunDir
from iotoll.verdict.policy import load_time_policy

run_argument = click.argument("run", type=click.Path(path_type=Path))


@click.group("lava")
def lava_command() -> None:
    """Run boots as LAVA jobs, step by step; `iotoll gate --runner lava` does all of it.

    RUN is a run directory whose kernels are built: iotoll gate --runner lava --until build.
    """


@lava_command.command("render")
@run_argument
@click.option("--out", type=click.Path(path_type=Path), help="Folder. Default: RUN/lava/rendered.")
def render_command(run: Path, out: Path | None) -> None:
    """Write the job definitions of a run's boots, and submit nothing (files are uploaded)."""
    flow, runner, plans = _open(run)
    folder = out or lava_folder(flow.run) / "rendered"
    for plan in plans:
        path = folder / f"{plan.side}-{plan.number}.yaml"
        write_text(path, runner.submitter.render(plan))
        click.echo(path)


@lava_command.command("submit")
@run_argument
def submit_command(run: Path) -> None:
    """Submit a run's boots that are neither done nor with LAVA yet."""
    _, runner, plans = _open(run)
    for attempt in runner.submit(plans):
        click.echo(f"{attempt.boot}: job {attempt.number}")


@lava_command.command("wait")
@run_argument
def wait_command(run: Path) -> None:
    """Wait until LAVA has ended all jobs of a run."""
    flow, runner, plans = _open(run)
    with flow.progress.step("wait for LAVA") as step:
        for state in runner.wait(plans, step):
            click.echo(f"job {state.id}: {state.health} on {state.device or 'no board'}")


@lava_command.command("collect")
@run_argument
def collect_command(run: Path) -> None:
    """Collect a run's jobs that have ended; exit code 4 while some have not."""
    _, runner, plans = _open(run)
    left = runner.collect(plans)
    for plan in left:
        click.echo(f"{plan.name}: not ended", err=True)
    raise SystemExit(4 if left else 0)


@lava_command.command("cancel")
@run_argument
def cancel_command(run: Path) -> None:
    """Cancel all jobs of a run that have not ended."""
    _, runner, _ = _open(run)
    for attempt in runner.cancel("cancelled by hand"):
        click.echo(f"{attempt.boot}: job {attempt.number} cancelled")


@lava_command.command("forget")
@run_argument
@click.argument("job", type=click.IntRange(min=1))
def forget_command(run: Path, job: int) -> None:
    """Give up a job that LAVA lost: the next command submits its boot again."""
    _, runner, _ = _open(run)
    attempt = runner.forget(job, "forgotten by hand")
    if attempt is None:
        raise UsageError(f"{run}: its journal has no open job {job}")
    click.echo(f"{attempt.boot}: job {job} is forgotten")


@lava_command.command("check")
@click.argument("lab", default="local")
@click.option(
    "--board", "boards", multiple=True, help="Only these boards. Default: all of the lab file."
)
def check_command(lab: str, boards: tuple[str, ...]) -> None:
    """Check LAB: its version, our token, its file server, and the health of its boards.

    Nothing is submitted. Exit code 2 if a setting of ours is wrong, 4 if the lab is not fit.
    """
    found = load_lab(lab)
    for name in boards:
        found.board(name)
    servers = connect(found, check.RETRIES)
    problems = []
    for one in check.checks(found, servers, boards or sorted(found.boards)):
        click.echo(plain(f"{'NOT WELL' if one.problem else 'well'}: {one.line}"))
        problems += [one] if one.problem else []
    if problems:
        raise SystemExit(2 if any(one.usage for one in problems) else 4)


@lava_command.command("control")
@run_argument
@click.option(
    "--device", "devices", multiple=True, help="Only this device. Default: all that get jobs."
)
@click.option(
    "--quarantine",
    is_flag=True,
    help="Put drifting boards into maintenance; needs that permission.",
)
def control_command(run: Path, devices: tuple[str, ...], quarantine: bool) -> None:
    """Compare the base kernel of RUN with itself on each board; exit code 4 if a board drifts."""
    flow, runner, _ = _open(run)
    assert flow.lab is not None
    board = flow.lab.board(flow.board.name)
    names = devices or runner.lava.devices(board.device_type, board.tags)
    drifting = []
    for name in names:
        with flow.progress.step(f"control of {name}") as step:
            found = _control(flow, flow.lab, name, step)
        click.echo(found.sentence)
        if found.moved:
            drifting.append(found)
    for found in drifting if quarantine else []:
        runner.lava.quarantine(found.device, f"iotoll: {found.sentence}")
        click.echo(f"{found.device}: in maintenance")
    raise SystemExit(4 if drifting else 0)


def _control(flow: Flow, lab: Lab, device: str, step: Step) -> BoardFinding:
    manifest = flow.run.manifest
    if manifest.clock is Clock.INSTRUCTIONS:
        return control(flow.run, flow.bench, lab, flow.instructions_policy, device, step)
    # scipy takes a second to import, and no other command of this group needs it.
    from iotoll.labs.lava.timecontrol import control_time
    from iotoll.verdict.time.noise import history_file

    policy = load_time_policy(manifest.policy)
    history = history_file(manifest.board, manifest.matrix)
    return control_time(flow.run, flow.bench, lab, policy, history, device, step)


@lava_command.command("health-check")
@run_argument
@click.option(
    "--install",
    is_flag=True,
    help="Install it in LAVA; needs the permission to change device types.",
)
def health_check_command(run: Path, install: bool) -> None:
    """Print a health check for the boards of RUN: its base kernel, and its first cell."""
    flow, runner, _ = _open(run)
    plan = health_plan(flow.run, flow.bench)
    text = runner.submitter.health_check(plan)
    if install:
        device_type = runner.lab.board(plan.board.name).device_type
        runner.lava.set_health_check(device_type, text)
        click.echo(f"{device_type}: LAVA checks its devices with it")
    else:
        click.echo(text, nl=False)


@lava_command.command("device")
@click.argument("board")
@click.argument("name")
@click.option("--clock", type=click.Choice([c.value for c in Clock]), default="instructions")
def device_command(board: str, name: str, clock: str) -> None:
    """Print the LAVA device dictionary of a virtual BOARD that LAVA shall know as NAME."""
    click.echo(virtual_device(load_virtual_board(board), name, Clock(clock)), nl=False)


def _open(path: Path) -> tuple[Flow, LavaRunner, list[BootPlan]]:
    flow = Flow(RunDir.open(path), Progress())
    if flow.lab is None:
        raise UsageError(f"{path} is not a run of a LAVA lab: begin it with --runner lava")
    for side in flow.sides:
        if not (flow.run.build(side) / "build.json").is_file():
            raise UsageError(f"{path}: {side} is not built: run 'iotoll step build {path}' first")
    runner = lava_runner(flow.run, flow.lab, tell=flow.progress.say)
    return flow, runner, open_plans(flow.run, flow.bench, flow.wanted)
