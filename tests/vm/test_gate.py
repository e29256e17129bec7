"""The main job on a virtual board: real kernels, real drivers, every outcome.

Few cells, so that a pair of boots takes seconds; each test is a whole ``iotoll gate``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.vm.conftest import (
    CELLS,
    EXAMPLES,
    FAULTS,
    LIMIT,
    UNCALIBRATED,
    Done,
    command,
    environment,
    impatient_board,
    needs_board,
    run_gate,
)

pytestmark = pytest.mark.vm
Gate = Callable[..., Done]
SIDES = ("base", "candidate")
UFS = "ufs-4k-randread-t1-direct"
FEW = ("--cells", CELLS)
SMALL = ("--cells", UFS, "--matrix", UNCALIBRATED)
LASTING = ("--cells", UFS)  # calibration follows the cell: seconds in which to end a boot
SILENCE = 12  # seconds of a board's own CPU time, which is several times what its cells need


@pytest.fixture(scope="module", autouse=True)
def needs() -> None:
    needs_board("virt-arm64")


def children(pid: int) -> list[int]:
    """All processes below ``pid``, by /proc: those that a test must not leave behind."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *children(int(child))]
    return found


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def boards(pid: int) -> list[int]:
    """The QEMU processes that iotoll process ``pid`` started."""
    return [child for child in children(pid) if name(child).startswith("qemu-system")]


def await_workload(process: subprocess.Popen[str], console: Path) -> None:
    """Wait until the board behind ``console`` runs its first cell."""
    deadline = time.monotonic() + LIMIT
    while not (console.is_file() and "iotoll: cell" in console.read_text(errors="replace")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A gate of the neutral patch that has been left to itself."""
    words = ("gate", "--candidate", EXAMPLES / "neutral.patch", *LASTING, "--out", tmp_path / "run")
    process = subprocess.Popen(
        command(*words, "--json"),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait(60)


@pytest.fixture(scope="module")
def neutral(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A finished run that several tests look at."""
    run = tmp_path_factory.mktemp("neutral") / "run"
    return run_gate(run, "--candidate", EXAMPLES / "neutral.patch", *FEW)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """As `neutral`, with one cell and no calibration."""
    run = tmp_path_factory.mktemp("small") / "run"
    return run_gate(run, "--candidate", EXAMPLES / "neutral.patch", *SMALL)


def test_neutral_patch_passes(neutral: Done) -> None:
    assert neutral.code == 0, neutral.verdict
    assert neutral.verdict["outcome"] == "pass"
    assert neutral.grew() == set()
    assert {c["outcome"] for c in neutral.verdict["cells"]} == {"pass"}
    page = (neutral.run / "report/index.html").read_text()
    coverage = json.loads((neutral.run / "explain.json").read_text())["coverage"]
    assert coverage["sentence"].startswith(
        "No function's machine code changed; the images differ in"
    )
    assert "machine code changed" in page
    assert "<html" in page


def test_verdict_is_derived_again_from_the_stored_traces(neutral: Done, tmp_path: Path) -> None:
    sides = [neutral.run / f"sides/{side}/result.json" for side in ("base", "candidate")]
    paths = [neutral.run / "verdict.json", *sides]
    before = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()
    # Without QEMU, compilers and caches: only the traces are needed.
    alone = environment(PATH="", IOTOLL_CACHE=str(tmp_path / "cache"))
    for step in ("collect", "judge"):
        subprocess.run(command("step", step, neutral.run), env=alone, check=True, timeout=LIMIT)
    assert [path.read_bytes() for path in paths] == before


def test_verdict_is_reproduced_by_booting_again(small: Done) -> None:
    words = command("reproduce", "--again", "--json", small.run)
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=LIMIT)
    said = json.loads(done.stdout)
    assert done.returncode == 0 and said["reproduced"], said
    assert said["how"] == "by running again" and said["after"] == "pass"
    same = [note for note in said["notes"] if "same counts, I/O by I/O" in note]
    assert len(same) == 1


def test_same_command_again_does_nothing_twice(neutral: Done) -> None:
    stamps = {p: p.stat().st_mtime_ns for p in neutral.run.glob("sides/*/boots/*/boot.json")}
    assert len(stamps) == 2
    again = run_gate(neutral.run, "--candidate", EXAMPLES / "neutral.patch", *FEW)
    assert again.code == 0
    assert {p: p.stat().st_mtime_ns for p in stamps} == stamps


