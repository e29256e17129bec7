"""make bench-pipeline: from a patch to the note in its merge request, split by job.

The merge-request pipeline runs whole under gitlab-ci-local, on a kernel project whose base is
built, with a one-driver change that no earlier run has seen; GitLab is the stub of tests/gitlab.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gate import PASS, fresh_patch  # noqa: E402

from tests.gitlab.pipeline import (  # noqa: E402 - the tests lie at the top of the checkout
    change,
    command_script,
    kernel_repository,
    merge_request,
)
from tests.gitlab.stub import serving  # noqa: E402
from tests.repository import git  # noqa: E402

FINISHED = re.compile(r"^(\S+(?:: \[.*?\])?) +finished in (.+?)(?: +FAIL.*)?$", re.M)


def run(folder: Path, cells: str) -> None:
    """Time one pipeline and print its jobs."""
    inputs = {
        "boards": ["virt-arm64"],
        "cells": cells,
        "iotoll": str(command_script(folder)),
    }
    project = kernel_repository(folder / "linux", inputs)
    change(project, fresh_patch(PASS, folder), "fresh")
    with serving() as (url, gitlab):
        ran = merge_request(project, url, git(project, "rev-parse", "main"))
        noted = len(gitlab.notes)
    print(f"{cells or 'cells by changed paths'}: {ran.seconds:.1f} s, {len(ran.jobs)} jobs")
    for job, took in FINISHED.findall(ran.output):
        print(f"    {took:>10}  {job}")
    for job in ran.jobs:
        for step, took in re.findall(r"> (.+): done in ([\d.]+) s", ran.log(job)):
            print(f"    {job}: {step}: {took} s")
    if noted != 1:
        sys.exit(ran.output[-3000:])


def main() -> None:
    """One cell, which also warms the caches, and what the change selects."""
    for cells in ("ufs-4k-randread-t1-direct", ""):
        print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
        with tempfile.TemporaryDirectory() as name:
            run(Path(name), cells)


if __name__ == "__main__":
    main()
