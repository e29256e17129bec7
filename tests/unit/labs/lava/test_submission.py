"""A boot's job is submitted once, whatever answer got lost and wherever we were killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from iotoll.boards.board import load_board
from iotoll.boards.ramdisk import Image
from iotoll.boots.local import BootPlan
from iotoll.core.errors import UsageError
from iotoll.labs.lava import retry
from iotoll.labs.lava.config import load_lab
from iotoll.labs.lava.definition import File
from iotoll.labs.lava.files import JobFiles
from iotoll.labs.lava.http import Http, ServerError
from iotoll.labs.lava.journal import Attempt, Journal, open_journal
from iotoll.labs.lava.retry import Retry
from iotoll.labs.lava.server import FileStore, LavaServer, Servers
from iotoll.labs.lava.submission import Submitter
from iotoll.records.models import BuildRecord, Clock
from iotoll.records.results import write
from tests.unit.labs.lava.conftest import Answer, Request, Stub, as_json


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours runs after it."""


class Lava:
    """The jobs of a server, and what may go wrong with the answer to a submission."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.cancelled: list[int] = []
        self.lose: list[Answer] = []  # answers in place of the right one, after the job is made
        self.before: list[Answer] = []  # answers without a job made

    def play(self, request: Request) -> Answer:
        path = urlsplit(request.path).path
        if path.startswith("/sha256/"):
            return Answer(200)
        if path.endswith("/validate/"):
            return as_json({"message": "Job valid."})
        if path.endswith("/cancel/"):
            self.cancelled.append(int(path.split("/")[-3]))
            return as_json({})
        if request.method == "POST":
            return self.submit(request)
        if path.split("/")[-2].isdecimal():
            found = [j for j in self.jobs if str(j["id"]) == path.split("/")[-2]]
            return as_json(found[0]) if found else Answer(404)
        end = parse_qs(urlsplit(request.path).query)["description__endswith"][0]
        return as_json({"results": [j for j in self.jobs if j["description"].endswith(end)]})

    def submit(self, request: Request) -> Answer:
        if self.before:
            return self.before.pop(0)
        text = json.loads(request.body)["definition"]
        job = {"id": len(self.jobs) + 1, "description": yaml.safe_load(text)["job_name"]}
        # As LAVA does it: without white space at the ends.
        job |= {"state": "Submitted", "health": "Unknown", "original_definition": text.strip()}
        self.jobs.append(job)
        return self.lose.pop(0) if self.lose else as_json({"job_ids": [len(self.jobs)]}, 201)


@pytest.fixture
def lava(stub: Stub) -> Lava:
    found = Lava()
    stub.play = found.play
    return found


@pytest.fixture
def plan(tmp_path: Path) -> BootPlan:
    return make_plan(tmp_path)


def make_plan(tmp_path: Path, number: int = 1, kernel: bytes = b"kernel") -> BootPlan:
    build = tmp_path / "build"
    build.mkdir(exist_ok=True)
    (build / "Image").write_bytes(kernel)
    record = BuildRecord(
        side="base",
        arch="arm64",
        image="build/Image",
        image_sha256=kernel.hex(),
        config_sha256="0",
        fragments=[],
        toolchain="",
        seconds=0,
        ready_made=True,
    )
    write(build / "build.json", record)
    board = load_board("virt-arm64")
    image = Image(tmp_path / "rootfs.cpio", "1a", {})
    cells = ["ufs-4k-randread-t1-direct"]
    folder = tmp_path / "boot"
    return BootPlan(
        "base", number, board, Clock.INSTRUCTIONS, "tcg", build / "Image", image,
        tmp_path / "job", "2b", cells, 1, folder,
    )  # fmt: skip


@pytest.fixture
def submitter(tmp_path: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Submitter:
    # What a ramdisk holds is of no matter here, and packing one takes seconds.
    ramdisk = File(f"{stub.url}/sha256/{'3c' * 32}", "3c" * 32)
    monkeypatch.setattr(JobFiles, "_ramdisk", lambda *_: ramdisk)
    client = Http(stub.url, "token", retries=0)
    servers = Servers(LavaServer(client), FileStore(client))
    return Submitter(tmp_path / "lava", load_lab("local"), servers)


def begin(submitter: Submitter, plan: BootPlan) -> Attempt:
    """As a new process does it: the journal is read again."""
    with open_journal(submitter.folder) as journal:
        return submitter.begin(journal, plan)


def test_second_process_takes_up_the_job(lava: Lava, submitter: Submitter, plan: BootPlan) -> None:
    first = begin(submitter, plan)
    assert begin(submitter, plan) == first
    assert [job["id"] for job in lava.jobs] == [first.number]


def test_f1_5_numbers_of_a_server_that_was_made_anew_are_not_taken(
    lava: Lava, submitter: Submitter, plan: BootPlan
) -> None:
    """F1.5: the lab went down and came up, its numbers began again, and another run had ours."""
    first = begin(submitter, plan)
    lava.jobs[0] |= {"description": "iotoll base boot 1 on virt-arm64 0123456789ab-base-1-1"}
    second = begin(submitter, plan)
    assert (first.number, second.number) == (1, 2)
    assert lava.cancelled == [], "what is not ours is left alone"
    with open_journal(submitter.folder) as journal:
        assert [a.outcome for a in journal.attempts] == ["superseded", None]


def test_f1_5_another_server_or_definition_is_not_taken(
    lava: Lava, submitter: Submitter, plan: BootPlan
) -> None:
    begin(submitter, plan)
    lava.jobs[0]["original_definition"] += "\nchanged: more"
    assert begin(submitter, plan).number == 2
    submitter.servers.lava.http.base += "/"  # another address
    assert begin(submitter, plan).number == 3
    with open_journal(submitter.folder) as journal:
        path = submitter.folder / f"{journal.attempts[-1].key}.yaml"
    path.write_text(path.read_text().replace("base", "candidate"))
    assert begin(submitter, plan).number == 4
    lava.jobs.clear()  # a job that the server lost
    assert begin(submitter, plan).number == 1


@pytest.mark.parametrize("step", ["before the POST", "before its answer", "before the journal"])
def test_killed_while_it_submits(
    lava: Lava, submitter: Submitter, plan: BootPlan, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if step == "before the journal":
            patch.setattr(Journal, "submitted", kill)
        else:
            post = LavaServer.submit

            def submit(server: LavaServer, definition: str) -> int:
                if step == "before its answer":
                    post(server, definition)
                raise Killed

            patch.setattr(LavaServer, "submit", submit)
        with pytest.raises(Killed):
            begin(submitter, plan)
    assert len(lava.jobs) == (0 if step == "before the POST" else 1)
    attempt = begin(submitter, plan)
    assert attempt.number == 1
    assert len(lava.jobs) == 1
    assert lava.cancelled == []


@pytest.mark.parametrize("answer", [Answer(None), Answer(502), Answer(200, b"<html>"), Answer(504)])
def test_answer_that_got_lost(
    lava: Lava, submitter: Submitter, plan: BootPlan, answer: Answer
) -> None:
    lava.lose = [answer]
    assert begin(submitter, plan).number == 1
    assert len(lava.jobs) == 1


def test_server_that_is_down_for_a_while(lava: Lava, submitter: Submitter, plan: BootPlan) -> None:
    lava.before = [Answer(503), Answer(None), Answer(502)]
    assert begin(submitter, plan).number == 1
    assert len(lava.jobs) == 1


def test_submission_that_came_late_is_not_run_twice(
    lava: Lava, submitter: Submitter, plan: BootPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first POST is carried out only after we looked for its job and sent another."""
    post = LavaServer.submit
    calls = []

    def submit(server: LavaServer, definition: str) -> int:
        calls.append(definition)
        if len(calls) == 1:
            raise ServerError("timed out")
        post(server, definition)  # the late one
        return post(server, definition)

    monkeypatch.setattr(LavaServer, "submit", submit)
    assert begin(submitter, plan).number == 1
    assert lava.cancelled == [2]


