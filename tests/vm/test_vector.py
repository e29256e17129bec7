"""Costs that are no instructions, end to end: a register read and a barrier are named and block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.vm.conftest import (
    CELLS,
    FAULTS,
    UNCALIBRATED,
    Done,
    assert_same_bytes,
    needs_board,
    run_gate,
)

pytestmark = [pytest.mark.vm, pytest.mark.timeout(3600)]
PATCH = FAULTS / "register-read-and-barrier.patch"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The gate of a patch that reads a register of UFS and has a barrier for NVMe."""
    needs_board("virt-arm64")
    folder = tmp_path_factory.mktemp("vector")
    words = ("--cells", CELLS, "--matrix", UNCALIBRATED)
    return run_gate(folder / "run", "--candidate", PATCH, *words)


def moved(done: Done, cell: str) -> dict[tuple[str, str | None], dict[str, Any]]:
    (found,) = [c for c in done.verdict["cells"] if c["cell"] == cell]
    return {(e["element"], e.get("section")): e for e in found["elements"]}


def test_a_register_read_and_a_barrier_block_and_are_named_first(done: Done) -> None:
    assert done.code == 1, done.verdict
    first, second = done.verdict["headline"][:2]
    assert first == (
        "+1 register read of UFS per UFS request in submission, in ufshcd_send_command,"
        " in ufs-4k-randread-t1-direct"
    )
    assert second == (
        "+1 full dmb barrier per NVMe request in submission, in nvme_prep_rq,"
        " in nvme-4k-randread-t1-direct"
    )
    ufs = moved(done, "ufs-4k-randread-t1-direct")["register_reads.UFS", "submission"]
    nvme = moved(done, "nvme-4k-randread-t1-direct")["dmb", "submission"]
    for one, function in ((ufs, "ufshcd_send_command"), (nvme, "nvme_prep_rq")):
        assert (one["delta"], one["share"], one["gated"]) == (1, 1, True)
        # Behind it stand those that idled once more in all I/Os.
        assert one["functions"][0]["name"] == function


def test_functions_are_there_without_a_further_boot(done: Done) -> None:
    assert not list(done.run.glob("explain/**/boot.json")), "the gate's boots kept what ran"
    found = json.loads((done.run / "explain.json").read_text())
    assert {cell["cell"] for cell in found["cells"]} == set(CELLS.split(","))
    for cell in found["cells"]:
        (section,) = [s for s in cell["sections"] if s["section"] == "submission"]
        assert section["missing_base"] + section["missing_candidate"] <= 5
    ran = {f["name"]: f for f in found["coverage"]["functions"]}
    assert ran["ufshcd_send_command"]["calls"]["ufs-4k-randread-t1-direct"] >= 1


def test_two_boots_of_one_kernel_leave_the_same_windows(done: Done, tmp_path: Path) -> None:
    words = ("--cells", CELLS, "--matrix", UNCALIBRATED, "--until", "boot")
    again = run_gate(tmp_path / "run", "--candidate", PATCH, *words)
    kept = Path("sides/candidate/boots/1")
    names = ("windows.bin", "tracing.bin", "counts.json")
    assert_same_bytes(done.run / kept, again.run / kept, names)
    record = json.loads((done.run / kept / "boot.json").read_text())
    assert {"windows.bin", "tracing.bin", "counts.json"} <= set(record["digests"])
    # Windows that repeat are kept once.
    assert (done.run / kept / "windows.bin").stat().st_size < 8 << 20
