"""What all measurements of a search share, and the gate that it asks for."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from iotoll.core.errors import InfrastructureError, UsageError, os_fix
from iotoll.core.lock import alone
from iotoll.kernels import sandbox
from iotoll.patch.candidate import CandidateChoice
from iotoll.run.manifest import RunRequest

WHOLE = "whole"
"""The name of the whole I/O among the sections."""
WORK = "work"
"""The name of work outside I/Os among the sections (`iotoll.verdict.work`)."""

Part = tuple[str, str]
"""Cell and section."""


@dataclass(frozen=True)
class Setting:
    """What all measurements of a search share, by name; ``lab`` is where a lab boots the boards.

    With ``sandbox`` commits are built and booted where they see no secret.
    """

    tree: str
    board: str
    matrix: str
    policy: str
    lab: str | None = None
    sandbox: bool = False


def request_of(
    setting: Setting, choice: CandidateChoice, cells: Sequence[str], aa: bool = False
) -> RunRequest:
    """The gate of a choice in these cells, by the rules of a search."""
    return RunRequest(
        command=("iotoll", *sys.argv[1:]),
        kind="gate",
        choice=choice,
        board=setting.board,
        matrix=setting.matrix,
        policy=setting.policy,
        runner="local" if setting.lab is None else "lava",
        lab=setting.lab or "local",
        cells=tuple(cells),
        aa=aa,
    )


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold a search's folder, and drop what a killed search left half-done there.

    Raises UsageError while another iotoll holds it; the lock ends with its process.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        (root / ".lock").touch()
    except OSError as error:
        raise InfrastructureError(f"{root}: {error.strerror}: {os_fix(error)}") from error
    why = f"{root}: another iotoll works on this search: wait, or choose another --out"
    with alone(root / ".lock", UsageError(why)):
        shutil.rmtree(root / "work", ignore_errors=True)
        for folder in (root, root / "pairs", *root.glob("revert-*")):
            sandbox.sweep(folder)
        yield
