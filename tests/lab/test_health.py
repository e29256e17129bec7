"""The boards' own health, on a real LAVA: health check, A/A control, maintenance."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import urllib3

from iotoll.labs.lava.server import LavaServer
from iotoll.labs.local import LabState
from tests.lab.conftest import UFS, Built
from tests.vm.conftest import LIMIT, command, environment

pytestmark = [pytest.mark.lab, pytest.mark.vm]
BOARD = "virt-arm64-01"
OTHER = "virt-arm64-02"


def device(server: LavaServer, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.http.get(f"api/v0.2/devices/{name}/")
    return found


def set_health(server: LavaServer, name: str, health: str) -> None:
    path = f"api/v0.2/devices/{name}/set_health/"
    server.http.post(path, {"health": health, "reason": "test"}, answers=False)


def lava(state: LabState, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("lava", *words),
        env=environment(IOTOLL_LAVA_TOKEN_FILE=state.admin_token_file),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.fixture
def run(built: Built, lab_file: Path, tmp_path: Path) -> Path:
    """A run directory with kernels and one cell, of the tests' lab."""
    made = built.run("panics-in-workload", tmp_path / "run", lab=str(lab_file), cells=[UFS])
    return made.root


def test_one_kernel_is_one_kernel_on_a_steady_board(state: LabState, run: Path) -> None:
    done = lava(state, "control", run, "--device", BOARD, "--quarantine")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{BOARD}: steady\n"
    folders = [p.name for p in (run / "lava/control").iterdir()]
    assert folders == [BOARD]


def test_maintenance_says_why(admin: LavaServer, state: LabState) -> None:
    admin.quarantine(OTHER, "iotoll: it drifts")
    try:
        assert device(admin, OTHER)["health"] == "Maintenance"
        assert OTHER not in admin.devices(state.devices[OTHER])
        assert BOARD in admin.devices(state.devices[BOARD])
    finally:
        set_health(admin, OTHER, "GOOD")


def check_by_lava(
    state: LabState, admin: LavaServer, run: Path, board: str, others: Sequence[str]
) -> None:
    """LAVA itself runs the health check on one board, and calls it good."""
    for other in others:
        set_health(admin, other, "MAINTENANCE")  # one board is enough to see it
    try:
        done = lava(state, "health-check", run, "--install")
        assert done.returncode == 0, done.stderr
        set_health(admin, board, "UNKNOWN")
        deadline = time.monotonic() + LIMIT
        while device(admin, board)["health"] == "Unknown":
            assert time.monotonic() < deadline
            time.sleep(1)
        found = device(admin, board)
        assert found["health"] == "Good"
        job = admin.job(int(found["last_health_report_job"]))
        assert job.health == "Complete"
        tests = {t["name"]: t["result"] for t in admin.tests(job.id)}
        assert tests["workload"] == "pass"
        assert tests[f"{UFS}.submission.median"] == "pass"
    finally:
        urllib3.request(
            "PATCH",
            f"{state.url}/api/v0.2/devicetypes/{state.devices[board]}/",
            json={"disable_health_check": True},
            headers={"Authorization": f"Token {Path(state.admin_token_file).read_text()}"},
        )
        for other in others:
            set_health(admin, other, "GOOD")


def test_lava_itself_checks_a_board_and_calls_it_good(
    state: LabState, admin: LavaServer, run: Path
) -> None:
    check_by_lava(state, admin, run, BOARD, [OTHER, "virt-arm64-net-01"])
