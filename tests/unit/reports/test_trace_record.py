"""`iotoll record`: the command for a machine, and what becomes of it when it is run."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from iotoll.cli import cli
from iotoll.core.errors import UsageError
from iotoll.reports.trace import record
from tests.unit.tables import READ

NVME = "nvme:nvme_setup_cmd"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /sys with a disk and its partition, a mapping on that, and a multipath head."""
    block, devices = tmp_path / "class/block", tmp_path / "devices"
    disks = {
        "sda": "8:0",
        "sda1": "8:1",
        "dm-0": "253:0",
        "nvme0n1": "259:1",
        # A multipath head's path has no file `dev`.
        "nvme0c0n1": "",
        "nvme1n1": "259:2",
    }
    block.mkdir(parents=True)
    for name, number in disks.items():
        real = devices / ("sda/sda1" if name == "sda1" else name)
        real.mkdir(parents=True, exist_ok=True)
        if number:
            (real / "dev").write_text(f"{number}\n")
        (block / name).symlink_to(real)
    (devices / "sda/sda1/partition").write_text("1\n")
    (devices / "dm-0/slaves").mkdir()
    (devices / "dm-0/slaves/sda1").symlink_to(devices / "sda/sda1")
    tracefs = tmp_path / "kernel/tracing"
    for event in (*record.EVENTS, NVME, *record.DRIVERS["scsi"]):
        if event != "io_uring:io_uring_submit_sqe":
            (tracefs / "events" / event.replace(":", "/")).mkdir(parents=True)
    monkeypatch.setattr(record, "SYS", tmp_path)
    monkeypatch.setattr(record, "TRACEFS", (tracefs,))
    return tmp_path


def printed(*words: str) -> tuple[list[str], list[str]]:
    """The words of both commands that are printed."""
    done = CliRunner().invoke(cli, ["record", *words], catch_exceptions=False)
    assert done.exit_code == 0
    lines = [line for line in done.stdout.replace("\\\n", "").splitlines() if line[0] != "#"]
    first, second = map(shlex.split, lines)
    return first, second


def filters(command: list[str]) -> dict[str, str]:
    """The filter of each event that has one."""
    places = [place for place, word in enumerate(command) if word == "-f"]
    return {command[place - 1]: command[place + 1] for place in places}


def test_the_command_has_what_the_kernel_has(machine: Path) -> None:
    command, analysis = printed("--for", "2.5", "--out", "x y.dat")
    events = [command[n + 1] for n, word in enumerate(command) if word == "-e"]
    assert command[:4] == ["trace-cmd", "record", "-C", "mono"]
    assert command[-2:] == ["sleep", "2.5"]
    assert "block:block_rq_issue" in events and NVME in events
    assert "io_uring:io_uring_submit_sqe" not in events and "ufs:ufshcd_command" not in events
    assert "scsi:scsi_dispatch_cmd_start" in events and not filters(command)
    assert analysis == ["iotoll", "analyze", "x y.dat"]


@pytest.mark.parametrize(
    ("name", "numbers", "own"),
    [
        ("sda", ["8:0"], "8:0"),
        ("/dev/sda1", ["8:1", "8:0"], "8:1"),
        ("8:1", ["8:1", "8:0"], "8:1"),
        ("dm-0", ["253:0", "8:1", "8:0"], "253:0"),
        ("nvme1n1", ["259:2"], "259:2"),
    ],
)
def test_a_device_comes_with_all_that_it_stands_on(
    machine: Path, name: str, numbers: list[str], own: str
) -> None:
    command, analysis = printed("--device", name)
    raw = [(int(n.split(":")[0]) << 20) | int(n.split(":")[1]) for n in numbers]
    found = filters(command)
    assert set(found.values()) == {" || ".join(f"dev == {number}" for number in raw)}
    assert all(event.startswith("block:") for event in found)
    assert analysis[-2:] == ["--device", own]
    assert (NVME in command) == name.startswith("nvme")


def test_g4_8_a_head_whose_paths_have_no_number_is_not_filtered(machine: Path) -> None:
    command, analysis = printed("--device", "nvme0n1")
    assert not filters(command) and NVME in command
    assert analysis[-2:] == ["--device", "259:1"]


def test_what_is_not_there_is_said(machine: Path) -> None:
    with pytest.raises(UsageError, match=r"--device sdz: .* it has dm-0, nvme0n1, .*sda1"):
        printed("--device", "sdz")
    shutil.rmtree(machine / "kernel/tracing/events/block/block_rq_issue")
    with pytest.raises(UsageError, match="no event block:block_rq_issue: build it with CONFIG"):
        printed()


def test_without_tracefs_the_events_are_not_checked(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "TRACEFS", (machine / "nothing",))
    done = CliRunner().invoke(cli, ["record"], catch_exceptions=False)
    assert done.stdout.startswith("# tracefs cannot be read here, so the events were not checked")


def test_without_root_it_is_printed(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    done = CliRunner().invoke(cli, ["record", "--run"])
    assert isinstance(done.exception, UsageError)
    assert "recording needs root" in str(done.exception)
    assert "trace-cmd record" in done.stdout


STUB = f"""#!{sys.executable}
import shutil, signal, sys, time
out = sys.argv[sys.argv.index("-o") + 1]
if sys.argv[1] == "list":
    sys.exit(1)
if "fail" in out:
    sys.exit("no such event")
signal.signal(signal.SIGINT, lambda *_: (shutil.copy({str(READ)!r}, out), sys.exit(0)))
open(out + ".begun", "w").close()
time.sleep(60 if sys.argv[-2] != "sleep" else float(sys.argv[-1]))
shutil.copy({str(READ)!r}, out)
"""


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    """A folder with a trace-cmd that records nothing: it hands over a trace when it ends."""
    folder = tmp_path / "bin"
    folder.mkdir()
    tool = folder / "trace-cmd"
    tool.write_text(STUB)
    tool.chmod(0o755)
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="recording needs root")
def test_ctrl_c_ends_the_recording_and_the_analysis_follows(stub: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.dat"
    command = [sys.executable, "-m", "iotoll", "record", "--run", "--for", "60", "--out", str(out)]
    path = f"{stub}:{os.environ['PATH']}"
    pipe, env = subprocess.PIPE, {**os.environ, "PATH": path}
    with subprocess.Popen(command, env=env, text=True, stdout=pipe, stderr=pipe) as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "t.dat.begun").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        shown, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "interrupted after" in said and f"{out}," in said.replace("\n", "")
    assert "2 submission" in shown.replace("\xa0", " ")


@pytest.mark.skipif(os.geteuid() != 0, reason="recording needs root")
def test_a_trace_cmd_that_fails_is_infrastructure(stub: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "iotoll", "record", "--run", "--out", str(tmp_path / "fail")]
    path = f"{stub}:{os.environ['PATH']}"
    done = subprocess.run(
        command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    assert "trace-cmd" in done.stderr and "no usable file" in done.stderr.replace("\n", " ")


def test_a_machine_without_a_driver_does_not_lack_its_events(machine: Path) -> None:
    for event in ("nvme/nvme_setup_cmd", "scsi/scsi_dispatch_cmd_start"):
        shutil.rmtree(machine / "kernel/tracing/events" / event)
    done = CliRunner().invoke(cli, ["record"], catch_exceptions=False)
    assert "has not" not in done.stdout
    done = CliRunner().invoke(cli, ["record", "--device", "nvme0n1"], catch_exceptions=False)
    assert "has not: nvme:nvme_setup_cmd" in done.stdout
