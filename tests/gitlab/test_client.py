"""The GitLab client against a server that enforces the contract."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from iotoll.ci import gitlab
from iotoll.ci.gitlab import GitLab
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.records.models import Outcome
from tests.gitlab.stub import (
    BOT,
    HANG,
    PROJECT,
    RESET,
    SOMEBODY,
    TOKEN,
    Fault,
    State,
    serving,
)

COMMIT = "2" * 40
NOTES = "/notes"


@pytest.fixture
def server() -> Iterator[tuple[str, State]]:
    with serving() as (url, state):
        yield url, state
        assert state.wrongs == []


def client(url: str, token: str = TOKEN, retry_seconds: float = 20) -> GitLab:
    return GitLab(url, PROJECT, token, timeout=1, retry_seconds=retry_seconds)


def bodies(state: State) -> list[str]:
    return [n["body"] for n in state.notes if n["author"]["id"] == BOT]


def test_one_note_is_written_and_then_edited_in_place(server: tuple[str, State]) -> None:
    url, state = server
    state.add_note("Looks good to me", SOMEBODY)
    assert client(url).note(7, 10, "first") == "created"
    number = state.notes[-1]["id"]
    assert client(url).note(7, 11, "second") == "edited"
    assert client(url).note(7, 11, "second") == "unchanged"
    assert bodies(state) == ["<!-- iotoll:11 -->\nsecond"]
    assert state.notes[-1]["id"] == number


def test_our_note_is_found_behind_many_pages(server: tuple[str, State]) -> None:
    url, state = server
    state.page_limit = 20
    for number in range(55):
        state.add_note(f"comment {number}", SOMEBODY)
    state.add_note("<!-- iotoll:9 -->\nold", BOT)
    assert client(url).note(7, 10, "new") == "edited"
    assert bodies(state) == ["<!-- iotoll:10 -->\nnew"]


def test_somebody_elses_note_with_our_mark_is_left_alone(server: tuple[str, State]) -> None:
    url, state = server
    state.add_note("<!-- iotoll:5 -->\nI am not iotoll", SOMEBODY)
    assert client(url).note(7, 10, "ours") == "created"
    assert state.notes[0]["body"].endswith("I am not iotoll")


def test_an_older_pipeline_does_not_overwrite_a_newer_ones_note(server: tuple[str, State]) -> None:
    url, state = server
    client(url).note(7, 12, "new")
    assert client(url).note(7, 11, "old") == "left"
    assert bodies(state) == ["<!-- iotoll:12 -->\nnew"]


def test_a_note_that_was_deleted_meanwhile_is_written_again(
    server: tuple[str, State], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, state = server
    state.add_note("<!-- iotoll:9 -->\nold", BOT)
    listed = GitLab._our_notes

    def then_deleted(self: GitLab, notes: object) -> list[object]:
        found = listed(self, notes)
        monkeypatch.setattr(GitLab, "_our_notes", listed)
        state.notes.clear()
        return found

    monkeypatch.setattr(GitLab, "_our_notes", then_deleted)
    assert client(url).note(7, 10, "new") == "created"
    assert bodies(state) == ["<!-- iotoll:10 -->\nnew"]


@pytest.mark.parametrize("status", [500, 502, 503, 504, 409, HANG, RESET])
def test_creating_a_note_is_repeated_and_never_doubled(
    server: tuple[str, State], status: int | str
) -> None:
    url, state = server
    # The note is written, and the answer lost.
    state.faults.append(Fault("POST", NOTES, status, done=True))
    client(url).note(7, 10, "text")
    assert bodies(state) == ["<!-- iotoll:10 -->\ntext"]


def test_a_second_note_of_ours_is_removed(server: tuple[str, State]) -> None:
    url, state = server
    created = GitLab._create_note

    def meanwhile(self: GitLab, notes: object, pipeline: int, text: str) -> str:
        state.add_note("<!-- iotoll:9 -->\nof another job", BOT)
        return created(self, notes, pipeline, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GitLab, "_create_note", meanwhile)
        client(url).note(7, 10, "text")
    assert len(bodies(state)) == 1


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_retry_after_is_kept(server: tuple[str, State], method: str) -> None:
    url, state = server
    state.add_note("<!-- iotoll:9 -->\nold", BOT)
    state.faults.append(Fault(method, NOTES, 429, {"Retry-After": "2"}))
    started = time.monotonic()
    assert client(url).note(7, 10, "new") == "edited"
    assert time.monotonic() - started >= 2  # the server itself notes who comes too early


def test_a_wait_beyond_the_time_limit_is_infrastructure(server: tuple[str, State]) -> None:
    url, state = server
    state.faults.append(Fault("GET", NOTES, 429, {"Retry-After": "3600"}))
    with pytest.raises(InfrastructureError, match="GitLab answered 429, for 20 s: run this job"):
        client(url).note(7, 10, "new")


@pytest.mark.parametrize("status", [503, HANG])
def test_a_server_that_stays_away_is_infrastructure(
    server: tuple[str, State], status: int | str
) -> None:
    url, state = server
    state.faults.append(Fault("GET", "/user", status, times=99))
    with pytest.raises(InfrastructureError, match="cannot ask who we are: "):
        client(url, retry_seconds=3).note(7, 10, "new")


def test_a_server_that_is_not_there_is_infrastructure() -> None:
    with pytest.raises(InfrastructureError, match=r"no answer \(ConnectionError\)"):
        client("http://127.0.0.1:9", retry_seconds=1).note(7, 10, "x")


def test_refusals_name_the_mend_and_are_not_repeated(server: tuple[str, State]) -> None:
    url, state = server
    with pytest.raises(UsageError, match="give a valid one in IOTOLL_GITLAB_TOKEN"):
        client(url, token="wrong").note(7, 10, "x")
    state.role = "guest"
    with pytest.raises(UsageError, match="needs the scope 'api' and the role Developer"):
        client(url).note(7, 10, "x")
    state.role = "reporter"
    with pytest.raises(UsageError, match="needs the scope 'api' and the role Developer"):
        client(url).status(COMMIT, Outcome.PASS, "x", 10, None)
    with pytest.raises(UsageError, match="no such thing, or the token does not see it"):
        client(url).note(8, 10, "x")
    assert state.seen.count("POST /api/v4/projects/1217/merge_requests/7/notes") == 1


def test_the_token_stands_in_no_message(server: tuple[str, State]) -> None:
    url, state = server
    state.faults.append(Fault("GET", "/user", 418))  # the stub's words quote the token
    with pytest.raises(UsageError, match=r"\[token\]") as caught:
        client(url).note(7, 10, "x")
    assert TOKEN not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_a_long_note_is_cut(server: tuple[str, State]) -> None:
    url, state = server
    client(url).note(7, 10, "x" * 2_000_000)
    assert bodies(state)[0].endswith("(cut: too long for a note)")


@pytest.mark.parametrize("outcome", Outcome)
def test_only_a_pass_is_green(server: tuple[str, State], outcome: Outcome) -> None:
    url, state = server
    client(url).status(COMMIT, outcome, "sentence " * 99, 10, "https://gitlab.example.com/p")
    (status,) = state.statuses
    assert (status["state"] == "success") == (outcome is Outcome.PASS)
    assert status["name"] == "iotoll" and status["pipeline_id"] == 10


def test_setting_a_status_is_safe_to_repeat(server: tuple[str, State]) -> None:
    url, state = server
    state.faults.append(Fault("POST", "/statuses/", 502, done=True))
    client(url).status(COMMIT, Outcome.PASS, "fine", 10, None)
    assert len(state.statuses) == 1
    client(url).status(COMMIT, Outcome.REGRESSION, "worse", 10, None)
    assert state.statuses[0]["state"] == "failed"
    state.faults.append(Fault("POST", "/statuses/", 400))
    with pytest.raises(UsageError, match="cannot set the commit status: 400"):
        client(url).status(COMMIT, Outcome.PASS, "fine", 10, None)


def test_results_of_child_pipelines_are_found_and_fetched(
    server: tuple[str, State], tmp_path: Path
) -> None:
    url, state = server
    state.page_limit = 2
    children = [{"id": 1, "name": "a", "downstream_pipeline": None}]
    children += [{"id": n, "name": "b", "downstream_pipeline": {"id": n}} for n in (2, 3, 4)]
    state.bridges[10] = children
    state.jobs[3] = [{"id": 30 + n, "name": f"lava board{n}"} for n in range(5)]
    assert client(url).child_jobs(10) == {f"lava board{n}": 30 + n for n in range(5)}
    state.artifacts[31] = b"zip" * 1000
    assert client(url).artifacts(31, tmp_path / "a.zip", 10_000)
    assert (tmp_path / "a.zip").read_bytes() == b"zip" * 1000
    assert not client(url).artifacts(32, tmp_path / "b.zip", 10_000)
    with pytest.raises(InfrastructureError, match="artifacts above 100 bytes"):
        client(url).artifacts(31, tmp_path / "c.zip", 100)


def test_the_token_follows_no_redirect_to_another_host(
    server: tuple[str, State], tmp_path: Path
) -> None:
    url, state = server
    got: list[dict[str, str]] = []

    class Store(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append(dict(self.headers))
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"data")

        def log_message(self, format: str, *args: object) -> None:
            pass

    store = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    threading.Thread(target=store.serve_forever, args=(0.05,), daemon=True).start()
    try:
        state.artifacts[31] = b"data"
        state.redirect_artifacts = f"http://localhost:{store.server_address[1]}/bucket/31"
        assert client(url).artifacts(31, tmp_path / "a.zip", 100)
        assert (tmp_path / "a.zip").read_bytes() == b"data"
    finally:
        store.shutdown()
        store.server_close()
    assert got and not any(TOKEN in value for value in got[0].values())


def test_every_outcome_has_a_state() -> None:
    assert set(gitlab.STATES) == set(Outcome)
