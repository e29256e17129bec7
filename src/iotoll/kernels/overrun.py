"""What a step in the sandbox may take at most, counted from outside of it."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from iotoll.core.errors import InfrastructureError

SECONDS = 1.0
"""Between two looks at the disk."""
RESERVE = 2 << 30
"""Bytes of the disk that a step may not take, or half of what is free."""


class OverrunError(InfrastructureError):
    """A step took more time or disk than there is for it, and was ended from outside.

    What runs inside may stop the iotoll beside it, which counts the seconds there.
    """


class Disk:
    """What a step writes below some folders, against what was free of their disk before."""

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self.before = self._size()
        self.free = self._free()
        self.due = 0.0

    def _free(self) -> int:
        return shutil.disk_usage(self.folders[0]).free

    def check(self) -> None:
        """Raise OverrunError when the step has filled the disk; looks once in `SECONDS`."""
        if time.monotonic() < self.due:
            return
        self.due = time.monotonic() + SECONDS
        free = self._free()
        if free >= min(RESERVE, self.free // 2):
            return
        written = self._size() - self.before
        if written * 2 > self.free - free:  # else somebody else fills it
            raise OverrunError(
                f"it wrote {written / 2**30:.1f} GiB and left {free / 2**30:.1f} GiB of the disk"
                " free: it was ended"
            )

    def _size(self) -> int:
        """Bytes of all files below the folders; some go while they are counted."""
        total = 0
        for top in self.folders:
            for folder, _, names in os.walk(top):
                for name in names:
                    with suppress(OSError):
                        total += Path(folder, name).lstat().st_blocks * 512
        return total
