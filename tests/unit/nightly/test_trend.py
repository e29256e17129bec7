"""What is published of a trend: page, feed, metrics, messages; hostile text stays text."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.nightly.history.store import Store
from iotoll.nightly.trend import view
from iotoll.nightly.trend.alerts import due
from iotoll.nightly.trend.command import change_command, trend_command
from iotoll.nightly.trend.terminal import sparkline
from tests.unit.nights import history

CELL = "ufs-4k-randread-t1-direct"
HOSTILE = "</script><script>alert(1)</script> @all /close `x`"


def one(place: Path, line: list[float]) -> Store:
    values = {(CELL, s): line for s in ("submission", "overhead")}
    return history(place, values, releases={0: "v6.12"}, failed={2: HOSTILE})


def published(place: Path, out: Path, *words: str) -> str:
    arguments = ["--history", str(place), "--out", str(out), *words]
    found = CliRunner().invoke(trend_command, arguments, catch_exceptions=False)
    return found.output


def hook(folder: Path, status: int = 0) -> Path:
    """A hook that keeps what it is called with."""
    path = folder / "hook"
    path.write_text(f'#!/bin/sh\necho "$1 $2" >> {folder}/sent\nexit {status}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_terminal_and_json(tmp_path: Path) -> None:
    one(tmp_path / "h", [100, 100, 0, 141, 141])
    text = published(tmp_path / "h", tmp_path / "out", "--budget", "instructions=82")
    assert "worse than the last release? yes: 1 of 1 families grew" in text
    assert "▁▁ ██ 141.0 instructions +41 instructions since v6.12, 50% of the budget" in text
    data = json.loads(published(tmp_path / "h", tmp_path / "out", "--json"))
    assert data["changes"][0]["effects"][0]["delta"] == 41


def test_page_feed_metrics_and_dashboard(tmp_path: Path) -> None:
    one(tmp_path / "h", [100, 100, 0, 141, 141])
    out = tmp_path / "out"
    published(tmp_path / "h", out)
    page = (out / "index.html").read_text()
    assert "Open changes (1)" in page
    assert "<script>alert" not in page + (out / "data/0.js").read_text()
    feed = ElementTree.parse(out / "atom.xml").getroot()
    assert len(feed.findall("{http://www.w3.org/2005/Atom}entry")) == 1
    families = {
        f.name: f
        for f in text_string_to_metric_families(  # type: ignore[no-untyped-call]
            (out / "metrics.txt").read_text()
        )
    }
    drift = families["iotoll_nightly_drift_instructions"].samples[0]
    assert (drift.value, drift.labels["family"]) == (41, "ufs-4k-randread")
    counted = families["iotoll_nightly_changes"].samples[0]
    assert counted.value == 1
    assert counted.exemplar is not None
    names = {
        t["expr"].partition("{")[0]
        for p in json.loads((out / "grafana.json").read_text())["panels"]
        for t in p["targets"]
    }
    assert set(families) & names


def test_messages_are_sent_once_and_closed_when_fixed(tmp_path: Path) -> None:
    place, out = tmp_path / "h", tmp_path / "out"
    one(place, [100, 100, 0, 141, 141])
    words = ("--hook", str(hook(tmp_path)))
    for _ in range(3):
        published(place, out, *words)
    sent = (tmp_path / "sent").read_text().split()
    assert sent[::2] == ["opened"]
    folder = next((out / "messages").iterdir())
    mail = (folder / "mail.txt").read_text()
    assert mail.startswith("Subject: [main] ufs-4k-randread-t1-direct.")
    assert "+41 instructions (+41.0%) regression" in mail.splitlines()[0]
    assert "To reproduce:" in mail
    assert (
        "| virt-arm64 | ufs-4k-randread-t1-direct | overhead | 100 | 141 |"
        in (folder / "issue.md").read_text()
    )
    history(place, {(CELL, s): [100, 100, 0, 141, 141, 100] for s in ("submission", "overhead")})
    for _ in range(2):
        published(place, out, *words)
    sent = (tmp_path / "sent").read_text().split()
    assert sent[::2] == ["opened", "closed"]
    assert sent[1] == sent[3]


def test_a_hook_that_fails_leaves_the_message_due(tmp_path: Path) -> None:
    one(tmp_path / "h", [100, 100, 0, 141, 141])
    with pytest.raises(InfrastructureError, match="hook"):
        published(tmp_path / "h", tmp_path / "out", "--hook", str(hook(tmp_path, 1)))
    published(tmp_path / "h", tmp_path / "out", "--hook", str(hook(tmp_path)))
    assert (tmp_path / "sent").read_text().split()[::2] == ["opened", "opened"]


def test_a_message_that_cannot_be_sent_holds_no_other_up(tmp_path: Path) -> None:
    store = one(tmp_path / "h", [100, 100, 0, 141, 141, 152])
    first, second = due(view.load(store, None, {}).changes)
    picky = tmp_path / "hook"
    picky.write_text(
        f'#!/bin/sh\n[ "$2" != {first.change.id} ] || exit 1\necho "$2" >> {tmp_path}/sent\n'
    )
    picky.chmod(picky.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(InfrastructureError, match="1 of 2 messages are still due"):
        published(tmp_path / "h", tmp_path / "out", "--hook", str(picky))
    published_again = due(view.load(store, None, {}).changes)
    assert (tmp_path / "sent").read_text().split() == [second.change.id]
    assert [made.change.id for made in published_again] == [first.change.id]


def test_culprit_is_ready_for_a_fixes_line(tmp_path: Path) -> None:
    one(tmp_path / "h", [100, 100, 0, 141, 141])
    data = json.loads(published(tmp_path / "h", tmp_path / "out", "--json"))
    name = data["changes"][0]["id"]
    words = [name, "--state", "explained", "--commit", "abcdef1234567890", "--words", "ufs: x"]
    found = CliRunner().invoke(change_command, [*words, "--history", str(tmp_path / "h")])
    assert found.exit_code == 0, found.output
    published(tmp_path / "h", tmp_path / "out")
    mail = (tmp_path / f"out/messages/{name}-opened/mail.txt").read_text()
    assert 'Fixes: abcdef123456 ("ufs: x")' in mail


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--budget", "instructions=no"], "--budget"),
        (["--budget", "miles=3"], "--budget"),
        (["--hook", "true"], "--hook needs --out"),
        (["--commit-url", "javascript:{commit}"], "--commit-url"),
    ],
)
def test_invalid_arguments(words: list[str], message: str) -> None:
    found = CliRunner().invoke(trend_command, words)
    assert isinstance(found.exception, UsageError)
    assert message in str(found.exception)


def test_accepting_needs_words() -> None:
    found = CliRunner().invoke(change_command, ["0" * 12, "--state", "accepted"])
    assert "needs --words" in str(found.exception)


def test_the_log_of_a_change(tmp_path: Path) -> None:
    one(tmp_path / "h", [100, 100, 0, 141, 141])
    data = json.loads(published(tmp_path / "h", tmp_path / "out", "--json"))
    name = data["changes"][0]["id"]
    words = ["--state", "accepted", "--words", HOSTILE, "--by", "somebody"]
    for more in (words, []):
        found = CliRunner().invoke(change_command, [name, *more, "--history", str(tmp_path / "h")])
        assert found.exit_code == 0, found.output
    assert "accepted" in found.output.splitlines()[0]
    assert "somebody" in found.output
    unknown = CliRunner().invoke(change_command, ["0" * 12, "--history", str(tmp_path / "h")])
    assert "no such change" in str(unknown.exception)


def test_a_trend_of_few_nights_reads_those_only(tmp_path: Path) -> None:
    one(tmp_path / "h", [100, 100, 0, 141, 141])
    data = json.loads(published(tmp_path / "h", tmp_path / "out", "--json", "--nights", "2"))
    assert data["changes"] == []
    assert len(data["nights"]) == 2


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (41, "instructions", "+41 instructions"),
        (-0.04, "instructions", "+0.0 instructions"),
        (-4.0, "ns", "+0.00 µs"),
        (-1254.0, "ns", "-1.25 µs"),
    ],
)
def test_amounts(value: float, unit: str, text: str) -> None:
    assert view.amount(value, unit) == text


def test_sparkline() -> None:
    assert sparkline([1, None, 2]) == "▁ █"
    assert sparkline([3, 3]) == "▁▁"
    assert sparkline([None]) == " "
