"""iotoll-dut on a real kernel: live measurement in a ramdisk, delivered over the serial console."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from iotoll.boots.local import boot
from iotoll.boots.schedule import plan_boot
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow
from iotoll.measure.board_records import cell_of_dut
from iotoll.measure.boot_trace import analyze_boot
from iotoll.measure.fio import read_jobs
from iotoll.measure.serial import receive
from iotoll.measure.shift import measure_shift
from iotoll.records.models import CellRecord, Clock, Section
from iotoll.records.rundir import RunDir
from tests.trace import dut
from tests.vm.conftest import measure

pytestmark = pytest.mark.vm
BOARD = "virt-arm64"
CELLS = ["ufs-4k-randread-t1-direct", "ufs-4k-randwrite-t1-direct"]
LOOK_MS = 3000  # of the board's own time, which runs about a hundred times ahead while it idles
SOFTWARE = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION)
# Instructions. The kernel does a little more or less for each event by how its ring buffer is read:
# trace-cmd sleeps in a read, live looks. 5 per event were seen, in all sections.
RECORDER = 8
PEAK = 58  # a pair of boots may favour different peaks of UFS submission (docs/decisions.md, 4)
# While the board sends, its kernel talks on the same console.
NOISY = """#!/bin/sh
if [ "$1" = send ]; then
    (while :; do echo "nothing of importance, but in the middle of a line" >/dev/kmsg; done) &
    "$0.real" "$@"
    status=$?
    kill $!
    exit $status
fi
exec "$0.real" "$@"
"""


@dataclass
class Boots:
    """The same cells of two boots: from a trace, and as the board measured itself."""

    traced: dict[str, CellRecord]
    live: dict[str, CellRecord]
    console: bytes
    sent: Path


@pytest.fixture(scope="module")
def boots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boots]:
    """Boot twice, one board after the other."""
    built = dut.FOLDER / "arm64/iotoll-dut"
    if not built.is_file():
        pytest.skip(f"{built} is not built: make dut")
    root = tmp_path_factory.mktemp("dut") / "run"
    measure(root, BOARD, "--cells", ",".join(CELLS), "--until", "build")
    flow = Flow(RunDir.open(root), Progress(quiet=True))
    plan = plan_boot(flow.run, replace(flow.bench, calibrate=False), "base", 1)
    record = boot(plan)
    # The board's own figures have what records the trace, so these must have it too.
    for name in ("tracing.bin", "windows.bin"):
        (plan.folder / name).unlink()
    traced, _ = analyze_boot(plan.folder, record)
    job = Path(shutil.copytree(plan.job, root / "jobs/live"))
    shutil.copy(built, job / "iotoll-dut.real")
    (job / "iotoll-dut").write_text(NOISY)
    (job / "iotoll-dut").chmod(0o755)
    with (job / "job.env").open("a") as settings:
        settings.write(f"MEASURE=live\nUNIT=instructions\nLOOK_MS={LOOK_MS}\n")
    live = replace(plan, number=2, job=job, folder=root / "live")
    boot(live)
    console = (live.folder / "console.log").read_bytes()
    sent = live.folder / "ufs/records"
    fio = read_jobs(sent.with_name("fio.json"))
    records = {}
    for text in sent.read_text().splitlines():
        name = json.loads(text)["cell"]
        records[name] = cell_of_dut(text, Clock.INSTRUCTIONS, fio[name].totals())
    yield Boots(traced, records, console, sent)


def test_records_cross_a_console_on_which_the_kernel_talks(boots: Boots) -> None:
    assert boots.console.count(b"nothing of importance") > 10
    found = receive(boots.console)
    assert len(found) == len(CELLS)
    log = boots.console
    for one in found:
        if one.request is not None:
            log += dut.native().output("send", "--in", boots.sent, *one.request.split()).encode()
    assert [one.text for one in receive(log)] == boots.sent.read_text().splitlines()


def test_every_io_is_seen_live(boots: Boots) -> None:
    """F7.9: it failed on a busy machine, where QEMU's device answered later than on an idle one."""
    assert list(boots.live) == list(boots.traced) == CELLS
    for name, live in boots.live.items():
        traced = boots.traced[name]
        assert live.invalid is None
        assert live.trace["lost_events"] == 0
        assert live.trace["clock"] == traced.trace["clock"]
        for count in ("seen", "measured", "no_request", "dropped_lost", "incomplete"):
            assert live.ios[count] == traced.ios[count], f"{name}: {count}"
        assert live.marks["interrupt"] == traced.marks["interrupt"]
        # QEMU's device may answer before the queue function returns, by how busy the host is.
        assert live.marks["device"].keys() ^ traced.marks["device"].keys() <= {"clamped"}
        for event in ("block_bio_queue", "block_rq_issue", "block_rq_complete", "ufshcd_command"):
            assert live.trace["events"][event] == traced.trace["events"][event]


def test_figures_are_those_of_a_trace_but_for_the_recorder(boots: Boots) -> None:
    for name, live in boots.live.items():
        traced = boots.traced[name]
        for section in SOFTWARE:
            shift = measure_shift(traced.gate[section], live.gate[section], tolerance=RECORDER)
            # Those that end in the section, and what the one that begins it does after its stamp.
            events = 1 + sum(traced.sections[section].probe_events.values())
            off = min(abs(shift.delta + n * PEAK) for n in (-1, 0, 1))
            assert off <= RECORDER * events, f"{name} {section}: {shift}"
