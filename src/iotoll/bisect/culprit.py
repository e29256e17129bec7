"""Confirms a found commit against its parent by a gate of its own, and names its function."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from iotoll.bisect import sandboxed_commits
from iotoll.bisect.history import History
from iotoll.bisect.setting import WHOLE, WORK, Part, Setting, request_of
from iotoll.core.errors import BrokenError, BrokenStep, InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.explain.explainer import Explainer
from iotoll.gate.flow import Flow, execute
from iotoll.patch.candidate import CandidateChoice
from iotoll.records import results
from iotoll.records.models import ExplainRecord, Outcome, Section, VerdictRecord
from iotoll.records.rundir import RunDir
from iotoll.run.manifest import new_manifest
from iotoll.run.opening import locked, open_run
from iotoll.verdict.amount import element_part, mean_of
from iotoll.verdict.words import parts

_NAMED = 5
"""Functions of a commit that are named."""


@dataclass(frozen=True)
class Function:
    """One function's part of the cost, instructions per I/O."""

    name: str
    delta: float
    changed: bool


@dataclass(frozen=True)
class Confirmed:
    """What the gate says of a commit against its parent; ``boots`` are of each kernel.

    ``delta`` is the mean I/O's instructions, on boards' time a share (0.02: 2 % more); ``some``
    says which I/Os have it, where not all have.
    """

    delta: float
    moved: bool
    boots: int
    sentence: str
    run: str
    functions: list[Function] = field(default_factory=list)
    unexplained: str = ""
    some: str = ""


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
    choice = CandidateChoice("revision", setting.tree, parent, commit)
    run = open_run(folder, new_manifest(request_of(setting, choice, [target[0]])))
    with locked(run):
        try:
            verdict = _judged(run, setting, progress)
        except BrokenError as error:
            raise InfrastructureError(f"the confirmation failed: {error}") from error
        found = _of(verdict, target, run)
        if target[1] == WORK:
            return _with(found, outside(verdict, target[0]), "")
        if ":" in target[1]:
            return _with(found, counted(verdict, target), "")
        if not explain or verdict.identical_images or setting.lab is not None:
            return found
        return _explained(found, run, target, setting, progress)


def reverted(
    folder: Path,
    setting: Setting,
    history: History,
    ends: tuple[str, str, str],
    target: Part,
    progress: Progress,
) -> Confirmed | str:
    """Gate B with the commit taken back against B; ``ends`` are its parent, the commit, and B.

    Returns why where that does not apply.
    """
    parent, commit, tip = ends
    patch = folder / "revert.patch"
    if not patch.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        history.ask("diff", "--no-renames", "--full-index", f"--output={patch}", commit, parent)
    choice = CandidateChoice("patch", setting.tree, tip, str(patch.resolve()))
    run = open_run(folder / "run", new_manifest(request_of(setting, choice, [target[0]])))
    try:
        with locked(run):
            return _of(_judged(run, setting, progress), target, run)
    except BrokenError as error:
        return f"it cannot be taken back on the tip: {error}"


def _judged(run: RunDir, setting: Setting, progress: Progress) -> VerdictRecord:
    """The run's verdict; raises BrokenError or InfrastructureError where there is none."""
    flow = Flow(run, progress)
    if setting.sandbox:
        verdict = sandboxed_commits.gate(flow)
    else:
        made = execute(flow)
        assert made is not None
        verdict = made
    if verdict.outcome is Outcome.INFRASTRUCTURE:
        raise InfrastructureError(f"the confirmation failed: {verdict.sentence}")
    if verdict.outcome is Outcome.BROKEN:
        step = verdict.failure.step if verdict.failure else "build"
        raise BrokenError(cast(BrokenStep, step), verdict.sentence)
    return verdict


def _of(verdict: VerdictRecord, target: Part, run: RunDir) -> Confirmed:
    cell, section = target
    delta, moved, some = 0.0, False, ""
    for judged in (c for c in verdict.cells if c.cell == cell):
        every = {**dict(parts(judged)), **{element_part(one): one for one in judged.elements}}
        part = every.get(section)
        if part is not None:
            delta, some = mean_of(part)
            moved = part.has_moved
        for growth in (g for g in judged.growth if g.figure == section):
            delta, moved = growth.growth, growth.state == "grew" or growth.improved
    boots = len(run.boot_numbers("candidate"))
    # Times of a virtual board may be judged on purpose, and confirm nothing.
    moved = moved and verdict.can_gate
    return Confirmed(delta, moved, boots, verdict.sentence, str(run.root), some=some)


def _explained(
    found: Confirmed, run: RunDir, target: Part, setting: Setting, progress: Progress
) -> Confirmed:
    """With the functions whose instructions differ.

    In a sandbox the gate itself has explained what it blocked, and nothing else is.
    """
    try:
        if setting.sandbox:
            record = results.read(run.explained, ExplainRecord)
        else:
            record, _ = Explainer(run, progress).explain([target[0]])
    except (UsageError, InfrastructureError) as error:
        # The commit is found all the same; what could not be said is said.
        return _with(found, [], str(error))
    return _with(found, functions_of(record, target)[:_NAMED], "")


def outside(verdict: VerdictRecord, cell: str) -> list[Function]:
    """Functions of a cell's work outside I/Os, as the gate counted them: no boot explains more."""
    works = [judged.work for judged in verdict.cells if judged.cell == cell and judged.work]
    found = [
        Function(one.name, round(one.candidate - one.base, 1), one.changed)
        for work in works
        for one in work.functions
    ]
    return found[:_NAMED]


def counted(verdict: VerdictRecord, target: Part) -> list[Function]:
    """Functions that have more or fewer of an element, as the gate counted them."""
    found = [
        Function(one.name, round(one.candidate - one.base, 2), one.changed)
        for judged in verdict.cells
        if judged.cell == target[0]
        for element in judged.elements
        if element_part(element) == target[1]
        for one in element.functions
    ]
    return found[:_NAMED]


def functions_of(record: ExplainRecord, target: Part) -> list[Function]:
    """Functions that differ in a part of a cell: changed ones first, each kind by size."""
    sections = [
        s
        for c in record.cells
        if c.cell == target[0]
        for s in c.sections
        if target[1] == WHOLE or s.section == Section(target[1])
    ]
    total: dict[str, Function] = {}
    for section in sections:
        for one in section.functions:
            known = total.get(one.name)
            size = one.effect + (known.delta if known else 0.0)
            total[one.name] = Function(one.name, round(size, 1), one.changed)
    found = (f for f in total.values() if f.delta)
    return sorted(found, key=lambda f: (not f.changed, -abs(f.delta)))


def _with(found: Confirmed, functions: list[Function], why: str) -> Confirmed:
    return replace(found, functions=functions, unexplained=why)
