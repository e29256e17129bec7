"""The A/A control of a lab's boards: one kernel against itself, on each board by itself.

A board that twice finds the same difference between a kernel and itself drifts: its verdicts would
be about the board. It can be put into maintenance, with the reason where LAVA's people look for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iotoll.boots.schedule import Bench, plan_boot
from iotoll.core.progress import Step
from iotoll.kernels.cache import copy_tree
from iotoll.labs.lava.config import Lab
from iotoll.labs.lava.runner import lava_runner
from iotoll.measure.collect import collect
from iotoll.records import results
from iotoll.records.models import SideResult
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir
from iotoll.verdict.instructions import rule
from iotoll.verdict.policy import Policy
from iotoll.verdict.words import parts

PAIRS = (1, 2)


@dataclass(frozen=True)
class BoardFinding:
    """What the control says of a board; ``moved`` is empty when it shows no drift.

    ``steady`` is false where a drift cannot be ruled out either; ``note`` is for the reader.
    """

    device: str
    moved: tuple[str, ...]
    steady: bool = True
    note: str = ""

    @property
    def sentence(self) -> str:
        """One line."""
        said = "steady" if self.steady else "shows no drift, but is too noisy to rule one out"
        if self.moved:
            said = f"drifts, one kernel differs from itself: {'; '.join(self.moved)}"
        return f"{self.device}: {said}" + (f" ({self.note})" if self.note else "")


def control(
    run: RunDir, bench: Bench, lab: Lab, policy: Policy, device: str, step: Step
) -> BoardFinding:
    """Compare the base kernel of ``run`` with itself on one board; resumes where it was stopped.

    A second pair of boots runs only when the first one shows something. Raises what boots raise.
    """
    own = own_run(run, device)
    plain = replace(bench, calibrate=False)
    judged: list[rule.Judgement] = []
    for number in PAIRS:
        plans = [plan_boot(own, plain, side, number) for side in SIDES]
        lava_runner(own, lab, device).boots(
            [p for p in plans if not (p.folder / "boot.json").is_file()], step
        )
        base, other = (_result(own, plain, side, number) for side in SIDES)
        judged.append(rule.judge(base, other, policy, plain.cells))
        if not _moved(judged[-1]):
            return BoardFinding(device, ())
    return finding(device, judged)


def finding(device: str, judged: Sequence[rule.Judgement]) -> BoardFinding:
    """What two pairs of boots of one kernel say of a board: only what both show counts."""
    first, second = (_places(one) for one in judged)
    lines = [line for place, line in second.items() if place in first]
    return BoardFinding(device, tuple(lines))


def _places(judged: rule.Judgement) -> dict[tuple[str, str, str], str]:
    """What moved: by cell, part and direction, in words."""
    return {
        (v.cell, name, part.moved): f"{v.cell}: {name} {part.delta:+.0f} instructions"
        for v in judged.cells
        for name, part in parts(v)
        if part.gated and part.has_moved
    }


def _moved(judged: rule.Judgement) -> tuple[str, ...]:
    return (*judged.regressions, *judged.improvements)


def own_run(run: RunDir, device: str) -> RunDir:
    """A run directory whose sides are both the base kernel of ``run``."""
    own = RunDir(run.root / "lava/control" / device)
    changes = {"kind": "gate", "series": None, "aa": True}
    results.write(own.root / "run.json", run.manifest.model_copy(update=changes))
    for side in SIDES:
        copy_tree(run.build("base"), own.build(side))
    return own


def _result(own: RunDir, bench: Bench, side: Side, number: int) -> SideResult:
    # No boot has calibration runs here: both sides carry the same probes.
    return collect(own, bench.cells, bench.clock, side, [number])
