"""What a pipeline tells GitLab, and asks it: one note, a commit status, a child's artifacts.

Built on python-gitlab. What is added: one limit for an operation with all its repetitions,
creating a note is safe to repeat, the token follows no link to another host and stands in no
message. Every failure is one line with its fix.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import gitlab
import requests  # python-gitlab's own: its exceptions come through
from gitlab.exceptions import GitlabError

from iotoll.ci.plan import ci_variable
from iotoll.core.errors import InfrastructureError, IotollError, UsageError
from iotoll.records.models import Outcome

T = TypeVar("T")
TOKEN = "IOTOLL_GITLAB_TOKEN"
MARK = re.compile(r"\A<!-- iotoll:(\d+) -->\n")
"""First line of our note, with the number of the pipeline that wrote it."""
LONGEST = 900_000  # characters of a note; GitLab takes 1,000,000
DESCRIPTION = 255  # characters of a commit status's description, GitLab's limit
TRANSIENT = {409, 429, 500, 502, 503, 504, *range(520, 531)}
MENDS = {
    401: f"the token is refused: give a valid one in {TOKEN}",
    403: "the token may not do that: it needs the scope 'api' and the role Developer",
    404: "there is no such thing, or the token does not see it: check project and number",
}
STATES = {
    Outcome.PASS: "success",
    Outcome.REGRESSION: "failed",
    Outcome.BROKEN: "failed",
    Outcome.INFRASTRUCTURE: "failed",
    Outcome.INCONCLUSIVE: "skipped",
}
"""GitLab's state of each outcome: only a pass is green."""


ACCEPT_LABEL = "iotoll-accept"
MAINTAINER = 40
"""GitLab's number of the role from which on a member may accept a regression."""


