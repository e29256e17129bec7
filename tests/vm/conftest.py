"""What the tests on a virtual board share. Kernels come from the user's cache: quick once warm."""

from __future__ import annotations

import filecmp
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iotoll.boards import flash
from iotoll.boards.board import VirtualBoard, load_board, load_virtual_board
from iotoll.boards.hardware import load_hardware
from iotoll.boards.qemu import qemu_binary
from iotoll.core.errors import InfrastructureError, IotollError
from iotoll.core.paths import data_dir
from iotoll.core.proc import require_tool
from iotoll.core.progress import Progress
from iotoll.kernels import kernel_job, source

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/patches"
FAULTS = Path(__file__).parent / "patches"
CELLS = "ufs-4k-randread-t1-direct,nvme-4k-randread-t1-direct"
UNCALIBRATED = Path(__file__).with_name("uncalibrated.toml")  # a matrix
LIMIT = 2700  # seconds for one command; a base kernel took 950 on a busy host


def command(*words: str | Path) -> list[str]:
    """The command line of iotoll with this interpreter."""
    return [sys.executable, "-m", "iotoll", *map(str, words)]


def environment(**more: str) -> dict[str, str]:
    """The environment, with the packages that are tested."""
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'lab/src'}", **more}


def succeed(
    *words: str | Path, timeout: float = LIMIT, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run iotoll, with ``more`` in its environment; the test fails where the command does."""
    done = subprocess.run(
        command(*words),
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@dataclass
class Done:
    """How a gate ended: its exit code, its verdict as JSON, and where the run is."""

    code: int
    verdict: dict[str, Any]
    stderr: str
    run: Path

    def grew(self) -> set[tuple[str, str]]:
        """Device and section of everything gated that grew."""
        return {
            (cell["cell"].partition("-")[0], section["section"])
            for cell in self.verdict["cells"]
            for section in cell["sections"]
            if section["moved"] == "grew" and section["gated"]
        }


def needs_board(name: str) -> None:
    """Skip, saying why, where kernels of a board cannot be built or booted."""
    board = load_board(name)
    try:
        if isinstance(board, VirtualBoard):
            qemu_binary(board)
            if not board.qemu.patched:
                require_tool("nbdkit", "nbdkit")
        require_tool("mmdebstrap", "mmdebstrap")
        kernel_job.installed_toolchain(board.arch)
        source.locate("debian")
    except IotollError as error:
        pytest.skip(str(error))


BUILD_ALL = "IOTOLL_TEST_BUILD_ALL"


def may_use(job: kernel_job.KernelJob) -> bool:
    """Whether a kernel is built, or tests may take the time to build it."""
    return job.is_done or bool(os.environ.get(BUILD_ALL))


def needs_kernel(hardware: str, tree: str = "debian", dtb: Path | None = None) -> None:
    """Skip, saying why, where the kernel of a real board is not in the cache.

    A first build takes so long (the drivers of several boards) that all tests together would take
    more than an hour on two cores; with `BUILD_ALL` set, the tests build it all the same.
    """
    try:
        job = flash.kernel_job(load_hardware(hardware), tree, None, Progress(quiet=True), dtb)
    except InfrastructureError as error:  # ZedBoard's compiler is no package that tests install
        pytest.skip(str(error))
    if not may_use(job):
        pytest.skip(
            f"the kernel of {hardware} is not built, which takes long:"
            f" run `iotoll image {hardware}` first, or set {BUILD_ALL}=1"
        )


@dataclass(frozen=True)
class Board:
    """Files, or names, of a board and of its hardware."""

    board: str
    hardware: str


#: What a simulated board needs that a virtual one has not: a partition table.
PARTITIONS = "CONFIG_PARTITION_ADVANCED=y\nCONFIG_EFI_PARTITION=y\nCONFIG_RD_GZIP=y\n"


def hikey960(folder: Path) -> Board:
    """HiKey960 as a simulated board can be it, with its own kernel if that is in the cache.

    Else with a kernel without the drivers of real boards, which is compiled in minutes. Partitions,
    device tree, boot image and jobs are the same. Its files are written into ``folder``.
    """
    needs_board("virt-arm64")
    hardware = load_hardware("hikey960")
    own = flash.kernel_job(hardware, "debian", None, Progress(quiet=True))
    if may_use(own):
        return Board("hikey960", "hikey960")
    (folder / "hardware").mkdir(parents=True)
    partitions = folder / "partitions.config"
    partitions.write_text(PARTITIONS)
    fragments = [*load_virtual_board("virt-arm64").fragments, str(partitions)]
    text = (data_dir("lava-jobs") / "hardware/hikey960.toml").read_text()
    text, count = re.subn(r"^fragments = .*$", f"fragments = {fragments}", text, flags=re.M)
    assert count == 1
    files = Board(str(folder / "hikey960.toml"), str(folder / "hardware/hikey960.toml"))
    Path(files.hardware).write_text(text)
    Path(files.board).write_text(f'extends = "hikey960"\nhardware = "{files.hardware}"\n')
    return files


def make_images(board: str, out: Path, *words: str | Path) -> Path:
    """Make a real board's images by the command."""
    succeed("image", board, *words, "--out", out, "--json", timeout=3600)
    return out


def needs_virtual_kernel(name: str) -> None:
    """Skip, saying why, where the base kernel of a board of this machine is not in the cache.

    For boards that no other test needs: each has a kernel of its own.
    """
    needs_board(name)
    board = load_board(name)
    record = source.base_of("debian", None, Progress(quiet=True))
    job = kernel_job.KernelJob.make(record, board.arch, board.fragments)
    if not may_use(job):
        pytest.skip(
            f"the kernel of {name} is not built, which takes minutes:"
            f" run `iotoll measure --board {name} --until build` first, or set {BUILD_ALL}=1"
        )


@pytest.fixture
def gate(tmp_path: Path) -> Callable[..., Done]:
    """Run ``iotoll gate`` in ``tmp_path/run`` (again: resume it)."""
    return lambda *words, **env: run_gate(tmp_path / "run", *words, **env)


def measure(run: Path, board: str, *words: str | Path) -> None:
    """Run ``iotoll measure`` with the run directory ``run``; skip where the board cannot run."""
    needs_board(board)
    succeed("measure", "--board", board, "--out", run, *words)


def unexplained(folder: Path) -> Path:
    """The default policy, which explains nothing by itself: two recorded boots fewer."""
    text = (data_dir("pipelines") / "policies/instructions.toml").read_text()
    text, count = re.subn('^when = "regression"$', 'when = "never"', text, flags=re.M)
    assert count == 1
    path = folder / "unexplained.toml"
    path.write_text(text)
    return path


def run_gate(run: Path, *words: str | Path, limit: float = LIMIT, **env: str) -> Done:
    """Run ``iotoll gate --json`` with the run directory ``run``, for ``limit`` seconds at most."""
    done = subprocess.run(
        command("gate", *words, "--out", run, "--json"),
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    verdict = json.loads(done.stdout) if done.stdout else {}
    return Done(done.returncode, verdict, done.stderr, run)


def assert_same_bytes(one: Path, other: Path, names: Sequence[str]) -> None:
    """Files of these names have the same bytes in both folders.

    Not by ``==``: of unequal bytes pytest makes a difference, for an hour where they are megabytes.
    """
    assert filecmp.cmpfiles(one, other, names, shallow=False) == (list(names), [], [])


def gate_neutral_patch(run: Path, *words: str | Path) -> None:
    """Gate a patch that changes nothing that runs: it passes, and none of its elements moved."""
    passed = run_gate(run, "--candidate", EXAMPLES / "neutral.patch", *words)
    assert passed.code == 0, passed.verdict
    gated = [e for cell in passed.verdict["cells"] for e in cell["elements"] if e["gated"]]
    assert not gated


def impatient_board(folder: Path, **limits: float) -> Path:
    """A copy of the default board with shorter limits (seconds)."""
    text = (ROOT / "lava-jobs/boards/virt-arm64.toml").read_text()
    head, _, _ = text.partition("[limits]")
    known = {"boot": 120.0, "silence": 90.0, "total": 1200.0, **limits}
    path = folder / "impatient.toml"
    path.write_text(head + "[limits]\n" + "".join(f"{k} = {v}\n" for k, v in known.items()))
    return path
