"""What the tests on a real LAVA share: one lab for all of them, made as `make lab` makes it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from iotoll_lab.local.lifecycle import LocalLab

from iotoll.boots.local import BootPlan
from iotoll.boots.schedule import plan_boot
from iotoll.core.paths import data_dir, dut_command
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow
from iotoll.labs.lava.config import Lab, load_lab
from iotoll.labs.lava.http import Http
from iotoll.labs.lava.runner import LavaRunner
from iotoll.labs.lava.server import FileStore, LavaServer, Servers
from iotoll.labs.local import LabState
from iotoll.records import results
from iotoll.records.models import SelectionRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from tests.vm.conftest import FAULTS, LIMIT, command, environment, needs_board

UFS = "ufs-4k-randread-t1-direct"


@pytest.fixture(scope="session")
def lab(lab_root: Path) -> Iterator[LocalLab]:
    """A running lab of the tests' own."""
    needs_board("virt-arm64")
    dut_command("arm64")
    folder = Path(tempfile.mkdtemp(prefix="iotoll-lab-"))
    local = LocalLab(folder / "lab")
    try:
        local.up(load_lab("local"), Progress())
        yield local
    finally:
        local.down()
        shutil.rmtree(folder)


@pytest.fixture
def state(lab: LocalLab) -> LabState:
    """How to reach the running lab."""
    found = lab.state
    assert found is not None, "the lab is down: an earlier test ended it"
    return found


@pytest.fixture
def servers(state: LabState) -> Servers:
    """The lab's servers, with the rights of its user."""
    token = Path(state.token_file).read_text()
    return Servers(LavaServer(Http(state.url, token)), FileStore(Http(state.files_url)))


@pytest.fixture
def admin(state: LabState) -> LavaServer:
    """The server, with the rights of its administrator."""
    return LavaServer(Http(state.url, Path(state.admin_token_file).read_text()))


@pytest.fixture
def lab_file(state: LabState, tmp_path: Path) -> Path:
    """A lab file of that lab, as of any lab elsewhere, with short time-outs."""
    text = (data_dir("lava-jobs") / "labs/local.toml").read_text()
    text = text.replace('server = ""', f'server = "{state.url}"')
    text = text.replace('files = ""', f'files = "{state.files_url}"')
    text = text.replace("boot = 4, workload = 20", "boot = 4, workload = 6")
    path = tmp_path / "lab.toml"
    path.write_text(text)
    return path


@pytest.fixture
def start(state: LabState, lab_file: Path, tmp_path: Path) -> Iterator[Start]:
    """Start ``iotoll gate --runner lava`` in the background."""
    one = Start(lab_file, state.token_file, tmp_path / "run", [])
    yield one
    for process in one.processes:
        if process.poll() is None:
            process.kill()
            process.wait(60)


@dataclass
class Start:
    """Starts gates on the lab, all in the run directory ``run``."""

    lab_file: Path
    token_file: str
    run: Path
    processes: list[subprocess.Popen[str]]

    def __call__(self, *words: str | Path) -> subprocess.Popen[str]:
        lava = ("--runner", "lava", "--lab", self.lab_file, "--out", self.run, "--json")
        process = subprocess.Popen(
            command("gate", *words, *lava),
            env=environment(IOTOLL_LAVA_TOKEN_FILE=self.token_file),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Run directories with kernels of the faults in tests/vm/patches, made when asked for."""
    return Built(tmp_path_factory.mktemp("built"))


@dataclass
class Built:
    """Kernels that are built once for all tests."""

    folder: Path

    def run(
        self, fault: str, target: Path, lab: str | None = None, cells: Sequence[str] = ()
    ) -> RunDir:
        """A run directory of its own whose candidate has a fault; for a lab, with these cells."""
        made = self.folder / fault
        if not made.is_dir():
            patch = FAULTS / f"{fault}.patch"
            words = ("--candidate", patch, "--cells", "ufs-4k-randread-*-direct", "--out", made)
            done = command("gate", *words, "--runner", "lava", "--until", "build", "--quiet")
            subprocess.run(done, env=environment(), check=True, timeout=LIMIT)
        shutil.copytree(made, target, symlinks=True)
        run = RunDir.open(target)
        if lab:
            results.write(target / "run.json", run.manifest.model_copy(update={"lab": lab}))
        if cells:
            selection = results.read(run.selection, SelectionRecord)
            chosen = [choice for choice in selection.cells if choice.cell in cells]
            results.write(run.selection, selection.model_copy(update={"cells": chosen}))
        return run


@dataclass
class One:
    """A single boot on the lab, without the rest of a gate."""

    runner: LavaRunner
    plan: BootPlan
    done: list[str]

    def go(self) -> None:
        """Run it to its end, as a gate does."""
        with Progress(quiet=True).step("boot") as step:
            self.runner.boots([self.plan], step)


@dataclass
class Boots:
    """Makes boots of a run directory's kernels."""

    built: Built
    servers: Servers
    lab_file: Path
    folder: Path

    def __call__(
        self,
        fault: str,
        side: Side = "candidate",
        cells: Sequence[str] = (UFS,),
        workload: int = 8,
        attempts: int = 2,
    ) -> One:
        run = self.built.run(fault, self.folder / f"run-{fault}-{side}")
        lab = self._lab(workload, attempts)
        flow = Flow(run, Progress(quiet=True))
        bench = replace(flow.bench, cells=list(cells), calibrate=False)
        done: list[str] = []
        runner = LavaRunner(run, lab, self.servers, lambda plan: done.append(plan.name))
        return One(runner, plan_boot(run, bench, side, 1), done)

    def _lab(self, workload: int, attempts: int) -> Lab:
        lab = load_lab(str(self.lab_file))
        board = lab.boards["virt-arm64"]
        times = board.timeouts.model_copy(update={"workload": workload})
        boards = {"virt-arm64": board.model_copy(update={"timeouts": times})}
        jobs = lab.jobs.model_copy(update={"attempts": attempts})
        return lab.model_copy(update={"boards": boards, "jobs": jobs})


@pytest.fixture
def boots(built: Built, servers: Servers, lab_file: Path, tmp_path: Path) -> Boots:
    """Single boots on the lab."""
    return Boots(built, servers, lab_file, tmp_path)
