"""Explain on a virtual board: a gated patch with planted costs, taken apart by function."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.vm.conftest import FAULTS, LIMIT, command, environment, needs_board, run_gate

pytestmark = pytest.mark.vm
CELL = "ufs-4k-randread-t1-direct"


def test_planted_costs_are_named_with_their_sizes(tmp_path: Path) -> None:
    needs_board("virt-arm64")
    run = tmp_path / "run"
    patch = FAULTS / "inlined-and-conditional-costs.patch"
    gated = run_gate(run, "--candidate", patch, "--cells", CELL)
    assert gated.code == 1, gated.stderr
    done = subprocess.run(
        command("explain", run, "--json"),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads((run / "explain.json").read_text())
    (cell,) = found["cells"]
    assert cell["same_base"] and cell["same_candidate"], "an exact board boots the same again"
    (section,) = [s for s in cell["sections"] if s["section"] == "submission"]
    assert section["missing_base"] == section["missing_candidate"] == 0
    first = section["functions"][0]
    assert first["name"] == "sd_init_command" and first["changed"], "the function is inlined"
    assert first["delta"] == 41 and first["share"] > 0.9
    costs = {f["name"]: f for f in section["functions"] if f["changed"]}
    eighth = costs["ufshcd_send_command"]
    # One I/O in eight has 400 instructions more than the others, which test a counter.
    assert eighth["mean"] - eighth["delta"] == pytest.approx(400 / 8, abs=2)
    ran = {f["name"]: f for f in found["coverage"]["functions"]}
    assert ran["sd_init_command"]["calls"][CELL] >= 1
    assert ran["ufshcd_send_command"]["executed"] > 0
    assert (run / f"explain/{CELL}.svg").read_text().startswith("<svg ")
    assert not list((run / "explain").glob("*-record")), "the record itself is not kept"
