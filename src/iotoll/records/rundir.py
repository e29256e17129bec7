"""The run directory: where each step finds its inputs and leaves its outputs.

::

    RUN/run.json  selection.json  verdict.json  report/
    RUN/sides/{base,candidate}/source.json  build/  job/  boots/N/  result.json
    RUN/sides/candidate/change.diff  patches/

A finished step leaves a stamp in ``RUN/.steps/`` that holds the digest of its inputs. A step whose
stamp matches is not run again, so any command can be interrupted and repeated.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from iotoll.core.digest import json_sha256
from iotoll.core.errors import ResultError, UsageError
from iotoll.core.nearest import nearest
from iotoll.core.paths import check_tree
from iotoll.records import results
from iotoll.records.models import BootRecord, BuildRecord, RunManifest
from iotoll.records.models.run import Side

SIDES: tuple[Side, ...] = get_args(Side)
STUDY = "study.json"
"""The result of a study, in its folder beside the runs of its variants."""


class RunDir:
    """Paths and stamps of one run directory.

    Every command that reads or writes a run makes one of these first, so that here alone links and
    pipes are refused (`iotoll.core.paths.check_tree`, UsageError).
    """

    def __init__(self, root: Path) -> None:
        check_tree(root)
        self.root = root.resolve()

    @classmethod
    def open(cls, root: Path) -> RunDir:
        """Open an existing run directory; raises UsageError when it holds no run.json of ours."""
        if not (root / "run.json").is_file():
            raise UsageError(not_a_run(root))
        run = cls(root)
        try:
            _ = run.manifest
        except ResultError as error:
            raise UsageError(f"{root} is not a run directory: {error}") from error
        return run

    @cached_property
    def manifest(self) -> RunManifest:
        """``run.json`` as a model, read once; raises ResultError when it is missing or wrong."""
        return results.read(self.root / "run.json", RunManifest)

    @property
    def selection(self) -> Path:
        """``selection.json``: which cells run, and why."""
        return self.root / "selection.json"

    @property
    def change(self) -> Path:
        """The candidate's whole change against the base as one diff; absent when it is huge."""
        return self.side("candidate") / "change.diff"

    @property
    def verdict(self) -> Path:
        """``verdict.json``: what the run concludes."""
        return self.root / "verdict.json"

    @property
    def findings(self) -> Path:
        """``findings.json``: what every output says of the run."""
        return self.root / "findings.json"

    @property
    def explained(self) -> Path:
        """``explain.json``: which functions the verdict's differences are in."""
        return self.root / "explain.json"

    @property
    def untraced(self) -> Path:
        """``untraced.json``: what the kernels cost in boots that record no events."""
        return self.root / "untraced.json"

    @property
    def report(self) -> Path:
        """The folder of the report."""
        return self.root / "report"

    def side(self, side: Side) -> Path:
        """The folder of one kernel of the run."""
        return self.root / "sides" / side

    def build(self, side: Side) -> Path:
        """Kernel image, config and log of one side."""
        return self.side(side) / "build"

    def build_failure(self, side: Side) -> Path:
        """Why a side has no image, where a CI job built it."""
        return self.build(side) / "failure.json"

    def boot(self, side: Side, number: int) -> Path:
        """One boot's console log, traces and figures; ``number`` starts at 1."""
        return self.side(side) / "boots" / str(number)

    def boot_numbers(self, side: Side) -> list[int]:
        """The numbers of a side's boots that have a record, in order."""
        paths = (self.side(side) / "boots").glob("*/boot.json")
        return sorted(int(path.parent.name) for path in paths)

    def first_boots(self, side: Side) -> dict[int, list[str]]:
        """The boots that have cells which no boot before them has: their numbers, these cells.

        It is one where boots do not divide the cells among them; further boots have no such cells.
        """
        found: dict[int, list[str]] = {}
        known: set[str] = set()
        for number in self.boot_numbers(side):
            record = results.read(self.boot(side, number) / "boot.json", BootRecord)
            if cells := [cell for cell in record.cells if cell not in known]:
                found[number] = cells
                known.update(cells)
        return found

    def first_folders(self, side: Side) -> dict[Path, list[str]]:
        """As `first_boots`, by the boots' folders."""
        return {self.boot(side, n): cells for n, cells in self.first_boots(side).items()}

    def is_done(self, step: str, inputs: Any) -> bool:
        """Tell whether ``step`` finished with the same ``inputs`` (JSON-able)."""
        try:
            stamp = json.loads(self._stamp(step).read_text())
        except (OSError, ValueError):
            return False
        return isinstance(stamp, dict) and stamp.get("inputs") == json_sha256(inputs)

    def mark_done(self, step: str, inputs: Any) -> None:
        """Stamp ``step`` as finished with ``inputs``."""
        results.write_text(self._stamp(step), json.dumps({"inputs": json_sha256(inputs)}) + "\n")

    def _stamp(self, step: str) -> Path:
        return self.root / ".steps" / f"{step.replace('/', '.')}.json"


def run_above(path: Path) -> Path | None:
    """The nearest run directory: ``path`` itself or a folder above it."""
    above = (path, *path.resolve().parents)
    return next((folder for folder in above if (folder / "run.json").is_file()), None)


def not_a_run(root: Path) -> str:
    """What is said of a folder that is no run, with the run beside it that was probably meant."""
    why = "it has no run.json" if root.is_dir() else "there is no such folder"
    try:
        beside = [path.parent.name for path in root.parent.glob("*/run.json")]
    except OSError:
        beside = []
    found = nearest(root.name, beside, 0.6)
    near = f": did you mean {root.parent / found}?" if found else ""
    return f"{root} is not a run directory: {why}{near}"


def images(run: RunDir) -> list[str]:
    """What tells whether a record is of the run's kernels as they are now."""
    return [
        results.read(run.build(side) / "build.json", BuildRecord).image_sha256 for side in SIDES
    ]
