"""iotoll-dut on a real kernel: live measurement in a ramdisk, delivered over the serial console."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from iotoll.analyze import analyze_boot, cell_of_dut, fio_jobs
from iotoll.boots import plan_boot
from iotoll.flow import Flow
from iotoll.models import CellRecord, Clock, Section
from iotoll.progress import Progress
from iotoll.rundir import RunDir
from iotoll.runner import boot
from iotoll.serialrecord import receive
from tests.trace import dut
from tests.vm.conftest import LIMIT, command, environment, needs_board

pytestmark = pytest.mark.vm
BOARD = "virt-arm64"
CELLS = ["ufs-4k-randread-t1-direct", "ufs-4k-randwrite-t1-direct"]
LOOK_MS = 3000  # of the board's own time, which runs about a hundred times ahead while it idles
SOFTWARE = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION)
SAME = 12  # instructions; how far two boots of one kernel may be apart (docs/method.md)


@dataclass
class Boots:
    """The same cells of two boots: from a trace, and as the board measured itself."""

    traced: dict[str, CellRecord]
    live: dict[str, CellRecord]
    console: bytes
    kept: list[str]


@pytest.fixture(scope="module")
def boots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boots]:
    """Boot twice, one board after the other."""
    needs_board(BOARD)
    built = dut.FOLDER / "arm64/iotoll-dut"
    if not built.is_file():
        pytest.skip(f"{built} is not built: make dut")
    root = tmp_path_factory.mktemp("dut") / "run"
    words = ("measure", "--board", BOARD, "--cells", ",".join(CELLS), "--until", "build")
    done = subprocess.run(
        command(*words, "--out", root),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    flow = Flow(RunDir.open(root), Progress(quiet=True))
    plan = plan_boot(flow.run, replace(flow.bench, calibrate=False), "base", 1)
    traced, _ = analyze_boot(plan.folder, boot(plan))
    job = Path(shutil.copytree(plan.job, root / "jobs/live"))
    shutil.copy(built, job / "iotoll-dut")
    with (job / "job.env").open("a") as settings:
        settings.write(f"MEASURE=live\nUNIT=instructions\nLOOK_MS={LOOK_MS}\n")
    live = replace(plan, number=2, job=job, folder=root / "live")
    boot(live)
    console = (live.folder / "console.log").read_bytes()
    fio = fio_jobs(live.folder / "ufs/fio.json")
    records = {}
    for one in receive(console):
        assert one.problem is None
        cell = cell_of_dut(one.text or "", Clock.INSTRUCTIONS, fio[one.cell or ""])
        records[cell.cell] = cell
    yield Boots(traced, records, console, (live.folder / "ufs/records").read_text().splitlines())


def test_records_cross_the_console_unchanged(boots: Boots) -> None:
    assert [one.text for one in receive(boots.console)] == boots.kept
    assert list(boots.live) == list(boots.traced) == CELLS


def test_every_io_is_seen_live(boots: Boots) -> None:
    for name, live in boots.live.items():
        traced = boots.traced[name]
        assert live.invalid is None
        assert live.trace["lost_events"] == 0
        assert live.trace["clock"] == traced.trace["clock"]
        for count in ("seen", "measured", "no_request", "dropped_lost", "incomplete"):
            assert live.ios[count] == traced.ios[count], f"{name}: {count}"
        assert live.marks == traced.marks
        for event in ("block_bio_queue", "block_rq_issue", "block_rq_complete", "ufshcd_command"):
            assert live.trace["events"][event] == traced.trace["events"][event]


def test_live_figures_are_those_of_a_trace(boots: Boots) -> None:
    for name, live in boots.live.items():
        for section in SOFTWARE:
            figures = [r.sections[section].first.median for r in (live, boots.traced[name])]
            assert None not in figures
            assert abs((figures[0] or 0) - (figures[1] or 0)) <= SAME, f"{name} {section}"
