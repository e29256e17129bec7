"""Requests and bios: each row of real traces against a second reader, to the nanosecond."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from iotoll.measure.boot_trace import BootTraceFile, Window
from iotoll.measure.iotable import IoTable
from iotoll.measure.substeps import StepSums
from iotoll.records.models import Clock, Section
from iotoll.reports.trace.blocks import Rows, cells, layers, read_blocks, whole
from iotoll.reports.trace.filters import Filters
from iotoll.reports.trace.missing import command
from iotoll.reports.trace.plots import SLOW_SHOWN, layer_figure
from iotoll.reports.trace.reader import KEPT, Flow, TraceCell, Wants, load
from tests.trace.conftest import as_version_6
from tests.trace.independent import report
from tests.trace.independent_blocks import name, read
from tests.trace.plain import repeated
from tests.unit.analyzing import run

HERE = Path(__file__).parent
# The second reader takes each instance for itself.
RECORDED = sorted(p for p in HERE.glob("blocks/*.dat") if "two_instances" not in p.stem)
KERNELS = sorted(HERE.glob("data/kernels/*.dat"))
needs_trace_cmd = pytest.mark.skipif(
    not shutil.which("trace-cmd"), reason="needs trace-cmd to print the traces"
)
WHOLE = [Window("all", 0, 2**63)]
SPLIT = ("-split", "-requeue", "-merge", "-dm", "-fstrim", "-discard", "sqpoll", "md_raid0")
"""Names of traces whose bios the second reader does not follow to the end: what is split or merged
behind a multipath device, or issued again."""


def rows_of(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Sums and rows of a whole trace."""
    found: list[dict[str, Any]] = []

    def take(_: int, rows: Rows) -> None:
        found.extend(cells(rows))

    ((sums, _),) = read_blocks(BootTraceFile(path), WHOLE, take=take)
    return sums, found


@needs_trace_cmd
@pytest.mark.parametrize("path", [*RECORDED, *KERNELS], ids=lambda path: path.stem)
def test_g4_1_every_request_has_its_row_to_the_nanosecond(path: Path) -> None:
    second = read(path)
    _, rows = rows_of(path)
    issued = [row for row in rows if row["at_issue"] is not None and not row["requeues"]]
    product = {(r["dev"], r["at_issue"], r["sector"] or 0): r for r in issued}
    for key, request in second.requests.items():
        if (key[0], key[1], key[2]) not in product:
            # A request that was issued again has its last issue.
            again = [r for r in rows if r["requeues"] and r["dev"] == key[0]]
            assert again or request.queued is None, key
            continue
        row = product[key]
        # A flush has another sector at its end than at its issue: the second reader loses it.
        told = request.told and not row["ambiguous"] and row["bytes"]
        if told and "requeue" not in path.stem:
            assert row["at_complete"] == request.done, (key, row)
        if request.queued is not None and not any(word in path.stem for word in SPLIT):
            assert row["at_queue"] == request.queued, (key, row)


@needs_trace_cmd
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_g4_4_bios_of_devices_without_requests_have_rows(path: Path) -> None:
    second = read(path)
    _, rows = rows_of(path)
    product = {(r["dev"], r["at_queue"], r["sector"] or 0): r for r in rows if r["kind"] == "bio"}
    with_requests = {key[0] for key in second.requests}
    bios = {key: end for key, end in second.bios.items() if key[0] not in with_requests}
    for key, end in bios.items():
        assert key in product, key
        if end is not None and not product[key]["ambiguous"]:
            row = product[key]
            assert row["at_complete"] in (end, row["at_below_done"]), (key, row)


@pytest.mark.parametrize(
    ("run", "device", "bios"), [("5-zram", "250:0", 250), ("5-md-raid1", "9:1", 200)]
)
def test_g4_4_blktrace_of_devices_without_requests(run: str, device: str, bios: int) -> None:
    sums, rows = rows_of(HERE / "blocks" / run)
    (found,) = sums["devices"]
    assert (found["dev"], found["bios"], found["no_end"]) == (device, bios, 0)
    assert all(row["q2c"] > 0 for row in rows)


