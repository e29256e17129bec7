"""Reads what a run directory holds at this moment; the only module of the report that reads files.

Any file may be absent: a run that failed, or that is not finished, is reported as far as it got.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from iotoll.core.errors import ResultError
from iotoll.patch import diff
from iotoll.patch.diff import Hunk
from iotoll.records import results
from iotoll.records.models import (
    BuildRecord,
    Clock,
    ExplainRecord,
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
from iotoll.reports.page.text import clean

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Evidence:
    """All result files of one run, as models; ``None`` or missing keys for what is not there.

    Texts hold no terminal escapes, control characters or marks of the direction of writing,
    whoever wrote them: every report reads from here. ``hunks`` is the candidate's change, and
    ``name`` that of the run directory. ``explained`` is of the kernels that the run has now.
    """

    manifest: RunManifest
    selection: SelectionRecord | None
    verdict: VerdictRecord | None
    failure: FailureRecord | None
    sources: dict[Side, SourceRecord]
    builds: dict[Side, BuildRecord]
    sides: dict[Side, SideResult]
    hunks: tuple[Hunk, ...] = ()
    name: str = "RUN"
    explained: ExplainRecord | None = None

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
    return _harmless(results.read(path, model)) if path.is_file() else None


def _harmless(value: Any) -> Any:
    """A record whose texts are cleaned, however deep they lie; the same one where all are clean."""
    if type(value) is str:
        cleaned = clean(value)
        return value if cleaned == value else cleaned
    if isinstance(value, Model):
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        found = {name: _harmless(field) for name, field in fields.items()}
        changed = {name: field for name, field in found.items() if field is not fields[name]}
        return value.model_copy(update=changed) if changed else value
    if isinstance(value, dict):
        made = {_harmless(key): _harmless(field) for key, field in value.items()}
        return value if made == value else made
    # Counts per I/O are long lists of numbers: one look at the first one is enough.
    if isinstance(value, list) and value and not isinstance(value[0], int | float):
        items = [_harmless(item) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else items
    return value


def _failure(path: Path) -> FailureRecord | None:
    if not path.is_file():
        return None
    try:
        found: FailureRecord = _harmless(FailureRecord.model_validate_json(path.read_bytes()))
        return found
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
    change = run.change
    return Evidence(
        _harmless(run.manifest),
        selection,
        verdict,
        failure,
        sources,
        builds,
        sides,
        tuple(diff.hunks(change.read_bytes(), str(change))) if change.is_file() else (),
        clean(run.root.name),
        _explained(run, builds),
    )


def _explained(run: RunDir, builds: dict[Side, BuildRecord]) -> ExplainRecord | None:
    """What `iotoll explain` found, unless it is of other kernels than the run has now."""
    found = _optional(run.root / "explain.json", ExplainRecord)
    images = [builds[side].image_sha256 for side in SIDES if side in builds]
    return found if found and (found.failure or found.images == images) else None
