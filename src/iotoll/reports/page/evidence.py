"""Reads what a run directory holds at this moment; the only module of the report that reads files.

Any file may be absent: a run that failed, or that is not finished, is reported as far as it got.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from iotoll.core.plain import is_plain_json
from iotoll.patch import diff
from iotoll.patch.diff import Hunk
from iotoll.records import results, sealed
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
from iotoll.records.text import clean

M = TypeVar("M", bound=Model)

_LARGEST_FLAME = 1 << 20  # bytes of a flame graph: the page has all of them


@dataclass(frozen=True)
class Evidence:
    """All result files of one run, as models; ``None`` or missing keys for what is not there.

    Texts hold no terminal escapes, control characters or marks of the direction of writing,
    whoever wrote them: every report reads from here. ``hunks`` is the candidate's change, and
    ``name`` that of the run directory. ``explained`` is of the kernels that the run has now, and
    ``flames`` are its flame graphs, SVG by cell: run output, so a page shows them as images only.
    """

    manifest: RunManifest
    selection: SelectionRecord | None
    verdict: VerdictRecord | None
    sources: dict[Side, SourceRecord]
    builds: dict[Side, BuildRecord]
    sides: dict[Side, SideResult]
    hunks: tuple[Hunk, ...] = ()
    name: str = "RUN"
    explained: ExplainRecord | None = None
    flames: Mapping[str, str] = field(default_factory=dict)

    @property
    def failure(self) -> FailureRecord | None:
        """Why the run has no measured verdict; None where it has one, or none at all."""
        return self.verdict.failure if self.verdict else None

    @property
    def clock(self) -> Clock:
        """The clock of every figure of this run."""
        return self.verdict.clock if self.verdict else self.manifest.clock

    @property
    def native(self) -> bool:
        """Whether the kernels ran as processes of the machine that measured them."""
        return self.manifest.accelerator == "none" and self.manifest.runner == "local"

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
    if not path.is_file():
        return None
    record = results.read(path, model)
    return record if is_plain_json(path.read_text()) else _harmless(record)


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


def gather(run: RunDir) -> Evidence:
    """Read a run directory; raises ResultError for a file that is present but wrong."""
    verdict = _optional(run.verdict, VerdictRecord)
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
    explained = _explained(run, builds)
    change = sealed.change(run)
    return Evidence(
        _harmless(run.manifest),
        selection,
        verdict,
        sources,
        builds,
        sides,
        tuple(diff.hunks(change, str(run.change))) if change else (),
        clean(run.root.name),
        explained,
        _flames(run, explained) if explained else {},
    )


def _flames(run: RunDir, explained: ExplainRecord) -> dict[str, str]:
    """The flame graphs of the explained cells; one that is not there, or is huge, is left out."""
    found = {}
    for cell in explained.cells:
        path = run.root / "explain" / f"{cell.cell}.svg"
        # A record of a run may name, or link to, what is no file of the run.
        inside = path.resolve().parent == run.root / "explain"
        if inside and path.is_file() and path.stat().st_size <= _LARGEST_FLAME:
            found[cell.cell] = path.read_text("utf-8", "replace")
    return found


def _explained(run: RunDir, builds: dict[Side, BuildRecord]) -> ExplainRecord | None:
    """What `iotoll explain` found, unless it is of other kernels than the run has now."""
    found = _optional(run.explained, ExplainRecord)
    images = [builds[side].image_sha256 for side in SIDES if side in builds]
    return found if found and (found.failure or found.images == images) else None
