"""Asks a lab's servers, and again while they are down, busy or refuse us; says that it waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from iotoll.labs.lava.http import AccessError, ServerError

RETRY_SECONDS = 900.0
"""How long a server may be down before we give up; LAVA's jobs go on meanwhile."""
ACCESS_SECONDS = 60.0
"""How long a server may refuse a token that it took before: a proxy, or a server that starts."""
PAUSE_SECONDS = 5.0
REMIND_SECONDS = 120.0
FINAL = (400, 404, 405, 409, 413, 422)
"""HTTP statuses that waiting does not fix."""

T = TypeVar("T")
Tell = Callable[[str], None]


def silent(_: str) -> None:
    """Tell nobody."""


class Retry:
    """Repeats what a server did not answer; ``tell`` gets a line when the waiting begins."""

    def __init__(self, tell: Tell = silent) -> None:
        self.tell = tell

    def __call__(self, ask: Callable[[], T]) -> T:
        """The answer to ``ask``; raises ServerError when waiting does not fix it, or took long."""
        begun = reminded = None
        while True:
            try:
                answer = ask()
            except (ServerError, AccessError) as error:
                now = time.monotonic()
                begun = now if begun is None else begun
                self.endure(error, now - begun)
                if reminded is None or now - reminded > REMIND_SECONDS:
                    reminded = now
                    self.tell(f"{error}: trying again for {_left(error, now - begun)}")
                time.sleep(PAUSE_SECONDS)
            else:
                if begun is not None:
                    self.tell(f"the server answers again after {time.monotonic() - begun:.0f} s")
                return answer

    def endure(self, error: ServerError | AccessError, waited: float) -> None:
        """Raise what waiting does not fix, or what took ``waited`` seconds, too long."""
        if isinstance(error, ServerError):
            if error.status in FINAL or waited > RETRY_SECONDS:
                raise error
        elif waited > ACCESS_SECONDS:
            raise ServerError(
                f"{error} Jobs that were submitted stay with LAVA: fix the token and run the same"
                " command again, or end them with 'iotoll lava cancel RUN'",
                error.status,
                sent=False,
            ) from error


def _left(error: ServerError | AccessError, waited: float) -> str:
    limit = RETRY_SECONDS if isinstance(error, ServerError) else ACCESS_SECONDS
    left = max(0.0, limit - waited)
    return f"{left / 60:.0f} min" if left >= 120 else f"{left:.0f} s"
