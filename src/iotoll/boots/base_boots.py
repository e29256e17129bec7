"""Boots of the base that earlier runs made: on an exact board the same boot need not run again.

A boot of an exact board is a function of kernel, board, job, image and QEMU, so these name it. An
entry holds what the boot left, with the SHA-256 of each file. They are checked when it is taken,
and an entry that does not fit is dropped. Calibration runs are part of the first boot's job, so
their figures come with it.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

from iotoll.boards import patched
from iotoll.boots.local import BootPlan
from iotoll.core.digest import file_sha256, json_sha256
from iotoll.core.paths import cache_dir, prune
from iotoll.records import results

LIMIT = 2 << 30
"""Bytes that all entries together may have; the least recently used go first."""

_SUMS = "sha256.json"


def keep(plan: BootPlan) -> None:
    """Store a boot that has just ended, if it is one that others may take."""
    entry = _entry(plan)
    if entry is None or entry.is_dir():
        return
    temporary = entry.with_name(f".{entry.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        shutil.copytree(plan.folder, temporary)
        results.write_text(temporary / _SUMS, json.dumps(_sums(temporary), sort_keys=True) + "\n")
        temporary.rename(entry)
    except OSError:
        # A full disk, or another process was first: the boot itself is not concerned.
        shutil.rmtree(temporary, ignore_errors=True)
    prune(entry.parent, LIMIT)


def take(plan: BootPlan) -> bool:
    """Fill the plan's folder from the store; False when there is no sound entry."""
    entry = _entry(plan)
    if entry is None or not entry.is_dir():
        return False
    shutil.rmtree(plan.folder, ignore_errors=True)
    try:
        sums = json.loads((entry / _SUMS).read_text())
        shutil.copytree(entry, plan.folder)
        (plan.folder / _SUMS).unlink()
        # The copy is what will be read, so it is what is checked.
        sound = bool(_sums(plan.folder) == sums)
        os.utime(entry, (time.time(), time.time()))
    except (OSError, ValueError):
        sound = False
    if not sound:
        shutil.rmtree(plan.folder, ignore_errors=True)
        shutil.rmtree(entry, ignore_errors=True)
    return sound


def _entry(plan: BootPlan) -> Path | None:
    """Where the boot is or would be; None for one that nobody may take."""
    if plan.fresh or plan.side != "base":
        return None
    if not plan.board.is_exact or plan.accelerator != "tcg":
        return None
    folder = cache_dir() / "boots"
    folder.mkdir(exist_ok=True)
    name = [plan.identity(), file_sha256(plan.kernel), patched.digest(), plan.number, plan.cells]
    return folder / json_sha256(name)


def _sums(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): file_sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
