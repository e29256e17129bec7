"""Did the board run what it was given? Its own words in its first record, against the build's.

A board that keeps an old kernel, or loses a flash in silence, measures well and proves nothing:
versions and configs of base and candidate are alike. The linker's build-id is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from iotoll.core.errors import InfrastructureError
from iotoll.records import results
from iotoll.records.models import BuildRecord

BUILD_ID, KEY, BOARD = "build_id", "key", "board"
"""Names of facts (lava-jobs/dut/facts.sh)."""


def check(boot: str, kernel: Path, board: str, said: Mapping[str, str], key: str | None) -> None:
    """Raise InfrastructureError when ``boot`` ran another kernel or job than it was given.

    ``kernel`` lies beside its ``build.json``; ``said`` are the board's facts before the workload;
    ``key`` is that of the job, None where it has none.
    """
    build = results.read(kernel.with_name("build.json"), BuildRecord)
    if not (build.build_ids or build.ready_made):
        raise InfrastructureError(
            f"boot {boot}: its kernel was linked without a build-id (does a makefile say"
            " so to the linker?), so nothing proves that it ran: nothing of it is judged"
        )
    if build.build_ids and said.get(BUILD_ID) not in build.build_ids:
        raise _other(boot, "kernel with build-id", said.get(BUILD_ID), " or ".join(build.build_ids))
    if key is not None and said.get(KEY) != key:
        raise _other(boot, "job with key", said.get(KEY), key)
    if key is not None and said.get(BOARD) != board:
        raise _other(boot, "job for board", said.get(BOARD), board)


def _other(boot: str, what: str, said: str | None, wanted: str) -> InfrastructureError:
    ran = f"a {what} {said}" if said else f"a {what} that it did not name"
    return InfrastructureError(
        f"boot {boot}: the board ran {ran}, not {wanted}: nothing of it is judged; was the"
        " board flashed, and did it boot what was flashed?"
    )
