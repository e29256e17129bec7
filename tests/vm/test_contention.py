"""What CPUs take from each other, end to end: one lock for all is found, a lock for each is not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.vm.conftest import command, environment, needs_board

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(3600)]
BOARD = "virt-arm64-smp4"
CELL = "nvme-4k-randread-t8-direct"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The rows of the planted lock, by kind; each kernel was booted twice."""
    needs_board(BOARD)
    out = tmp_path_factory.mktemp("contention") / "out"
    words = ("--only", "lock", "--cells", CELL, "--out", out)
    subprocess.run(command("experiment", "contention", *words), env=environment(), check=True)
    table = json.loads((out / "table.json").read_text())
    assert not list(Path(out).rglob("*.accesses")), "what they are counted from is large"
    return {row["kind"]: row for row in table["rows"]}


def test_one_lock_is_found_and_named_though_no_instruction_differs(
    rows: dict[str, dict[str, Any]],
) -> None:
    row = rows["planted"]
    assert row["found"] and row["same_code"]
    assert {one["function"] for one in row["grown"]} == {"nvme_prep_rq"}
    by = {one["count"]: one for one in row["grown"]}
    assert by["hand_overs"]["by"] == pytest.approx(1, abs=0.02)
    assert by["hand_overs"]["data"] == "iotoll_pieces"
    before, after = row["own"]["hand_overs"]
    assert after - before == pytest.approx(1, abs=0.02)


def test_a_lock_for_each_cpu_is_silent(rows: dict[str, dict[str, Any]]) -> None:
    row = rows["control"]
    assert row["found"] and row["grown"] == []
    assert not row["same_code"], "it executes more than the plain kernel"


def test_two_boots_leave_the_same_accesses(rows: dict[str, dict[str, Any]]) -> None:
    assert all(row["repeated"] for row in rows.values())


def test_what_is_shared_in_any_kernel_is_seen(rows: dict[str, dict[str, Any]]) -> None:
    """QEMU's NVMe has the doorbells of all queues in one page: Linux writes them side by side."""
    false = rows["control"]["own"]["false"][0]
    assert false > 0.9
