"""Accepting a regression in a pipeline: who has the right to, and that others have not (F4.8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from iotoll.ci import plan
from iotoll.ci.command import ci_command
from iotoll.ci.gitlab import ACCEPT_LABEL, GitLab
from iotoll.core.errors import InfrastructureError, ResultError, UsageError
from tests.gitlab.stub import PROJECT, TOKEN, State, serving

COMMIT = "2" * 40
AUTHOR, MAINTAINER, DEVELOPER = 7, 8, 9


def event(user: int, at: str, action: str = "add", label: str = ACCEPT_LABEL) -> dict[str, object]:
    return {
        "id": 1,
        "user": {"id": user, "username": f"user-{user}"},
        "created_at": f"2026-01-05T{at}:00.000Z",
        "action": action,
        "label": {"name": label},
    }


@pytest.fixture
def server() -> Iterator[tuple[str, State]]:
    """Merge request 7: its newest push at 10:00, accepted by a maintainer at 11:00."""
    with serving() as (url, state):
        state.merge_request = {"sha": COMMIT, "author": {"id": AUTHOR}}
        state.versions = [{"id": n, "created_at": f"2026-01-05T{t}:00.000Z"} for n, t in
                          ((2, "10:00"), (1, "08:00"))]  # fmt: skip
        state.members = {AUTHOR: 50, MAINTAINER: 40, DEVELOPER: 30}
        state.label_events = [event(MAINTAINER, "11:00")]
        yield url, state
        assert state.wrongs == []


def asked(url: str, commit: str = COMMIT) -> str:
    return GitLab(url, PROJECT, TOKEN, timeout=5, retry_seconds=5).approver(7, commit)


def test_a_maintainers_label_after_the_newest_push(server: tuple[str, State]) -> None:
    url, state = server
    assert asked(url) == f"user-{MAINTAINER}"
    state.label_events.insert(0, event(AUTHOR, "09:00"))
    assert asked(url) == f"user-{MAINTAINER}", "the newest event counts, in whatever order"


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([], "has no label iotoll-accept"),
        ([event(MAINTAINER, "11:00", label="other")], "has no label"),
        ([event(MAINTAINER, "11:00"), event(AUTHOR, "12:00", "remove")], "has no label"),
        ([event(AUTHOR, "11:00")], "user-7 is the author"),
        ([event(DEVELOPER, "11:00")], "without the role Maintainer"),
        ([event(99, "11:00")], "without the role Maintainer"),
        ([event(MAINTAINER, "09:00")], "older than the newest push"),
        ([event(MAINTAINER, "11:00"), event(DEVELOPER, "12:00")], "without the role Maintainer"),
    ],
)
def test_nobody_else_accepts(
    server: tuple[str, State], events: list[dict[str, object]], words: str
) -> None:
    url, state = server
    state.label_events = events
    with pytest.raises(UsageError, match=words):
        asked(url)


def test_newer_commits_and_strange_times(server: tuple[str, State]) -> None:
    url, state = server
    with pytest.raises(UsageError, match="newer commits"):
        asked(url, "3" * 40)
    state.versions = []
    with pytest.raises(UsageError, match="older than the newest push"):
        asked(url)
    state.label_events[0]["created_at"] = None
    with pytest.raises(InfrastructureError, match="a time that is none"):
        asked(url)


def test_the_command_leaves_a_file_for_this_commit_alone(
    server: tuple[str, State], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {
        "CI_SERVER_URL": server[0],
        "CI_PROJECT_ID": PROJECT,
        "CI_MERGE_REQUEST_IID": "7",
        "CI_COMMIT_SHA": COMMIT,
        "IOTOLL_GITLAB_TOKEN": TOKEN,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "approval.json"
    done = CliRunner().invoke(ci_command, ["accept", "--approval", str(path)])
    assert done.exit_code == 0, done.output
    assert f"accepted by user-{MAINTAINER}" in done.output
    assert plan.read(path, COMMIT) == f"user-{MAINTAINER}"
    with pytest.raises(ResultError, match="is of commit 222222222222, not of 333333333333"):
        plan.read(path, "3" * 40)
    monkeypatch.delenv("CI_MERGE_REQUEST_IID")
    done = CliRunner().invoke(ci_command, ["accept", "--approval", str(path)])
    assert isinstance(done.exception, UsageError)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"approved_by": "a\\nb", "commit": "x"}', "[" * 4000, "x" * 5000]
)
def test_files_that_are_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "approval.json"
    assert plan.read(path, COMMIT) is None
    path.write_text(text)
    with pytest.raises(ResultError, match="is not what 'iotoll ci accept' writes"):
        plan.read(path, COMMIT)
