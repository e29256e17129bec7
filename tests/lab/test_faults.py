"""Every fault of a lab, and of a candidate in it, injected for real into a real LAVA."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from iotoll_lab.local.lifecycle import LocalLab

from iotoll.core.errors import BrokenError, InfrastructureError, IotollError
from iotoll.labs.lava.journal import Attempt, read_journal
from iotoll.labs.lava.server import Servers
from iotoll.labs.local import LabState
from tests.lab.conftest import Boots, One
from tests.vm.conftest import LIMIT
from tests.vm.test_gate import boards

pytestmark = [pytest.mark.lab, pytest.mark.vm]
HEALTHY = "panics-in-workload"
"""The base of any fault is a healthy kernel."""


def attempts(one: One) -> list[Attempt]:
    return read_journal(one.runner.folder / "journal.jsonl").attempts


def inside(state: LabState, script: str) -> None:
    """Run a shell script in the lab's own namespaces, where ``$ROOT`` is its root."""
    children = Path(f"/proc/{state.pid}/task/{state.pid}/children").read_text().split()
    root = Path(state.token_file).parent / "root"
    words = ["nsenter", "--target", children[0], "--mount", "--pid", "sh", "-euc", script]
    subprocess.run(words, env={**os.environ, "ROOT": str(root)}, check=True, timeout=60)


@contextmanager
def when_running(one: One, servers: Servers, said: str = "") -> Iterator[None]:
    """Run a boot; the body runs once LAVA does, and its board has said ``said``."""
    failed: list[BaseException] = []

    def go() -> None:
        try:
            one.go()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    deadline = time.monotonic() + LIMIT
    while not _says(one, servers, said):
        assert thread.is_alive(), failed
        assert time.monotonic() < deadline
        time.sleep(0.5)
    yield
    thread.join(LIMIT)
    assert not thread.is_alive()
    if failed:
        raise failed[0]


def _says(one: One, servers: Servers, said: str) -> bool:
    try:
        number = attempts(one)[-1].number
    except (IotollError, IndexError):  # it has not begun
        return False
    if number is None or servers.lava.job(number).state != "Running":
        return False
    return said.encode() in servers.lava.log(number)


@pytest.mark.parametrize(
    ("fault", "step", "words"),
    [
        ("panics-at-boot", "boot", "NULL pointer dereference"),
        pytest.param("panics-in-workload", "workload", "fs/ext4/file.c", marks=pytest.mark.long),
    ],
)
def test_g1_crash_of_the_candidate_is_tried_once_more_beside_the_base(
    boots: Boots, fault: str, step: str, words: str
) -> None:
    one = boots(fault)
    with pytest.raises(BrokenError, match=words) as caught:
        one.go()
    assert caught.value.step == step
    assert words in caught.value.log_tail
    assert [a.outcome for a in attempts(one)] == ["broken", "done", "broken"]
    assert "as LAVA job" in str(caught.value)


@pytest.mark.long
def test_hang_of_the_candidate_is_broken_and_ended_by_lava(boots: Boots) -> None:
    # 1,024 direct reads: the 600th is the last.
    cells = [f"{d}-4k-randread-{t}-direct" for d in ("ufs", "nvme") for t in ("t1", "t8")]
    one = boots("hangs", cells=cells, workload=2)
    with pytest.raises(BrokenError, match=r"timed out.*\[hangs-in-workload\]") as caught:
        one.go()
    assert caught.value.step == "workload"
    assert [a.outcome for a in attempts(one)] == ["hang", "hang"], "only what repeats counts"


def test_killed_worker(boots: Boots, lab: LocalLab, servers: Servers) -> None:
    one = boots(HEALTHY, side="base")
    with when_running(one, servers, "iotoll: step"):
        lab.control("kill", "worker")
    assert one.done == ["base/1"]
    assert [a.outcome for a in attempts(one)][-1] == "done"


def test_killed_board_is_infrastructure_and_tried_again(
    boots: Boots, state: LabState, servers: Servers
) -> None:
    one = boots(HEALTHY, side="base")
    with when_running(one, servers, "iotoll: step prepare"):
        for pid in boards(state.pid):
            os.kill(pid, signal.SIGKILL)
    assert one.done == ["base/1"]
    first, second = attempts(one)
    assert (first.outcome, second.outcome) == ("infrastructure", "done")
    assert "[connection-closed]" in first.why
    folders = sorted(p.parent.name for p in one.runner.folder.glob("*/console.log"))
    assert folders == [first.key, second.key], "every attempt is kept"


def test_server_that_stops_while_we_wait(boots: Boots, lab: LocalLab, servers: Servers) -> None:
    one = boots(HEALTHY, side="base")
    with when_running(one, servers):
        lab.control("stop", "server")
        time.sleep(8)
        lab.control("start", "server")
    assert one.done == ["base/1"]
    (attempt,) = attempts(one)
    assert attempt.outcome == "done"
    assert servers.lava.find(attempt.key) == [attempt.number]


@contextmanager
def board_command(state: LabState, filters: str) -> Iterator[None]:
    """What the board says goes through a shell filter on its way to LAVA."""
    wrapper = f'#!/bin/bash\nset -o pipefail\nvirt-board.real "$@" | {filters}\n'
    script = f"""
        cd "$ROOT/usr/local/bin"
        mv virt-board virt-board.real
        cat >virt-board <<'END'\n{wrapper}END
        chmod 755 virt-board
    """
    inside(state, script)
    try:
        yield
    finally:
        inside(state, 'cd "$ROOT/usr/local/bin"; mv virt-board.real virt-board')


def test_garbled_serial_line_is_never_guessed_at(boots: Boots, state: LabState) -> None:
    one = boots(HEALTHY, side="base", attempts=2)
    # Byte by byte, since a prompt has no line end: the first letter of every second chunk is lost.
    garble = r"""perl -e '
        while (sysread(STDIN, $in, 65536)) {
            $out = "";
            for $byte (split //, $in) {
                $byte = "?" if $seen =~ m{#iotoll1 D [0-9a-f]+ 2/\d+ $};
                $out .= $byte;
                $seen = substr("$seen$byte", -64);
            }
            syswrite(STDOUT, $out);
        }'"""
    with (
        board_command(state, garble),
        pytest.raises(InfrastructureError, match="the serial line lost a part of") as caught,
    ):
        one.go()
    assert not isinstance(caught.value, BrokenError)
    assert [a.outcome for a in attempts(one)] == ["infrastructure", "infrastructure"]
    assert one.done == []


def test_full_disk_of_the_worker(boots: Boots, state: LabState) -> None:
    one = boots(HEALTHY, side="base", attempts=1)
    place = '"$ROOT/var/lib/lava/dispatcher/tmp"'
    inside(state, f"mkdir -p {place}; mount -t tmpfs -o size=1M tmpfs {place}")
    try:
        with pytest.raises(InfrastructureError, match=r"\[(disk-full|download-failed)\]"):
            one.go()
    finally:
        inside(state, f"umount -l {place}")
    assert [a.outcome for a in attempts(one)] == ["infrastructure"]


def test_cancelled_in_lava(boots: Boots, servers: Servers) -> None:
    one = boots(HEALTHY, side="base", attempts=1)

    def cancel() -> None:
        number = attempts(one)[-1].number
        assert number is not None
        servers.lava.cancel(number)

    with (
        pytest.raises(InfrastructureError, match=r"\[cancelled\]"),
        when_running(one, servers),
    ):
        cancel()
