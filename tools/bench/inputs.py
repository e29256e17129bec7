"""Makes what is timed: the same trace uncompressed and packed, once and ten times as long.

Everything lies in ``.cache/bench``; a trace is prepared once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from measure import ROOT, Command, output

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
    whole, plain, long = folder / "whole.dat", folder / "plain.dat", folder / "long.dat"
    _convert(source, whole, "none")
    times = 1
    if fixture:
        times = -(-EVENTS // _repeat(whole, plain, 1)[0])
    events, headroom = _repeat(whole, plain, times)
    _repeat(whole, long, times * longer)
    whole.unlink()
    # trace-cmd packs them itself: its own reader is slower on what others pack.
    _convert(plain, folder / "zstd.dat", "zstd")
    _convert(long, folder / "long-zstd.dat", "zstd")
    printed = output([RELEASE / "raw-blktrace", plain, folder / "raw"])
    block_events = int(printed.split()[1])
    return {"events": events, "block_events": block_events, "headroom": headroom}


def _convert(source: Path, target: Path, packing: str) -> None:
    """Let trace-cmd write a trace.dat of version 7."""
    convert: Command = ["trace-cmd", "convert", "--file-version", "7", "--compression", packing]
    output([*convert, "-i", source, "-o", target])


def _repeat(source: Path, target: Path, times: int) -> tuple[int, list[str]]:
    """Write a longer trace; give its events, and page size, offsets and sizes of its CPUs."""
    printed = output([RELEASE / "repeat-trace", source, target, str(times)])
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
