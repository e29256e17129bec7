"""A lab that is not fit is told of in seconds, before a kernel is built; findings F3.4 and F3.7."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from click.testing import CliRunner
from pydantic import ValidationError

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.gate.lava_command import lava_command
from iotoll.labs.lava import check
from iotoll.labs.lava.check import checks, demand
from iotoll.labs.lava.config import Lab, load_lab
from iotoll.labs.lava.definition import FastbootJob, File, render
from iotoll.labs.lava.http import Http
from iotoll.labs.lava.retry import Retry
from iotoll.labs.lava.runner import Watch, subject
from iotoll.labs.lava.server import FileStore, LavaServer, Servers
from iotoll.records import results
from iotoll.records.models import SourceRecord
from iotoll.records.rundir import RunDir
from tests.unit.labs.lava.conftest import Answer, Request, Stub, as_json
from tests.unit.labs.lava.test_watch import PANIC, job, log

HIKEY = "hikey960"


class Server:
    """A LAVA with two HiKey960s; a test sets what is wrong with it."""

    def __init__(self) -> None:
        self.user = "iotoll"
        self.status = 200
        self.health = "Good"
        self.tags = {"hi-01": ["simulated", "hi-01"], "hi-02": ["simulated", "hi-02"]}
        self.files = 404

    def play(self, request: Request) -> Answer:
        path = urlsplit(request.path)
        if path.path.startswith("/sha256"):
            return Answer(self.files)
        if path.path.endswith("/version/"):
            return as_json({"version": "2026.10"})
        if self.status != 200:
            return Answer(self.status, b"Invalid token.")
        if path.path.endswith("/whoami/"):
            return as_json({"user": self.user})
        wanted = parse_qs(path.query).get("tags__name", [""])[0]
        names = [name for name, tags in self.tags.items() if not wanted or wanted in tags]
        common = {"device_type": "hi960-hikey", "health": self.health, "state": "Idle"}
        return as_json({"results": [{"hostname": name, **common} for name in names]})


@pytest.fixture
def server(stub: Stub) -> Server:
    found = Server()
    stub.play = found.play
    return found


def servers(url: str) -> Servers:
    client = Http(url, "token", retries=0)
    return Servers(LavaServer(client), FileStore(client))


def lab() -> Lab:
    return load_lab("local")


def test_f3_4_a_lab_that_is_well(stub: Stub, server: Server) -> None:
    found = list(checks(lab(), servers(stub.url), [HIKEY]))
    assert [one.what for one in found] == ["server", "token", "file server", "board hikey960"]
    assert not any(one.problem for one in found)
    assert "LAVA 2026.10" in found[0].line and "user iotoll" in found[1].line
    assert "hi-01 Good (Idle), hi-02 Good (Idle)" in found[3].line
    demand(lab(), servers(stub.url), [HIKEY])
    assert {r.method for r in stub.requests} <= {"GET", "HEAD"}, "it changes nothing"


def test_f3_4_a_dead_server_is_told_of_in_seconds(stub: Stub) -> None:
    """F3.4: 930 s of silence."""
    begun = time.monotonic()
    with pytest.raises(InfrastructureError, match=r"lab local: server: .*refused"):
        demand(lab(), servers("http://127.0.0.1:1"), [HIKEY])
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(("status", "user"), [(401, "iotoll"), (403, "iotoll"), (200, "")])
def test_f3_4_a_wrong_token_is_the_users_to_fix(
    stub: Stub, server: Server, status: int, user: str
) -> None:
    """F3.4: it was noticed after the kernels were built."""
    server.status, server.user = status, user
    with pytest.raises(UsageError, match="lab local: token: "):
        demand(lab(), servers(stub.url), [HIKEY])


def test_f3_4_boards_in_maintenance_are_named(stub: Stub, server: Server) -> None:
    server.health = "Maintenance"
    words = "no device of type hi960-hikey with tags simulated takes jobs: hi-01 Maintenance"
    with pytest.raises(InfrastructureError, match=words):
        demand(lab(), servers(stub.url), [HIKEY])
    server.tags = {}
    with pytest.raises(InfrastructureError, match="there is no such device"):
        demand(lab(), servers(stub.url), [HIKEY])


def test_f3_7_same_board_needs_a_tag_of_each_device(stub: Stub, server: Server) -> None:
    """F3.7: the tag was not checked beforehand: the second boot of a pair waited for ever."""
    server.tags["hi-02"] = ["simulated"]
    with pytest.raises(InfrastructureError, match="update hi-02 --tags simulated hi-02"):
        demand(lab(), servers(stub.url), [HIKEY])
    free = lab()
    board = free.boards[HIKEY].model_copy(update={"same_board": False})
    demand(free.model_copy(update={"boards": {HIKEY: board}}), servers(stub.url), [HIKEY])


def test_f3_4_the_command(
    stub: Stub, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lab.toml"
    text = Path("lava-jobs/labs/local.toml").read_text()
    text = text.replace('server = ""', f'server = "{stub.url}"')
    path.write_text(text.replace('files = ""', f'files = "{stub.url}"'))
    monkeypatch.setenv("IOTOLL_LAVA_TOKEN", "token")
    monkeypatch.setattr(check, "RETRIES", 0)

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(lava_command, ["check", str(path), *words])
        return done.exit_code, done.output

    code, said = run("--board", HIKEY)
    assert code == 0 and said.count("well: ") == 4 and "NOT" not in said
    code, said = run()
    assert code == 4 and "NOT WELL: board virt-arm64: no device of type qemu-aarch64" in said
    server.status = 401
    assert run()[0] == 2
    done = CliRunner().invoke(lava_command, ["check", str(path), "--board", "none"])
    assert isinstance(done.exception, UsageError)


def test_f3_5_a_page_that_is_no_log_is_asked_for_again(stub: Stub) -> None:
    """F3.5: a 200 answer that is no LAVA log cost a whole boot."""
    log = b'- {"dt": "2026-11-21T20:02:00", "lvl": "target", "msg": "x"}\n'
    stub.answers(Answer(200, b"<html>Proxy: please wait</html>"), Answer(200, log))
    lava = servers(stub.url).lava
    told: list[str] = []
    assert Retry(told.append)(lambda: lava.log(7)) == log
    assert "job 7: what the server sent is not a log: <html>Proxy" in told[0]


def test_f3_6_only_new_lines_of_a_log_are_asked_for(stub: Stub) -> None:
    """F3.6: the whole log every ten seconds."""
    lines = [log("target", f"iotoll: cell {n}").body for n in range(5)]
    watch = Watch(servers(stub.url).lava, 0.0)

    def play(request: Request) -> Answer:
        start = int(parse_qs(urlsplit(request.path).query).get("start", ["0"])[0])
        asked.append(start)
        rest = lines[start:]
        return Answer(200, b"".join(rest)) if rest else Answer(404)

    asked: list[int] = []
    stub.play = play
    assert not any(watch.crashed(job("Running")) for _ in range(2))
    lines.append(log("target", PANIC).body)
    assert [watch.crashed(job("Running")) for _ in range(2)] == [False, True]
    assert asked == [0, 5, 5]
    # A server that does not know `start` sends all of it: nothing is lost, nothing counted twice.
    other = Watch(servers(stub.url).lava, 0.0)
    stub.play = lambda _: Answer(200, b"".join(lines))
    assert [other.crashed(job("Running")) for _ in range(3)] == [False, True, True]


def test_f3_8_jobs_say_what_is_judged_and_whom_to_tell(tmp_path: Path, stub: Stub) -> None:
    """F3.8: no notify, no callback, no time-outs of single actions, no docker, no subject."""
    found = lab()
    board = found.boards[HIKEY]
    times = board.timeouts.model_copy(update={"actions": {"fastboot-flash-action": 7}})
    board = board.model_copy(update={"timeouts": times, "docker": "debian:trixie"})
    more = {"notify": ["lab@example.com"], "callback": "https://ci.example.com/lava"}
    jobs = found.jobs.model_copy(update=more)
    found = found.model_copy(update={"boards": {HIKEY: board}, "jobs": jobs})
    file = File("http://files/x", "3c" * 32)
    job = FastbootJob(
        name="x", metadata={"iotoll.subject": 'scsi: ufs: "quoted"'}, expected=["a"],
        method="grub", boot_partition="boot", boot=file, system_partition="system", system=file,
    )  # fmt: skip
    text = yaml.safe_load(render(job, HIKEY, found))
    assert text["timeouts"]["actions"] == {"fastboot-flash-action": {"minutes": 7}}
    assert text["actions"][0]["deploy"]["docker"] == {"image": "debian:trixie"}
    assert text["notify"]["criteria"] == {"status": "finished"}
    assert text["notify"]["callback"]["url"] == "https://ci.example.com/lava"
    assert "token" not in text["notify"]["callback"]
    assert text["notify"]["recipients"][0]["to"]["email"] == "lab@example.com"
    assert text["metadata"]["iotoll.subject"] == 'scsi: ufs: "quoted"'
    checked = yaml.safe_load(render(replace(job, health_check=True), HIKEY, found))
    assert "notify" not in checked


def test_f3_8_a_callback_holds_no_secret() -> None:
    data = lab().model_dump()
    for url in ("ftp://x", "https://user:secret@x/", "https://x/?token=1"):
        data["jobs"]["callback"] = url
        with pytest.raises(ValidationError):
            Lab.model_validate(data)


def test_f3_8_the_subject_of_a_series(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    assert subject(run) == ""
    record = SourceRecord(side="candidate", tree="x", version="6.12", tree_sha256="0")
    record = record.model_copy(update={"patch_subjects": ["ufs: a\x1b[31m", "ufs: b"]})
    results.write(run.side("candidate") / "source.json", record)
    assert subject(run).startswith("ufs: a") and subject(run).endswith("(and 1 more)")
    assert "\x1b" not in subject(run)
