"""The main job in a LAVA lab: the same gate as on a local board, run as LAVA jobs."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iotoll.labs.lava.files import expected_cases
from iotoll.labs.lava.journal import read_journal
from iotoll.labs.lava.server import Servers
from iotoll.labs.lava.submission import SUPERSEDED
from iotoll.labs.local import LabState
from iotoll.records.models import BootRecord, Clock, Section, SideResult
from iotoll.records.results import read
from tests.lab.conftest import UFS, Start
from tests.vm.conftest import EXAMPLES, LIMIT, UNCALIBRATED, command, environment

pytestmark = [pytest.mark.lab, pytest.mark.vm]
NVME = "nvme-4k-randread-t1-direct"
CELLS = ("--cells", f"{UFS},{NVME}", "--matrix", UNCALIBRATED)
SMALL = ("--cells", UFS, "--matrix", UNCALIBRATED)


def finish(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    """Exit code and verdict."""
    out, err = process.communicate(timeout=LIMIT)
    assert "Traceback" not in err, err
    return process.returncode, json.loads(out) if out else {}


def jobs_of(run: Path) -> dict[str, list[int | None]]:
    """The jobs of each boot, by the journal."""
    found: dict[str, list[int | None]] = {}
    for attempt in read_journal(run / "lava/journal.jsonl").attempts:
        found.setdefault(attempt.boot, []).append(attempt.number)
    return found


def test_neutral_patch_passes_and_lava_has_its_figures(start: Start, servers: Servers) -> None:
    code, verdict = finish(start("--candidate", EXAMPLES / "neutral.patch", *CELLS))
    assert code == 0, verdict
    assert {c["outcome"] for c in verdict["cells"]} == {"pass"}
    result = read(start.run / "sides/candidate/result.json", SideResult)
    job = result.boots[0].lava
    assert job is not None
    assert [a.outcome for a in job.attempts] == ["done"]
    assert set(job.phases) >= {"queue", "deploy", "boot", "workload"}
    tests = {t["name"]: t for t in servers.lava.tests(job.job)}
    wanted = set(expected_cases([UFS, NVME], Clock.INSTRUCTIONS))
    assert wanted <= tests.keys()
    assert {tests[name]["result"] for name in wanted} == {"pass"}
    median = result.cells[UFS][0].sections[Section.SUBMISSION].own.median
    shown = tests[f"{UFS}.submission.median"]
    assert float(shown["measurement"]) == median
    assert shown["unit"] == "instructions"
    assert shown["test_set"] is not None
    assert shown["test_set"] != tests[f"{NVME}.submission.median"]["test_set"]


@pytest.mark.long
def test_costlier_ufs_submission_is_found_there_alone(start: Start) -> None:
    text = start.lab_file.read_text()
    name = "[boards.virt-arm64]\n"
    start.lab_file.write_text(text.replace(name, f"{name}same_board = true\n"))
    # With calibration, which the others leave out.
    words = ("--candidate", EXAMPLES / "ufs-submission-cost.patch", "--cells", UFS)
    code, verdict = finish(start(*words))
    assert code == 1, verdict
    grew = {
        section["section"]
        for cell in verdict["cells"]
        for section in cell["sections"]
        if section["moved"] == "grew" and section["gated"]
    }
    assert grew == {"submission"}
    boots = [read(p, BootRecord) for p in start.run.glob("sides/*/boots/*/boot.json")]
    assert len(boots) == 6, "further boots must show it"
    assert all(boot.measured == "board" and boot.lava for boot in boots)
    jobs = {(b.boot, b.side): b.lava for b in boots if b.lava}
    for pair, first in ((1, "base"), (2, "candidate"), (3, "base")):
        base, candidate = jobs[pair, "base"], jobs[pair, "candidate"]
        assert base.device == candidate.device, "both boots of a pair ran on one board"
        assert (base.started < candidate.started) == (first == "base")


def test_killed_collector_takes_up_its_jobs(start: Start, servers: Servers) -> None:
    words = ("--candidate", EXAMPLES / "neutral.patch", *SMALL)
    journal = start.run / "lava/journal.jsonl"
    for noted in (3, 5):  # the run, then 'intend' and 'submitted' of each job
        process = start(*words)
        deadline = time.monotonic() + LIMIT
        while not journal.is_file() or journal.read_bytes().count(b"\n") < noted:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    code, verdict = finish(start(*words))
    assert code == 0, verdict
    jobs = jobs_of(start.run)
    assert {"base/1", "candidate/1"} <= jobs.keys(), "and further boots where the first ones differ"
    assert {len(numbers) for numbers in jobs.values()} == {1}, jobs
    run = read_journal(journal).run
    for attempt in read_journal(journal).attempts:
        assert attempt.key.startswith(run)
        assert servers.lava.find(attempt.key) == [attempt.number], "no job twice, none forgotten"


def test_ended_job_of_a_pipeline_cancels_what_lava_has(
    state: LabState, servers: Servers, lab_file: Path, tmp_path: Path
) -> None:
    """GitLab ends the jobs of a superseded pipeline with SIGTERM."""
    root, env = tmp_path / "iotoll", environment(IOTOLL_LAVA_TOKEN_FILE=state.token_file)
    run = root / "lava/virt-arm64"
    words = ("--candidate", EXAMPLES / "neutral.patch", "--cells", UFS, "--until", "build")
    lava = ("--runner", "lava", "--lab", lab_file, "--out", run, "--quiet")
    subprocess.run(command("gate", *words, *lava), env=env, check=True, timeout=LIMIT)
    job = command("ci", "lava", "virt-arm64", "--root", root)
    process = subprocess.Popen(job, env=env, stderr=subprocess.PIPE, text=True)
    journal = run / "lava/journal.jsonl"
    wait_for(lambda: journal.is_file() and journal.read_bytes().count(b'"submitted"') == 2, process)
    process.terminate()
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130 and "Traceback" not in err, err
    for attempt in read_journal(journal).attempts:
        assert attempt.outcome == SUPERSEDED, "and the journal knows"
        assert attempt.number is not None
        number = attempt.number
        wait_for(lambda number=number: servers.lava.job(number).finished)  # type: ignore[misc]
        assert servers.lava.job(number).health == "Canceled"


def wait_for(done: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    """Wait until something holds, and a process runs meanwhile."""
    deadline = time.monotonic() + LIMIT
    while not done():
        assert process is None or process.poll() is None, "it ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.long
def test_x86_64_board_passes_against_itself(start: Start, tmp_path: Path) -> None:
    board = ("--board", "virt-x86_64", "--cells", UFS)
    made = tmp_path / "kernel"
    words = command("measure", *board, "--out", made, "--until", "build", "--quiet")
    subprocess.run(words, env=environment(), check=True, timeout=LIMIT)
    image, other = made / "sides/base/build/Image", tmp_path / "other"
    # The same kernel with another digest: of one and the same image nothing would be run.
    other.write_bytes(image.read_bytes() + bytes(512))
    code, verdict = finish(start("--base-image", image, "--candidate-image", other, *board))
    assert code == 0, verdict
    assert [c["outcome"] for c in verdict["cells"]] == ["pass"]
    boots = [read(p, BootRecord) for p in start.run.glob("sides/*/boots/*/boot.json")]
    assert {boot.lava.device for boot in boots if boot.lava} == {"virt-x86-64-01"}
