"""Cut a small fixture out of a recorded trace.dat.

    python -m tests.trace.thin IN.dat OUT.dat [--seconds FROM TO] [--version 6|7]

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
from tests.trace.plain import event_name, parts_of, stamp


def sized(data: bytes, size: int) -> bytes:
    """A block with its length in front."""
    return len(data).to_bytes(size, "little") + data


def formats(systems: list[tuple[str, list[bytes]]], wanted: set[str]) -> bytes:
    """The event formats, less the unwanted ones and the systems left empty."""
    kept: list[bytes] = []
    for system, events in systems:
        events = [e for e in events if event_name(e) in wanted]
        if events:
            body = b"".join(sized(e, 8) for e in events)
            kept.append(system.encode() + b"\0" + struct.pack("<I", len(events)) + body)
    return struct.pack("<I", len(kept)) + b"".join(kept)


def thin(data: bytes, wanted: set[str], start: float, end: float) -> bytes:
    """The thinned version 6 file."""
    parts = parts_of(data)
    out = parts.magic + struct.pack("<I", parts.page_size)
    for name, header in parts.headers.items():
        out += name.encode() + b"\0" + sized(header, 8)
    out += struct.pack("<I", len(parts.ftrace)) + b"".join(sized(f, 8) for f in parts.ftrace)
    out += formats(parts.systems, wanted)
    out += sized(b"", 4) + sized(b"", 4) + sized(parts.cmdlines, 8)
    out += struct.pack("<I", len(parts.pages)) + parts.options
    at = -(-(len(out) + 16 * len(parts.pages)) // parts.page_size) * parts.page_size
    body = b""
    for cpu in parts.pages:
        pages = [p for p in cpu if start <= stamp(data, p) / 1e9 < end]
        kept = b"".join(data[p : p + parts.page_size] for p in pages)
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
