"""The board with HPB: Linux 6.1's ufshpb works with the device, and its counters say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.errors import InfrastructureError
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow, execute_alone
from iotoll.kernels.source import locate
from iotoll.records.rundir import RunDir
from iotoll.studies.quantities import HIT, MAPS, MISS, counts_of
from tests.vm.conftest import LIMIT, needs_board, succeed

pytestmark = [
    pytest.mark.vm,
    pytest.mark.long,  # a kernel of another version, and two boots
]
BOARD = "virt-arm64-hpb"
FILE, RAW = "ufs-4k-randread-t1-direct", "ufs-4k-randread-t8-direct-range192-raw"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two boots of one kernel; neither is taken from the store of earlier boots."""
    needs_board(BOARD)
    try:
        locate("debian-6.1")
    except InfrastructureError as error:
        pytest.skip(str(error))
    out = tmp_path_factory.mktemp("hpb")
    for name in ("one", "other"):
        words = ("measure", "--board", BOARD, "--cells", f"{FILE},{RAW}", "--out", out / name)
        succeed(*words, "--until", "build", timeout=4 * LIMIT)
        flow = Flow(RunDir.open(out / name), Progress(quiet=True), fresh=True)
        execute_alone(flow, until="collect")
    return [out / "one", out / "other"]


def counters(run: Path) -> dict[str, dict[str, int]]:
    found = counts_of(sorted((run / "sides/base/boots/1").glob("*/hpb")))
    return {cell: dict(counts) for cell, counts in found.items()}


def test_reads_are_sent_with_entries_once_the_map_is_loaded(runs: list[Path]) -> None:
    found = counters(runs[0])
    # Before its first raw cell the script reads four blocks of a disk by itself (dd).
    for cell, own in ((FILE, 0), (RAW, 4)):
        counts = found[cell]
        assert counts[HIT] + counts[MISS] == 256 + own
        assert counts[HIT] > 200
        # A part of the map is loaded once: 16 MiB each, of 32 MiB and 192 MiB.
        assert 0 < counts[MAPS] <= 12


def test_the_console_names_no_error_of_ufshpb(runs: list[Path]) -> None:
    console = next(runs[0].glob("sides/base/boots/1/**/console*")).read_text(errors="replace")
    assert "ufshpb_host_map_kbytes" in console, "ufshpb did not begin"
    for trouble in ("issue map_req failed", "failed to activate", "hpb lu init failed"):
        assert trouble not in console


def test_counters_repeat(runs: list[Path]) -> None:
    assert counters(runs[0]) == counters(runs[1])
