"""btt and fio beside `iotoll analyze`: the same requests of the same recordings.

btt reads what blktrace wrote, fio measures its own I/Os in the seconds of the recording.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from iotoll.measure.boot_trace import BootTraceFile, Window
from iotoll.reports.trace.blocks import Rows, cells, read_blocks

DATA = Path(__file__).with_name("data")
FOLDERS = {
    "6.1-x86_64-virtio-blk/vda": "6.1-x86_64-blktrace",
    "6.12-arm64-virtio-blk/vda": "6.12-arm64-blktrace",
    "6.12-arm64-nvme-flat/nvme0n1": "6.12-arm64-nvme-flat",
}
RUNS = (*("nvme-ext4-5.10", "nvme-ext4-6.12", "nvme-ext4-7.3", "scsi-5.10", "scsi-6.12"), *FOLDERS)
LINE = re.compile(r"\s*(?:(\d+),(\d+)\s*:)?\s*(\d+)\.(\d{9}) ([A-Z])\s+(\d+)\+(\d+)")

pytestmark = pytest.mark.skipif(
    not (shutil.which("btt") and shutil.which("blkparse")), reason="needs blktrace's btt"
)


@dataclass
class Seen:
    """An I/O of btt's: when its bio was queued, its request issued and completed (ns)."""

    dev: str
    sector: int
    marks: dict[str, int] = field(default_factory=dict)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)


def dump(run: str, folder: Path) -> Path:
    """What `blkparse -d` makes of a run."""
    source, out = DATA / "blktrace" / run, folder / "run.bin"
    command = ["blkparse", "-q", "-O", "-i", source.name, "-d", str(out)]
    subprocess.run(command, cwd=source.parent, check=True, capture_output=True)
    return out


def by_btt(binary: Path) -> list[Seen]:
    """Each I/O that btt sees from its queue to its completion; merged ones one by one."""
    folder = binary.parent
    command = ["btt", "-i", str(binary), "-p", str(folder / "ios"), "-o", str(folder / "btt")]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    found: list[Seen] = []
    for block in (folder / "ios").read_text().split("\n\n"):
        seen: Seen | None = None
        for line in block.splitlines():
            if not (m := LINE.match(line)):
                continue
            seen = seen or Seen(f"{m[1]}:{m[2]}", int(m[6]))
            seen.marks[m[5]] = int(m[3]) * 10**9 + int(m[4])
            seen.spans[m[5]] = int(m[6]), int(m[7])
        if seen and {"Q", "D", "C"} <= seen.marks.keys():
            found.append(seen)
    return found


def by_iotoll(trace: Path) -> list[dict[str, Any]]:
    """The rows of all requests."""
    found: list[dict[str, Any]] = []

    def take(_: int, rows: Rows) -> None:
        found.extend(cells(rows))

    read_blocks(BootTraceFile(trace), [Window("all", 0, 2**63)], take=take)
    return [row for row in found if row["kind"] == "request"]


@pytest.mark.parametrize("run", RUNS)
def test_g4_7_btt_has_the_same_requests_to_the_nanosecond(run: str, tmp_path: Path) -> None:
    binary = dump(run, tmp_path)
    seen, rows = by_btt(binary), by_iotoll(binary)
    assert len(seen) > 50
    # btt counts from the first event, iotoll calls that 1 ns.
    complete = [r for r in rows if r["at_issue"] and r["at_complete"]]
    ends = {(r["dev"], r["at_issue"] - 1, r["at_complete"] - 1): r for r in complete}
    same = 0
    for one in seen:
        row = ends[one.dev, one.marks["D"], one.marks["C"]]
        # btt knows no operations: it gives the Q of an old write to a discard of the same place.
        whole_bio = one.spans["Q"] == one.spans["D"] == one.spans["C"]
        if row["bios"] == 1 and not row["requeues"] and whole_bio:
            assert row["at_queue"] - 1 == one.marks["Q"], (one, row)
            same += 1
    assert same > 0.5 * len(seen)
    known = {(one.dev, one.marks["D"], one.marks["C"]) for one in seen}
    # Of the pieces of a split bio, and of what has no bio, such as a bare flush, btt tells nothing.
    queues = Counter(row["at_queue"] for row in rows)
    pieces = [r for r in rows if r["bytes"] and (queues[r["at_queue"]] > 1 or r["rwbs"][0] == "D")]
    for row in (row for key, row in ends.items() if key not in known):
        # Nor of a request at the place of a split bio or a discard: it takes that one's Q.
        bare = row["bios"] == 0 or not row["bytes"]
        assert bare or any(_overlap(row, piece) for piece in pieces), row


def _overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    ends = [row["sector"] + (row["bytes"] >> 9) for row in (one, other)]
    return bool(one["sector"] < ends[1] and other["sector"] < ends[0])


@pytest.mark.parametrize("run", FOLDERS)
def test_g4_7_fio_btt_and_iotoll_side_by_side(run: str, tmp_path: Path) -> None:
    """fio's I/Os are all there; nothing took longer than fio saw; both recorders tell the same."""
    name = DATA / "kernels" / f"{FOLDERS[run]}-blktrace"
    jobs = json.loads(Path(f"{name}.fio.json").read_text())["jobs"]
    sides = [job[side] for job in jobs for side in ("read", "write") if side in job]
    ios = sum(side["total_ios"] for side in sides)
    rows = [r for r in by_iotoll(Path(f"{name}.dat")) if r["bytes"] and r["q2c"]]
    rows = [r for r in rows if r["direction"] in ("read", "write") and r["bytes"] % 16384 == 0]
    assert sum(r["bytes"] for r in rows) == sum(side["io_bytes"] for side in sides)
    fio = sum(side["lat_ns"]["mean"] * side["total_ios"] for side in sides) / ios
    iotoll = statistics.fmean(r["q2c"] for r in rows)
    assert iotoll < fio
    places = {(r["sector"], r["bytes"] >> 9) for r in rows}
    btt = [s.marks["C"] - s.marks["Q"] for s in by_btt(dump(run, tmp_path))
           if s.spans["Q"] in places]  # fmt: skip
    # Two recorders look at their clock one after the other, at each of the same events.
    assert statistics.median(btt) == pytest.approx(
        statistics.median(r["q2c"] for r in rows), rel=0.1
    )
