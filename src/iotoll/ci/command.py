"""The command ``iotoll ci``: the jobs of a pipeline, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from iotoll.boards.matrix import chosen_cells, load_matrix
from iotoll.ci import bisect, children, jobs, plan, summary
from iotoll.ci import plan as approvals
from iotoll.ci import summary as pipeline_note
from iotoll.ci.plan import ci_number, ci_variable
from iotoll.ci.repository import earlier_tag, ensure, find_change
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.core.scratch import scratch
from iotoll.records import results
from iotoll.records.models import SummaryRecord
from iotoll.records.models.run import Side
from iotoll.records.results import write_text
from iotoll.records.rundir import SIDES, RunDir
from iotoll.reports.publish import FORMATS, Source, allure, write
from iotoll.reports.publish.links import Link
from iotoll.reports.publish.markdown import harmless
from iotoll.reports.publish.note import MARKER

F = TypeVar("F", bound=Callable[..., Any])
NOTE = "note.md"

root_option = click.option(
    "--root",
    type=click.Path(path_type=Path),
    default="iotoll",
    show_default=True,
    help="The pipeline's folder.",
)
clone_option = click.option(
    "--clone",
    type=click.Path(path_type=Path),
    default=".",
    show_default=True,
    help="Git clone that has the commits, or may fetch them.",
)
runner_option = click.option(
    "--runner", type=click.Choice(["local", "lava"]), default="local", show_default=True
)


@click.group("ci")
def ci_command() -> None:
    """The jobs of a GitLab pipeline (docs/gitlab.md); each also runs at a desk.

    They hand on one folder, --root. What GitLab tells its jobs in CI_ variables is the default of
    the options of that name.
    """


ci_command.add_command(bisect.bisect_command)
ci_command.add_command(bisect.post_command)


def select_options(command: F) -> F:
    """What fixes a plan."""
    options = [
        clone_option,
        click.option("--project", envvar="CI_PROJECT_PATH", help="Name of the kernel project."),
        click.option("--candidate", help="Revision to judge. Default: the merge request's, HEAD."),
        click.option("--base", help="Revision to compare with. Default: the merge base."),
        click.option("--target", help="Branch the change is for, when --base is not given."),
        click.option("--board", "boards", multiple=True, help="Virtual boards, comma-separated."),
        click.option("--lava-board", "lava_boards", multiple=True, help="Boards of a LAVA lab."),
        click.option("--lab", help="LAVA lab, or file."),
        click.option("--matrix", default="default", show_default=True),
        click.option("--policy", help="Thresholds. Default: those of the boards' clock."),
        click.option("--lava-matrix", help="Of the lab's boards. Default: --matrix."),
        click.option("--lava-policy", help="Of the lab's boards. Default: of each one's clock."),
        click.option("--cells", help="Only these cells, comma-separated; * is allowed."),
        click.option("--job-command", default="iotoll", help="How the lab's jobs call iotoll."),
        click.option("--job-tag", "job_tags", multiple=True, help="Tags of the lab's jobs."),
        click.option("--job-image", default="", help="Image of the lab's jobs."),
        click.option("--approved-by", help="Who accepts what Iotoll-Accept trailers name."),
        click.option(
            "--approval",
            type=click.Path(path_type=Path),
            help="The same, as 'iotoll ci accept' wrote it; nobody if there is no such file.",
        ),
        root_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@ci_command.command("select")
@select_options
def select_command(**options: Any) -> None:
    """Find the merge base and the cells of a change, and write the child pipeline for a lab."""
    root = options["root"]
    jobs.fresh(root)
    change = find_change(
        options["clone"],
        options["base"] or _base(options["clone"]),
        options["candidate"] or _candidate(),
        options["target"],
    )
    matrix = options["matrix"]
    loaded = load_matrix(matrix)
    cells = chosen_cells(options["cells"] or None, loaded.cells, loaded.family_cells)
    request = plan.PipelineRequest(
        project=options["project"] or options["clone"].resolve().name,
        boards=plan.split_names(options["boards"]),
        lava_boards=plan.split_names(options["lava_boards"]),
        lab=options["lab"] or None,
        matrix=matrix,
        policy=options["policy"] or None,
        lava_matrix=options["lava_matrix"] or matrix,
        lava_policy=options["lava_policy"] or None,
        cells=tuple(cells) if cells else None,
        merge_request=ci_number("CI_MERGE_REQUEST_IID"),
        pipeline=ci_number("CI_PIPELINE_ID"),
        approved_by=options["approved_by"] or approvals.read(options["approval"], change.candidate),
    )
    options["approved_by"] = request.approved_by
    made = plan.make_plan(request, change, root, Progress())
    words = _child_words(options, request, made.base, made.candidate)
    settings = {
        "iotoll": options["job_command"],
        "tags": list(plan.split_names(options["job_tags"])),
        "image": options["job_image"],
    }
    child = children.child_pipeline(made, words, settings)
    write_text(root / children.BOARDS, children.to_yaml(child))
    if made.refused:
        raise UsageError(made.refused)


def _child_words(
    options: dict[str, Any], request: plan.PipelineRequest, base: str, candidate: str
) -> list[str]:
    """The options of `select` that make the same plan again, pinned, less the boards."""
    words = ["--project", request.project, "--base", base, "--candidate", candidate]
    words += ["--lava-matrix", request.lava_matrix]
    for name in ("lava_policy", "lab", "cells", "approved_by"):
        if options[name]:
            words += [f"--{name.replace('_', '-')}", options[name]]
    return words


@ci_command.command("build")
@click.argument("board")
@click.argument("side", type=click.Choice(SIDES))
@runner_option
@clone_option
@root_option
def build_command(board: str, side: str, runner: str, clone: Path, root: Path) -> None:
    """Build one kernel where it sees no secret (docs/threat-model.md)."""
    run = jobs.open_run(root, board, runner)
    made = plan.read_plan(root)
    # Another machine than the one that planned may not have the commits yet.
    ensure(clone, made.base, made.candidate, made.project)
    outcome = jobs.build(run, cast(Side, side), Progress())
    raise SystemExit(outcome.exit_code)


@ci_command.command("gate")
@click.argument("board")
@root_option
def gate_command(board: str, root: Path) -> None:
    """Boot both kernels on a virtual board, and judge: the deterministic gate."""
    run = jobs.open_run(root, board, "local")
    raise SystemExit(_told(run.root, jobs.gate(run, Progress())))


@ci_command.command("lava")
@click.argument("board")
@root_option
def lava_command(board: str, root: Path) -> None:
    """Have a LAVA lab boot both kernels, and judge."""
    run = jobs.open_run(root, board, "lava")
    try:
        status = jobs.lava(run, Progress())
    except KeyboardInterrupt:  # GitLab ends a superseded pipeline's jobs with SIGTERM
        jobs.cancel(run)
        raise
    raise SystemExit(_told(run.root, status))


@ci_command.command("cancel")
@click.argument("board")
@root_option
def cancel_command(board: str, root: Path) -> None:
    """Cancel what a board's run still has with LAVA: for a job that was cancelled itself."""
    for number in jobs.cancel(jobs.open_run(root, board, "lava")):
        click.echo(f"job {number} cancelled")


