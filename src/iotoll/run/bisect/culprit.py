"""Confirms a found commit against its parent by a gate of its own, and names its function."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.patch.candidate import Choice
from iotoll.records.models import Outcome, Section, VerdictRecord
from iotoll.records.rundir import RunDir
from iotoll.run.bisect.meter import WHOLE, Part, Setting
from iotoll.run.explain import Explainer
from iotoll.run.flow import Flow, execute
from iotoll.run.lock import locked
from iotoll.run.manifest import RunRequest, new_manifest
from iotoll.run.opening import open_run


@dataclass(frozen=True)
class Function:
    """One function's part of the cost, instructions per I/O."""

    name: str
    delta: float
    changed: bool


@dataclass(frozen=True)
class Confirmed:
    """What the gate says of a commit against its parent; ``boots`` are of each kernel."""

    delta: float
    moved: bool
    boots: int
    sentence: str
    run: str
    functions: list[Function] = field(default_factory=list)
    unexplained: str = ""


def confirm(
    folder: Path,
    setting: Setting,
    parent: str,
    commit: str,
    target: Part,
    progress: Progress,
    explain: bool = True,
) -> Confirmed:
    """Gate ``commit`` against ``parent`` in the one cell; resumable, as every gate is.

    Raises InfrastructureError when the gate could not say anything.
    """
    run = _open(folder, setting, parent, commit, target[0])
    with locked(run):
        flow = Flow(run, progress)
        verdict = execute(flow)
        assert verdict is not None
        if verdict.outcome in (Outcome.INFRASTRUCTURE, Outcome.BROKEN):
            raise InfrastructureError(f"the confirmation failed: {verdict.sentence}")
        found = _of(verdict, target, run)
        if not explain or verdict.identical_images:
            return found
        return _explained(found, run, target, progress)


def _open(folder: Path, setting: Setting, parent: str, commit: str, cell: str) -> RunDir:
    request = RunRequest(
        command=("iotoll", *sys.argv[1:]),
        kind="gate",
        choice=Choice("revision", setting.tree, parent, commit),
        board=setting.board,
        matrix=setting.matrix,
        policy=setting.policy,
        cells=(cell,),
    )
    return open_run(folder, new_manifest(request))


def _of(verdict: VerdictRecord, target: Part, run: RunDir) -> Confirmed:
    cell, section = target
    delta, moved = 0.0, False
    for judged in (c for c in verdict.cells if c.cell == cell):
        part = (
            judged.whole
            if section == WHOLE
            else next((s for s in judged.sections if s.section == section), None)
        )
        if part is not None:
            delta, moved = part.delta, part.moved in ("grew", "shrank")
    boots = len(list((run.side("candidate") / "boots").glob("*/boot.json")))
    return Confirmed(delta, moved, boots, verdict.sentence, str(run.root))


def _explained(found: Confirmed, run: RunDir, target: Part, progress: Progress) -> Confirmed:
    """With the functions whose instructions differ, the largest part first."""
    try:
        record, _ = Explainer(run, progress).explain([target[0]])
    except (UsageError, InfrastructureError) as error:
        # The commit is found all the same; what could not be said is said.
        return _with(found, [], str(error))
    sections = [
        s
        for c in record.cells
        for s in c.sections
        if target[1] == WHOLE or s.section == Section(target[1])
    ]
    total: dict[str, Function] = {}
    for section in sections:
        for one in section.functions:
            known = total.get(one.name)
            size = one.effect + (known.delta if known else 0.0)
            total[one.name] = Function(one.name, round(size, 1), one.changed)
    largest = sorted((f for f in total.values() if f.delta), key=lambda f: -abs(f.delta))
    return _with(found, largest[:5], "")


def _with(found: Confirmed, functions: list[Function], why: str) -> Confirmed:
    return Confirmed(
        found.delta, found.moved, found.boots, found.sentence, found.run, functions, why
    )