class GitLab:
    """One project of a GitLab server.

    ``url`` is the server's, not its API's; ``timeout`` is of one request, ``retry_seconds`` of one
    operation with all its repetitions, both in seconds.
    """

    def __init__(
        self, url: str, project: str, token: str, timeout: float = 30, retry_seconds: float = 300
    ) -> None:
        self._token = token
        self._retry_seconds = retry_seconds
        # As a bearer token: requests drops that header where a redirect leads to another host,
        # as to the store of artifacts, but would take PRIVATE-TOKEN along.
        self._server = _Server(
            url, oauth_token=token, timeout=timeout, per_page=100, keep_base_url=True
        )
        self._project = self._server.projects.get(project, lazy=True)

    def note(self, merge_request: int, pipeline: int, body: str) -> str:
        """Write the merge request's one note of ours; returns what was done, in a word.

        A note that a newer pipeline wrote is left alone.
        """
        text = f"<!-- iotoll:{pipeline} -->\n{_shortened(body)}"
        notes = self._project.mergerequests.get(merge_request, lazy=True).notes
        known = self._our_notes(notes)
        if not known:
            return self._create_note(notes, pipeline, text)
        first = known[0]
        if _pipeline_of(first.body) > pipeline:
            return "left"
        if first.body == text:
            return "unchanged"
        try:
            self._call("edit the note", lambda: notes.update(first.id, {"body": text}))
        except _GoneError:  # somebody has deleted it meanwhile
            return self._create_note(notes, pipeline, text)
        return "edited"

    def status(
        self, commit: str, outcome: Outcome, description: str, pipeline: int, target: str | None
    ) -> None:
        """Set the commit's status ``iotoll``."""
        data: dict[str, Any] = {
            "state": STATES[outcome],
            "name": "iotoll",
            "description": description[:DESCRIPTION],
            "pipeline_id": pipeline,
        }
        if target:
            data["target_url"] = target
        statuses = self._project.commits.get(commit, lazy=True).statuses
        try:
            self._call("set the commit status", lambda: statuses.create(data))
        except _RefusedError as error:
            # What GitLab says when the status is that already, as after a lost answer.
            if "Cannot transition status" not in str(error):
                raise

    def approver(self, merge_request: int, commit: str, label: str = ACCEPT_LABEL) -> str:
        """Who accepts the growth that the change's trailers name, by the label ``label``.

        That is somebody with the role Maintainer, not the author, who gave the label after the
        newest push. Raises UsageError saying what of it is not so.
        """
        lazy = self._project.mergerequests
        request = self._call("read the merge request", lambda: lazy.get(merge_request))
        if request.sha != commit:
            raise UsageError(f"!{merge_request} has newer commits than {commit[:12]}: nothing said")
        events = self._rows("list label events", request.resourcelabelevents)
        given = [e for e in events if (e.label or {}).get("name") == label]
        last = max(given, key=lambda e: _moment(e.created_at), default=None)
        if last is None or last.action != "add":
            raise UsageError(f"!{merge_request} has no label {label}")
        pushed = [_moment(v.created_at) for v in self._rows("list versions", request.diffs)]
        if not pushed or _moment(last.created_at) <= max(pushed):
            raise UsageError(
                f"label {label} is older than the newest push: remove it, give it anew"
            )
        user = last.user
        if user["id"] == request.author["id"]:
            raise UsageError(f"{user['username']} is the author: somebody else gives {label}")
        members = self._project.members_all
        try:
            member = self._call("ask for a role", lambda: members.get(user["id"]))
        except _GoneError:
            member = None
        if member is None or member.access_level < MAINTAINER or member.state != "active":
            raise UsageError(f"{user['username']} gave {label} without the role Maintainer")
        return str(user["username"])

    def child_jobs(self, pipeline: int) -> dict[str, int]:
        """The jobs of a pipeline's child pipelines: name to number, of the newest try."""
        lists = self._project.pipelines.get(pipeline, lazy=True).bridges
        found: dict[str, int] = {}
        for bridge in self._rows("list child pipelines", lists):
            child = bridge.attributes.get("downstream_pipeline")
            if child:
                jobs = self._project.pipelines.get(child["id"], lazy=True).jobs
                found |= {job.name: job.id for job in self._rows("list jobs", jobs)}
        return found

    def artifacts(self, job: int, target: Path, largest: int) -> bool:
        """Download a job's artifacts to ``target``; False when it left none.

        Raises InfrastructureError when they take more than ``largest`` bytes.
        """

        def fetch() -> None:
            with target.open("wb") as out:
                size = 0
                stream = self._project.jobs.get(job, lazy=True).artifacts(iterator=True)
                for block in _blocks(stream):
                    size += len(block)
                    if size > largest:
                        raise InfrastructureError(f"job {job}: artifacts above {largest} bytes")
                    out.write(block)

        try:
            self._call("download artifacts", fetch)
        except _GoneError:
            return False
        return True

    def _our_notes(self, notes: Any) -> list[Any]:
        """Our notes on a gate, oldest first."""
        return [n for n in self._own(notes) if MARK.match(n.body)]

    def _own(self, notes: Any) -> list[Any]:
        """What we wrote, oldest first. Anybody may write our mark, but not under our name."""
        if self._server.user is None:
            self._call("ask who we are", self._server.auth)
        assert self._server.user is not None
        me = self._server.user.id
        words = {"order_by": "created_at", "sort": "asc"}
        rows = self._rows("list notes", notes, **words)
        return [n for n in rows if n.author["id"] == me and not n.system]

    def _create_note(self, notes: Any, pipeline: int, text: str) -> str:
        def create() -> None:
            # Tried again after an answer that got lost, the note may be there.
            if not any(_pipeline_of(n.body) == pipeline for n in self._our_notes(notes)):
                notes.create({"body": text})

        self._call("create the note", create)
        # Two jobs at a time may both have seen none.
        for extra in self._our_notes(notes)[1:]:
            self._call("delete a second note", partial(notes.delete, extra.id))
        return "created"

    def _rows(self, what: str, listed: Any, **words: str) -> list[Any]:
        """All pages of a list."""
        return self._call(what, lambda: list(listed.list(iterator=True, **words)))

    def _call(self, what: str, work: Callable[[], T]) -> T:
        """Do something that may be repeated until its time is over."""
        deadline = time.monotonic() + self._retry_seconds
        pause = 1.0
        while True:
            try:
                return work()
            except GitlabError as error:
                code = error.response_code or 0
                if code not in TRANSIENT:
                    raise self._explained(what, code, str(error)) from None
                why, wait = f"GitLab answered {code}", self._server.retry_after or pause
            except requests.RequestException as error:
                why, wait = f"no answer ({type(error).__name__})", pause
            if time.monotonic() + wait > deadline:
                raise InfrastructureError(
                    f"cannot {what}: {why}, for {self._retry_seconds:.0f} s: run this job again"
                )
            time.sleep(wait)
            pause = min(pause * 2, 60)

    def _explained(self, what: str, code: int, words: str) -> IotollError:
        said = words.replace(self._token, "[token]")[:200]
        if code == 404:
            return _GoneError(f"cannot {what}: {MENDS[404]}")
        if code == 400:
            return _RefusedError(f"cannot {what}: {said}")
        return UsageError(f"cannot {what}: {MENDS.get(code, said)}")


