"""HiKey960 jobs through fastboot on the lab's two simulated boards, whole and with every fault.

The kernel is the one that `iotoll image` builds for real boards, if that is in the cache.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from iotoll_lab.simboard import client

from iotoll.boots.schedule import plan_boot
from iotoll.core.errors import BrokenError, InfrastructureError
from iotoll.core.paths import data_dir
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow
from iotoll.labs.lava.config import Lab, load_lab
from iotoll.labs.lava.http import Http
from iotoll.labs.lava.journal import Attempt, read_journal
from iotoll.labs.lava.runner import LavaRunner
from iotoll.labs.lava.server import LavaServer, Servers
from iotoll.labs.local import LabState
from iotoll.measure.collect import collect
from iotoll.records.models import BootRecord, CellRecord, Clock, Section, SideResult
from iotoll.records.models.run import Side
from iotoll.records.results import read, write
from iotoll.records.rundir import SIDES, RunDir
from tests.lab.conftest import UFS
from tests.lab.test_health import check_by_lava, lava
from tests.vm.conftest import (
    EXAMPLES,
    FAULTS,
    LIMIT,
    command,
    environment,
    hikey960,
    succeed,
)

pytestmark = [pytest.mark.lab, pytest.mark.vm]
NVME = "nvme-128k-seqwrite-t1-direct"
IOS = {UFS: 512, NVME: 256}


Words = tuple[str | Path, ...]


@pytest.fixture(scope="module")
def through_lava(tmp_path_factory: pytest.TempPathFactory) -> Words:
    """What a run on these boards is told."""
    board = hikey960(tmp_path_factory.mktemp("board")).board
    return ("--board", board, "--matrix", "hikey960", "--runner", "lava")


@pytest.fixture(scope="module")
def kernel(through_lava: Words, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory whose kernel and device tree are built."""
    for tool in ("mkbootimg", "debugfs"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: see tools/packages.txt")
    run = tmp_path_factory.mktemp("kernel") / "run"
    words = (*through_lava, "--cells", f"{UFS},{NVME}", "--out", run, "--until", "build", "--quiet")
    succeed("measure", *words, timeout=3600)
    return run


@pytest.fixture
def boards(state: LabState) -> Iterator[list[str]]:
    """The simulated boards' names, without a fault before and after."""
    names = sorted(state.simulated.values())
    assert len(names) == 2
    yield names
    for name in names:
        fault(name, "clear")


def fault(board: str, name: str, value: float = 0.0, when: str = "") -> None:
    client.ask(board, {"do": "fault", "fault": name, "value": value, "when": when})


@dataclass
class Pair:
    """Two boots at a time on the lab's two boards."""

    run: RunDir
    lab: Lab
    servers: Servers
    done: list[str]

    def hurry(self, **minutes: int) -> None:
        """Shorter time-outs, and one attempt."""
        board = self.lab.board("hikey960")
        times = board.timeouts.model_copy(update=minutes)
        boards = {"hikey960": board.model_copy(update={"timeouts": times})}
        jobs = self.lab.jobs.model_copy(update={"attempts": 1})
        self.lab = self.lab.model_copy(update={"boards": boards, "jobs": jobs})

    def go(self, cells: list[str], side: Side = "base", numbers: tuple[int, ...] = (1, 2)) -> None:
        """Run boots 1 and 2 of the base (or others) to their ends, as a gate does."""
        bench = replace(Flow(self.run, Progress(quiet=True)).bench, cells=cells)
        plans = [plan_boot(self.run, bench, side, number) for number in numbers]
        runner = LavaRunner(self.run, self.lab, self.servers, lambda p: self.done.append(p.name))
        with Progress(quiet=True).step("boots") as step:
            runner.boots(plans, step)

    @property
    def attempts(self) -> list[Attempt]:
        """All jobs, in the order in which they were submitted."""
        return read_journal(self.run.root / "lava/journal.jsonl").attempts

    def device(self, attempt: Attempt) -> str | None:
        """Where LAVA ran a job."""
        assert attempt.number is not None
        return self.servers.lava.job(attempt.number).device


@pytest.fixture
def pair(kernel: Path, servers: Servers, lab_file: Path, tmp_path: Path) -> Pair:
    """Boots of a run directory of its own."""
    shutil.copytree(kernel, tmp_path / "run", symlinks=True)
    return Pair(RunDir.open(tmp_path / "run"), load_lab(str(lab_file)), servers, [])


def check(cell: CellRecord) -> None:
    """A record that came over the serial line holds the whole cell, in nanoseconds."""
    assert cell.invalid is None
    assert cell.ios["measured"] == cell.fio["ios"] == IOS[cell.cell]
    assert cell.clock is Clock.TIME
    assert cell.unit == "ns"
    # QEMU's device may answer before the doorbell's function returns: then it took no time.
    for name, section in cell.sections.items():
        assert section.own.median is not None
        assert section.own.median > 0 or name is Section.HARDWARE


def test_gate_of_two_whole_jobs_side_by_side(
    through_lava: Words, state: LabState, lab_file: Path, tmp_path: Path
) -> None:
    lab_file.write_text(lab_file.read_text().replace("same_board = true", "same_board = false"))
    run, patch = tmp_path / "run", EXAMPLES / "neutral.patch"
    words = (*through_lava, "--lab", lab_file, "--candidate", patch, "--cells", f"{UFS},{NVME}")
    done = subprocess.run(
        command("gate", *words, "--out", run, "--json"),
        env=environment(IOTOLL_LAVA_TOKEN_FILE=state.token_file),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["outcome"], verdict["can_gate"]) == ("inconclusive", False)
    assert (run / "report/index.html").is_file()
    sides = [read(run / f"sides/{side}/result.json", SideResult) for side in SIDES]
    kernels = {side.build.image_sha256 for side in sides if side.build}
    assert len(kernels) == 2
    jobs = [boot.lava for side in sides for boot in side.boots if boot.lava]
    assert sorted(job.device for job in jobs) == sorted(state.simulated)
    first, second = sorted(jobs, key=lambda job: job.started)
    assert second.started < first.ended, "at the same time"
    for job in jobs:
        assert job.device_type == "hi960-hikey"
        assert [attempt.outcome for attempt in job.attempts] == ["done"]
        assert set(job.phases) >= {"queue", "deploy", "boot", "workload"}
    for side in sides:
        assert all(boot.virtual for boot in side.boots), "nobody may take it for a board's latency"
        assert set(side.cells) == {UFS, NVME}
        for (cell,) in side.cells.values():
            check(cell)
        compare_with_lava(state, side)


@pytest.mark.long
def test_both_kernels_are_profiled_through_lava(
    through_lava: Words, state: LabState, lab_file: Path, tmp_path: Path
) -> None:
    """Approximate, and never judged: the kernels have function_graph's profiler."""
    run, patch = tmp_path / "run", EXAMPLES / "ufs-submission-cost.patch"
    asked = (*through_lava, "--lab", lab_file, "--candidate", patch, "--cells", UFS, "--out", run)
    # The gate's own boots are another test's: the kernels are all that a profile needs.
    token = state.token_file
    succeed("gate", *asked, "--until", "build", IOTOLL_LAVA_TOKEN_FILE=token)
    words = ("explain", run, "--profile", "--cell", UFS, "--json", "--quiet")
    done = succeed(*words, timeout=3600, IOTOLL_LAVA_TOKEN_FILE=token)
    found = json.loads(done.stdout)
    assert found["approximate"] is True and not (run / "explain/profile/run.json").exists()
    (cell,) = found["cells"]
    functions = {f["name"]: f for f in cell["functions"]}
    changed = functions["ufshcd_queuecommand"]
    assert changed["changed"] and changed["base_calls"] >= 1 and changed["candidate_ns"] > 0
    boots = [read(p, BootRecord) for p in run.glob("explain/profile/sides/*/boots/1/boot.json")]
    assert [boot.measured for boot in boots] == ["board", "board"]


def compare_with_lava(state: LabState, result: SideResult) -> None:
    """LAVA's own measurements are the records' figures."""
    lava = LavaServer(Http(state.url, Path(state.token_file).read_text()))
    for at, boot in enumerate(result.boots):
        assert boot.lava is not None
        tests = {test["name"]: test for test in lava.tests(boot.lava.job)}
        for name, records in result.cells.items():
            for section, figures in records[at].sections.items():
                found = tests[f"{name}.{section.value}.median"]
                assert float(found["measurement"]) == figures.own.median
                assert found["unit"] == "ns"


@pytest.mark.long
def test_cut_and_garbled_serial_line_are_tried_again(pair: Pair, boards: list[str]) -> None:
    cut, garbled = boards
    # So short that a retry, which LAVA may give the same board at once, finds it mended; where a
    # machine is so busy that it does not, that job is lost in the same way.
    fault(cut, "uart-cut", 1, when="iotoll: step batch ufs")
    fault(garbled, "uart-garble", 0.01, when="iotoll: step batch ufs")
    fault(garbled, "clear", when="iotoll: step batch nvme")
    pair.go([UFS, NVME])
    assert sorted(pair.done) == ["base/1", "base/2"]
    words = {"hi960-hikey-01": "[connection-closed]", "hi960-hikey-02": "serial line lost"}
    lost = [a for a in pair.attempts if a.outcome == "infrastructure"]
    assert {pair.device(attempt) for attempt in lost} == set(words)
    for attempt in lost:
        assert words[str(pair.device(attempt))] in attempt.why
    result = collect(pair.run, [UFS, NVME], Clock.TIME, "base", [1, 2])
    for records in result.cells.values():
        assert len(records) == 2
        for cell in records:
            check(cell)
    for number in (1, 2):
        boot = read(pair.run.boot("base", number) / "boot.json", BootRecord)
        assert boot.lava is not None
        *before, last = [attempt.outcome for attempt in boot.lava.attempts]
        assert before
        assert set(before) == {"infrastructure"}
        assert last == "done"


@pytest.mark.long
def test_lost_fastboot_is_the_lab_s_fault_and_one_hang_nobody_s(
    pair: Pair, boards: list[str]
) -> None:
    lost, hanging = boards
    fault(lost, "fastboot-lost")
    fault(hanging, "hang", when="iotoll: step batch ufs")
    pair.hurry(deploy=2, workload=2)
    with pytest.raises(InfrastructureError):
        pair.go([UFS])
    assert pair.done == []
    first: dict[str, Attempt] = {}
    for attempt in pair.attempts:
        first.setdefault(str(pair.device(attempt)), attempt)
    assert sorted(first) == ["hi960-hikey-01", "hi960-hikey-02"]
    assert first["hi960-hikey-01"].outcome == "infrastructure"
    assert "[hikey960-fastboot-not-found]" in first["hi960-hikey-01"].why
    # Tried once more, elsewhere: only a hang that repeats is the kernel's.
    assert first["hi960-hikey-02"].outcome == "hang"
    assert "[hangs-in-workload]" in first["hi960-hikey-02"].why


@pytest.fixture
def panicking(through_lava: Words, tmp_path: Path) -> Path:
    """A run directory whose candidate panics at a read, built."""
    run, patch = tmp_path / "panics", FAULTS / "panics-in-workload.patch"
    words = (*through_lava, "--candidate", patch, "--cells", UFS, "--out", run, "--until", "build")
    succeed("gate", *words, timeout=3600)
    return run


@pytest.mark.long
@pytest.mark.usefixtures("boards")
def test_g1_panic_of_the_candidate_is_tried_once_more_beside_the_base(
    panicking: Path, servers: Servers, lab_file: Path
) -> None:
    pair = Pair(RunDir.open(panicking), load_lab(str(lab_file)), servers, [])
    with pytest.raises(BrokenError, match=r"fs/ext4/file\.c") as caught:
        pair.go([UFS], "candidate", (1,))
    assert caught.value.step == "workload"
    assert "Kernel panic - not syncing" in caught.value.log_tail
    assert [one.outcome for one in pair.attempts] == ["broken", "done", "broken"]
    assert all(str(pair.device(one)).startswith("hi960-hikey-") for one in pair.attempts)


def hasty_policy(folder: Path) -> Path:
    """The policy of the clock `time` with two early looks, and alarms that are next to impossible.

    Times of a simulated board are QEMU's, so nothing is to be concluded from them here.
    """
    text = (data_dir("pipelines") / "policies/time.toml").read_text()
    for key, value in (
        ("looks", "[2, 3]"),
        ("alarm_error", "0.00001"),
        ("block_error", "0.4"),
        ("pass_spending", "[0.5, 1.0]"),
    ):
        text = re.sub(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.M)
    path = folder / "hasty.toml"
    path.write_text(text)
    return path


@pytest.mark.long
def test_health_check_and_control_of_a_board_run(
    kernel: Path,
    state: LabState,
    admin: LavaServer,
    boards: list[str],
    lab_file: Path,
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    shutil.copytree(kernel, run, symlinks=True)
    manifest = RunDir.open(run).manifest
    policy = str(hasty_policy(tmp_path))
    changes = {"runner": "lava", "lab": str(lab_file), "policy": policy}
    write(run / "run.json", manifest.model_copy(update=changes))
    check_by_lava(state, admin, run, "hi960-hikey-01", ["hi960-hikey-02"])
    done = lava(state, "control", run, "--device", "hi960-hikey-01")
    assert done.returncode == 0, done.stderr
    said = r"hi960-hikey-01: (steady|shows no drift, .*) \([23] pairs of boots\)"
    assert re.search(said, done.stdout), done.stdout
    boots = list((run / "lava/control/hi960-hikey-01/sides").glob("*/boots/*/boot.json"))
    assert len(boots) in (4, 6)
    for path in boots:
        record = read(path, BootRecord)
        assert record.lava is not None
        assert record.lava.device == "hi960-hikey-01"
