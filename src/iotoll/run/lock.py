"""One iotoll at a time works in a run directory."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from iotoll.core.errors import UsageError
from iotoll.records.rundir import RunDir

NAME = ".lock"


@contextmanager
def locked(run: RunDir) -> Iterator[None]:
    """Hold a run directory; raises UsageError while another iotoll holds it.

    The lock ends with its process, however that ends.
    """
    with (run.root / NAME).open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"{run.root}: another iotoll works on this run: wait for it, or choose another"
                " --out"
            ) from error
        yield
