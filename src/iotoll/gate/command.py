"""The commands of a run: ``gate``, ``measure``, ``report`` and ``step``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from iotoll.core.cli_support import Output, output_options
from iotoll.core.digest import file_sha256, json_sha256
from iotoll.core.errors import UsageError
from iotoll.gate import confirm as confirming
from iotoll.gate.flow import STEPS, Flow
from iotoll.gate.several import gate_several
from iotoll.patch import candidate
from iotoll.records import results
from iotoll.records.models import Clock, Outcome, RunManifest, SideResult
from iotoll.records.rundir import RunDir
from iotoll.run.manifest import asked_for
from iotoll.run.opening import INCIDENTAL, label_of, locked, open_run

F = TypeVar("F", bound=Callable[..., Any])
_FAILURES = (Outcome.BROKEN, Outcome.INFRASTRUCTURE)
"""Outcomes that also a step before the last one can have."""


_RUN_OPTIONS = (
    click.option("--tree", help="Kernel git tree or source archive. Default: Debian's."),
    click.option("--base", help="Git revision of the base in --tree."),
    click.option(
        "--board", help="Board or file. Default: the rules' for a patch, else virt-arm64."
    ),
    click.option("--matrix", help="Matrix or file. Default: the board's own, else 'default'."),
    click.option("--policy", help="Policy or file. Default: that of the clock."),
    click.option(
        "--cells", help="Only these cells, comma-separated; * is allowed.", metavar="LIST"
    ),
    click.option(
        "--clock",
        type=click.Choice([c.value for c in Clock]),
        help="Default: instructions on a virtual board, time on a real one. Time on a "
        "virtual board cannot gate: it is a smoke test, or an experiment (--experiment).",
    ),
    click.option(
        "--boots",
        type=click.IntRange(1, 99),
        default=1,
        show_default=True,
        help="Boots of each kernel; on the clock time, the minimum.",
    ),
    click.option(
        "--lines",
        is_flag=True,
        help="Count lines of cache and misses; else where a structure changed ([lines] of the"
        " policy).",
    ),
    click.option(
        "--runner",
        type=click.Choice(["local", "lava", "ssh"]),
        default="local",
        show_default=True,
        help="Where the boards boot: on this machine, in a LAVA lab, or reached by ssh.",
    ),
    click.option(
        "--lab",
        default="local",
        show_default=True,
        help="LAVA lab or file (--runner lava); file of a desk (--runner ssh).",
    ),
    click.option(
        "--series",
        metavar="NAME",
        help="Merge request or branch: a newer run of it cancels this one's LAVA jobs.",
    ),
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        help="Run directory. Default: runs/NAME; the same command resumes there.",
    ),
    click.option(
        "--until",
        type=click.Choice(list(STEPS)),
        default="report",
        show_default=True,
        help="Stop after this step.",
    ),
)


def run_options(command: F) -> F:
    """Options that gate and measure share."""
    for option in reversed(_RUN_OPTIONS):
        command = option(command)
    return output_options(command)


@click.command("gate")
@click.option(
    "--candidate",
    "named",
    metavar="WHAT",
    multiple=True,
    help="A .patch, an mbox with a series, or a revision or range in --tree. May be repeated:"
    " candidates are gated side by side, one for two CPUs, each in a separate run.",
)
@click.option("--base-image", type=click.Path(path_type=Path), help="Ready-made kernel image.")
@click.option("--candidate-image", type=click.Path(path_type=Path), help="Ready-made kernel image.")
@click.option(
    "--aa", is_flag=True, help="Boot the base twice, to measure the board's noise (--clock time)."
)
@click.option(
    "--experiment",
    is_flag=True,
    help="Judge the times of a virtual board as if it were a real one. Such a verdict never gates.",
)
@click.option(
    "--beside",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Also show the verdict of this run: the same candidate, on the other clock.",
)
@click.option(
    "--confirm",
    type=click.Choice([Clock.TIME.value]),
    help="After the verdict: how much time is it on this machine's CPU (docs/time.md)?",
)
@click.option(
    "--approved-by",
    metavar="NAME",
    help="Who approves the growth that the candidate's Iotoll-Accept trailers name.",
)
@run_options
@click.pass_context
def gate_command(
    context: click.Context,
    /,
    named: tuple[str, ...],
    base_image: Path | None,
    candidate_image: Path | None,
    tree: str | None,
    base: str | None,
    **asked: Any,
) -> None:
    """Compare a candidate kernel with its base: patch in, verdict out."""
    if len(named) > 1:
        output = Output(asked["quiet"], asked["as_json"])
        raise SystemExit(gate_several(context, named, asked["out"], output))
    choice = candidate.classify(
        named[0] if named else None,
        tree=tree,
        base=base,
        base_image=base_image,
        candidate_image=candidate_image,
    )
    if choice.kind == "none" and not asked["aa"]:
        raise UsageError("nothing to gate: give --candidate, or --base-image and --candidate-image")
    _run("gate", choice, **asked)


@click.command("measure")
@click.option("--image", type=click.Path(path_type=Path), help="Ready-made kernel image.")
@run_options
def measure_command(image: Path | None, tree: str | None, base: str | None, **asked: Any) -> None:
    """Measure one kernel: its values per cell, and no verdict."""
    if image is not None:
        choice = candidate.classify(None, base_image=image)
    else:
        choice = candidate.classify(None, tree=tree, base=base)
    _run("measure", choice, **asked)


@click.command("step")
@click.argument("name", type=click.Choice(list(STEPS)))
@click.argument("run", type=click.Path(path_type=Path))
@output_options
def step_command(name: str, run: Path, quiet: bool, as_json: bool) -> None:
    """Run one step of a run directory alone (gate --until source makes one)."""
    output = Output(quiet, as_json)
    flow = Flow(RunDir.open(run), output.progress)
    with locked(flow.run):
        STEPS[name](flow)
    if as_json:
        print_json({"run": str(flow.run.root), "step": name})


def _run(
    kind: Literal["gate", "measure"],
    choice: candidate.CandidateChoice,
    *,
    out: Path | None,
    until: str,
    quiet: bool,
    as_json: bool,
    clock: str | None,
    confirm: str | None = None,
    **asked: Any,
) -> None:
    """Run what was asked; ``asked`` are the options of `asked_for` as given."""
    manifest = asked_for(kind, choice, clock=Clock(clock) if clock else None, **asked)
    if confirm:
        confirming.check(manifest)
    output = Output(quiet, as_json)
    run = _named_run(manifest, out)
    flow = Flow(run, output.progress, explains=True)
    verdict = confirming.execute(flow, until, asked=bool(confirm))
    has_failed = verdict is not None and verdict.outcome in _FAILURES
    if until != "report" and not has_failed:
        flow.progress.say(f"stopped after {until}: {run.root}")
        raise SystemExit(verdict.exit_code if verdict else 0)
    show_run(run, run.report / "index.html", output)
    raise SystemExit(verdict.exit_code if verdict else 0)


def _identity(manifest: RunManifest) -> dict[str, Any]:
    data = manifest.model_dump(mode="json", exclude=INCIDENTAL)
    for key in ("base", "candidate"):
        if manifest.candidate_kind in ("patch", "mbox", "images") and data[key]:
            path = Path(data[key])
            data[f"{key}_sha256"] = file_sha256(path) if path.is_file() else None
    return data


def _named_run(manifest: RunManifest, out: Path | None) -> RunDir:
    """The run directory of a manifest: a new one, or the one that it resumes.

    Raises UsageError where the folder holds another run or something else.
    """
    identity = json_sha256(_identity(manifest))
    named = Path(manifest.candidate or manifest.base or manifest.tree or "kernel").stem
    label = label_of(named, 40)
    root = out or Path("runs") / f"{manifest.kind}-{label}-{identity[:8]}"
    return open_run(root, manifest)


def show_run(run: RunDir, page: Path, output: Output) -> None:
    """Print the result of a run: as JSON, its verdict alone, or its tables."""
    if output.as_json:
        print_json(_json_result(run))
        return
    # What reports are made with is imported while boards boot: a gate begins without it.
    from iotoll.reports.page import terminal_report
    from iotoll.reports.page.evidence import gather
    from iotoll.reports.page.findings import record_of
    from iotoll.reports.page.single import side_table

    if run.manifest.kind == "measure":
        side_table(results.read(run.side("base") / "result.json", SideResult), output.console)
    elif output.quiet:
        found = record_of(gather(run))
        click.echo(f"{found.outcome.value if found.outcome else 'unfinished'}: {found.sentence}")
    else:
        terminal_report(run, output.console, output.full)
    if not output.quiet:
        click.echo(f"report: {page}")


def _json_result(run: RunDir) -> Any:
    path = run.verdict if run.verdict.is_file() else run.side("base") / "result.json"
    found = json.loads(path.read_text())
    if run.findings.is_file():
        found["findings"] = json.loads(run.findings.read_text())["findings"]
    return {"run": str(run.root), **found}


def print_json(data: Any) -> None:
    """Print a document as JSON with sorted keys."""
    click.echo(json.dumps(data, indent=1, sort_keys=True))
