"""One iotoll at a time works in a run directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from iotoll.core.errors import UsageError
from iotoll.core.lock import alone
from iotoll.records.rundir import RunDir

NAME = ".lock"


@contextmanager
def locked(run: RunDir) -> Iterator[None]:
    """Hold a run directory; raises UsageError while another iotoll holds it.

    The lock ends with its process, however that ends.
    """
    why = f"{run.root}: another iotoll works on this run: wait for it, or choose another --out"
    with alone(run.root / NAME, UsageError(why)):
        yield
