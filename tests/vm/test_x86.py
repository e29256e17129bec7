"""x86-64: what a gate finds besides instructions, in which function, and what of the change ran."""

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
    gate_neutral_patch,
    needs_board,
    run_gate,
)

pytestmark = [pytest.mark.vm, pytest.mark.timeout(3600)]
BOARD = "virt-x86_64"
PATCH = FAULTS / "register-read-and-allocation.patch"
WORDS = ("--board", BOARD, "--cells", CELLS, "--matrix", UNCALIBRATED)
UFS, NVME = CELLS.split(",")
KEPT = Path("sides/candidate/boots/1")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The gate of a patch that reads a register of NVMe, with a barrier, and allocates for UFS."""
    needs_board(BOARD)
    folder = tmp_path_factory.mktemp("x86")
    return run_gate(folder / "run", "--candidate", PATCH, *WORDS)


def moved(done: Done, cell: str) -> dict[tuple[str, str | None], dict[str, Any]]:
    (found,) = [c for c in done.verdict["cells"] if c["cell"] == cell]
    return {(e["element"], e.get("section")): e for e in found["elements"]}


def test_elements_block_and_are_named_with_their_functions(done: Done) -> None:
    assert done.code == 1, done.verdict
    assert {
        "+1 register read of NVMe per NVMe request in submission, in nvme_prep_rq,"
        " in nvme-4k-randread-t1-direct",
        "+1 full barrier per NVMe request in submission, in nvme_prep_rq,"
        " in nvme-4k-randread-t1-direct",
        "+1 slab allocation per UFS request in submission, in ufshcd_send_command,"
        " in ufs-4k-randread-t1-direct",
    } <= set(done.verdict["headline"])
    nvme, ufs = moved(done, NVME), moved(done, UFS)
    for found, element, function in (
        (nvme, "register_reads.NVMe", "nvme_prep_rq"),
        (nvme, "smp_mb", "nvme_prep_rq"),
        (ufs, "slab", "ufshcd_send_command"),
    ):
        one = found[element, "submission"]
        assert (one["delta"], one["share"], one["gated"]) == (1, 1, True)
        assert one["functions"][0]["name"] == function


def test_functions_are_there_without_a_further_boot(done: Done) -> None:
    assert not list(done.run.glob("explain/**/boot.json")), "the gate's boots kept what ran"
    found = json.loads((done.run / "explain.json").read_text())
    assert {cell["cell"] for cell in found["cells"]} == {UFS, NVME}
    for cell in found["cells"]:
        (section,) = [s for s in cell["sections"] if s["section"] == "submission"]
        assert section["missing_base"] + section["missing_candidate"] <= 5
        assert section["functions"][0]["changed"], section
    ran = {f["name"]: f for f in found["coverage"]["functions"]}
    assert ran["ufshcd_send_command"]["calls"][UFS] >= 1
    lines = {(one["file"], one["line"]) for one in found["coverage"]["lines"]}
    assert {file for file, _ in lines} == {"drivers/nvme/host/pci.c", "drivers/ufs/core/ufshcd.c"}


def test_two_boots_of_one_kernel_leave_the_same_bytes(done: Done, tmp_path: Path) -> None:
    again = run_gate(tmp_path / "run", "--candidate", PATCH, *WORDS, "--until", "boot")
    names = ("windows.bin", "tracing.bin", "counts.json", "nvme/trace.dat", "ufs/trace.dat")
    assert_same_bytes(done.run / KEPT, again.run / KEPT, names)


def test_an_innocent_patch_moves_no_element(done: Done, tmp_path: Path) -> None:
    gate_neutral_patch(tmp_path / "run", *WORDS)
