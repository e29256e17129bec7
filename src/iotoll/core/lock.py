"""One process at a time: a file's lock that is waited for, or one that another one refuses."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from iotoll.core.errors import IotollError
from iotoll.core.progress import Progress


@contextmanager
def held(path: Path, progress: Progress, message: str) -> Iterator[IO[str]]:
    """Hold the lock of the file ``path``, which is made if need be; gives its stream.

    Says ``message`` and waits while another process holds it. The lock ends with its process, and
    with the processes that inherited the stream, however they end.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(message)
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield stream


def attempted(path: Path, shared: bool = False) -> IO[str] | None:
    """The stream of the locked file ``path``, made if need be; None while another has the lock.

    A ``shared`` lock is one that other shared ones do not exclude. Closing the stream ends it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = path.open("a")
    try:
        fcntl.flock(stream, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        return None
    return stream


@contextmanager
def alone(path: Path, refused: IotollError) -> Iterator[None]:
    """Hold the lock of the file ``path``, which is made if need be, in a folder that exists.

    Raises ``refused`` while another process holds it. The lock ends with its process, however that
    ends.
    """
    with path.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise refused from error
        yield
