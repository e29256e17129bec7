"""Cut a small fixture out of a recorded trace.dat.

    python tests/trace/thin.py IN.dat OUT.dat [--seconds FROM TO] [--version 6|7]

Keeps the ring-buffer pages that begin between the two times (seconds of the trace clock), the
formats of the events that occur in them and the task names, and drops kallsyms. Needs trace-cmd.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import tempfile
from pathlib import Path

from iotoll import _native


class Reader:
    """Walks the sections of a little-endian version 6 file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        taken = self.data[self.at : self.at + count]
        self.at += count
        return taken

    def number(self, size: int) -> int:
        """The next unsigned integer of ``size`` bytes."""
        return int.from_bytes(self.take(size), "little")

    def block(self, size: int) -> bytes:
        """A block behind its length of ``size`` bytes."""
        return self.take(self.number(size))

    def text(self) -> bytes:
        """A null-terminated string without its null."""
        end = self.data.index(b"\0", self.at)
        found = self.take(end - self.at)
        self.at += 1
        return found


def sized(data: bytes, size: int) -> bytes:
    """A block with its length in front."""
    return len(data).to_bytes(size, "little") + data


def formats(reader: Reader, wanted: set[str]) -> bytes:
    """The event formats, less the unwanted ones and the systems left empty."""
    kept: list[bytes] = []
    for _ in range(reader.number(4)):
        system = reader.text()
        events = [reader.block(8) for _ in range(reader.number(4))]
        events = [e for e in events if e.split(b"\n")[0][6:].decode() in wanted]
        if events:
            body = b"".join(sized(e, 8) for e in events)
            kept.append(system + b"\0" + struct.pack("<I", len(events)) + body)
    return struct.pack("<I", len(kept)) + b"".join(kept)


def thin(data: bytes, wanted: set[str], start: float, end: float) -> bytes:
    """The thinned version 6 file."""
    reader = Reader(data)
    out = reader.take(10 + 2 + 1 + 1)
    page_size = reader.number(4)
    out += struct.pack("<I", page_size)
    for name in (b"header_page\0", b"header_event\0"):
        out += reader.take(len(name)) + sized(reader.block(8), 8)
    ftrace = [reader.block(8) for _ in range(reader.number(4))]
    out += struct.pack("<I", len(ftrace)) + b"".join(sized(f, 8) for f in ftrace)
    out += formats(reader, wanted)
    reader.block(4), reader.block(4)
    out += sized(b"", 4) + sized(b"", 4) + sized(reader.block(8), 8)
    cpus = reader.number(4)
    out += struct.pack("<I", cpus)
    options = reader.at
    reader.take(10)
    while reader.number(2):
        reader.block(4)
    out += data[options : reader.at] + reader.take(10)
    parts = [(reader.number(8), reader.number(8)) for _ in range(cpus)]
    at = -(-(len(out) + 16 * cpus) // page_size) * page_size
    body = b""
    for offset, size in parts:
        pages = (data[p : p + page_size] for p in range(offset, offset + size, page_size))
        kept = b"".join(p for p in pages if start <= int.from_bytes(p[:8], "little") / 1e9 < end)
        out += struct.pack("<QQ", at + len(body), len(kept))
        body += kept
    return out.ljust(at, b"\0") + body


def convert(source: Path, target: Path, *options: str) -> None:
    """Rewrite a trace with trace-cmd; what it says is shown only when it fails."""
    command = ["trace-cmd", "convert", "-i", str(source), "-o", str(target), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"trace-cmd convert of {source} failed: {done.stderr.strip()}")


def thin_file(
    source: Path,
    target: Path,
    seconds: tuple[float, float] = (0.0, float("inf")),
    version: str = "7",
) -> None:
    """Write the thinned ``source`` to ``target`` as trace.dat 6, or 7 with zstd."""
    wanted = set(json.loads(_native.trace_info(str(source)))["events"])
    with tempfile.TemporaryDirectory() as folder:
        whole, part = Path(folder, "whole.dat"), Path(folder, "part.dat")
        convert(source, whole, "--file-version", "6")
        part.write_bytes(thin(whole.read_bytes(), wanted, *seconds))
        if version == "6":
            target.write_bytes(part.read_bytes())
        else:
            convert(part, target, "--compression", "zstd", "--file-version", "7")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--seconds", nargs=2, type=float, default=(0.0, float("inf")))
    parser.add_argument("--version", choices="67", default="7")
    args = parser.parse_args()
    thin_file(args.source, args.target, tuple(args.seconds), args.version)


if __name__ == "__main__":
    main()
