"""What each CPU of a board with four executed, end to end (docs/reference/vector.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotoll import _native
from iotoll.boards.plugin import TRACING, WINDOWS
from iotoll.boards.qemu import TURNS
from iotoll.boots.counts import COUNTED
from tests.vm.conftest import (
    FAULTS,
    UNCALIBRATED,
    Done,
    assert_same_bytes,
    gate_neutral_patch,
    needs_board,
    run_gate,
    succeed,
)

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(3600)]
BOARD = "virt-arm64-smp4"
PATCH = FAULTS / "register-read-and-allocation.patch"
UFS, NVME, MANY = (
    "ufs-4k-randread-t1-direct",
    "nvme-4k-randread-t1-direct",
    "nvme-4k-randread-t8-direct",
)
WORDS = ("--board", BOARD, "--matrix", UNCALIBRATED, "--cells", ",".join((UFS, NVME, MANY)))
KEPT = Path("sides/candidate/boots/1")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The gate of a patch that reads a register of NVMe and allocates for UFS."""
    needs_board(BOARD)
    return run_gate(tmp_path_factory.mktemp("cpus") / "run", "--candidate", PATCH, *WORDS)


def moved(done: Done, cell: str) -> dict[tuple[str, str | None], dict[str, Any]]:
    (found,) = [c for c in done.verdict["cells"] if c["cell"] == cell]
    return {(e["element"], e.get("section")): e for e in found["elements"]}


def test_what_was_planted_is_named_first_with_its_function(done: Done) -> None:
    assert done.code == 1, done.verdict
    told = done.verdict["headline"][:3]
    for what in (
        "+1 full dmb barrier per NVMe request in submission, in nvme_prep_rq",
        "+1 register read of NVMe per NVMe request in submission, in nvme_prep_rq",
        "+1 slab allocation per UFS request in submission, in ufshcd_send_command",
    ):
        assert any(one.startswith(what) for one in told), (what, told)
    for cell in (NVME, MANY):
        read = moved(done, cell)["register_reads.NVMe", "submission"]
        assert (read["delta"], read["gated"]) == (1, True) and read["share"] > 0.9
        assert [f["name"] for f in read["functions"]] == ["nvme_prep_rq"]
        assert moved(done, cell)["dmb", "submission"]["delta"] == 1
    slab = moved(done, UFS)["slab", "submission"]
    assert (slab["delta"], slab["gated"]) == (1, True)
    assert slab["functions"][0]["name"] == "ufshcd_send_command"


def test_functions_and_lines_are_there_without_a_further_boot(done: Done) -> None:
    assert not list(done.run.glob("explain/**/boot.json")), "the gate's boots kept what ran"
    found = json.loads((done.run / "explain.json").read_text())
    for cell in found["cells"]:
        (section,) = [s for s in cell["sections"] if s["section"] == "submission"]
        assert section["missing_base"] + section["missing_candidate"] <= 5
    ran = {f["name"]: f for f in found["coverage"]["functions"]}
    assert ran["nvme_prep_rq"]["calls"][MANY] >= 1
    assert ran["ufshcd_send_command"]["calls"][UFS] >= 1


def test_own_counts_and_tracing_add_up_to_each_cpus_turns(done: Done) -> None:
    """QEMU wrote the turns, the plugin what ran in them: neither knows of the other."""
    folder = done.run / KEPT
    rows = [line.split() for line in (folder / "boot/devices").read_text().splitlines()]
    device = {row[0]: row[2] for row in rows}["nvme"]
    own = []
    for turns, tracing in ((folder / TURNS, None), (None, folder / TRACING)):
        ((_, table),) = _native.analyze(
            str(folder / "nvme/trace.dat"),
            device=device,
            comm="fio",
            unit="instructions",
            turns=turns,
            tracing=tracing,
        )
        own.append(np.array(table["own_submission"], float))
    assert len(own[0]) == len(own[1]) > 200
    recorder = own[0] - own[1]
    # Each request has the same events; a fit of the clocks may be off by a few instructions.
    assert np.percentile(recorder, 90) - np.percentile(recorder, 10) < 100
    assert np.median(recorder) > 1000


def test_two_boots_of_one_kernel_leave_the_same_bytes(done: Done, tmp_path: Path) -> None:
    again = run_gate(tmp_path / "run", "--candidate", PATCH, *WORDS, "--until", "boot")
    names = (WINDOWS, TRACING, COUNTED, TURNS, "nvme/trace.dat", "ufs/trace.dat")
    assert_same_bytes(done.run / KEPT, again.run / KEPT, names)


def test_a_few_instructions_in_changed_functions_are_found_and_named(tmp_path: Path) -> None:
    """45.1: up to 32 instructions passed there; those of unchanged functions still do."""
    small = FAULTS / "eight-instructions.patch"
    found = run_gate(tmp_path / "run", "--candidate", small, *WORDS)
    assert found.code == 1, found.verdict
    grown = {
        (cell["cell"], section["section"]): (section["delta"], section["threshold"])
        for cell in found.verdict["cells"]
        for section in cell["sections"]
        if section["moved"] == "grew"
    }
    parts = {(UFS, "submission"), *((cell, "completion") for cell in (NVME, MANY))}
    parts |= {(cell, "vfs_fs") for cell in (UFS, NVME, MANY)}
    assert grown == dict.fromkeys(parts, (8, 4))
    told = json.loads((found.run / "findings.json").read_text())["findings"]
    sentences = [one["sentence"] for one in told if one["kind"] == "regression"]
    assert all("8 of them in iotoll_eight (" in sentence for sentence in sentences), sentences
    words = ("judge", found.run, "--explain", UFS, "submission")
    assert "10. Growth of it is a regression." in succeed(*words).stdout


def test_a_neutral_patch_moves_no_element(done: Done, tmp_path: Path) -> None:
    gate_neutral_patch(tmp_path / "run", *WORDS)
