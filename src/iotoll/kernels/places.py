"""Which work tree of a kernel tree a build takes, so that builds need not wait for each other.

A tree has up to `PLACES` work trees for each architecture. A build that changes one holds it
alone. A candidate's build in the sandbox lies above one as an overlay and changes nothing of it:
any number of them share it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from iotoll.core.lock import attempted
from iotoll.core.proc import THROWN_AWAY
from iotoll.core.progress import Progress
from iotoll.kernels.kernel_job import KernelJob
from iotoll.kernels.tree import WAITS, KernelTree
from iotoll.records import results

PLACES = 2
"""Work trees for each architecture; one takes 1.5 GB, and each O= folder in it 0.3 GB."""
SHORT = 20.0
"""Seconds for which a build waits for another one before it takes a further work tree."""
_TURN = 0.1
_BUILDS = "builds"
"""The file of a work tree that names the job which its holder builds."""


def places(tree: KernelTree, job: KernelJob) -> list[KernelTree]:
    """All work trees that a job may be built in."""
    return [tree.at(f"{job.arch}-{number}") for number in range(1, PLACES + 1)]


def is_warm(tree: KernelTree, job: KernelJob) -> bool:
    """Whether make's O= folder of some place holds this job's build."""
    return any(job.is_warm(place) for place in places(tree, job))


@contextmanager
def held_place(
    tree: KernelTree, job: KernelJob, progress: Progress, reads: bool = False
) -> Iterator[KernelTree]:
    """Hold a work tree to build ``job`` in: a warm one before others, the first before the second.

    With ``reads`` to lie below an overlay: beside others that do, and if possible where ``job`` is
    built already. Below an overlay there is no choice any more. Says so when it must wait.
    """
    if THROWN_AWAY in os.environ:
        with tree.locked(progress):
            yield tree
        return
    place, stream = _wait(tree, job, progress, reads)
    with stream:
        place.lock_stream = stream
        try:
            if not reads:
                results.write_text(place.work / _BUILDS, job.key)
            yield place
        finally:
            place.lock_stream = None


@contextmanager
def warm_place(tree: KernelTree, job: KernelJob) -> Iterator[KernelTree | None]:
    """Hold a work tree where ``job`` is built, beside others that read it; None: there is none."""
    for place in places(tree, job):
        if job.is_warm(place) and (stream := attempted(place.lock, shared=True)):
            with stream:
                # It may have been moved before we held it.
                yield place if job.is_warm(place) else None
            return
    yield None


def _wait(
    tree: KernelTree, job: KernelJob, progress: Progress, reads: bool
) -> tuple[KernelTree, IO[str]]:
    began, said = time.monotonic(), False
    every = places(tree, job)
    while True:
        late = time.monotonic() - began > SHORT
        for place in sorted(every, key=lambda place: not job.is_warm(place)):
            if not _may_take(place, every, job, reads, late):
                continue
            stream = attempted(place.lock, shared=reads)
            if stream is None:
                continue
            if not reads or late or job.is_warm(place):
                return place, stream
            stream.close()  # it was moved before we held it
        if not said:
            progress.say(WAITS)
            said = True
        time.sleep(_TURN)


def _may_take(
    place: KernelTree, every: list[KernelTree], job: KernelJob, reads: bool, late: bool
) -> bool:
    if reads and not late:
        return job.is_warm(place)
    if place is every[0] or place.checked_out.is_file():
        return True
    # To fill another one takes minutes: not while somebody makes what we want.
    return late and not any(_builds(other) == job.key for other in every)


def _builds(place: KernelTree) -> str:
    """The key of the job that is being built there; empty while nobody holds it alone."""
    stream = attempted(place.lock, shared=True)
    if stream is not None:
        stream.close()
        return ""
    noted = place.work / _BUILDS
    return noted.read_text() if noted.is_file() else ""
