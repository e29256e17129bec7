"""How often a boot is tried, against a server whose jobs end as a test says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from iotoll.boots.local import BootPlan
from iotoll.core.errors import BrokenError, InfrastructureError
from iotoll.core.progress import Progress
from iotoll.labs.lava import runner as runner_module
from iotoll.labs.lava.config import load_lab
from iotoll.labs.lava.files import JobFiles
from iotoll.labs.lava.http import Http
from iotoll.labs.lava.job import File
from iotoll.labs.lava.journal import Attempt, read_journal
from iotoll.labs.lava.runner import LavaRunner
from iotoll.labs.lava.server import FileStore, LavaServer, Servers
from iotoll.records.results import write
from iotoll.records.rundir import RunDir
from tests.unit.labs.lava.conftest import Answer, Request, Stub, as_json
from tests.unit.labs.lava.test_classify import BEGUN, CLOSED, END
from tests.unit.labs.lava.test_submission import make_plan
from tests.unit.runs import manifest

PANIC = ("target", "[    9.9] Kernel panic - not syncing: Oops: Fatal exception")
End = tuple[str, tuple[tuple[str, str], ...], str]  # health, log, LAVA's error
LOST: End = ("Incomplete", (*BEGUN, END), CLOSED)
CRASHED: End = ("Incomplete", (*BEGUN, PANIC, END), CLOSED)
CANCELLED: End = ("Canceled", BEGUN, "")


class Lava:
    """Ends each job at once, by the side in its name."""

    def __init__(self, **ends: End) -> None:
        self.ends = ends
        self.jobs: list[str] = []
        self.cancelled: list[int] = []

    def play(self, request: Request) -> Answer:
        url = urlsplit(request.path)
        parts = url.path.strip("/").split("/")
        if parts[0] == "sha256":
            return Answer(200)
        if parts[-1] == "validate":
            return as_json({"message": "Job valid."})
        if parts[-1] == "cancel":
            self.cancelled.append(int(parts[-2]))
            return as_json({})
        if request.method == "POST":
            self.jobs.append(yaml.safe_load(json.loads(request.body)["definition"])["job_name"])
            return as_json({"job_ids": [len(self.jobs)]}, 201)
        if parts[-1] == "jobs":
            end = parse_qs(url.query)["description__endswith"][0]
            found = [{"id": n, "description": t} for n, t in enumerate(self.jobs, 1)]
            return as_json({"results": [j for j in found if str(j["description"]).endswith(end)]})
        return self._about(int(parts[3]), parts[4] if len(parts) > 4 else "")

    def _about(self, number: int, what: str) -> Answer:
        name = self.jobs[number - 1]
        health, log, error = self.ends[name.split()[1]]
        if what == "logs":
            dt = "2026-11-21T20:02:00+00:00"
            lines = [json.dumps({"dt": dt, "lvl": level, "msg": text}) for level, text in log]
            return Answer(200, "".join(f"- {line}\n" for line in lines).encode())
        if what == "tests":
            words: dict[str, Any] = {"error_type": "Infrastructure", "error_msg": error}
            return as_json({"results": [{"name": "job", "metadata": yaml.safe_dump(words)}]})
        job = {"id": number, "description": name, "state": "Finished", "health": health}
        return as_json({**job, "actual_device": "b-01"})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, stub: Stub) -> None:
    monkeypatch.setattr(runner_module, "POLL_SECONDS", 0.01)
    ramdisk = File(f"{stub.url}/sha256/{'3c' * 32}", "3c" * 32)
    monkeypatch.setattr(JobFiles, "_ramdisk", lambda *_: ramdisk)


def make_runner(folder: Path, stub: Stub, lava: Lava) -> LavaRunner:
    stub.play = lava.play
    write(folder / "run.json", manifest(runner="lava"))
    client = Http(stub.url, "token", retries=0)
    servers = Servers(LavaServer(client), FileStore(client))
    return LavaRunner(RunDir(folder), load_lab("local"), servers, lambda _: None)


def boots(runner: LavaRunner, *plans: BootPlan) -> None:
    with Progress(quiet=True).step("boot") as step:
        runner.boots(plans, step)


def noted(runner: LavaRunner) -> list[Attempt]:
    return read_journal(runner.folder / "journal.jsonl").attempts


@pytest.fixture
def candidate(tmp_path: Path) -> BootPlan:
    return replace(make_plan(tmp_path), side="candidate")


def test_infrastructure_is_tried_as_often_as_the_lab_says(
    tmp_path: Path, stub: Stub, candidate: BootPlan
) -> None:
    runner = make_runner(tmp_path, stub, Lava(candidate=LOST))
    with pytest.raises(InfrastructureError, match=r"\[connection-closed\] \(LAVA job 3 on b-01\)"):
        boots(runner, candidate)
    attempts = noted(runner)
    assert [a.number for a in attempts] == [1, 2, 3]
    assert {a.outcome for a in attempts} == {"infrastructure"}
    for attempt in attempts:
        assert "iotoll: step prepare" in (runner.folder / attempt.key / "console.log").read_text()
        assert (runner.folder / f"{attempt.key}.yaml").is_file()


@pytest.mark.parametrize("end", [CRASHED, CANCELLED])
def test_crash_and_cancellation_are_tried_once(
    tmp_path: Path, stub: Stub, candidate: BootPlan, end: End
) -> None:
    runner = make_runner(tmp_path, stub, Lava(candidate=end))
    with pytest.raises(BrokenError if end is CRASHED else InfrastructureError):
        boots(runner, candidate)
    assert len(noted(runner)) == 1


def test_attempts_count_over_restarts(tmp_path: Path, stub: Stub, candidate: BootPlan) -> None:
    runner = make_runner(tmp_path, stub, Lava(candidate=LOST))
    for _ in range(2):
        with pytest.raises(InfrastructureError):
            boots(runner, candidate)
    # The same command again tries once more, and does not begin to count anew.
    assert len(noted(runner)) == 4


def test_base_that_crashes_says_nothing_about_the_candidate(
    tmp_path: Path, stub: Stub, candidate: BootPlan
) -> None:
    runner = make_runner(tmp_path, stub, Lava(base=CRASHED, candidate=CRASHED))
    with pytest.raises(InfrastructureError, match=r"the base kernel fails: .*Kernel panic"):
        boots(runner, replace(candidate, side="base"), candidate)
