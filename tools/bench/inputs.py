"""Makes what is timed: the same trace uncompressed and packed, once and ten times as long.

Everything lies in ``.cache/bench``; a trace is prepared once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from measure import ROOT, output

RELEASE = ROOT / "target/release"
FIXTURE = ROOT / "tests/trace/data/virtio-split-flush.dat"
#: A trace made from the fixture has about so many events.
EVENTS = 2_800_000
LONGER = 10


@dataclass(frozen=True)
class Inputs:
    """Paths of the traces, their numbers of events, and where the CPUs' data are in ``plain``."""

    folder: Path
    source: str
    events: int
    block_events: int
    headroom: list[str]

    @property
    def plain(self) -> Path:
        """The trace, uncompressed."""
        return self.folder / "plain.dat"

    @property
    def zstd(self) -> Path:
        """The same, packed with zstd."""
        return self.folder / "zstd.dat"

    @property
    def long_plain(self) -> Path:
        """Ten copies of it, one after the other in time."""
        return self.folder / "long.dat"

    @property
    def long_zstd(self) -> Path:
        """The same, packed with zstd."""
        return self.folder / "long-zstd.dat"

    @property
    def blktrace(self) -> Path:
        """Its block events as raw blktrace files: the name before ``.blktrace.N``."""
        return self.folder / "raw"


def prepare(trace: Path | None) -> Inputs:
    """Return the inputs made from ``trace``, or from a fixture of the repository."""
    source = (trace or FIXTURE).resolve(strict=True)
    seen = [source.stat(), (RELEASE / "repeat-trace").stat(), (RELEASE / "raw-blktrace").stat()]
    key = json.dumps([str(source), [(s.st_size, s.st_mtime_ns) for s in seen]])
    folder = ROOT / ".cache/bench" / hashlib.sha256(key.encode()).hexdigest()[:16]
    if not (folder / "inputs.json").is_file():
        print(f"preparing {source.name} in {folder.relative_to(ROOT)}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        made = _make(source, folder, LONGER, fixture=trace is None)
        (folder / "inputs.json").write_text(json.dumps(made))
    made = json.loads((folder / "inputs.json").read_text())
    return Inputs(folder, source.name, made["events"], made["block_events"], made["headroom"])


def _make(source: Path, folder: Path, longer: int, *, fixture: bool) -> dict[str, object]:
    whole = folder / "whole.dat"
    convert = ["trace-cmd", "convert", "--file-version", "7", "--compression", "none"]
    output([*convert, "-i", source, "-o", whole])
    times = 1
    if fixture:
        times = -(-EVENTS // _repeat(whole, folder / "plain.dat", "none", 1)[0])
    events, headroom = _repeat(whole, folder / "plain.dat", "none", times)
    _repeat(whole, folder / "zstd.dat", "zstd", times)
    _repeat(whole, folder / "long.dat", "none", times * longer)
    _repeat(whole, folder / "long-zstd.dat", "zstd", times * longer)
    whole.unlink()
    printed = output([RELEASE / "raw-blktrace", folder / "plain.dat", folder / "raw"])
    block_events = int(printed.split()[1])
    return {"events": events, "block_events": block_events, "headroom": headroom}


def _repeat(source: Path, target: Path, packing: str, times: int) -> tuple[int, list[str]]:
    """Write a longer trace; give its events, and page size, offsets and sizes of its CPUs."""
    printed = output([RELEASE / "repeat-trace", source, target, packing, str(times)])
    events, layout = 0, []
    for line in printed.splitlines():
        match line.split():
            case ["events", number]:
                events = int(number)
            case ["page_size", size]:
                layout.append(size)
            case ["cpu", _, offset, size] if size != "0":
                layout += [offset, size]
    return events, layout
