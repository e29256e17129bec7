"""``iotoll report``: a run's page, or a study's, again, and as text for a message."""

from __future__ import annotations

from pathlib import Path

import click

from iotoll.core.cli_support import Output, output_options
from iotoll.core.errors import UsageError
from iotoll.core.paths import check_tree
from iotoll.gate.command import print_json, show_run
from iotoll.records import results
from iotoll.records.models import StudyRecord
from iotoll.records.rundir import STUDY, RunDir


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--commit", is_flag=True, help="Print the result as text for a commit message.")
@click.option("--cover", is_flag=True, help="The same with every workload, for a cover letter.")
@click.option("--mail", is_flag=True, help="The same as a mail to who wrote the change.")
@output_options
def report_command(
    run: Path, commit: bool, cover: bool, mail: bool, quiet: bool, as_json: bool
) -> None:
    """Write a run directory's report again and print it.

    RUN may be the folder of a study as well.
    """
    asked = {"--commit": commit, "--cover": cover, "--mail": mail, "--json": as_json}
    if len(chosen := [name for name, on in asked.items() if on]) > 1:
        raise UsageError(f"{' and '.join(chosen)}: name one of them")
    # What reports are made with takes a tenth of a second to import: a gate begins without it.
    from iotoll.reports.page import render_report
    from iotoll.reports.page.evidence import gather
    from iotoll.reports.page.plain_text import commit_text, cover_text, mail_text
    from iotoll.studies.flow import resume_command

    if (run / STUDY).is_file():
        if mail:
            raise UsageError("--mail: a study has no author: --commit or --cover")
        _report_study(run, commit, cover, Output(quiet, as_json))
        return
    if resume := resume_command(run):
        raise UsageError(f"{run} is an unfinished study: {resume} resumes it")
    directory = RunDir.open(run)
    if commit or cover or mail:
        text = mail_text if mail else cover_text if cover else commit_text
        click.echo(text(gather(directory)), nl=False)
        return
    page = render_report(directory)
    show_run(directory, page, Output(quiet, as_json))


def _report_study(folder: Path, commit: bool, cover: bool, output: Output) -> None:
    from iotoll.studies.page import terminal_lines, write_pages
    from iotoll.studies.plain_text import commit_text as study_commit
    from iotoll.studies.plain_text import cover_text as study_cover

    check_tree(folder)
    record = results.read(folder / STUDY, StudyRecord)
    if commit or cover:
        click.echo((study_cover if cover else study_commit)(record), nl=False)
        return
    page = write_pages(record, folder)
    if output.as_json:
        print_json(record.model_dump(mode="json"))
        return
    output.show(terminal_lines(record, output.quiet))
    if not output.quiet:
        click.echo(f"report: {page}")
