"""Looks into the logs of running jobs: a crashed board need not be waited for.

LAVA 2026.10 knows a panic only while it boots a board. In a test it waits for the time-out.
"""

from __future__ import annotations

import time

from iotoll.boots.console import CRASH, read_console
from iotoll.core.errors import InfrastructureError
from iotoll.labs.lava.log import read_log
from iotoll.labs.lava.server import JobState, LavaServer

LOOK_SECONDS = 10.0


class Watch:
    """Tells which running jobs have a crashed kernel, so that they can be cancelled."""

    def __init__(self, lava: LavaServer) -> None:
        self.lava = lava
        self._due: dict[int, float] = {}
        self._seen: set[int] = set()

    def crashed(self, state: JobState) -> bool:
        """Whether a job's kernel crashed; true at the second look, when its trace is complete."""
        now = time.monotonic()
        if state.state != "Running" or now < self._due.setdefault(state.id, now + LOOK_SECONDS):
            return False
        self._due[state.id] = now + LOOK_SECONDS
        if not self._look(state.id):
            return False
        again = state.id in self._seen
        self._seen.add(state.id)
        return again

    def _look(self, number: int) -> bool:
        try:
            data = self.lava.log(number)
        except InfrastructureError:
            return False  # the job's own end will tell
        # LAVA also writes down for which words it waits: so the console alone counts.
        if not CRASH.search(data.decode(errors="replace")):
            return False
        return read_console(read_log(data).console).crashed
