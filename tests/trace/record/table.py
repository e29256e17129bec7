"""Write tables of the recorded traces.

python -m tests.trace.record.table FOLDER > README.md      # a row for each trace
python -m tests.trace.record.table --sum FOLDER...         # for each kernel: docs/outputs.md
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
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


def sums(folders: Sequence[Path]) -> str:
    """A row for each kernel: the number of its traces, its devices, its kinds of load."""
    found: dict[str, list[dict[str, Any]]] = {}
    paths = [path for folder in folders for path in folder.glob("*.json")]
    for path in sorted((p for p in paths if not p.name.endswith(".fio.json")), key=version):
        release, arch, *_ = path.name.split("-")
        found.setdefault(f"{release} {arch}", []).append(json.loads(path.read_text()))
    lines = ["| kernel | traces | devices | loads |", "|---|---|---|---|"]
    for kernel, traces in found.items():
        devices = ", ".join(sorted({facts["device"] for facts in traces}))
        cases = len({facts["case"] for facts in traces})
        lines.append(f"| {kernel} | {len(traces)} | {devices} | {cases} |")
    lines.append(f"| all | {sum(map(len, found.values()))} | | |")
    return "\n".join(lines) + "\n"


def main(words: list[str]) -> None:
    """Print what the words ask for."""
    if words[:1] == ["--sum"]:
        sys.stdout.write(sums([Path(word) for word in words[1:]]))
    else:
        sys.stdout.write(table(Path(words[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
