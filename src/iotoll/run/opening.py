"""A run's folder: made for its manifest, opened again by the command that resumes it, locked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iotoll.core.errors import ResultError, UsageError, os_fix
from iotoll.core.lock import alone
from iotoll.kernels.sandbox import sweep
from iotoll.records import results
from iotoll.records.models import RunManifest
from iotoll.records.rundir import RunDir, not_a_run, run_above

INCIDENTAL = {"command", "created", "seed", "approved_by"}
"""What of a manifest may differ between a run and the command that resumes it."""


def label_of(name: str, most: int) -> str:
    """A name as part of a run directory's: letters, digits, dots and dashes, at most so many."""
    return "".join(c if c.isalnum() or c in "-." else "-" for c in name)[:most]


def keep_run(root: Path, manifest: RunManifest) -> RunDir:
    """The run of ``manifest`` in ``root``; one that is there keeps its own manifest."""
    if not (root / "run.json").is_file():
        results.write(root / "run.json", manifest)
    return RunDir.open(root)


def open_run(root: Path, manifest: RunManifest) -> RunDir:
    """The run of ``manifest`` in ``root``; raises UsageError where something else is there."""
    try:
        return _opened(root, manifest)
    except OSError as error:
        raise UsageError(f"--out {root}: {error.strerror}: {os_fix(error)}") from error
    except ResultError as error:
        raise UsageError(f"--out {root} is not a run directory: {error}") from error


def _opened(root: Path, manifest: RunManifest) -> RunDir:
    path = root / "run.json"
    if path.is_file():
        known = results.read(path, RunManifest)
        if known.model_dump(exclude=INCIDENTAL) != manifest.model_dump(exclude=INCIDENTAL):
            raise UsageError(f"{root} holds another run: choose another --out, or remove it")
        if known.approved_by != manifest.approved_by:
            # An approval is given, or taken back, after the boots: nothing is measured again.
            changed = known.model_copy(update={"approved_by": manifest.approved_by})
            results.write(path, changed)
    elif root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise UsageError(f"{root} exists and is not a run directory: choose another --out")
    else:
        root.mkdir(parents=True, exist_ok=True)
        results.write(path, manifest)
    return RunDir.open(root)


def open_result(path: Path) -> RunDir:
    """The run directory of a RESULT: itself, or a file of it (``verdict.json``, the report)."""
    folder = run_above(path)
    if folder is None:
        raise UsageError(not_a_run(path))
    return RunDir.open(folder)


LOCK = ".lock"


@contextmanager
def locked(run: RunDir) -> Iterator[None]:
    """Hold a run directory, and drop what sandboxes of an iotoll that was killed left beside it.

    Raises UsageError while another iotoll holds it; the lock ends with its process.
    """
    why = f"{run.root}: another iotoll works on this run: wait for it, or choose another --out"
    with alone(run.root / LOCK, UsageError(why)):
        sweep(run.root.parent, run.root.name)
        yield