@ci_command.command("collect")
@root_option
def collect_command(root: Path) -> None:
    """Fetch the results of the lab's boards from the child pipeline's jobs."""
    made = plan.read_plan(root)
    if made.pipeline is None:
        raise UsageError(f"{root}: was not planned in a pipeline, so it has no child pipeline")
    server = _gitlab()
    numbers = server.child_jobs(made.pipeline)
    for board in made.lava_boards:
        number = numbers.get(f"{children.LAVA_JOB}{board}")
        with scratch() as folder:
            archive = folder / "artifacts.zip"
            if number is None or not server.artifacts(number, archive, children.LARGEST):
                click.echo(f"{board}: has no results", err=True)
                continue
            children.unpack(archive, root, board)
            click.echo(f"{board}: results of job {number}")


@ci_command.command("judge")
@root_option
def judge_command(root: Path) -> None:
    """The verdict of the whole pipeline; the exit code is its outcome's."""
    made = summary.summarize(root, plan.read_plan(root))
    for run in made.runs:
        click.echo(f"{run.board} ({run.runner}): {run.outcome.value}: {run.sentence}")
    click.echo(f"{made.outcome.value}: {made.sentence}")
    if made.reading:
        click.echo(made.reading)
    raise SystemExit(made.exit_code)


@ci_command.command("report")
@click.option("--link", envvar="CI_PIPELINE_URL", help="The pipeline, with all results.")
@root_option
@click.option("--job-url", envvar="CI_JOB_URL", help="The job that keeps the files.")
def report_command(link: str | None, job_url: str | None, root: Path) -> None:
    """Write what people and GitLab read; knows no secret, and sends nothing."""
    made = results.read(root / summary.SUMMARY, SummaryRecord)
    notes = []
    no_allure = allure.missing()
    if no_allure:
        click.echo(f"without Allure's report: {no_allure}", err=True)
    for run in made.runs:
        if not (root / run.run / "verdict.json").is_file():
            continue
        out = root / "report" / run.run.replace("/", "-")
        history = plan.allure_history(made.plan, run.run)
        links = []
        if job_url and not out.is_absolute():
            links = [Link("report", f"{job_url}/artifacts/file/{out}/{FORMATS['report'].file}")]
        source = Source(RunDir.open(root / run.run), links, history=history)
        write(source, out, list(FORMATS))
        if no_allure is None:
            allure.allure_report(source, out)
        notes.append((out / FORMATS["note"].file).read_text().removeprefix(MARKER).strip())
    text = pipeline_note.pipeline_note(made, notes, link)
    write_text(root / NOTE, text)
    click.echo(text)


