"""How often a boot is tried, against a server whose jobs end as a test says."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from iotoll.boots.local import BootPlan
from iotoll.core.errors import BrokenError, HangError, InfrastructureError
from iotoll.core.progress import Progress
from iotoll.labs.lava import job_end
from iotoll.labs.lava.config import Lab, load_lab
from iotoll.labs.lava.definition import File
from iotoll.labs.lava.files import JobFiles
from iotoll.labs.lava.http import Http
from iotoll.labs.lava.journal import Attempt, read_journal
from iotoll.labs.lava.runner import LavaRunner
from iotoll.labs.lava.server import FileStore, LavaServer, Servers
from iotoll.measure.board_records import Documents
from iotoll.records.models import BootRecord
from iotoll.records.results import read, write
from iotoll.records.rundir import RunDir
from tests.unit.labs.lava.conftest import Answer, Request, Stub, as_json
from tests.unit.labs.lava.test_classify import BEGUN, CLOSED, END
from tests.unit.labs.lava.test_submission import make_plan
from tests.unit.runs import EXAMPLES, manifest

PANIC = ("target", "[    9.9] Kernel panic - not syncing: Oops: Fatal exception")
End = tuple[str, tuple[tuple[str, str], ...], str]  # health, log, LAVA's error
LOST: End = ("Incomplete", (*BEGUN, END), CLOSED)
CRASHED: End = ("Incomplete", (*BEGUN, PANIC, END), CLOSED)
CANCELLED: End = ("Canceled", BEGUN, "")
GOOD: End = ("Complete", (*BEGUN, END), "")


class Lava:
    """Ends each job at once, by the side in its name."""

    def __init__(self, **ends: End | list[End]) -> None:
        self.ends = ends
        self.jobs: list[str] = []
        self.cancelled: list[int] = []
        self.devices: list[str] = ["b-01", "b-02"]
        self.health = "Good"
        self.lost: set[int] = set()
        self.asked: list[str | None] = []
        self.fields: dict[str, Any] = {}

    def ends_with(self, fields: dict[str, Any]) -> None:
        """Every job of the server has these values, too."""
        self.fields = fields

    def job(self, number: int) -> dict[str, Any]:
        name = self.jobs[number - 1]
        health = self.end(number)[0]
        job = {"id": number, "description": name, "state": "Finished", "health": health}
        return {**job, "actual_device": self.asked[number - 1] or "b-01", **self.fields}

    def end(self, number: int) -> End:
        """How a job ends: the last of a list repeats."""
        name = self.jobs[number - 1]
        ends = self.ends[name.split()[1]]
        if isinstance(ends, list):
            earlier = [n for n in self.jobs[: number - 1] if n.split()[1] == name.split()[1]]
            return ends[min(len(earlier), len(ends) - 1)]
        return ends

    def play(self, request: Request) -> Answer:
        url = urlsplit(request.path)
        parts = url.path.strip("/").split("/")
        if parts[0] == "sha256":
            return Answer(200)
        if parts[-1] == "version":
            return as_json({"version": "2026.10"})
        if parts[-1] == "validate":
            return as_json({"message": "Job valid."})
        if parts[-1] == "cancel":
            self.cancelled.append(int(parts[-2]))
            return as_json({})
        if request.method == "POST":
            definition = yaml.safe_load(json.loads(request.body)["definition"])
            self.jobs.append(definition["job_name"])
            own = [tag for tag in definition.get("tags", []) if tag in self.devices]
            self.asked.append(own[0] if own else None)
            return as_json({"job_ids": [len(self.jobs)]}, 201)
        query = parse_qs(url.query)
        if parts[-1] == "devices":
            names = query.get("tags__name", self.devices)
            common: dict[str, Any] = {
                "device_type": "qemu-aarch64",
                "health": self.health,
                "state": "Idle",
            }
            found = [
                {**common, "hostname": n} for n in self.devices if n in names or "virt" in names[0]
            ]
            return as_json({"results": found})
        if "id__in" in query:
            numbers = [int(n) for n in query["id__in"][0].split(",")]
            return as_json({"results": [self.job(n) for n in numbers if n not in self.lost]})
        if parts[-1] == "jobs":
            end = query["description__endswith"][0]
            found = [{"id": n, "description": t} for n, t in enumerate(self.jobs, 1)]
            return as_json({"results": [j for j in found if str(j["description"]).endswith(end)]})
        return self._about(int(parts[3]), parts[4] if len(parts) > 4 else "")

    def _about(self, number: int, what: str) -> Answer:
        _, log, error = self.end(number)
        if number in self.lost:
            return Answer(404)
        if what == "logs":
            dt = "2026-11-21T20:02:00+00:00"
            lines = [json.dumps({"dt": dt, "lvl": level, "msg": text}) for level, text in log]
            return Answer(200, "".join(f"- {line}\n" for line in lines).encode())
        if what == "tests":
            words: dict[str, Any] = {"error_type": "Infrastructure", "error_msg": error}
            return as_json({"results": [{"name": "job", "metadata": yaml.safe_dump(words)}]})
        return as_json(self.job(number))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, stub: Stub) -> None:
    ramdisk = File(f"{stub.url}/sha256/{'3c' * 32}", "3c" * 32)
    monkeypatch.setattr(JobFiles, "_ramdisk", lambda *_: ramdisk)


def make_runner(folder: Path, stub: Stub, lava: Lava) -> LavaRunner:
    stub.play = lava.play
    write(folder / "run.json", manifest(runner="lava"))
    with_base(folder)
    client = Http(stub.url, "token", retries=0)
    servers = Servers(LavaServer(client), FileStore(client))
    return LavaRunner(RunDir(folder), quick_lab(), servers, lambda _: None)


def quick_lab() -> Lab:
    """The local lab, looked at without a pause."""
    lab = load_lab("local")
    return lab.model_copy(
        update={"jobs": lab.jobs.model_copy(update={"poll_seconds": 0.01, "log_seconds": 0.0})}
    )


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


def test_a_cancelled_job_is_not_tried_again(
    tmp_path: Path, stub: Stub, candidate: BootPlan
) -> None:
    runner = make_runner(tmp_path, stub, Lava(candidate=CANCELLED))
    with pytest.raises(InfrastructureError):
        boots(runner, candidate)
    assert len(noted(runner)) == 1


def with_base(folder: Path) -> None:
    """The base's kernel of the run, which boots beside a candidate's second try."""
    build = folder / "sides/base/build"
    build.mkdir(parents=True, exist_ok=True)
    (build / "Image").write_bytes(b"base")
    shutil.copy(EXAMPLES / "build.json", build / "build.json")


@pytest.fixture
def ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """A complete job has sent its records: what they hold is no matter of these tests."""
    judge = job_end.judge

    def with_records(ended: job_end.Ended, *more: Any) -> Documents:
        return Documents([]) if ended.state.health == "Complete" else judge(ended, *more)

    monkeypatch.setattr(job_end, "judge", with_records)


def test_g1_a_crash_that_repeats_beside_a_base_that_runs_is_the_candidates(
    tmp_path: Path, stub: Stub, candidate: BootPlan, ends_well: None
) -> None:
    lava = Lava(base=GOOD, candidate=CRASHED)
    runner = make_runner(tmp_path, stub, lava)
    with pytest.raises(BrokenError, match=r"panic.*as LAVA job 1 did\)"):
        boots(runner, candidate)
    assert [(a.boot, a.outcome) for a in noted(runner)] == [
        ("candidate/1", "broken"),
        ("base/1001", "done"),
        ("candidate/1", "broken"),
    ]
    assert lava.asked == [None, "b-02", "b-02"], "both elsewhere, on one board"
    # The same command again knows it, and boots nothing.
    with pytest.raises(BrokenError, match="panic"):
        boots(runner, candidate)
    assert len(lava.jobs) == 3


def test_g1_a_base_that_crashes_as_well_makes_it_infrastructure(
    tmp_path: Path, stub: Stub, candidate: BootPlan
) -> None:
    runner = make_runner(tmp_path, stub, Lava(base=CRASHED, candidate=CRASHED))
    with pytest.raises(InfrastructureError, match="fails as well, beside the candidate's second"):
        boots(runner, candidate)


def test_g1_a_crash_that_does_not_repeat_is_kept_in_the_boots_record(
    tmp_path: Path, stub: Stub, candidate: BootPlan, ends_well: None
) -> None:
    runner = make_runner(tmp_path, stub, Lava(base=GOOD, candidate=[CRASHED, GOOD]))
    boots(runner, candidate)
    record = read(candidate.folder / "boot.json", BootRecord)
    assert len(record.died) == 1 and "panic" in record.died[0]
    assert not (tmp_path / "sides/base/boots").exists(), "what ran beside it is no boot of the run"


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
    with pytest.raises(InfrastructureError, match=r"the base kernel fails.*Kernel panic"):
        boots(runner, replace(candidate, side="base"), candidate)


HUNG: End = ("Incomplete", (*BEGUN, END), "lava-test-retry timed out after 360 seconds")


def test_f3_2_a_hang_blames_nobody_until_it_repeats_elsewhere(
    tmp_path: Path, stub: Stub, candidate: BootPlan
) -> None:
    """F3.2: QEMU stopped: exit 5 for a neutral candidate, although a second board was there."""
    lava = Lava(candidate=[HUNG, LOST, HUNG])
    runner = make_runner(tmp_path, stub, lava)
    words = r"\[hangs-in-workload\] \(LAVA job 3 on b-02, as LAVA job 1 did\)"
    with pytest.raises(HangError, match=words) as caught:
        boots(runner, candidate)
    assert caught.value.step == "workload"
    assert [a.outcome for a in noted(runner)] == ["hang", "infrastructure", "hang"]
    assert lava.asked == [None, "b-02", "b-02"], "elsewhere, as long as nothing else is known"


def test_f3_2_a_base_that_hangs_once_is_tried_again_and_a_crash_after_it_counts(
    tmp_path: Path, stub: Stub, candidate: BootPlan
) -> None:
    lava = Lava(base=[HUNG, CRASHED])
    runner = make_runner(tmp_path, stub, lava)
    with pytest.raises(InfrastructureError, match=r"the base kernel fails: .*panic"):
        boots(runner, replace(candidate, side="base"))
    assert [a.outcome for a in noted(runner)] == ["hang", "broken"]


def test_f3_2_where_no_other_board_can_be_asked_for_lava_chooses(
    tmp_path: Path, stub: Stub, candidate: BootPlan
) -> None:
    lava = Lava(candidate=HUNG)
    lava.devices = ["b-01"]
    with pytest.raises(HangError):
        boots(make_runner(tmp_path, stub, lava), candidate)
    assert lava.asked == [None, None]


def test_f3_3_a_full_queue_names_the_boards_and_their_health(
    tmp_path: Path, stub: Stub, candidate: BootPlan
) -> None:
    """F3.3: "Somebody cancelled the job ... on None" while both boards were in maintenance."""
    lava = Lava(candidate=CANCELLED)
    lava.health = "Maintenance"
    times = {"submit_time": "2026-11-21T20:00:00", "end_time": "2026-11-21T21:00:03"}
    lava.ends_with({"actual_device": None, **times})
    with pytest.raises(InfrastructureError) as caught:
        boots(make_runner(tmp_path, stub, lava), candidate)
    said = str(caught.value)
    assert "no board of type qemu-aarch64 with tags virt-arm64 was free for 60 minutes" in said
    assert "b-01 Maintenance (Idle), b-02 Maintenance (Idle)" in said
    assert "on no board" in said and "ancelled" not in said


def test_f3_3_a_job_that_somebody_cancelled_is_still_called_so(
    tmp_path: Path, stub: Stub, candidate: BootPlan
) -> None:
    lava = Lava(candidate=CANCELLED)
    times = {"submit_time": "2026-11-21T20:00:00", "end_time": "2026-11-21T20:05:00"}
    lava.ends_with({"actual_device": None, **times})
    with pytest.raises(InfrastructureError, match=r"\[cancelled\] \(LAVA job 1 on no board\)"):
        boots(make_runner(tmp_path, stub, lava), candidate)


def test_f3_5_a_lost_job_says_how_to_forget_it(
    tmp_path: Path, stub: Stub, candidate: BootPlan, ends_well: None
) -> None:
    """F3.5: 404 for a lost job had no way out."""
    lava = Lava(base=GOOD, candidate=CRASHED)
    lava.lost = {1}
    runner = make_runner(tmp_path, stub, lava)
    with pytest.raises(InfrastructureError, match=r"is gone.*iotoll lava forget \S+ 1' has"):
        boots(runner, candidate)
    assert runner.forget(9, "x") is None
    forgotten = runner.forget(1, "forgotten by hand")
    assert forgotten is not None and forgotten.boot == "candidate/1"
    with pytest.raises(BrokenError, match="as LAVA job 2 did"):
        boots(runner, candidate)


def test_f3_5_one_refused_request_ends_no_run(
    tmp_path: Path, stub: Stub, candidate: BootPlan, ends_well: None
) -> None:
    """F3.5: the first 403 in a run ended it with exit code 2, and its jobs stayed."""
    runner = make_runner(tmp_path, stub, Lava(base=GOOD, candidate=CRASHED))
    told: list[str] = []
    runner.retry.tell = told.append
    play, asked = stub.play, []

    def once(request: Request) -> Answer:
        if request.method == "GET" and "/jobs/" in request.path:
            asked.append(request.path)
            if len(asked) in (1, 3):
                return Answer(403, b"busy")
        return play(request)

    stub.play = once
    with pytest.raises(BrokenError, match="panic"):
        boots(runner, candidate)
    assert any("status 403" in line and "trying again for 60 s" in line for line in told), told
    assert any("answers again" in line for line in told)


def test_f3_5_a_token_that_stays_refused_names_the_way_out(
    tmp_path: Path, stub: Stub, candidate: BootPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iotoll.labs.lava.retry.ACCESS_SECONDS", 0.05)
    runner = make_runner(tmp_path, stub, Lava(candidate=CRASHED))
    play = stub.play
    stub.play = lambda r: Answer(401) if r.method == "GET" and "/jobs/" in r.path else play(r)
    with pytest.raises(InfrastructureError, match=r"stay with LAVA.*iotoll lava cancel") as caught:
        boots(runner, candidate)
    assert caught.value.exit_code == 4


def test_f3_6_one_request_for_all_jobs(tmp_path: Path, stub: Stub, candidate: BootPlan) -> None:
    """F3.6: about one GET every two seconds for each job."""
    runner = make_runner(tmp_path, stub, Lava(candidate=CRASHED, base=CRASHED))
    with pytest.raises(InfrastructureError):
        boots(runner, replace(candidate, side="base"), candidate)
    states = [r.path for r in stub.asked("GET") if "/jobs/1/?" in r.path or "id__in" in r.path]
    assert [p for p in states if "id__in=1%2C2" in p or "id__in=1,2" in p], states
    assert not [r for r in stub.asked("GET") if r.path.rstrip("/").endswith("jobs/1")]
