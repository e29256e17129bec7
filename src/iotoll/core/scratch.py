"""Folders for what lives as long as a step: a later one removes what a killed process left."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iotoll.core.lock import attempted

_PREFIX, _LOCK = "iotoll-scratch-", ".lock"


@contextmanager
def scratch() -> Iterator[Path]:
    """A new folder below the system's temporary one, which is removed at the end.

    Those of processes that were killed are removed first: nobody has their locks any more.
    """
    sweep()
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        # Under its name only once it is locked: another process's sweep would take the folder.
        made = Path(name) / f"{_LOCK}-new"
        stream = attempted(made)
        made.rename(Path(name) / _LOCK)
        try:
            yield Path(name)
        finally:
            if stream is not None:
                stream.close()


def sweep() -> None:
    """Remove scratch folders whose process is gone; those of other users stay."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            stream = attempted(left)
        except OSError:
            continue  # another user's, or gone by now
        if stream is not None:
            shutil.rmtree(left.parent, ignore_errors=True)
            stream.close()
