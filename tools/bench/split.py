"""Where the analyser spends its time, by source file, as perf samples it.

The release build inlines across crates, so symbols do not tell. Each sampled address is resolved
to its chain of inlined calls, and counted for the innermost one that is of this workspace; what has
none (the kernel, libc, zstd) is counted for its library.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

from measure import BenchError, Command, output

OWN = re.compile(r"crates/([\w-]+)/src/(\w+)\.rs")
MAP = re.compile(r"_MMAP2? .*\[0x([0-9a-f]+)\(0x[0-9a-f]+\) @ (0x[0-9a-f]+|0) .* r-xp (.+)")
LOAD = re.compile(r"LOAD +0x([0-9a-f]+) 0x([0-9a-f]+) .* R E ")
#: Files below this share of the samples are not listed.
LEAST = 0.01


def report(command: Command, folder: Path) -> str:
    """Return the shares as Markdown, or why there are none."""
    if shutil.which("perf") is None or shutil.which("addr2line") is None:
        return "No split of the time: perf or addr2line is missing (linux-perf, binutils)."
    data = folder / "perf.data"
    try:
        # The software clock: a virtual machine may have no counters.
        record: Command = [
            "perf",
            "record",
            "-q",
            "-e",
            "cpu-clock:u",
            "-F",
            "2000",
            "-o",
            data,
            "--",
        ]
        output([*record, *command])
        shares = _shares(data, Path(command[0]).resolve())
    except BenchError as error:
        return f"No split of the time: {error}"
    total = sum(shares.values()) or 1
    lines = [f"Where the time in user mode goes ({total:,} samples, the 10x longer trace):", ""]
    lines += ["| where | share |", "|---|---:|"]
    rest = 0
    for place, count in shares.most_common():
        if count / total < LEAST:
            rest += count
        else:
            lines.append(f"| {place} | {count / total:.1%} |")
    return "\n".join([*lines, f"| all others | {rest / total:.1%} |"])


def _shares(data: Path, binary: Path) -> Counter[str]:
    """Count the samples by place."""
    script: Command = ["perf", "script", "-i", data, "--show-mmap-events", "-F", "comm,ip,dso"]
    base, counts = None, Counter[tuple[int, str]]()
    for line in output(script).splitlines():
        if found := MAP.search(line):
            if Path(found[3]).name == binary.name and base is None:
                base = int(found[1], 16) - int(found[2], 16)
        elif found := re.search(r"([0-9a-f]+) \((.*)\)$", line):
            counts[int(found[1], 16), Path(found[2]).name] += 1
    if base is None:
        raise BenchError(f"perf saw no mapping of {binary.name}")
    slide = _slide(binary) - base
    inside = {ip + slide: ip for ip, dso in counts if dso == binary.name}
    places = dict(zip(inside.values(), _places(binary, list(inside)), strict=True))
    shares = Counter[str]()
    for (ip, dso), count in counts.items():
        shares[places[ip] if dso == binary.name else dso] += count
    return shares


def _slide(binary: Path) -> int:
    """Address less offset of the code in the file."""
    found = LOAD.search(output(["readelf", "-lW", binary]))
    return int(found[2], 16) - int(found[1], 16) if found else 0


def _places(binary: Path, addresses: list[int]) -> list[str]:
    """Return the place of each address: ``crate: file``, or what it is if not ours."""
    done = subprocess.run(
        ["addr2line", "-a", "-i", "-e", str(binary)],
        input="\n".join(hex(a) for a in addresses),
        capture_output=True,
        text=True,
        check=False,
    )
    places: list[str] = []
    for line in done.stdout.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", line):
            places.append("")
        elif not places[-1] and (found := OWN.search(line)):
            places[-1] = f"{found[1]}: {found[2]}.rs"
    return [place or "libraries (zstd, std, libc)" for place in places]
