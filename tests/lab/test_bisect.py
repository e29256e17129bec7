"""A search on boards' time, whole: the command, a real LAVA, and its two simulated HiKey960 boards.

Eight commits to the UFS driver, each another kernel: one does not build, and one waits before each
request, which is large beside the noise of any host. The command is killed once and started again.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from iotoll.bisect.bayes import SURE
from iotoll.ci.repository import find_change, keep
from iotoll.labs.lava.journal import Attempt, read_journal
from iotoll.labs.lava.server import Servers
from iotoll.labs.local import LabState
from iotoll.records.models import BootRecord
from iotoll.records.results import read
from tests.gitlab.pipeline import PROJECT, kernel_repository
from tests.lab.conftest import UFS
from tests.repository import git
from tests.vm.conftest import EXAMPLES, FAULTS, command, environment, hikey960

pytestmark = [pytest.mark.lab, pytest.mark.vm]
DRIVER = "drivers/ufs/core/ufshcd.c"
LIMIT = 3600.0
BROKEN, CULPRIT, LAST = 4, 6, 8
"""Places in the range, whose first commit is 1. The search begins with what is in the middle."""
WAIT = 1000
"""Microseconds that the culprit waits before each request."""


@dataclass(frozen=True)
class Range:
    """A kernel tree in which each commit of ``points`` (A first) follows the one before."""

    tree: Path
    points: list[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Range:
    """The range, in a repository of the cache: its kernels are built once on this machine."""
    folder = kernel_repository(tmp_path_factory.mktemp("bisect") / "linux", {})
    points = [git(folder, "rev-parse", "main")]
    source = folder / DRIVER
    for place in range(1, LAST + 1):
        subject = f"ufs: note {place}"
        if place == BROKEN:
            subject = "ufs: count the commands in the queue"
            git(folder, "apply", str(FAULTS / "does-not-build.patch"))
        elif place == CULPRIT:
            subject = "ufs: let the controller settle between requests"
            text = (EXAMPLES / "ufs-slow-submission.patch").read_text()
            assert "udelay(2000)" in text
            git(folder, "apply", "-", stdin=text.replace("udelay(2000)", f"udelay({WAIT})"))
        else:
            if place == BROKEN + 1:
                git(folder, "apply", "-R", str(FAULTS / "does-not-build.patch"))
            # Data that nothing reads: another image, and the same instructions in every request.
            note = f"static const unsigned int ufshcd_note_{place} __used = {place};\n"
            source.write_text(source.read_text() + note)
        git(folder, "commit", "-q", "-m", subject, "--", "drivers")
        points.append(git(folder, "rev-parse", "HEAD"))
    return Range(keep(find_change(folder, points[0], points[-1], None), PROJECT), points)


@dataclass
class Search:
    """The command, which may be started again, and what it leaves in ``out``."""

    words: list[str]
    token_file: str
    out: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self) -> subprocess.Popen[str]:
        self.processes.append(
            subprocess.Popen(
                self.words,
                env=environment(IOTOLL_LAVA_TOKEN_FILE=self.token_file),
                stdout=subprocess.PIPE,
                stderr=(self.out.parent / f"stderr-{len(self.processes)}").open("w"),
                text=True,
            )
        )
        return self.processes[-1]

    def said(self, at: int = -1) -> str:
        """What a command said beside its answer."""
        number = range(len(self.processes))[at]
        return " ".join((self.out.parent / f"stderr-{number}").read_text().split())

    def rows(self, event: str) -> list[dict[str, Any]]:
        """Lines of the log, but for one that is being written."""
        path = self.out / "log.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.is_file() else []
        return [row for row in map(json.loads, lines) if row["event"] == event]

    def attempts(self) -> dict[str, list[Attempt]]:
        """The jobs of each commit that was measured, by the first 16 digits of its name."""
        found = self.out.glob("pairs/*/lava/journal.jsonl")
        return {path.parents[1].name: read_journal(path).attempts for path in found}

    def waits(self) -> bool:
        """Whether a job is with LAVA that is not at its end."""
        jobs = [attempt for of in self.attempts().values() for attempt in of]
        return any(job.number is not None and job.outcome is None for job in jobs)

    def boots(self) -> dict[tuple[str, str, int], BootRecord]:
        """All boots that a value rests on, by commit, side and number."""
        boots = {}
        for path in self.out.glob("pairs/*/sides/*/boots/*/boot.json"):
            run, side, number = path.parents[4].name, path.parents[2].name, path.parent.name
            boots[run, side, int(number)] = read(path, BootRecord)
        return boots


@pytest.fixture
def search(
    made: Range, state: LabState, lab_file: Path, tmp_path: Path
) -> Iterator[Callable[..., Search]]:
    board, started = hikey960(tmp_path / "board").board, []

    def begin(name: str, good: str, bad: str) -> Search:
        ends = ("--tree", made.tree, "--good", good, "--bad", bad, "--cell", UFS)
        lava = ("--runner", "lava", "--lab", lab_file, "--board", board, "--matrix", "hikey960")
        how = ("--section", "submission", "--boards", "2", "--noise", "0.2")
        out = tmp_path / name
        words = command("bisect", *ends, *lava, *how, "--out", out)
        started.append(Search(words, state.token_file, out))
        return started[-1]

    yield begin
    for process in (p for one in started for p in one.processes):
        if process.poll() is None:
            process.kill()
            process.wait(60)


def wait_for(search: Search, enough: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + LIMIT
    while not enough():
        assert process.poll() is None, search.said()
        assert time.monotonic() < end, search.said()
        time.sleep(0.5)


@pytest.mark.long
def test_the_commit_is_named_on_two_boards_and_a_kill_costs_no_job(
    made: Range, state: LabState, servers: Servers, search: Callable[..., Search]
) -> None:
    one = search("search", made.points[0], made.points[LAST])
    process = one.start()
    wait_for(one, lambda: len(one.rows("pair")) >= 4 and one.waits(), process)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    log = (one.out / "log.jsonl").read_text()
    before = {a.key: a.number for of in one.attempts().values() for a in of}
    assert one.waits(), "killed in the middle"

    process = one.start()
    text, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 3, one.said()
    check_answer(made, one, text)
    assert (one.out / "log.jsonl").read_text().startswith(log)
    check_jobs(made, state, servers, one, before)


def check_answer(made: Range, one: Search, text: str) -> None:
    """The culprit is named, and nobody may take it for confirmed."""
    answer = json.loads((one.out / "bisect.json").read_text())
    assert [commit["sha"] for commit in answer["commits"]] == [made.points[CULPRIT]], text
    assert answer["outcome"] == "unconfirmed" and answer["confirmed"] is None
    assert answer["sure"] >= SURE and answer["effect"] > 0.5
    assert answer["spent"]["skipped"] == [made.points[BROKEN]]
    (skipped,) = one.rows("skipped")
    assert skipped["step"] == "build" and "nr_queued_commands" in skipped["why"]
    assert "not confirmed" in text.splitlines()[0] and "virtual boards" in text.splitlines()[0]
    assert "no gate was run" in text and (one.out / "bisect.txt").read_text() == text
    for at in (0, 1):
        assert "no gate confirms it" in one.said(at) and "Traceback" not in one.said(at)
    assert not list(one.out.glob("culprit-*")) and not list(one.out.glob("revert-*"))
    assert not list(one.out.glob("**/.*-*")), "what a killed build left"


def check_jobs(
    made: Range, state: LabState, servers: Servers, one: Search, before: dict[str, int | None]
) -> None:
    """Each value is two LAVA jobs on one of both boards, and no boot was asked for twice."""
    boots, pairs = one.boots(), one.rows("pair")
    values = Counter(row["commit"][:16] for row in pairs)
    assert set(boots) == {
        (name, side, number)
        for name, count in values.items()
        for side in ("base", "candidate")
        for number in range(1, count + 1)
    }
    jobs: dict[int, str | None] = {}
    for (name, side, number), boot in boots.items():
        assert boot.lava is not None and boot.virtual
        other = boots[name, "base", number].lava
        assert other is not None and boot.lava.device == other.device
        jobs[boot.lava.job] = boot.lava.device
        # What the lab lost may have been tried again; what ended well is not.
        assert [a.outcome for a in boot.lava.attempts].count("done") == 1, (name, side, number)
    assert len(jobs) == len(boots) == 2 * len(pairs)
    assert set(jobs.values()) == set(state.simulated)
    attempts = {a.key: a for of in one.attempts().values() for a in of}
    done = [a.number for a in attempts.values() if a.outcome == "done"]
    assert sorted(map(int, filter(None, done))) == sorted(jobs), "no job but those of the values"
    for key, known in before.items():
        assert known is None or attempts[key].number == known, "taken up, and not submitted again"
    for job_number, device in jobs.items():
        job = servers.lava.job(job_number)
        assert job.device == device and job.health == "Complete"
