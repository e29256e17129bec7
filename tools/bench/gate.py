"""make bench-gate: how long a verdict takes, warm, on this machine.

Each run gates a one-file UFS driver patch that no earlier run has seen (a cold path prints a new
number, which kernels without CONFIG_PRINTK leave out): the file is really compiled, the kernel
linked and booted; the base's boots come from the cache. The machine's load is printed, since these
are wall-clock times; compare them with each other, not with another machine's.
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
TEMPLATE = ROOT / "examples/patches/neutral.patch"
LINE = "+\tufshcd_schedule_eh_work(hba);\n"
CASES = {
    "one-file UFS patch, selected cells": [],
    "one-file UFS patch, full matrix": ["--cells", "*"],
}


def fresh_patch(folder: Path) -> Path:
    """Return a neutral patch whose source nobody has built yet."""
    text = TEMPLATE.read_text()
    if text.count(LINE) != 1:
        sys.exit(f"{TEMPLATE} no longer has the line that the benchmark varies")
    number = time.time_ns()
    path = folder / f"bench-{number}.patch"
    varied = LINE.replace("(hba);", f'(hba); pr_err("bench {number}\\n");')
    path.write_text(text.replace(LINE, varied))
    return path


def run(title: str, options: list[str], folder: Path) -> None:
    """Time one gate and print its steps."""
    out = folder / "run"
    command = [sys.executable, "-m", "iotoll", "gate", "--candidate", str(fresh_patch(folder))]
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
    """Run every case once, after one run that warms the caches."""
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    for title, options in {"warm-up": ["--cells", "ufs-4k-randread-t1-direct"], **CASES}.items():
        with tempfile.TemporaryDirectory() as name:
            run(title, options, Path(name))


if __name__ == "__main__":
    main()
