"""A stand-in for GitLab's REST API, version 4, that holds its clients to the documented contract.

It answers as https://docs.gitlab.com/api/rest says: tokens, roles, paging by Link headers, states
of a commit status, limits with Retry-After. What a client does that GitLab would not bear is a
line in ``wrongs``; a test ends with that list empty.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "glpat-secret-of-the-test"
PROJECT = "1217"
BOT, SOMEBODY = 42, 7
STATES = {"pending", "running", "success", "failed", "canceled", "skipped"}
LONGEST_NOTE = 1_000_000
HANG = "hang"
RESET = "reset"


@dataclass
class Fault:
    """What the next request that matches gets instead of its answer.

    ``status`` is a number, `HANG` or `RESET`; with ``done`` the request is carried out all the
    same, as when an answer gets lost on its way.
    """

    method: str
    path: str
    status: int | str
    headers: dict[str, str] = field(default_factory=dict)
    done: bool = False
    times: int = 1


@dataclass
class State:
    """What the server knows, and what it saw."""

    notes: list[dict[str, Any]] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    bridges: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    jobs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    artifacts: dict[int, bytes | Callable[[], bytes | None]] = field(default_factory=dict)
    redirect_artifacts: str | None = None
    faults: list[Fault] = field(default_factory=list)
    wrongs: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    role: str = "developer"
    merge_request: dict[str, Any] = field(default_factory=dict)
    label_events: list[dict[str, Any]] = field(default_factory=list)
    versions: list[dict[str, Any]] = field(default_factory=list)
    members: dict[int, int] = field(default_factory=dict)
    brought: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    issues: list[dict[str, Any]] = field(default_factory=list)
    not_before: float = 0.0
    page_limit: int = 100

    def add_note(self, body: str, author: int, system: bool = False) -> dict[str, Any]:
        """A note of the merge request 7."""
        number = 1 + max((n["id"] for n in self.notes), default=100)
        note = {"id": number, "body": body, "author": {"id": author}, "system": system}
        note["created_at"] = f"2026-01-05T10:00:{number - 100:02}.000Z"
        self.notes.append(note)
        return note


Answer = tuple[int, Any]


class Handler(BaseHTTPRequestHandler):
    """One request; the routes are at the end."""

    state: State
    lock: threading.RLock
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        split = urlsplit(self.path)
        state = self.state
        with self.lock:
            state.seen.append(f"{self.command} {split.path}")
            if time.monotonic() < state.not_before:
                state.wrongs.append(f"{self.command} {split.path} came before Retry-After was over")
            fault = self._fault(split.path)
            answer = None
            if fault is None or fault.done:
                answer = self._answer(split.path, parse_qs(split.query), body)
        if fault is not None:
            self._fail(fault)
        elif answer is not None:
            self._send(*answer, query=parse_qs(split.query), path=split.path)

    do_GET = do_POST = do_PUT = do_DELETE = _serve

    def _fault(self, path: str) -> Fault | None:
        for fault in self.state.faults:
            if fault.times and fault.method == self.command and re.search(fault.path, path):
                fault.times -= 1
                return fault
        return None

    def _fail(self, fault: Fault) -> None:
        if fault.status == HANG:
            time.sleep(3)
            self.close_connection = True
        elif fault.status == RESET:
            self.close_connection = True
            self.connection.close()
        else:
            wait = fault.headers.get("Retry-After")
            if wait:
                self.state.not_before = time.monotonic() + float(wait) - 0.05
            text = {"message": f"{fault.status} for a test, {TOKEN}"}
            self._write(int(fault.status), json.dumps(text).encode(), fault.headers)

    def _answer(self, path: str, query: dict[str, list[str]], body: bytes) -> Answer | None:
        if not path.startswith("/api/v4/"):
            return 404, {"error": "404 Not Found"}
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {"message": "401 Unauthorized"}
        data: Any = None
        if self.command in ("POST", "PUT"):
            if self.headers.get("Content-Type") != "application/json":
                self.state.wrongs.append(f"{path}: Content-Type is not JSON")
            data = json.loads(body)
        for method, pattern, route in ROUTES:
            found = re.fullmatch(pattern, path.removeprefix("/api/v4"))
            if found and method == self.command:
                return route(self, data, *found.groups())
        return 404, {"error": "404 Not Found"}

    def _send(self, status: int, value: Any, query: dict[str, list[str]], path: str) -> None:
        if isinstance(value, bytes):
            self._write(status, value, {"Content-Type": "application/octet-stream"})
            return
        if isinstance(value, str):
            self._write(status, b"", {"Location": value})
            return
        headers = {"Content-Type": "application/json"}
        if isinstance(value, list):
            value, more = self._page(value, query, path)
            headers |= more
        self._write(status, b"" if status == 204 else json.dumps(value).encode(), headers)

    def _page(
        self, rows: list[Any], query: dict[str, list[str]], path: str
    ) -> tuple[list[Any], dict[str, str]]:
        size = min(int(query.get("per_page", ["20"])[0]), self.state.page_limit)
        page = int(query.get("page", ["1"])[0])
        part = rows[(page - 1) * size : page * size]
        headers = {"X-Page": str(page), "X-Per-Page": str(size)}
        if page * size < len(rows):
            words = "&".join(f"{k}={v[0]}" for k, v in query.items() if k not in ("page",))
            # As behind a proxy that GitLab does not know of: another name than was asked.
            url = f"http://gitlab.internal{path}?{words}&page={page + 1}"
            headers |= {"Link": f'<{url}>; rel="next"', "X-Next-Page": str(page + 1)}
        return part, headers

    def _write(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    # The routes.

    def user(self, _: Any) -> Answer:
        return 200, {"id": BOT, "username": "project_1217_bot"}

    def brought_by(self, _: Any, project: str, commit: str) -> Answer:
        return 200, self.state.brought.get(commit, [])

    def list_issues(self, _: Any, project: str) -> Answer:
        return 200, self.state.issues

    def create_issue(self, data: Any, project: str) -> Answer:
        if not data.get("title"):
            return 400, {"message": {"title": ["can't be blank"]}}
        issue = {"iid": len(self.state.issues) + 1, "id": 900, **data}
        self.state.issues.append(issue)
        return 201, issue

    def list_notes(self, _: Any, project: str, number: str) -> Answer:
        if project != PROJECT or number != "7":
            return 404, {"message": "404 Not found"}
        return 200, sorted(self.state.notes, key=lambda n: n["created_at"])

    def create_note(self, data: Any, project: str, number: str) -> Answer:
        if project != PROJECT or number != "7":
            return 404, {"message": "404 Not found"}
        if self.state.role == "guest":
            return 403, {"message": "403 Forbidden"}
        if refused := self._body(data):
            return refused
        return 201, self.state.add_note(data["body"], BOT)

    def edit_note(self, data: Any, project: str, number: str, note: str) -> Answer:
        known = self._known(note)
        if known is None:
            return 404, {"message": "404 Note Not Found"}
        if known["author"]["id"] != BOT:
            self.state.wrongs.append(f"tried to edit somebody else's note {note}")
            return 403, {"message": "403 Forbidden"}
        if refused := self._body(data):
            return refused
        known["body"] = data["body"]
        return 200, known

    def delete_note(self, _: Any, project: str, number: str, note: str) -> Answer:
        known = self._known(note)
        if known is None:
            return 404, {"message": "404 Note Not Found"}
        if known["author"]["id"] != BOT:
            self.state.wrongs.append(f"tried to delete somebody else's note {note}")
            return 403, {"message": "403 Forbidden"}
        self.state.notes.remove(known)
        return 204, {}

    def _known(self, note: str) -> dict[str, Any] | None:
        return next((n for n in self.state.notes if n["id"] == int(note)), None)

    def _body(self, data: Any) -> Answer | None:
        body = data.get("body")
        if not body:
            return 400, {"error": "body is empty"}
        if len(body) > LONGEST_NOTE:
            return 400, {"message": {"note": ["is too long (maximum is 1000000 characters)"]}}
        if re.search(r"^\s*/[a-z]", body, re.M):
            self.state.wrongs.append("a note carries a quick action")
        return None

    def set_status(self, data: Any, project: str, commit: str) -> Answer:
        if project != PROJECT or not re.fullmatch("[0-9a-f]{40}", commit):
            return 404, {"message": "404 Commit Not Found"}
        if self.state.role != "developer":
            return 403, {"message": "403 Forbidden"}
        if data.get("state") not in STATES:
            return 400, {"error": "state does not have a valid value"}
        if len(data.get("description", "")) > 255:
            return 400, {"message": {"description": ["is too long (maximum is 255 characters)"]}}
        key = (commit, data.get("name", "default"), data.get("pipeline_id"))
        for known in self.state.statuses:
            if known["key"] == key:
                if known["state"] == data["state"]:
                    words = f"Cannot transition status via :{data['state']} from :{known['state']}"
                    return 400, {"message": words}
                known.update(data)
                return 201, data
        self.state.statuses.append({"key": key, **data})
        return 201, data

    def list_bridges(self, _: Any, project: str, pipeline: str) -> Answer:
        return 200, self.state.bridges.get(int(pipeline), [])

    def list_jobs(self, _: Any, project: str, pipeline: str) -> Answer:
        return 200, self.state.jobs.get(int(pipeline), [])

    def job_artifacts(self, _: Any, project: str, job: str) -> Answer:
        if int(job) not in self.state.artifacts:
            return 404, {"message": "404 Not found"}
        if self.state.redirect_artifacts:
            return 302, self.state.redirect_artifacts
        data = self.state.artifacts[int(job)]
        found = data if isinstance(data, bytes) else data()
        return (404, {"message": "404 Not found"}) if found is None else (200, found)

    def merge_request(self, _: Any, project: str, number: str) -> Answer:
        return 200, {"iid": int(number), **self.state.merge_request}

    def label_events(self, _: Any, project: str, number: str) -> Answer:
        return 200, self.state.label_events

    def versions(self, _: Any, project: str, number: str) -> Answer:
        return 200, self.state.versions

    def member(self, _: Any, project: str, user: str) -> Answer:
        level = self.state.members.get(int(user))
        if level is None:
            return 404, {"message": "404 Not found"}
        return 200, {"id": int(user), "access_level": level, "state": "active"}


NOTES = r"/projects/(\d+)/merge_requests/(\d+)/notes"
ROUTES: list[tuple[str, str, Callable[..., Answer]]] = [
    ("GET", r"/user", Handler.user),
    ("GET", NOTES, Handler.list_notes),
    ("POST", NOTES, Handler.create_note),
    ("PUT", NOTES + r"/(\d+)", Handler.edit_note),
    ("DELETE", NOTES + r"/(\d+)", Handler.delete_note),
    ("POST", r"/projects/(\d+)/statuses/([^/]+)", Handler.set_status),
    ("GET", r"/projects/(\d+)/repository/commits/([^/]+)/merge_requests", Handler.brought_by),
    ("GET", r"/projects/(\d+)/issues", Handler.list_issues),
    ("POST", r"/projects/(\d+)/issues", Handler.create_issue),
    ("GET", r"/projects/(\d+)/merge_requests/(\d+)", Handler.merge_request),
    ("GET", r"/projects/(\d+)/merge_requests/(\d+)/resource_label_events", Handler.label_events),
    ("GET", r"/projects/(\d+)/merge_requests/(\d+)/versions", Handler.versions),
    ("GET", r"/projects/(\d+)/members/all/(\d+)", Handler.member),
    ("GET", r"/projects/(\d+)/pipelines/(\d+)/bridges", Handler.list_bridges),
    ("GET", r"/projects/(\d+)/pipelines/(\d+)/jobs", Handler.list_jobs),
    ("GET", r"/projects/(\d+)/jobs/(\d+)/artifacts", Handler.job_artifacts),
]


@contextmanager
def serving() -> Iterator[tuple[str, State]]:
    """A server on 127.0.0.1: its URL and its state."""
    state = State()
    handler = type("Handler", (Handler,), {"state": state, "lock": threading.RLock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", state
    finally:
        server.shutdown()
        server.server_close()
