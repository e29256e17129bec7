"""``iotoll trend`` and ``iotoll change``: what a history says, and what people say about it."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iotoll.core.cli_support import Output, full_option
from iotoll.core.errors import UsageError
from iotoll.nightly.history.command import engine_option, history_option, open_store

if TYPE_CHECKING:
    from iotoll.nightly.history.engines import Name

STATES = ("confirmed", "bisecting", "explained", "accepted", "dismissed")


@click.command("trend")
@click.option("--branch", help="Only this branch.")
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    metavar="UNIT=N",
    help="Growth of a family's overhead that a release may have: instructions=40, or ns=200.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also write page, feed, metrics, dashboard and messages into this folder.",
)
@click.option("--hook", default="", help="Command that sends a message: HOOK KIND CHANGE FOLDER.")
@click.option(
    "--nights",
    type=click.IntRange(2, 100_000),
    default=1000,
    show_default=True,
    help="Only the last nights of each branch and board.",
)
@click.option("--commit-url", default="", help="Where a commit is shown: https://HOST/{commit}.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
@full_option
@history_option
@engine_option
def trend_command(
    branch: str | None,
    budgets: tuple[str, ...],
    out: Path | None,
    hook: str,
    nights: int,
    commit_url: str,
    as_json: bool,
    place: str,
    engine: Name,
) -> None:
    """Show what grew over the nights of a history, since when, and how much budget is left."""
    if hook and out is None:
        raise UsageError("--hook needs --out, the folder for the messages' texts")
    if commit_url and (
        "{commit}" not in commit_url or not commit_url.startswith(("https://", "http://"))
    ):
        raise UsageError(f"--commit-url {commit_url}: write one such as https://HOST/{{commit}}")
    allowed = parse_budgets(budgets)
    store = open_store(place)
    # The libraries of the extra are imported after the check that they are there.
    from iotoll.nightly.trend import terminal, view

    trend = replace(view.load(store, branch, allowed, nights, engine), links={"": commit_url})
    if branch is not None and not trend.tracks:
        every = view.load(store, None, {}, 2, engine).tracks
        names = sorted({track.branch for track in every}) or ["none"]
        raise UsageError(f"--branch {branch}: the history has none: it has {', '.join(names)}")
    if out is not None:
        write_all(store, trend, out, shlex.split(hook))
    if as_json:
        click.echo(json.dumps(view.as_json(trend), indent=1))
    else:
        Output(False, False).show(terminal.lines_of(trend))
        if out is not None:
            click.echo(f"\npage: {out / 'index.html'}")


def write_all(store: Any, trend: Any, out: Path, hook: list[str]) -> None:
    """Write every file that is published of a trend, and send what is due."""
    from iotoll.nightly.trend import alerts, feeds
    from iotoll.nightly.trend.page import write_page
    from iotoll.records import results

    write_page(trend, out)
    results.write_text(out / "atom.xml", feeds.atom(trend))
    results.write_text(out / "metrics.txt", feeds.metrics(trend))
    results.write_text(out / "grafana.json", feeds.grafana())
    alerts.send(store, alerts.due(trend.changes), out / "messages", hook)


def parse_budgets(texts: tuple[str, ...]) -> dict[str, float]:
    """Budgets by unit; raises UsageError for what is not UNIT=N."""
    found = {}
    for text in texts:
        unit, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = 0.0
        if unit not in ("instructions", "ns") or not 0 < value < 1e12:
            raise UsageError(f"--budget {text}: write instructions=40 or ns=200")
        found[unit] = value
    return found


@click.command("change")
@click.argument("change")
@click.option("--state", type=click.Choice(STATES), help="New state.")
@click.option("--commit", default="", help="The commit that caused it.")
@click.option("--words", default="", help="The reason; required to accept or dismiss.")
@click.option("--by", default="", help="Name of the person.")
@history_option
def change_command(
    change: str, state: str | None, commit: str, words: str, by: str, place: str
) -> None:
    """Set the state of a CHANGE in a history, or show its log.

    Without an option its log is shown: who said what about it, and what iotoll saw.
    """
    if state in ("accepted", "dismissed") and not words.strip():
        raise UsageError(f"--state {state} needs --words: the reason")
    if state == "explained" and not commit:
        raise UsageError("--state explained needs --commit: the culprit")
    store = open_store(place)
    from iotoll.nightly.changes.notes import note
    from iotoll.nightly.trend import terminal, view

    found = next((c for c in view.load(store, None, {}).changes if change in (c.id, *c.was)), None)
    if found is None:
        raise UsageError(
            f"change {change}: the history has no such change; iotoll trend lists them"
        )
    if not state and not commit and not words:
        terminal.show_log(found)
        return
    note(store.files, found.id, state=state or "", commit=commit, words=words, by=by)
    click.echo(f"{found.id}: noted")
