"""A gate of many cells: two boots of each side have half of them each, and all that follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir
from tests.vm.conftest import FAULTS, Done, needs_board, run_gate, succeed

pytestmark = [pytest.mark.vm, pytest.mark.timeout(3600)]
CELLS = "ufs-4k-*,nvme-4k-*-t1-*"
HALVES = ["ufs-4k-randread-t1-direct", "nvme-4k-randread-t1-direct"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The gate of a patch that costs I/Os of UFS and of NVMe."""
    needs_board("virt-arm64")
    patch = FAULTS / "register-read-and-barrier.patch"
    folder = tmp_path_factory.mktemp("divided")
    return run_gate(folder / "run", "--candidate", patch, "--cells", CELLS)


def divided(done: Done, side: Side) -> dict[int, list[str]]:
    return RunDir(done.run).first_boots(side)


def test_each_half_is_judged_and_explained(done: Done) -> None:
    assert done.code == 1, done.verdict
    assert divided(done, "base") == divided(done, "candidate")
    first, second = divided(done, "base").values()
    assert len(first) + len(second) == len(done.verdict["cells"]) == 12
    assert HALVES[0] in first and HALVES[1] in second
    assert {cell.partition("-")[0] for cell in second} == {"ufs", "nvme"}
    named = " ".join(done.verdict["headline"])
    assert "ufshcd_send_command" in named and "nvme_prep_rq" in named
    found = json.loads((done.run / "explain.json").read_text())
    assert found["coverage"]["cells"] == [cell["cell"] for cell in done.verdict["cells"]]
    ran = {one["name"]: one["calls"] for one in found["coverage"]["functions"]}
    assert set(first) <= ran["ufshcd_send_command"].keys()
    assert {c for c in second if c.startswith("nvme")} <= ran["nvme_prep_rq"].keys()


def test_halves_are_booted_again_as_they_were(done: Done, tmp_path: Path) -> None:
    known = json.loads((done.run / "explain.json").read_text())
    cells = [word for cell in HALVES for word in ("--cell", cell)]
    succeed("explain", done.run, "--again", *cells)
    again = json.loads((done.run / "explain.json").read_text())
    assert [cell["cell"] for cell in again["cells"]] == HALVES
    assert all(cell["same_base"] and cell["same_candidate"] for cell in again["cells"])
    for side in SIDES:
        boots = done.run / "explain" / side
        assert {path.parent.name for path in boots.glob("*/boot.json")} == {"1", "2"}
    assert again["coverage"]["functions"] == known["coverage"]["functions"]
    succeed("reproduce", done.run)