def test_other_inputs_replace_the_job(lava: Lava, submitter: Submitter, tmp_path: Path) -> None:
    first = begin(submitter, make_plan(tmp_path))
    second = begin(submitter, make_plan(tmp_path, kernel=b"another"))
    assert (first.number, second.number) == (1, 2)
    assert lava.cancelled == [1]
    with open_journal(submitter.folder) as journal:
        assert [a.outcome for a in journal.attempts] == ["superseded", None]


def test_refused_job_is_not_tried_for_ever(
    lava: Lava, submitter: Submitter, plan: BootPlan
) -> None:
    lava.before = [as_json({"message": "no such tag"}, 400)]
    with pytest.raises(UsageError, match="no such tag"):
        begin(submitter, plan)
    assert lava.jobs == []


def test_retry_ends_at_once_for_what_it_does_not_mend(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.answers(Answer(404))
    client = Http(stub.url, retries=0)
    with pytest.raises(ServerError):
        Retry()(lambda: client.get("x"))
    assert len(stub.requests) == 1
    stub.answers(Answer(503), Answer(503), as_json({}))
    assert Retry()(lambda: client.get("x")) == {}
    monkeypatch.setattr(retry, "RETRY_SECONDS", 0.05)
    stub.answers(Answer(503))
    with pytest.raises(ServerError):
        Retry()(lambda: client.get("x"))


def test_newer_run_of_a_series_cancels_the_older_ones_jobs(
    stub: Stub, submitter: Submitter, plan: BootPlan
) -> None:
    """Another run's unfinished jobs of the series, and no others."""
    jobs = {
        1: ("iotoll base boot 1 on b [mr-7] 0123456789ab-base-1-1", "Running"),
        2: ("iotoll base boot 2 on b [mr-7] 0123456789ab-base-2-1", "Submitted"),
        3: ("iotoll base boot 1 on b [mr-77] 0123456789ab-base-1-1", "Running"),
        4: ("iotoll base boot 1 on b [mr-7] {own}-base-1-1", "Running"),
        5: ("iotoll base boot 1 on b [mr-7] 0123456789ab-base-3-1", "Finished"),
        6: ("somebody else's", "Running"),
    }
    cancelled = []

    def play(request: Request) -> Answer:
        path = urlsplit(request.path)
        if path.path.endswith("/cancel/"):
            cancelled.append(int(path.path.split("/")[-3]))
            return as_json({})
        # A server that knows no filters answers with every job.
        found = [
            {"id": n, "description": text.format(own=journal.run), "state": s, "health": "Unknown"}
            for n, (text, s) in jobs.items()
        ]
        return as_json({"results": found})

    stub.play = play
    submitter.series = "mr-7"
    with open_journal(submitter.folder) as journal:
        assert submitter.supersede(journal) == [1, 2]
    assert cancelled == [1, 2]
    submitter.series = None
    with open_journal(submitter.folder) as journal:
        assert submitter.supersede(journal) == []
