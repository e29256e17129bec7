"""One iotoll at a time works in the folder of a search."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iotoll.core.errors import InfrastructureError, UsageError


@contextmanager
def held(root: Path) -> Iterator[None]:
    """Hold a search's folder, and drop what a killed search left half-done there.

    Raises UsageError while another iotoll holds it; the lock ends with its process.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        stream = (root / ".lock").open("a")
    except OSError as error:
        raise InfrastructureError(f"cannot write {root}: {error.strerror}") from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"{root}: another iotoll works on this search: wait, or choose another --out"
            ) from error
        shutil.rmtree(root / "work", ignore_errors=True)
        yield
