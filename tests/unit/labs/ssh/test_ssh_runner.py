"""A board by ssh that loses the line at every step: what each loss means, and what it costs.

The line and the board are `fake_ssh.py`; tests/vm/test_ssh.py has real ones.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from iotoll.boards.board import RealBoard, load_board
from iotoll.boards.ramdisk import Image
from iotoll.boots.local import BootPlan
from iotoll.core.errors import BrokenError, InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.labs.ssh import connection, runner
from iotoll.labs.ssh.config import SshBoard, load_desk
from iotoll.labs.ssh.runner import SshRunner
from iotoll.records import results
from iotoll.records.models import BootRecord, BuildRecord, Clock
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir

BUILD_ID = "ab" * 20
CELL = "ufs-4k-randread-t1-direct"
CONSOLE = f"iotoll: step prepare\niotoll: step batch ufs\niotoll: cell {CELL}\niotoll: done\n"


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "board"
    (folder / "kept/boot").mkdir(parents=True)
    (folder / "boot_id").write_text("first")
    (folder / "notes").write_bytes(bytes.fromhex(BUILD_ID))
    (folder / "console").write_text(CONSOLE)
    programs = tmp_path / "bin"
    programs.mkdir()
    ssh = programs / "ssh"
    fake = Path(__file__).with_name("fake_ssh.py")
    ssh.write_text(f'#!/bin/sh\nexec {sys.executable} {fake} "$@"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("FAKE_SSH", str(folder))
    monkeypatch.setattr(connection, "AGAIN_SECONDS", 0.01)

    def make_tree(arch: str, dut: None, job: Path, root: Path, progress: Progress) -> None:
        (root / "iotoll").mkdir(parents=True)

    monkeypatch.setattr(runner, "make_tree", make_tree)
    return folder


@pytest.fixture
def plan(tmp_path: Path, board: Path) -> Callable[..., BootPlan]:
    def make(side: Side = "base") -> BootPlan:
        run = tmp_path / "run"
        kernel = run / "sides" / side / "build/Image"
        kernel.parent.mkdir(parents=True, exist_ok=True)
        kernel.write_bytes(b"kernel")
        build = BuildRecord(
            side=side,
            arch="arm64",
            image="Image",
            image_sha256="0" * 64,
            config_sha256="0" * 64,
            fragments=[],
            toolchain="",
            seconds=0,
            build_ids=[BUILD_ID],
        )
        results.write(kernel.with_name("build.json"), build)
        found = BootPlan(
            side=side,
            number=1,
            board=own_board(tmp_path),
            clock=Clock.TIME,
            accelerator="none",
            kernel=kernel,
            image=Image(tmp_path, "0" * 64, {"fio": "3.39"}),
            job=tmp_path,
            job_sha256="0" * 64,
            cells=[CELL],
            runs=1,
            folder=run / "sides" / side / "boots/1",
        )
        facts = f"build_id {BUILD_ID}\nkey {found.key}\nboard {found.board.name}\n"
        (board / "kept/boot/facts").write_text(facts)
        (board / "kept/boot/tools").write_text("fio fio-3.39\n")
        return found

    return make


def own_board(folder: Path) -> RealBoard:
    found = load_board("hikey960")
    assert isinstance(found, RealBoard)
    return found.model_copy(update={"dtb": ""})


def ssh_runner(tmp_path: Path, **settings: object) -> SshRunner:
    known = {"host": "root@board", "boot": "kexec", "boot_seconds": 0.5, "poll_seconds": 0.2}
    asked = SshBoard.model_validate({**known, **settings})
    return SshRunner(RunDir(tmp_path / "run"), asked, Progress(quiet=True))


def log(board: Path) -> list[str]:
    return (board / "log").read_text().split()


def boot(tmp_path: Path, plan: BootPlan, **settings: object) -> BootRecord:
    ssh_runner(tmp_path, **settings).boot(plan)
    return results.read(plan.folder / "boot.json", BootRecord)


def test_a_boot_by_kexec(tmp_path: Path, board: Path, plan: Callable[..., BootPlan]) -> None:
    one = plan()
    record = boot(tmp_path, one)
    assert record.command == ["ssh", "kexec"] and not record.virtual
    assert record.tools == {"image fio": "3.39", "board fio": "fio-3.39"}
    assert record.facts.before["build_id"] == BUILD_ID
    assert (one.folder / "console.log").read_text() == CONSOLE
    assert (board / "uploaded").read_bytes() == b"kernel"
    assert [one for one in log(board) if one in ("load", "kexec", "start", "fetch")] == [
        "load",
        "kexec",
        "start",
        "fetch",
    ]


def test_a_kernel_that_runs_is_measured_as_it_is(
    tmp_path: Path, board: Path, plan: Callable[..., BootPlan]
) -> None:
    boot(tmp_path, plan(), boot="running")
    assert not {"load", "kexec", "upload"} & set(log(board))


@pytest.mark.parametrize("step", ["boot_id", "upload", "digest", "load"])
def test_before_the_kernel_runs_a_lost_line_is_infrastructure(
    step: str, tmp_path: Path, board: Path, plan: Callable[..., BootPlan]
) -> None:
    (board / "lose").write_text(step)
    with pytest.raises(InfrastructureError, match="root@board cannot be reached: Connection reset"):
        boot(tmp_path, plan())


@pytest.mark.parametrize("step", ["send", "start", "look", "fetch"])
def test_a_line_that_comes_back_costs_nothing(
    step: str, tmp_path: Path, board: Path, plan: Callable[..., BootPlan]
) -> None:
    (board / "lose").write_text(step)
    assert boot(tmp_path, plan()).facts.before["key"]
    assert log(board).count(step) == 2


@pytest.mark.parametrize("step", ["send", "look", "fetch"])
def test_a_board_that_rebooted_meanwhile_is_the_boots_failure(
    step: str, tmp_path: Path, board: Path, plan: Callable[..., BootPlan]
) -> None:
    (board / "lose").write_text(step)
    (board / "reboot").write_text(step)
    with pytest.raises(BrokenError, match="the board rebooted") as caught:
        boot(tmp_path, plan())
    assert caught.value.step == "workload"


def test_a_board_that_came_back_empty_still_tells_its_boot(tmp_path: Path) -> None:
    words = ["sh", "-c", runner._LOOK, "iotoll", str(tmp_path), "1"]
    said = subprocess.run(words, capture_output=True, check=True).stdout
    assert said.count(b"\n") == 2 and len(said.split()) == 1


def test_a_kernel_that_never_answers_is_the_boots_failure(
    tmp_path: Path, board: Path, plan: Callable[..., BootPlan]
) -> None:
    (board / "never").touch()
    with pytest.raises(BrokenError, match="did not come back with the kernel") as caught:
        boot(tmp_path, plan())
    assert caught.value.step == "boot"


def test_another_kernel_than_the_one_that_was_started(
    tmp_path: Path, board: Path, plan: Callable[..., BootPlan]
) -> None:
    (board / "notes").write_bytes(b"another")
    with pytest.raises(BrokenError, match="came back with another kernel"):
        boot(tmp_path, plan())


def test_a_kernel_that_kexec_refuses_is_nobodys(
    tmp_path: Path, board: Path, plan: Callable[..., BootPlan]
) -> None:
    (board / "refuses").touch()
    with pytest.raises(InfrastructureError, match="kexec_load failed: Operation not permitted"):
        boot(tmp_path, plan())


def test_only_what_repeats_beside_the_base_is_the_candidates(
    tmp_path: Path, board: Path, plan: Callable[..., BootPlan]
) -> None:
    """The candidate reboots the board once: base, and then the candidate again, which goes well."""
    plan("base")
    one = plan("candidate")
    (board / "reboot").write_text("look")
    # The base beside it has another key, which its facts must have: so it fails here.
    with (
        Progress(quiet=True).step("boot") as step,
        pytest.raises(InfrastructureError, match="the board ran a job with key"),
    ):
        ssh_runner(tmp_path).boots([one], step)
    assert log(board).count("kexec") == 2
    died = one.folder.with_name("1.died.json").read_text()
    assert "the board rebooted" in died


def test_a_base_that_fails_is_infrastructure(
    tmp_path: Path, board: Path, plan: Callable[..., BootPlan]
) -> None:
    (board / "console").write_text("iotoll: step prepare\niotoll: FAIL prepare: no disk\n")
    words = "base kernel fails: prepare: no disk, in 2"
    with (
        Progress(quiet=True).step("boot") as step,
        pytest.raises(InfrastructureError, match=words),
    ):
        ssh_runner(tmp_path).boots([plan()], step)


def test_a_board_that_is_gone_is_reset(
    tmp_path: Path, board: Path, plan: Callable[..., BootPlan]
) -> None:
    (board / "gone").touch()
    with pytest.raises(InfrastructureError, match="cannot be reached"):
        boot(tmp_path, plan())
    boot(tmp_path, plan(), reset=["rm", str(board / "gone")])
    with pytest.raises(InfrastructureError, match="the desk file's reset false failed with status"):
        (board / "gone").touch()
        boot(tmp_path, plan(), reset=["false"])


def test_a_command_boots_the_image(
    tmp_path: Path, board: Path, plan: Callable[..., BootPlan]
) -> None:
    script = f'cmp "$IOTOLL_IMAGE" {tmp_path}/run/sides/base/build/Image && printf 2 >'
    words = ["sh", "-c", f"{script} {board}/boot_id"]
    assert boot(tmp_path, plan(), boot="command", command=words).command == ["ssh", "command"]
    with pytest.raises(InfrastructureError, match="the desk file's command false failed"):
        boot(tmp_path, plan(), boot="command", command=["false"])


def test_a_board_that_sends_without_end_or_never_is_ended(board: Path) -> None:
    asked = SshBoard(host="root@board", boot="running")
    with connection.Connection(asked) as line:
        assert line.run("cat /sys/kernel/notes") == bytes.fromhex(BUILD_ID)
        with pytest.raises(InfrastructureError, match="sent more than 0 MiB: refused"):
            line.run("cat /sys/kernel/notes", most=10)
        (board / "slow").touch()
        with pytest.raises(connection.LostError, match="did not answer within 0 s"):
            line.run("cat /sys/kernel/notes", seconds=0.3)


def test_desk_files(tmp_path: Path) -> None:
    desk = load_desk("example")
    assert desk.board("qrb5165-rb5").boot == "kexec"
    with pytest.raises(UsageError, match="desk example has no board x; it has: hikey960, qrb5165"):
        desk.board("x")
    path = tmp_path / "desk.toml"
    for text, words in (
        ('host = "-oProxyCommand=x"\nboot = "kexec"', "host"),
        ('host = "b"\nboot = "command"', "'command' goes with boot"),
        ('host = "b"\nboot = "kexec"\nramdisk = "none.cpio"', "ramdisk none.cpio: no such file"),
        ('host = "b"\nboot = "kexec"\nhosts = 1', "hosts"),
    ):
        path.write_text(f'description = "x"\n[boards.b]\n{text}\n')
        with pytest.raises(UsageError, match=words):
            load_desk(str(path))
