"""serial.sh on this machine: which disk each batch's records are of."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

DUT = Path(__file__).parents[3] / "lava-jobs/dut"
ANALYSER = """#!/bin/sh
echo "$*" >>"$0.calls"
[ "$1" != record ] || echo '{}'
"""


@pytest.mark.parametrize("batch", ["ufs", "ufs-kyber", "calibration-ufs-kyber", "calibration-ufs"])
def test_a_batch_is_recorded_from_the_disk_that_it_is_named_after(
    tmp_path: Path, batch: str
) -> None:
    job, out = tmp_path / "job", tmp_path / "out" / batch
    (tmp_path / "out/boot").mkdir(parents=True)
    job.mkdir()
    out.mkdir()
    (tmp_path / "out/boot/devices").write_text("nvme 259:0 x\nufs sda 8:16\n")
    (out / "trace.dat").touch()
    (out / "fio.json").write_text("{}\n")
    (job / "job.env").touch()
    dut = job / "iotoll-dut"
    dut.write_text(ANALYSER)
    dut.chmod(0o755)
    done = subprocess.run(
        ["sh", DUT / "serial.sh", job, out], capture_output=True, text=True, timeout=30
    )
    called = (job / "iotoll-dut.calls").read_text()
    assert "--device 8:16 " in called, done.stdout + done.stderr + called