def test_g4_9_instances_that_record_the_same_count_once() -> None:
    for kernel in ("6.1-x86_64-stacks", "6.12-x86_64-stacks-scsi"):
        sums, rows = rows_of(HERE / "blocks" / f"{kernel}-two_instances.dat")
        requests = [row for row in rows if row["kind"] == "request"]
        assert len(requests) == 64
        assert not any(device["ambiguous"] for device in sums["devices"])
        assert np.isin([row["direction"] for row in requests], ["read", "write"]).all()


def loaded(name: str, **filters: Any) -> TraceCell:
    """The only cell of a recording, as `iotoll analyze` has it."""
    path = HERE / "blocks" / f"{name}.dat"
    wants = Wants(whole=False, some=True, slowest=3)
    (cell,) = load(path, Clock.TIME, Filters(**filters), None, wants)
    return cell


@pytest.mark.parametrize("case", ["block_only", "raw_syscalls", "writeback"])
def test_g4_1_what_else_to_record_is_a_command(case: str) -> None:
    cell = loaded(f"6.12-x86_64-stacks-{case}")
    assert cell.record.invalid is None
    assert cell.record.blocks is not None
    told = command(cell.record, cell.record.blocks)
    assert told is not None
    what, line = told
    assert "vfs_fs" in what
    assert line.startswith("trace-cmd record ")
    assert "-e syscalls" in line


def test_g4_3_a_partition_is_a_filter() -> None:
    whole = loaded("6.12-x86_64-stacks-scsi-partitions")
    counts = {}
    for part in ("8:1", "8:2"):
        cell = loaded("6.12-x86_64-stacks-scsi-partitions", device=part)
        assert cell.record.device["dev"] == part
        counts[part] = cell.record.total.elapsed.count
    assert all(counts.values())
    assert sum(counts.values()) == whole.record.total.elapsed.count


@pytest.mark.parametrize("case", ["pid_filter", "no_complete"])
def test_g4_5_missing_completions_are_no_sections(case: str) -> None:
    cell = loaded(f"6.12-x86_64-stacks-{case}")
    assert cell.record.warnings
    assert "never end in the trace" in cell.record.warnings[0]
    for section in (Section.HARDWARE, Section.COMPLETION, Section.RETURN):
        assert section not in cell.record.sections
        assert not cell.table.has(f"elapsed_{section.value}")
    assert cell.record.total.elapsed.count == 0


@pytest.mark.parametrize(
    ("case", "code"), [("pid_filter", 3), ("no_complete", 3), ("block_only", 0), ("writeback", 0)]
)
def test_g4_5_the_exit_code_says_that_completions_are_missing(case: str, code: int) -> None:
    path = HERE / f"blocks/6.12-x86_64-stacks-{case}.dat"
    done = run(path)
    assert done.exit_code == code
    assert ("never end in the trace" in done.stdout) == (code == 3)
    assert "Requests and bios" in done.stdout, "the table is there"


def test_g4_6_no_more_than_some_ios_are_kept() -> None:
    cell = loaded("6.12-x86_64-stacks-dm_striped")
    flow = Flow(cell, Wants(some=True, slowest=5))
    batches = 2 * KEPT // len(cell.table)
    for _ in range(batches):
        flow.take(cell.table)
    done = flow.end()
    assert done.ios == batches * len(cell.table)
    assert done.sample is not None
    assert max(len(done.table), len(done.sample)) <= KEPT
    assert done.longest is not None
    assert done.longest.duration.max() == cell.table.duration.max()
    assert all(step.ios % batches == 0 for step in done.record.steps)


def test_g4_6_a_table_alone_keeps_no_io() -> None:
    cell = loaded("6.12-x86_64-stacks-dm_striped")
    flow = Flow(cell, Wants())
    flow.cell = replace(cell, table=cell.table.take(np.arange(0)))
    needed = {name: cell.table[name] for name in StepSums.COLUMNS if cell.table.has(name)}
    flow.take(IoTable(needed, len(cell.table)))
    done = flow.end()
    assert (len(done.table), done.count) == (0, len(cell.table))
    assert done.record.steps == cell.record.steps


HIGH_WATER = """
import runpy, sys
try:
    runpy.run_module("iotoll", run_name="__main__", alter_sys=True)
finally:
    print(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")), file=sys.stderr)
"""


