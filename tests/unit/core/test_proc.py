"""Other programs: missing ones are named, slow ones ended, failed ones quoted."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotoll.core.errors import InfrastructureError
from iotoll.core.proc import require_tool, rest, run_logged, stop, tail, tail_file


def test_missing_tool_names_its_package() -> None:
    with pytest.raises(
        InfrastructureError, match="no-such-tool is not installed: apt-get install p"
    ):
        require_tool("no-such-tool", "p")
    assert Path(require_tool("sh", "dash")).is_file()


def test_output_is_logged_and_failure_is_quoted(tmp_path: Path) -> None:
    log = tmp_path / "deep/x.log"
    run_logged(["sh", "-c", "echo fine"], log, timeout=20)
    with pytest.raises(
        InfrastructureError, match=r"sh failed with status 3 \(log: .*x\.log\)"
    ) as e:
        run_logged(["sh", "-c", "echo why >&2; exit 3"], log, timeout=20)
    assert e.value.log_tail == "fine\nwhy"


def test_environment_is_added_to(tmp_path: Path) -> None:
    run_logged(["sh", "-c", 'echo "$WORD in $HOME"'], tmp_path / "x", 20, {"WORD": "added"})
    assert (tmp_path / "x").read_text().startswith("added in /")


def test_time_out_ends_the_whole_group(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    script = "sleep 60 & echo $!; wait"
    with pytest.raises(InfrastructureError, match="did not end within 1 s"):
        run_logged(["sh", "-c", script], log, timeout=1)
    child = log.read_text().split()[0]
    deadline = time.monotonic() + 5
    while gone(child) is False and time.monotonic() < deadline:
        time.sleep(0.05)
    assert gone(child)


def gone(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "Z"
    except OSError:
        return True


def test_deaf_process_is_killed() -> None:
    command = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    stop(process, grace=0.2)
    assert process.poll() is not None
    stop(process)


def test_tails(tmp_path: Path) -> None:
    assert tail("a\nb\nc\n", 2) == "b\nc"
    (tmp_path / "log").write_bytes(b"x\n\xff\n")
    assert tail_file(tmp_path / "log", 1) == "\ufffd"
    assert tail_file(tmp_path / "absent") == ""


def test_resting_ends_with_the_process() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        began = time.monotonic()
        rest(process, 0.05)
        assert process.poll() is None and time.monotonic() - began >= 0.05
        process.terminate()
        rest(process, 60)
        assert process.poll() is not None
    rest(process, 0.01)


def test_programs_that_are_started_afterwards_use_no_huge_pages() -> None:
    code = (
        "import subprocess; from iotoll.core.proc import use_small_pages; use_small_pages();"
        "subprocess.run(['grep', 'THP_enabled', '/proc/self/status'], check=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["THP_enabled:", "0"]
