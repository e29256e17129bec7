"""``iotoll nightly``: a night's measurements, changes, page and messages."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from iotoll.core.cli_support import Output, output_options
from iotoll.core.errors import UsageError
from iotoll.nightly.history.command import need_extra


def date_of(night: str | None) -> str:
    """The night as an ISO date, by default today's; raises UsageError for none or a later one."""
    today = datetime.now(UTC).date()
    if night is None:
        return str(today)
    try:
        asked = datetime.strptime(night, "%Y-%m-%d").date()
    except ValueError as error:
        raise UsageError(f"--night {night}: write a date such as 2026-11-23") from error
    if asked > today:
        raise UsageError(f"--night {night}: that night is not there yet: today is {today} (UTC)")
    return str(asked)


@click.command("nightly")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--night", metavar="DATE", help="Default: today (UTC).")
@output_options
def nightly_command(config: Path, night: str | None, quiet: bool, as_json: bool) -> None:
    """Measure the tips that CONFIG names, add them to the history, and write the trend.

    Run again it resumes: a night that is in the history is not measured again. A night that fails
    is a gap with its reason, and the exit code is 0: the page shows it.
    """
    need_extra()
    # The libraries of the extra are imported after the check that they are there.
    from iotoll.nightly.changes.find import record
    from iotoll.nightly.config import load_config
    from iotoll.nightly.followup import follow_up
    from iotoll.nightly.history.store import Store
    from iotoll.nightly.night import check, only_one, run_night, summary
    from iotoll.nightly.trend import terminal, view
    from iotoll.nightly.trend.command import write_all

    loaded = load_config(config)
    today = date_of(night)
    check(loaded)
    output = Output(quiet, as_json)
    store = Store(loaded.history)
    budgets = {str(unit): value for unit, value in loaded.budget.items()}
    with only_one(Path(loaded.runs)):
        points = run_night(loaded, store, today, output.progress)
        if points:
            store.compact()
        load = partial(view.load, store, None, budgets, engine=loaded.engine)
        trend = load()
        record(store.files, trend.changes)
        if follow_up(loaded, store, load().changes, output.progress):
            trend = load()
            record(store.files, trend.changes)
        links = {branch.name: branch.commit_url for branch in loaded.branch}
        trend = replace(trend, links=links)
        write_all(store, trend, Path(loaded.page), loaded.hook)
    if as_json:
        click.echo(summary(points))
    elif not quiet:
        output.show(terminal.lines_of(trend))
        click.echo(f"\npage: {Path(loaded.page) / 'index.html'}")