def peak(trace: Path, *options: str) -> float:
    """The most memory that ``iotoll analyze`` had at a time (MiB)."""
    command = [sys.executable, "-c", HIGH_WATER, "analyze", str(trace), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stderr.split("VmHWM:")[1].split()[0]) / 1024


@pytest.mark.usefixtures("trace_cmd")
@pytest.mark.parametrize("option", ["", "--compare", "--slowest"])
def test_g4_6_memory_does_not_grow_with_the_ios(option: str, tmp_path: Path) -> None:
    source = HERE / "data/kernels/6.12-arm64-ufs-lean.dat"
    data = as_version_6(source, tmp_path).read_bytes()
    peaks = []
    for times in (100, 500):  # 9,600 and 48,000 I/Os
        trace = tmp_path / f"{times}.dat"
        trace.write_bytes(repeated(data, times))
        options = {"": [], "--compare": [option, str(trace)], "--slowest": [option, "5"]}
        peaks.append(peak(trace, *options[option]))
    assert peaks[0] < 100, "the libraries alone have 50"
    assert peaks[1] - peaks[0] < 6, peaks


def test_g4_8_the_head_of_multipath_is_a_device() -> None:
    whole = loaded("6.12-x86_64-stacks-dm_striped", device="259:0")
    head = loaded("6.12-x86_64-stacks-block_only", device="259:1")
    assert head.record.blocks is not None
    assert {d["dev"] for d in head.record.blocks["devices"]} == {"259:0", "259:1"}
    assert whole.record.total.elapsed.count > 0


@needs_trace_cmd
@pytest.mark.parametrize(
    "kernel", ["6.1-x86_64-stacks", "6.12-x86_64-stacks", "6.12-x86_64-stacks-scsi"]
)
def test_g4_4_md_on_partitions_has_no_bio_twice(kernel: str) -> None:
    """Linux announces such a bio by the disk's number, with the place on the partition."""
    path = HERE / f"blocks/{kernel}-md_raid1.dat"
    sums, rows = rows_of(path)
    assert not any(device["overdue"] for device in sums["devices"])
    queued = [(name(e.number("dev")), e.ts) for e in report(path) if e.name == "block_bio_queue"]
    bios = {(row["dev"], row["at_queue"]) for row in rows if row["kind"] == "bio"}
    assert bios <= set(queued)
    copies = Counter(row["at_top_queue"] for row in rows if row["top"] == "9:0" and row["q2d"])
    writes = {r["at_queue"] for r in rows if r["dev"] == "9:0" and r["direction"] == "write"}
    assert writes
    assert all(copies[at] == 2 for at in writes), "both halves of the mirror"


@needs_trace_cmd
def test_g4_1_a_passthrough_request_has_its_end() -> None:
    path = HERE / "blocks/6.12-x86_64-stacks-scsi-passthrough.dat"
    sums, rows = rows_of(path)
    issued = [e.ts for e in report(path) if e.name == "block_rq_issue"]
    done = [e.ts for e in report(path) if e.name == "block_rq_complete"]
    # One at a time.
    assert [(r["at_issue"], r["at_complete"]) for r in rows] == list(zip(issued, done, strict=True))
    assert all(r["sector"] is None and not r["ambiguous"] and r["at_sent"] for r in rows)
    (device,) = sums["devices"]
    assert (device["requests"], device["no_end"]) == (49, 0)


DEEP = ("6.12-x86_64-stacks-block_only", "6.12-x86_64-stacks-scsi-partitions")


@needs_trace_cmd
@pytest.mark.parametrize("case", [*DEEP, "6.1-x86_64-stacks-writeback"])
def test_g4_1_what_was_at_the_device_when_a_slow_request_was_issued(case: str) -> None:
    """By task, against the second reader; the number also against each row of the trace."""
    path = HERE / f"blocks/{case}.dat"
    second = read(path).requests

    def at_device(dev: str, at: int) -> Counter[int]:
        return Counter(
            r.pid for (d, issued, _), r in second.items()
            if d == dev and issued < at and (r.done is None or r.done > at)
        )  # fmt: skip

    _, rows = rows_of(path)
    for row in (r for r in rows if r["kind"] == "request"):
        assert row["ahead"] == at_device(row["dev"], row["at_issue"]).total(), row
    cell = loaded(case)
    assert cell.slow is not None
    slow = list(cells(cell.slow))
    for row, found in zip(slow, cell.in_flight, strict=True):
        if row["kind"] == "request":
            assert found == at_device(row["dev"], row["at_issue"]), row
    assert case not in DEEP or any(found.total() > 1 for found in cell.in_flight)


