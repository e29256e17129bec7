"""How long a board was given: host time in which its QEMU ran, or could have run.

On a busy host QEMU waits for a processor most of the time. That is not the kernel's fault, so
limits on a boot are not counted in it (/proc/PID/schedstat; the kernel documents it in
Documentation/scheduler/sched-stats.rst).
"""

from __future__ import annotations

import time
from pathlib import Path


class Patience:
    """Seconds since it was made, without those in which a process waited for a processor.

    It must be asked often, as a time-out is: what counts between two questions is the thread that
    waited longest. On a kernel without schedstat all host time counts.
    """

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._last = time.monotonic()
        self._waits = self._read()
        self._given = 0.0

    def seconds(self) -> float:
        """Seconds that the process was given so far."""
        now, waits = time.monotonic(), self._read()
        grown = (wait - self._waits.get(name, wait) for name, wait in waits.items())
        passed = now - self._last
        self._given += passed - min(passed, max(grown, default=0) / 1e9)
        self._last, self._waits = now, waits
        return self._given

    def _read(self) -> dict[str, int]:
        """Nanoseconds that each thread waited on a run queue; none once the process is gone."""
        found = {}
        try:
            for task in self._tasks.iterdir():
                found[task.name] = int((task / "schedstat").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return found
        return found
