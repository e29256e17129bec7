"""Looks into the logs of running jobs: a crashed board need not be waited for.

LAVA 2026.10 knows a panic only while it boots a board. In a test it waits for the time-out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from iotoll.boots.console import CRASH, read_console
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.labs.lava.job_log import read_log
from iotoll.labs.lava.server import JobState, LavaServer

LOOK_SECONDS = 10.0
KEPT = 1 << 20
"""Bytes of a job's log that are kept while it runs: a crash is looked for in what came last."""


@dataclass
class _Seen:
    """What is known of a job's log: ``lines`` of it were read, ``last`` is the end of them."""

    due: float
    lines: int = 0
    first: bytes = b""
    last: bytes = b""
    crashed: bool = False


class Watch:
    """Tells which running jobs have a crashed kernel, so that they can be cancelled.

    Each job's log is asked for every ``seconds``, from the first line on that is not known yet.
    """

    def __init__(self, lava: LavaServer, seconds: float = LOOK_SECONDS) -> None:
        self.lava = lava
        self.seconds = seconds
        self._jobs: dict[int, _Seen] = {}

    def crashed(self, state: JobState) -> bool:
        """Whether a job's kernel crashed; true at the second look, when its trace is complete."""
        if state.state != "Running":
            return False
        now = time.monotonic()
        seen = self._jobs.setdefault(state.id, _Seen(now + self.seconds))
        if now < seen.due:
            return False
        seen.due = now + self.seconds
        before, seen.crashed = seen.crashed, seen.crashed or self._look(state.id, seen)
        return before

    def _look(self, number: int, seen: _Seen) -> bool:
        try:
            data = self.lava.log(number, seen.lines)
        except (InfrastructureError, UsageError):
            return False  # the job's own end will tell
        first = data.partition(b"\n")[0]
        if seen.lines and first == seen.first:  # a server that does not know `start` sent it all
            seen.lines, seen.last = 0, b""
        seen.first = seen.first or first
        seen.lines += data.count(b"\n")
        seen.last = (seen.last + data)[-KEPT:]
        # LAVA also writes down for which words it waits: so the console alone counts.
        if not CRASH.search(seen.last.decode(errors="replace")):
            return False
        return read_console(read_log(seen.last).console).crashed
