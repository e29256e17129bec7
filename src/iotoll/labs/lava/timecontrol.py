"""The A/A control on the clock `time`: pairs of boots of one kernel, judged by the time gate.

A board drifts when the gate would call one of two equal kernels slower, whichever of them. Pairs
run in the gate's order, and as many as it takes until both ways round are decided. The pairs of a
board that shows no drift are its noise: they go into its history, unless the board is simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from iotoll.boots.pair_order import boot_order
from iotoll.boots.schedule import Bench, plan_boot
from iotoll.core.errors import InfrastructureError
from iotoll.core.progress import Step
from iotoll.labs.lava.config import Lab
from iotoll.labs.lava.control import BoardFinding, own_run
from iotoll.labs.lava.runner import lava_runner
from iotoll.measure.collect import collect
from iotoll.records import results
from iotoll.records.models import NoiseRecord, Outcome
from iotoll.records.rundir import SIDES, RunDir
from iotoll.verdict.policy import TimePolicy
from iotoll.verdict.time.judge import decide
from iotoll.verdict.time.noise import extended, load
from iotoll.verdict.time.pairs import Pairs, make_pairs


@dataclass(frozen=True)
class Drift:
    """What pairs of one kernel with itself show so far; ``wanted`` pairs to go on to, 0 at the end.

    ``moved`` is what the gate would call slower. ``steady`` says that any growth it looks for is
    ruled out, both ways round.
    """

    wanted: int
    moved: tuple[str, ...]
    steady: bool
    used: int


def control_time(
    run: RunDir,
    bench: Bench,
    lab: Lab,
    policy: TimePolicy,
    history: Path,
    device: str,
    step: Step,
) -> BoardFinding:
    """Compare the base kernel of ``run`` with itself on one board; resumes where it was stopped.

    ``history`` is the file of the boards' noise.
    Raises what boots raise, and InfrastructureError when they give no figures.
    """
    own = own_run(run, device)
    manifest = run.manifest
    plain = replace(bench, calibrate=False)
    runner = lava_runner(own, lab, device)
    before = load(history, manifest.board, manifest.matrix)
    wanted = policy.looks[0]
    while True:
        order = boot_order(manifest.seed, wanted)
        plans = [plan_boot(own, plain, side, number) for side, number in order]
        runner.boots([p for p in plans if not (p.folder / "boot.json").is_file()], step)
        numbers = range(1, wanted + 1)
        base, other = (collect(own, plain.cells, plain.clock, s, numbers) for s in SIDES)
        pairs = make_pairs(base, other, plain.cells, list(policy.figures), manifest.seed)
        drift = judge_drift(pairs, plain.cells, policy, before, manifest.seed)
        if not drift.wanted:
            break
        wanted = drift.wanted
    simulated = any(boot.virtual for boot in base.boots)
    if not drift.moved and not simulated:
        results.write(history, extended(before, pairs))
    return BoardFinding(device, drift.moved, drift.steady, f"{drift.used} pairs of boots")


def judge_drift(
    pairs: Pairs, cells: Sequence[str], policy: TimePolicy, noise: NoiseRecord, seed: int | None
) -> Drift:
    """Judge pairs of one kernel as the gate does, and once more with the sides the other way round.

    Raises InfrastructureError when a cell has no figures that may be used.
    """
    ways = [pairs, replace(pairs, ratios=-pairs.ratios)]
    found = [decide(way, cells, policy, noise, seed) for way in ways]
    for decision in found:
        if decision.outcome is Outcome.INFRASTRUCTURE:
            raise InfrastructureError(decision.sentence)
    first, second = (tuple(decision.regressions) for decision in found)
    moved = (*first, *(f"{words}, the other way round" for words in second))
    return Drift(
        wanted=0 if moved else max(decision.wanted for decision in found),
        moved=moved,
        steady=all(decision.outcome is Outcome.PASS for decision in found),
        used=len(pairs.records),
    )
