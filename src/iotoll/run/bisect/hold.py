"""One iotoll at a time works in the folder of a search."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iotoll.core.errors import InfrastructureError, UsageError, os_fix
from iotoll.core.lock import alone
from iotoll.kernels import sandbox


@contextmanager
def held(root: Path) -> Iterator[None]:
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
