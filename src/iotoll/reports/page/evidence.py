"""Reads what a run directory holds at this moment; the only module of the report that reads files.

Any file may be absent: a run that failed, or that is not finished, is reported as far as it got.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from iotoll.core.errors import ResultError
from iotoll.records import results
from iotoll.records.models import (
    BuildRecord,
    Clock,
    FailureRecord,
    Model,
    RunManifest,
    SelectionRecord,
    SideResult,
    SourceRecord,
    VerdictRecord,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Evidence:
    """All result files of one run, as models; ``None`` or missing keys for what is not there."""

    manifest: RunManifest
    selection: SelectionRecord | None
    verdict: VerdictRecord | None
    failure: FailureRecord | None
    sources: dict[Side, SourceRecord]
    builds: dict[Side, BuildRecord]
    sides: dict[Side, SideResult]

    @property
    def clock(self) -> Clock:
        """The clock of every figure of this run."""
        return self.verdict.clock if self.verdict else self.manifest.clock

    @property
    def virtual(self) -> bool:
        """Whether the board is a virtual one, whose figures are never a board's latency."""
        boots = [boot for side in self.sides.values() for boot in side.boots]
        return (
            self.clock is Clock.INSTRUCTIONS
            or self.manifest.board.startswith("virt")
            or any(boot.virtual for boot in boots)
        )


def _optional(path: Path, model: type[M]) -> M | None:
    return results.read(path, model) if path.is_file() else None


def _failure(path: Path) -> FailureRecord | None:
    if not path.is_file():
        return None
    try:
        return FailureRecord.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise ResultError(f"{path} is not a failure record: run the step again") from error


def gather(run: RunDir) -> Evidence:
    """Read a run directory; raises ResultError for a file that is present but wrong."""
    verdict = _optional(run.verdict, VerdictRecord)
    failure = verdict.failure if verdict else None
    if verdict is None:
        failure = _failure(run.root / "failure.json")
    sources: dict[Side, SourceRecord] = {}
    builds: dict[Side, BuildRecord] = {}
    sides: dict[Side, SideResult] = {}
    for side in SIDES:
        if result := _optional(run.side(side) / "result.json", SideResult):
            sides[side] = result
        if source := _optional(run.side(side) / "source.json", SourceRecord):
            sources[side] = source
        elif result and result.source:
            sources[side] = result.source
        if build := _optional(run.build(side) / "build.json", BuildRecord):
            builds[side] = build
        elif result:
            builds[side] = result.build
    selection = _optional(run.selection, SelectionRecord)
    return Evidence(run.manifest, selection, verdict, failure, sources, builds, sides)
