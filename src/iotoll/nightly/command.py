"""``iotoll nightly``: a night's measurements, changes, page and messages."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iotoll.core.cli_support import Output, output_options
from iotoll.core.errors import UsageError
from iotoll.nightly.history.command import need_extra
from iotoll.records import results

if TYPE_CHECKING:
    from iotoll.nightly.history.tables import Point

KEPT = 60
"""Reports that are remembered."""


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


REPORTS = "reports.json"
"""In the folder of runs: by date of a report, the last night that it had of each track."""


def last_report(runs: Path, today: str) -> dict[str, str]:
    """The last night of each track in the newest report of an earlier day; none at first."""
    path = runs / REPORTS
    known: dict[str, dict[str, str]] = json.loads(path.read_text()) if path.is_file() else {}
    earlier = [day for day in known if day < today]
    return known[max(earlier)] if earlier else {}


def keep_report(runs: Path, today: str, nights: dict[str, str]) -> None:
    """Note which nights today's report has, beside those of the reports before."""
    path = runs / REPORTS
    known = json.loads(path.read_text()) if path.is_file() else {}
    known[today] = nights
    kept = {day: known[day] for day in sorted(known)[-KEPT:]}
    results.write_text(path, json.dumps(kept, indent=1) + "\n")


def cost_of(points: Sequence[Point], notes: int, seconds: float) -> str:
    """What a night itself took, in a sentence."""
    measured = [point for point in points if point.run["status"] == "measured"]
    failed = sum(point.run["status"] == "failed" for point in points)
    boots = sum(int(point.run["boots"]) for point in measured)
    return (
        f"This night took {seconds / 60:.0f} min: {len(measured)} tips measured with {boots} boots,"
        f" {failed} failed, {notes} notes on changes."
    )


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
    started = time.monotonic()
    store = Store(loaded.history)
    budgets = {str(unit): value for unit, value in loaded.budget.items()}
    with only_one(Path(loaded.runs)):
        points = run_night(loaded, store, today, output.progress)
        if points:
            store.compact()
        reported = last_report(Path(loaded.runs), today)
        load = partial(view.load, store, None, budgets, engine=loaded.engine, reported=reported)
        trend = load()
        record(store.files, trend.changes)
        notes = follow_up(loaded, store, load().changes, output.progress)
        if notes:
            trend = load()
            record(store.files, trend.changes)
        links = {branch.name: branch.commit_url for branch in loaded.branch}
        cost = cost_of(points, notes, time.monotonic() - started)
        trend = replace(trend, links=links, cost=cost)
        keep_report(Path(loaded.runs), today, {t.name: t.nights[-1].night for t in trend.tracks})
        write_all(store, trend, Path(loaded.page), loaded.hook)
    if as_json:
        click.echo(summary(points))
    elif not quiet:
        output.show(terminal.lines_of(trend))
        click.echo(f"\n{cost}")
        click.echo(f"page: {Path(loaded.page) / 'index.html'}")