class _Server(gitlab.Gitlab):
    """python-gitlab without its own repetitions, which know no limit of time."""

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        self.retry_after: float | None = None
        self.session.hooks["response"].append(self._note_wait)

    def http_request(self, *words: Any, **named: Any) -> requests.Response:
        """One request, once."""
        return super().http_request(*words, **{"obey_rate_limit": False, **named})

    def _note_wait(self, response: requests.Response, *_: Any, **__: Any) -> None:
        value = response.headers.get("Retry-After", "")
        self.retry_after = float(value) if value.isdigit() else None


class _GoneError(UsageError):
    """404."""


class _RefusedError(UsageError):
    """400."""


def _blocks(stream: Any) -> Iterator[bytes]:
    yield from ([] if stream is None else stream)


def _moment(text: str) -> datetime:
    """A time of GitLab's (ISO 8601, UTC); raises InfrastructureError for what is none."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (ValueError, AttributeError) as error:
        raise InfrastructureError(f"GitLab gave a time that is none: {text!r}") from error


def _pipeline_of(body: str) -> int:
    match = MARK.match(body)
    return int(match[1]) if match else 0


def _shortened(body: str) -> str:
    return body if len(body) <= LONGEST else body[:LONGEST] + "\n\n… (cut: too long for a note)"


def gitlab_of(client: Callable[[str, str, str], Any]) -> Any:
    """A client of the project that this job is of; raises UsageError without a token."""

    token = os.environ.get(TOKEN, "").strip()
    url = ci_variable("CI_SERVER_URL")
    # CI_MERGE_REQUEST_PROJECT_ID is the target's: notes and jobs are there.
    project = ci_variable("CI_MERGE_REQUEST_PROJECT_ID") or ci_variable("CI_PROJECT_ID")
    if not token:
        raise UsageError(
            f"no {TOKEN}: this job needs a token of the kernel project; a fork's pipeline has"
            " none, and must not (docs/gitlab.md)"
        )
    if not url or not project:
        raise UsageError("CI_SERVER_URL and CI_PROJECT_ID say which GitLab: set them")
    if not re.fullmatch(r"https?://[^@\s]+", url):
        raise UsageError(f"CI_SERVER_URL {url}: must be http:// or https:// and a host")
    return client(url, project, token)


SHORT = 12


class Teller(GitLab):
    """As `GitLab`, for a search's answer: one note or issue for each culprit."""

    def tell(self, commit: str, body: str, issue: bool = True) -> str:
        """Write the note to each merged request that has ``commit``; returns what was done.

        Done again it edits what it wrote. Without such a request an issue is opened, if ``issue``.
        """
        mark = f"<!-- iotoll-bisect:{commit} -->\n"
        lazy = self._project.commits.get(commit, lazy=True)
        rows = self._call("find the merge request", lazy.merge_requests)
        numbers = [row["iid"] for row in rows if row["state"] == "merged"]
        for number in numbers:
            notes = self._project.mergerequests.get(number, lazy=True).notes
            self._put(notes, mark, body)
        if numbers:
            return ", ".join(f"note in !{number}" for number in numbers)
        return self._open_issue(commit, mark + body) if issue else "no merge request has it"

    def _put(self, notes: Any, mark: str, body: str) -> None:
        def ours() -> list[Any]:
            return [n for n in self._own(notes) if n.body.startswith(mark)]

        def create() -> None:
            # Tried again after an answer that got lost, the note may be there.
            if not ours():
                notes.create({"body": mark + body})

        known = ours()
        if not known:
            self._call("create the note", create)
        elif known[0].body != mark + body:
            first = known[0].id
            self._call("edit the note", lambda: notes.update(first, {"body": mark + body}))

    def _open_issue(self, commit: str, text: str) -> str:
        title = f"iotoll: {commit[:SHORT]} changed the cost of an I/O"
        issues = self._project.issues
        words = {"search": title, "in": "title", "state": "opened", "scope": "created_by_me"}

        def ours() -> list[Any]:
            return [i for i in self._rows("list issues", issues, **words) if i.title == title]

        def create() -> Any:
            return next(iter(ours()), None) or issues.create({"title": title, "description": text})

        if known := ours():
            return f"issue #{known[0].iid} is open already"
        return f"issue #{self._call('open an issue', create).iid}"
