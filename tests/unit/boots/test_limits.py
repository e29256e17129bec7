"""limits.sh: what a kernel says of its limits, here this machine's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from iotoll.core.paths import data_dir
from iotoll.records.facts import read_facts, read_limits


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script's output, without the file system that it mounts where that is not there."""
    tools = tmp_path_factory.mktemp("tools")
    (tools / "mount").write_text("#!/bin/sh\nexit 1\n")
    (tools / "mount").chmod(0o755)
    done = subprocess.run(
        ["sh", str(data_dir("lava-jobs") / "dut/limits.sh")],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode(errors="replace")


def test_g1_3_every_line_is_a_limit(said: str) -> None:
    found = read_limits(said)
    assert said.splitlines() and all(line.startswith("limit ") for line in said.splitlines())
    assert read_facts(said) == {}
    ratio = Path("/proc/sys/vm/dirty_ratio").read_text().strip()
    assert found["vm.dirty_ratio"] == ratio


def test_g1_3_every_attribute_of_a_queue_is_there(said: str) -> None:
    disks = [
        disk
        for disk in Path("/sys/block").iterdir()
        if "/devices/virtual/" not in str(disk.resolve())
    ]
    if not disks:
        pytest.skip("this machine has no disk")
    found = read_limits(said)
    asked = {path.name for path in (disks[0] / "queue").iterdir() if path.is_file()}
    told = {name.split(".")[-1] for name in found if ".queue." in name}
    silent = {"wbt_lat_usec", "io_poll_delay", "zoned"}  # may refuse to be read
    assert asked - told <= silent
    assert not any(name.endswith((".state", ".serial", ".wwid")) for name in found)