def test_ready_made_images(neutral: Done, gate: Gate) -> None:
    base, other = (neutral.run / f"sides/{s}/build/Image" for s in ("base", "candidate"))
    done = gate("--base-image", base, "--candidate-image", other, *SMALL)
    assert done.code == 0, done.verdict
    assert [c["cell"] for c in done.verdict["cells"]] == [UFS]
    same = run_gate(done.run.with_name("same"), "--base-image", base, "--candidate-image", base)
    assert same.code == 0
    assert same.verdict["identical_images"]
    assert not list(same.run.glob("sides/*/boots"))


def test_f7_5_static_keys_that_are_off_cost_nops(gate: Gate) -> None:
    """Without jump labels each key is a load and a test: +3 to +5 (docs/kernels.md)."""
    done = gate("--candidate", FAULTS / "static-key.patch", *SMALL)
    assert done.code == 0, done.verdict
    sections = {section["section"]: section for section in done.verdict["cells"][0]["sections"]}
    assert 0 <= sections["submission"]["delta"] <= 2, sections["submission"]


@pytest.mark.long
def test_a_patch_that_reads_and_writes_the_links_attributes_boots(gate: Gate) -> None:
    """Two series of public lists were broken here, as QEMU's UFS answered no DME_GET."""
    done = gate("--candidate", FAULTS / "ufs-link-attributes.patch", *SMALL)
    assert (done.code, done.verdict["outcome"]) == (0, "pass"), done.stderr
    said = (done.run / "sides/base/boots/1/console.log").read_text(errors="replace")
    assert "iotoll: done" in said and "ufshcd" in said
    assert "dme-" not in said


def test_g1_8_documentation_passes_by_the_bases_build_alone(gate: Gate) -> None:
    done = gate("--candidate", EXAMPLES / "documentation.patch")
    assert done.code == 0
    assert done.verdict["sentence"].startswith("Nothing to measure")
    assert not list(done.run.glob("sides/candidate/build"))
    assert not list(done.run.glob("sides/*/boots"))


@pytest.mark.parametrize(
    ("fault", "step", "message", "tail"),
    [
        ("does-not-build", "build", "nr_queued_commands", "nr_queued_commands"),
        ("panics-at-boot", "boot", "NULL pointer dereference", "ufshcd_pci_probe"),
        ("fio-fails", "workload", "", ""),
    ],
)
def test_broken_candidates(gate: Gate, fault: str, step: str, message: str, tail: str) -> None:
    cells = "ufs-4k-randread-*"  # more than 600 reads
    words = ("--cells", cells, "--matrix", UNCALIBRATED)
    done = gate("--candidate", FAULTS / f"{fault}.patch", *words)
    assert done.code == 5, done.verdict
    assert done.verdict["outcome"] == "broken"
    failure = done.verdict["failure"]
    assert failure["step"] == step
    assert message in failure["message"]
    assert tail in failure["log_tail"]
    assert failure["log_tail"]
    assert failure["log_tail"].splitlines()[-1].strip() in (
        (done.run / "report/report.txt").read_text() + failure["log_tail"]
    )


@pytest.mark.parametrize("fault", ["hangs", pytest.param("spins", marks=pytest.mark.long)])
def test_candidates_that_hang_are_broken_within_the_time_limit(
    gate: Gate, tmp_path: Path, fault: str
) -> None:
    board, patch = impatient_board(tmp_path, silence=SILENCE), FAULTS / f"{fault}.patch"
    # The candidate that hangs does so after 600 direct reads: these are 768.
    reads = "ufs-4k-randread-*,ufs-128k-seqread-*-direct"
    cells = ("--cells", reads, "--matrix", UNCALIBRATED)
    done = gate("--candidate", patch, *cells, "--board", board)
    assert done.code == 5, done.verdict
    assert done.verdict["failure"]["step"] == "workload"
    assert f"no sign of life for {SILENCE} s, in 2 of 2 boots" in done.verdict["failure"]["message"]
    hung = (done.run / "sides/candidate/boots/1.hung.log").read_text()
    assert "iotoll: step" in hung, "the first console is kept"