LEFT = ("sync_file_exit", "direct_IO_exit")
"""Events by which a task is done with an inode."""


@needs_trace_cmd
@pytest.mark.parametrize(
    "case",
    [
        "6.1-x86_64-stacks-writeback",
        "6.12-x86_64-stacks-scsi-writeback",
        "6.1-x86_64-f2fs-f2fs_writeback",
        "6.12-x86_64-f2fs-f2fs_writeback",
        "6.12-x86_64-f2fs-f2fs_direct",
    ],
)
def test_g4_1_the_inode_is_what_the_file_system_named_last(case: str) -> None:
    path = HERE / f"blocks/{case}.dat"
    last: dict[int, tuple[int, int]] = {}
    named: dict[tuple[str, int], int | None] = {}
    for event in report(path):
        task = event.pid or -1 - event.cpu
        if event.name.startswith(("ext4_", "f2fs_")) and {"dev", "ino"} <= event.fields.keys():
            gone = event.name.endswith(LEFT)
            last[task] = (event.number("dev"), 0 if gone else event.number("ino"))
        if event.name == "block_bio_queue":
            dev, inode = last.get(task, (0, 0))
            found = inode if dev == event.number("dev") and inode else None
            named[name(event.number("dev")), event.ts] = found
    _, rows = rows_of(path)
    known = [row for row in rows if row["at_top_queue"] is not None]
    assert any(row["inode"] for row in known)
    for row in known:
        assert row["inode"] == named[row["top"], row["at_top_queue"]], row


def test_g4_8_a_multipath_head_and_its_path_have_the_same_ios() -> None:
    for trace in sorted(HERE.glob("data/kernels/*-nvme-psync.dat")):
        wants = Wants(whole=False)
        (found,) = load(trace, Clock.TIME, Filters(), None, wants)
        assert found.record.blocks is not None
        (path,) = (d for d in found.record.blocks["devices"] if d["requests"])
        for dev in (path["dev"], *path["above"]):
            (one,) = load(trace, Clock.TIME, Filters(device=dev), None, wants)
            assert one.record.ios["measured"] == found.record.ios["measured"] > 0
            assert one.record.sections == found.record.sections


def test_g4_4_the_picture_of_the_slowest_has_each_layer_as_it_is() -> None:
    cell = loaded("6.12-x86_64-stacks-scsi-md_raid1")
    assert cell.slow is not None
    slow = list(cells(cell.slow))[:SLOW_SHOWN]
    axes = layer_figure(cell).axes[0]
    bars: dict[int, list[float]] = {}
    for bar in axes.patches:
        assert isinstance(bar, Rectangle)
        bars.setdefault(round(bar.get_y() + bar.get_height() / 2), []).append(bar.get_width())
    scale = sum(map(sum, bars.values())) / sum(whole(row) for row in slow)
    for place, row in enumerate(slow):
        widths = [(end - begin) * scale for _, begin, end in layers(row)]
        assert bars[place] == pytest.approx(widths)
        assert sum(bars[place]) == pytest.approx(whole(row) * scale)
    legend = axes.get_legend()
    assert legend is not None
    names = {text.get_text() for text in legend.get_texts()}
    assert {"devices below", "block layer"} <= names


@pytest.mark.parametrize("kernel", ["6.1-x86_64-stacks", "6.12-x86_64-stacks-scsi"])
def test_g4_9_dm_delay_is_joined(kernel: str) -> None:
    cell = loaded(f"{kernel}-dm_delay")
    assert cell.record.ios["measured"] >= 64
    # The delay of 3 ms is in the block layer, not at the device.
    median = cell.record.sections[Section.SUBMISSION].elapsed.median
    assert median is not None
    assert median > 3_000_000
