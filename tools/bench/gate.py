"""make bench-gate: how long a verdict takes, warm, on this machine.

Each run gates a one-file UFS driver patch that no earlier run has seen: a cold path prints a new
number, which kernels without CONFIG_PRINTK leave out, or each transfer request costs more than it
did. The file is really compiled, the kernel linked and booted; the base's boots come from the
cache. The machine's load is printed, since these are wall-clock times; compare them with each
other, not with another machine's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PASS = ROOT / "examples/patches/neutral.patch"
COST = ROOT / "examples/patches/ufs-submission-cost.patch"
LINES = {
    PASS: ("+\tufshcd_schedule_eh_work(hba);\n", "(hba);", '(hba); pr_err("bench {number}\\n");'),
    COST: ("+\tu32 a = 0, b = 0;\n", "a = 0", "a = {number} % 65521"),
}
"""Of each patch the line that is varied, and what of it by what."""

OLD = [
    f"{disk}-{size}-t?-{mode}"
    for disk in ("ufs", "nvme", "emmc")
    for size in ("4k-rand*", "128k-seq*")
    for mode in ("direct", "sync")
]
"""The 48 cells of the mission: two sizes, reads and writes, 1 and 8 threads, direct and sync."""

CASES = {
    "a pass, selected cells": (PASS, []),
    "a regression with its functions, selected cells": (COST, []),
    "a pass, the 48 cells": (PASS, ["--cells", ",".join(OLD)]),
    "a pass, all cells": (PASS, ["--cells", "*"]),
}


def fresh_patch(template: Path, folder: Path) -> Path:
    """Return a patch whose source nobody has built yet."""
    text = template.read_text()
    line, what, by = LINES[template]
    if text.count(line) != 1:
        sys.exit(f"{template} no longer has the line that the benchmark varies")
    number = time.time_ns()
    path = folder / f"bench-{number}.patch"
    path.write_text(text.replace(line, line.replace(what, by.format(number=number))))
    return path


def run(title: str, template: Path, options: list[str], folder: Path) -> None:
    """Time one gate and print its steps."""
    out = folder / "run"
    patch = fresh_patch(template, folder)
    command = [sys.executable, "-m", "iotoll", "gate", "--candidate", str(patch)]
    started = time.monotonic()
    done = subprocess.run(
        [*command, "--out", str(out), *options], capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - started
    print(f"{title}: {seconds:.1f} s, exit code {done.returncode}")
    for step, took in re.findall(r"^(.+): done in ([\d.]+) s$", done.stderr, re.M):
        print(f"    {float(took):6.1f} s  {step}")
    if done.returncode not in (0, 1):
        sys.exit(done.stderr[-2000:])


def main() -> None:
    """Run every case, each after one that warms the caches for it, which is printed as well."""
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    for title, (template, options) in CASES.items():
        for when in ("warm-up", title):
            with tempfile.TemporaryDirectory() as name:
                run(when, template, options, Path(name))


if __name__ == "__main__":
    main()