@pytest.mark.parametrize("side", [pytest.param("base", marks=pytest.mark.long), "candidate"])
def test_f3_2_a_board_that_was_stopped_blames_nobody(
    neutral: Done, tmp_path: Path, side: str
) -> None:
    """F3.2: a stopped QEMU was exit 5 for a neutral candidate, and exit 4 for the base."""
    # Limits that no earlier run had: the base is not taken from the store of boots.
    board = impatient_board(tmp_path, silence=SILENCE, total=1200 + time.time() % 1)
    run, images = tmp_path / "run", [neutral.run / f"sides/{s}/build/Image" for s in SIDES]
    words = ("--base-image", images[0], "--candidate-image", images[1], *SMALL)
    process = subprocess.Popen(
        command("gate", *words, "--board", board, "--out", run, "--json"),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    console = run / f"sides/{side}/boots/1/console.log"
    deadline = time.monotonic() + LIMIT
    while not (console.is_file() and "iotoll: step" in console.read_text(errors="replace")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    place = f"sides/{side}/".encode()
    mine = [p for p in boards(process.pid) if place in Path(f"/proc/{p}/cmdline").read_bytes()]
    assert len(mine) == 1
    os.kill(mine[0], signal.SIGSTOP)
    out, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, (out, errors)
    assert json.loads(out)["outcome"] == "pass"
    assert console.parent.with_name("1.hung.log").is_file()


def test_patch_that_does_not_apply(gate: Gate, tmp_path: Path) -> None:
    text = (EXAMPLES / "neutral.patch").read_text().replace("ufs_trigger_eh(hba)", "no_such(hba)")
    (tmp_path / "stale.patch").write_text(text)
    done = gate("--candidate", tmp_path / "stale.patch", *FEW)
    assert done.code == 5, done.verdict
    assert done.verdict["failure"]["step"] == "apply"


def test_killed_qemu_is_infrastructure_and_the_same_command_resumes(
    started: subprocess.Popen[str], tmp_path: Path
) -> None:
    await_workload(started, tmp_path / "run/sides/candidate/boots/1/console.log")
    os.kill(boards(started.pid)[0], signal.SIGKILL)
    started.communicate(timeout=LIMIT)
    assert started.returncode == 4
    again = run_gate(tmp_path / "run", "--candidate", EXAMPLES / "neutral.patch", *LASTING)
    assert again.code == 0, again.verdict


def test_interrupted_boot_leaves_nothing_behind_and_resumes(
    started: subprocess.Popen[str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    await_workload(started, run / "sides/candidate/boots/1/console.log")
    below = [pid for pid in children(started.pid) if name(pid).startswith(("qemu", "nbdkit"))]
    assert len(below) >= 1, "QEMU; an exact board has no nbdkit"
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "the same command resumes" in err
    assert not [pid for pid in below if name(pid).startswith(("qemu", "nbdkit"))]
    built = (run / "sides/candidate/build/build.json").stat().st_mtime_ns
    again = run_gate(run, "--candidate", EXAMPLES / "neutral.patch", *LASTING)
    assert again.code == 0, again.verdict
    assert (run / "sides/candidate/build/build.json").stat().st_mtime_ns == built


def test_missing_qemu_names_its_package(neutral: Done, gate: Gate, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in reversed(os.environ["PATH"].split(":")):
        for tool in Path(folder).glob("*"):
            link = tools / tool.name
            if not tool.name.startswith("qemu-system"):
                link.unlink(missing_ok=True)
                link.symlink_to(tool)
    base, other = (neutral.run / f"sides/{s}/build/Image" for s in ("base", "candidate"))
    words = ("--base-image", base, "--candidate-image", other, *SMALL)
    # the exact board's QEMU lies in the cache.
    stock = ("--board", "virt-arm64-stock", *words)
    done = gate(*stock, PATH=str(tools))
    assert done.code == 4, done.verdict
    assert "apt-get install qemu-system-arm" in done.verdict["failure"]["message"]
    # Installed meanwhile: the same command resumes. A board that is not exact is not judged.
    assert gate(*stock).code == 3


def test_time_is_a_smoke_test_that_cannot_gate(neutral: Done, gate: Gate) -> None:
    base, other = (neutral.run / f"sides/{s}/build/Image" for s in ("base", "candidate"))
    words = ("--base-image", base, "--candidate-image", other, *SMALL)
    done = gate(*words, "--clock", "time")
    assert done.code == 3, done.verdict
    assert done.verdict["outcome"] == "inconclusive"
    assert not done.verdict["can_gate"]
    assert done.verdict["unit"] == "ns"
