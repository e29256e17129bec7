"""Write the table of the recorded traces: python -m tests.trace.record.table FOLDER > README.md."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

HEAD = """# Traces of many kernels

Recorded by `tests/trace/record` from Debian's own kernel packages in QEMU guests (TCG, real guest
time), one whole case each, thinned by `tests/trace/thin.py` (formats of events that occur, no
kernel symbols). trace.dat version 7, zstd. docs/kernels.md says what differs between them.

A row's trace is recorded again by

    python -m tests.trace.record --deb PACKAGE.deb --arch ARCH --out DIR --case CASE RECIPE

with the package of that kernel (of 7.x: `linux-base-*`, `linux-binary-*` and `linux-modules-*`).
`NAME.json` has the command that ran in the guest, the trace clock, how many of each event there
are and which wanted events the kernel lacked; `NAME.fio.json` has what fio itself measured. The
files of `--case blktrace`, which makes all `blktrace*` traces, lie in `../blktrace`.

This table is written by `python -m tests.trace.record.table tests/trace/data/kernels`.

| trace | kernel | ARCH | RECIPE | CASE | CPUs | workload | KiB |
|---|---|---|---|---|---|---|---|
"""
# Options that every load has, or that say where the result goes.
USUAL = re.compile(
    r"--(output(-format)?|eta|name|clocksource|randseed|filename|allow_mounted_write)=\S+ ?"
    r"|--thread ?"
)


def workload(command: str) -> str:
    """The command without what all of them have."""
    short = USUAL.sub("", command).replace("--", "")
    return re.sub(r"\s+", " ", short).strip().replace("|", "\\|")


def row(path: Path) -> str:
    """One line of the table."""
    facts: dict[str, Any] = json.loads(path.read_text())
    size = path.with_suffix(".dat").stat().st_size >> 10
    cells = [
        f"`{path.stem}`",
        facts["kernel"].split()[0],
        facts["arch"],
        facts["recipe"],
        facts["case"],
        str(facts["cpus"]),
        f"`{workload(facts['command'])}`",
        str(size),
    ]
    return f"| {' | '.join(cells)} |\n"


def version(path: Path) -> tuple[list[int], str]:
    """Sorts by kernel version, then by name."""
    number, rest = path.name.split("-", 1)
    return [int(part) for part in number.split(".")], rest


def table(folder: Path) -> str:
    """The whole page."""
    paths = [p for p in folder.glob("*.json") if not p.name.endswith(".fio.json")]
    return HEAD + "".join(row(path) for path in sorted(paths, key=version))


if __name__ == "__main__":
    sys.stdout.write(table(Path(sys.argv[1])))
