"""Raw traces of a board with a network, through the real LAVA to the lab's file server."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from iotoll.labs.lava.journal import read_journal
from iotoll.labs.lava.server import Servers
from iotoll.labs.local import LabState
from iotoll.records.models import BootRecord
from iotoll.records.results import read
from tests.lab.conftest import UFS
from tests.vm.conftest import needs_virtual_kernel, succeed

pytestmark = [pytest.mark.lab, pytest.mark.vm]
BOARD = "virt-arm64-net"
MAGIC = b"\x17\x08\x44tracing"


def measure(state: LabState, lab_file: Path, run: Path) -> BootRecord:
    """One boot of the board with a network."""
    needs_virtual_kernel(BOARD)
    words = ("--board", BOARD, "--cells", UFS, "--runner", "lava", "--lab", lab_file)
    token = state.token_file
    succeed("measure", *words, "--out", run, "--quiet", IOTOLL_LAVA_TOKEN_FILE=token)
    return read(run / "sides/base/boots/1/boot.json", BootRecord)


def test_raw_traces_are_sent_whole_and_only_referenced(
    state: LabState, servers: Servers, lab_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    boot = measure(state, lab_file, run)
    assert boot.lava is not None
    assert [trace.batch for trace in boot.lava.traces] == ["calibration-ufs", "ufs"]
    for trace in boot.lava.traces:
        assert trace.problem is None
        assert trace.url == f"{state.files_url}/traces/{trace.sha256}"
        data = servers.files.http.get_bytes(f"traces/{trace.sha256}", 64 << 20)
        assert data.startswith(MAGIC)
        assert (len(data), hashlib.sha256(data).hexdigest()) == (trace.size, trace.sha256)
    assert not list(run.rglob("trace.dat"))
    references = {t["name"]: t for t in servers.lava.tests(boot.lava.job)}
    assert references["trace.ufs"]["result"] == "pass"
    (attempt,) = read_journal(run / "lava/journal.jsonl").attempts
    definition = (run / "lava" / f"{attempt.key}.yaml").read_text()
    assert "/traces" in definition
    for secret in (state.token_file, state.admin_token_file):
        assert Path(secret).read_text().strip() not in definition


@pytest.mark.long
def test_file_server_out_of_reach_costs_no_boot(
    state: LabState, lab_file: Path, tmp_path: Path
) -> None:
    text = lab_file.read_text()
    assert 'file_server = "10.0.2.2"' in text
    lab_file.write_text(text.replace('file_server = "10.0.2.2"', 'file_server = "10.0.2.99"'))
    boot = measure(state, lab_file, tmp_path / "run")
    assert boot.lava is not None
    assert [attempt.outcome for attempt in boot.lava.attempts] == ["done"]
    assert [trace.batch for trace in boot.lava.traces] == ["calibration-ufs", "ufs"]
    assert all(trace.problem for trace in boot.lava.traces)
