"""Who is blamed (docs/lava.md), by the finding's own injections into a real LAVA: F3.2 to F3.5."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from iotoll_lab.local.lifecycle import LocalLab

from iotoll.core.errors import InfrastructureError
from iotoll.labs.lava.http import Http
from iotoll.labs.lava.server import LavaServer, Servers
from iotoll.labs.local import LabState
from tests.lab.conftest import Boots
from tests.lab.test_faults import HEALTHY, attempts, when_running
from tests.vm.conftest import LIMIT, command, environment
from tests.vm.test_gate import boards

pytestmark = [pytest.mark.lab, pytest.mark.vm]
DEVICES = ("virt-arm64-01", "virt-arm64-02")


def test_f3_2_a_stopped_board_is_tried_again_elsewhere(
    boots: Boots, state: LabState, servers: Servers
) -> None:
    """F3.2: QEMU was stopped; the base got no second try, and a candidate was blamed."""
    one = boots(HEALTHY, side="base", workload=1)
    with when_running(one, servers, "iotoll: step prepare"):
        for pid in boards(state.pid):
            os.kill(pid, signal.SIGSTOP)
        # A minute is enough to see that it hangs; the second attempt may take longer.
        known = one.runner.lab.boards
        times = known["virt-arm64"].timeouts.model_copy(update={"workload": 6})
        known["virt-arm64"] = known["virt-arm64"].model_copy(update={"timeouts": times})
    assert one.done == ["base/1"]
    first, second = attempts(one)
    assert (first.outcome, second.outcome) == ("hang", "done")
    places = [servers.lava.job(a.number).device for a in (first, second) if a.number]
    assert sorted(map(str, places)) == list(DEVICES), "one on each"


@pytest.mark.long
def test_f3_3_a_queue_without_a_board_names_their_health(boots: Boots, admin: LavaServer) -> None:
    """F3.3: "Somebody cancelled the job in LAVA" was what both boards in maintenance got."""
    one = boots(HEALTHY, side="base", attempts=1)
    board = one.runner.lab.boards["virt-arm64"]
    times = board.timeouts.model_copy(update={"queue": 1})
    one.runner.lab.boards["virt-arm64"] = board.model_copy(update={"timeouts": times})
    for name in DEVICES:
        admin.quarantine(name, "F3.3")
    try:
        with pytest.raises(InfrastructureError, match=r"was free for 1 minutes: .*Maintenance"):
            one.go()
    finally:
        for name in DEVICES:
            path = f"api/v0.2/devices/{name}/set_health/"
            admin.http.post(path, {"health": "GOOD", "reason": "F3.3 is over"}, answers=False)


def test_f3_4_the_commands_say_what_is_wrong(
    lab: LocalLab, state: LabState, lab_file: Path, tmp_path: Path
) -> None:
    """F3.4: a dead server was 930 s of silence; a wrong token was seen after the build."""

    def run(*words: str | Path, **more: str) -> tuple[int, str, float]:
        begun = time.monotonic()
        given = environment(IOTOLL_LAVA_TOKEN_FILE=state.token_file, **more)
        done = subprocess.run(
            command(*words), env=given, capture_output=True, text=True, timeout=LIMIT
        )
        return done.returncode, done.stdout + done.stderr, time.monotonic() - begun

    ask = ("lava", "check", lab_file, "--board", "virt-arm64")
    code, said, _ = run(*ask)
    assert code == 0, said
    assert f"token: of user {state.user}" in said if hasattr(state, "user") else "of user" in said
    code, said, _ = run(*ask, IOTOLL_LAVA_TOKEN="wrong")
    assert code == 2 and "token" in said and "Traceback" not in said
    patch = ("--candidate", "examples/patches/neutral.patch")
    where = ("--runner", "lava", "--lab", lab_file, "--out", tmp_path / "run")
    gate = ("gate", *patch, *where)
    code, said, _ = run(*gate, IOTOLL_LAVA_TOKEN="wrong")
    assert code == 2 and "token" in said
    assert not (tmp_path / "run/sides/base/build").exists(), "before anything is built"
    lab.control("stop", "server")
    try:
        code, said, seconds = run(*gate)
        assert code == 4 and "server" in said, said
        assert seconds < 120
    finally:
        lab.control("start", "server")


def test_f3_5_a_job_that_lava_lost(state: LabState, servers: Servers) -> None:
    """F3.5 and F3.6: what the real server answers to the requests that we make now."""
    token = Path(state.token_file).read_text()
    lava = LavaServer(Http(state.url, token))
    assert lava.user()
    assert lava.jobs([]) == {}
    known = [job.id for job in lava.unfinished("iotoll")]
    assert set(lava.jobs([*known, 999_999, 999_998])) == set(known)
    assert [one.name for one in lava.fleet("qemu-aarch64", ["virt-arm64"])] == list(DEVICES)
