"""Cells that a gate tries beside those that the paths select, end to end, and through a kill.

The patch changes what discards run, which no cell of the matrix does, and a handler of time-outs.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.vm.conftest import (
    FAULTS,
    LIMIT,
    UNCALIBRATED,
    Done,
    assert_same_bytes,
    command,
    environment,
    needs_board,
    run_gate,
    succeed,
)

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(3600)]
PATCH = FAULTS / "discard-and-timeout.patch"
DISCARDS = {"nvme-4k-randtrim-t1-direct", "nvme-128k-seqtrim-t1-direct"}


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    """The gate of the patch with one NVMe cell in the matrix."""
    needs_board("virt-arm64")
    matrix = tmp_path_factory.mktemp("matrix") / "one.toml"
    matrix.write_text(
        'extends = "default"\ncalibrate = false\ndevices = ["nvme"]\nthreads = [1]\nmore = []\n'
        'io_modes = ["direct"]\npatterns = [{ name = "4k-randread" }]\n'
    )
    return ["--candidate", PATCH, "--matrix", matrix]


@pytest.fixture(scope="module")
def done(words: list[str | Path], tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The run that nobody disturbs."""
    return run_gate(tmp_path_factory.mktemp("reach") / "run", *words)


def test_what_no_selected_cell_runs_is_tried_and_the_rest_is_named(done: Done) -> None:
    assert done.code == 0, done.verdict
    assert {cell["cell"] for cell in done.verdict["cells"]} >= DISCARDS
    told = "\n".join(done.verdict["warnings"])
    assert "tried family discard" in told
    (unreached,) = [line for line in told.splitlines() if line.startswith("no cell that was tried")]
    assert "nvme_timeout()" in unreached and "nvme_setup_discard" not in unreached


def test_killed_while_it_tries_the_same_command_ends_as_without(
    done: Done, words: list[str | Path], tmp_path: Path
) -> None:
    """45.2: what the tried cells did not run was not said after that."""
    run = tmp_path / "run"
    process = subprocess.Popen(
        command("gate", *words, "--out", run, "--json"),
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + LIMIT
    selection = run / "selection.json"
    while not (selection.is_file() and json.loads(selection.read_text()).get("tried")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert not (run / "verdict.json").exists()
    again = run_gate(run, *words)
    assert again.code == 0, again.verdict
    assert_same_bytes(run, done.run, ("verdict.json", "selection.json"))


@pytest.mark.parametrize("more", [[], ["--again"]])
def test_the_run_is_reproduced(done: Done, more: list[str]) -> None:
    found = json.loads(succeed("reproduce", done.run, "--json", *more).stdout)
    assert found["reproduced"] is True, found


def test_lines_of_a_changed_header_are_those_of_who_includes_it(tmp_path: Path) -> None:
    """No source file changed, and it was said that no changed line has code."""
    needs_board("virt-arm64")
    patch = FAULTS / "inline-function-of-a-header.patch"
    words = (
        "--candidate",
        patch,
        "--matrix",
        UNCALIBRATED,
        "--cells",
        "nvme-4k-randread-t1-direct",
    )
    found = run_gate(tmp_path / "run", *words)
    assert found.code == 0, found.verdict
    coverage = json.loads((found.run / "explain.json").read_text())["coverage"]
    (line,) = coverage["lines"]
    assert (line["file"], line["function"]) == ("drivers/nvme/host/nvme.h", "nvme_strlen")
    assert not line["executions"], "it runs when the disk is found"
