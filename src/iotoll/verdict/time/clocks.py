"""Both clocks together: what instructions say of a candidate beside what time says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from iotoll.core.errors import UsageError
from iotoll.kernels import compiled
from iotoll.records import results
from iotoll.records.models import (
    BuildRecord,
    Clock,
    OtherClock,
    Outcome,
    SourceRecord,
    VerdictRecord,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir
from iotoll.verdict.findings import of_times

DECIDED = (Outcome.PASS, Outcome.REGRESSION)
CONFIRMED = "confirm"
"""Folder of a run in which a native board confirms its verdict: a run of its own."""


def beside(run: RunDir, verdict: VerdictRecord, blocks: Sequence[Clock]) -> VerdictRecord:
    """A run's verdict with the other clock's beside it, where its manifest names a run of that.

    Raises UsageError when the two are not of one candidate and base, or are of the same clock.
    """
    named = run.manifest.beside
    if named is None:
        return confirmed(run, verdict)
    other = RunDir.open(Path(named))
    if _kernels(other) != _kernels(run):
        raise UsageError(f"--beside {named}: it judged another candidate or base")
    found = results.read(other.verdict, VerdictRecord)
    if found.clock is verdict.clock:
        raise UsageError(f"--beside {named}: it is of the same clock, '{found.clock.value}'")
    return together(verdict, found, blocks, other.root.name)


def confirmed(run: RunDir, verdict: VerdictRecord) -> VerdictRecord:
    """A run's verdict with what a native board says of it, if one was asked (`gate/confirm.py`).

    Its outcome stays: such a board informs, and blocks nothing.
    """
    root = run.root / CONFIRMED
    if not (root / "verdict.json").is_file():
        return verdict
    # scipy takes a second to import, and gates do without.
    from iotoll.verdict.time.judge import shares

    other = RunDir.open(root)
    found = results.read(other.verdict, VerdictRecord)
    same = _kernels(other) == _kernels(run)
    times = shares(found) if same else []
    missing = compiled.of_run(other)
    shown = OtherClock(
        clock=found.clock,
        outcome=found.outcome,
        sentence=found.sentence,
        regressions=found.regressions,
        run=CONFIRMED,
        blocks=False,
        reading="" if same else "The native board had another base or candidate: run it again.",
        board=found.board,
        times=times,
        missing=list(missing.unbuilt) if missing else [],
    )
    if same:
        shown = shown.model_copy(update={"reading": of_times(verdict.cells, shown)})
    return verdict.model_copy(update={"other": shown})


def _kernels(run: RunDir) -> list[str]:
    """What tells two runs' kernels from each other: source trees, or images that iotoll was given.

    Raises UsageError when a kernel is neither known nor built.
    """
    return [_kernel(run, side) for side in SIDES]


def _kernel(run: RunDir, side: Side) -> str:
    source, build = run.side(side) / "source.json", run.build(side) / "build.json"
    tree = results.read(source, SourceRecord).git_tree if source.is_file() else None
    if tree is not None:
        return tree
    if not build.is_file():
        raise UsageError(f"{run.root}: has no {side} kernel yet, to be shown beside another run's")
    return results.read(build, BuildRecord).image_sha256


def together(
    own: VerdictRecord, other: VerdictRecord, blocks: Sequence[Clock], run: str
) -> VerdictRecord:
    """The verdict of a run with another clock's of the same candidate beside it.

    A regression on a clock that ``blocks`` is one of the whole; on another it is shown alone.
    Nothing else changes: an undecided clock stays undecided. ``run`` names the other's directory.
    """
    shown = OtherClock(
        clock=other.clock,
        outcome=other.outcome,
        sentence=other.sentence,
        regressions=other.regressions,
        run=run,
        blocks=other.clock in blocks and other.can_gate,
        reading=reading(own, other),
    )
    outcome, sentence = own.outcome, own.sentence
    if outcome is Outcome.REGRESSION and own.clock not in blocks:
        outcome = Outcome.PASS
        sentence += f" {shown_alone(own.clock)}"
    judged = outcome in DECIDED or outcome is Outcome.INCONCLUSIVE
    if judged and shown.blocks and other.outcome is Outcome.REGRESSION:
        if outcome is not Outcome.REGRESSION:
            sentence = f"On the clock '{other.clock.value}': {other.sentence}"
        outcome = Outcome.REGRESSION
    return own.model_copy(
        update={
            "outcome": outcome,
            "exit_code": outcome.exit_code,
            "sentence": sentence,
            "other": shown,
        }
    )


def shown_alone(clock: Clock) -> str:
    """What is said of a regression on a clock that does not block."""
    return f"The policy shows the clock '{clock.value}', and does not block by it."


def reading(one: VerdictRecord, two: VerdictRecord) -> str:
    """What the outcomes of the two clocks mean together, in one sentence."""
    found = {verdict.clock: verdict.outcome for verdict in (one, two)}
    open_one = next((clock for clock, outcome in found.items() if outcome not in DECIDED), None)
    if open_one is not None:
        return f"The clock '{open_one.value}' has not decided: {found[open_one].value}."
    more = found.get(Clock.INSTRUCTIONS) is Outcome.REGRESSION
    slower = found.get(Clock.TIME) is Outcome.REGRESSION
    if more and slower:
        return "More instructions, and slower: the added code costs time."
    if slower:
        return "Slower without more instructions: look at caches, locking, or the device."
    if more:
        return "More instructions without a measurable loss of time on this board."
    return "Neither more instructions nor slower."