@ci_command.command("accept")
@click.option(
    "--approval",
    type=click.Path(path_type=Path),
    default="iotoll-approval.json",
    show_default=True,
    help="The file to write.",
)
def accept_command(approval: Path) -> None:
    """Ask GitLab who may accept a regression of this merge request, and has done so.

    A member with the role Maintainer who is not the author, by the label iotoll-accept, after the
    newest push. What is accepted is named by Iotoll-Accept trailers.
    """
    request = ci_number("CI_MERGE_REQUEST_IID")
    if request is None:
        raise UsageError("CI_MERGE_REQUEST_IID: a regression is accepted in a merge request")
    commit = _candidate()
    name = _gitlab().approver(request, commit)
    approvals.write(approval, name, commit)
    click.echo(f"growth that trailers name is accepted by {name}")


@ci_command.command("post")
@click.option("--link", envvar="CI_PIPELINE_URL", help="Where the report can be read.")
@root_option
def post_command(link: str | None, root: Path) -> None:
    """Put the note into the merge request, and set the commit's status."""
    made = results.read(root / summary.SUMMARY, SummaryRecord)
    request, pipeline = made.plan.merge_request, made.plan.pipeline
    if pipeline is None or request is None:
        raise UsageError(f"{root}: was not planned in a merge request's pipeline")
    # What the plan says came through jobs that a candidate has a hand in: GitLab's word counts.
    for name, value in (("CI_PIPELINE_ID", pipeline), ("CI_MERGE_REQUEST_IID", request)):
        if ci_number(name) != value:
            raise UsageError(f"{root}: is of another pipeline: {name} is not {value}")
    path = root / NOTE
    if path.is_symlink() or not path.is_file():
        raise InfrastructureError(f"{path} is missing: run 'iotoll ci report'")
    server = _gitlab()
    done = server.note(request, pipeline, harmless(path.read_text(errors="replace")))
    sentence = f"{made.outcome.value}: {made.sentence}"
    server.status(_candidate(), made.outcome, sentence, pipeline, link)
    click.echo(f"note {done}, status set: {made.outcome.value}")


def _base(clone: Path) -> str | None:
    """What GitLab says that this pipeline's change is compared with; None: with the target."""
    if found := ci_variable("CI_MERGE_REQUEST_DIFF_BASE_SHA"):
        return found
    if tag := ci_variable("CI_COMMIT_TAG"):
        return earlier_tag(clone, tag)
    before = ci_variable("CI_COMMIT_BEFORE_SHA") if ci_variable("CI_COMMIT_BRANCH") else None
    return before if before and before.strip("0") else None


def _candidate() -> str:
    """What is asked to be merged; a clone that is not checked out has any HEAD."""
    # In a pipeline of merged results CI_COMMIT_SHA is a merge with the target.
    names = ("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "CI_COMMIT_SHA")
    return next((found for name in names if (found := ci_variable(name))), "HEAD")


def _told(run: Path, status: int) -> int:
    click.echo(f"results: {run}")
    return status


def _gitlab() -> Any:
    # python-gitlab takes 0.3 s to load, and few of the jobs speak to GitLab.
    from iotoll.ci.gitlab import GitLab, gitlab_of

    return gitlab_of(GitLab)
