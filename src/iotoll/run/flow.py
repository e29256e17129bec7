"""The flow of one run: source → selection → build → run → collect → judge → report.

Every step reads and writes the run directory alone, so it can be repeated, resumed and tested by
itself; `STEPS` lists them in order. Failures become a verdict here, by the type of the exception:
whether a step failed never depends on a measured value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from iotoll.boards.board import RealBoard, VirtualBoard, load_board
from iotoll.boards.flash import add_dtb, check_source
from iotoll.boards.matrix import Matrix, load_matrix
from iotoll.boards.ramdisk import get_image
from iotoll.boots.order import boot_order
from iotoll.boots.schedule import PARALLEL, Bench, Connect, run_boots
from iotoll.core.errors import BrokenError, InfrastructureError
from iotoll.core.proc import SANDBOXED
from iotoll.core.progress import Progress
from iotoll.kernels.build import Job, build_side
from iotoll.kernels.cache import copy_tree
from iotoll.kernels.source import prepare
from iotoll.labs.lava.config import Lab, load_lab
from iotoll.measure.collect import collect
from iotoll.records import results
from iotoll.records.models import (
    BuildRecord,
    Clock,
    FailureRecord,
    Outcome,
    SelectionRecord,
    SideResult,
    SourceRecord,
    VerdictRecord,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from iotoll.reports.page import render_report
from iotoll.reports.page.counts import fio_warnings
from iotoll.run import explained, previous
from iotoll.verdict import accept, instructions
from iotoll.verdict.policy import (
    Policy,
    TimePolicy,
    load_any_policy,
    load_policy,
    load_time_policy,
)
from iotoll.verdict.time.clocks import beside


@dataclass
class Flow:
    """One run directory and what its manifest names, loaded once.

    With ``stored`` nothing boots: what a verdict needs and the run does not hold is an error. With
    ``fresh`` no boot is taken from the store of earlier boots. With ``explains`` the
    report also has what the policy wants explained.
    """

    run: RunDir
    progress: Progress
    stored: bool = False
    fresh: bool = False
    explains: bool = False

    @cached_property
    def board(self) -> VirtualBoard | RealBoard:
        """The board the run is on."""
        return load_board(self.run.manifest.board)

    @property
    def is_exact(self) -> bool:
        """Whether the board leaves nothing to the host, so that I/Os have twins."""
        return isinstance(self.board, VirtualBoard) and self.board.qemu.patched

    @cached_property
    def matrix(self) -> Matrix:
        """The workload matrix."""
        return load_matrix(self.run.manifest.matrix)

    @cached_property
    def policy(self) -> Policy | TimePolicy:
        """The gate policy."""
        return load_any_policy(self.run.manifest.policy)

    @cached_property
    def instructions_policy(self) -> Policy:
        """The policy of a run on the clock `instructions`."""
        return load_policy(self.run.manifest.policy)

    @property
    def judges_time(self) -> bool:
        """Whether the run's times are judged: of a real board, or of a virtual one on purpose."""
        manifest = self.run.manifest
        real = manifest.accelerator == "none"
        return (
            manifest.kind == "gate"
            and manifest.clock is Clock.TIME
            and (real or manifest.experiment)
        )

    @cached_property
    def lab(self) -> Lab | None:
        """The LAVA lab that runs the boots; None on a local board."""
        manifest = self.run.manifest
        if manifest.runner == "local":
            return None
        lab = load_lab(manifest.lab or "local")
        lab.board(self.board.name)
        return lab

    @property
    def sides(self) -> tuple[Side, ...]:
        """The kernels of this run."""
        return ("base", "candidate") if self.run.manifest.kind == "gate" else ("base",)

    @property
    def wanted(self) -> list[tuple[Side, int]]:
        """The boots that were asked for, in the order in which they run."""
        if self.judges_time:
            looks = load_time_policy(self.run.manifest.policy).looks
            return boot_order(self.run.manifest.seed, max(self.run.manifest.boots, looks[0]))
        numbers = range(1, self.run.manifest.boots + 1)
        return [(side, n) for n in numbers for side in self.sides]

    @property
    def cells(self) -> list[str]:
        """The selected cells."""
        return [c.cell for c in results.read(self.run.selection, SelectionRecord).cells]

    @cached_property
    def bench(self) -> Bench:
        """What the boots of this run share."""
        manifest, lab = self.run.manifest, self.lab
        image = get_image(self.board.arch, self.progress)
        return Bench(
            self.board,
            self.matrix,
            image,
            self.cells,
            manifest.clock,
            manifest.accelerator,
            send_times=lab.board(self.board.name).send_times if lab else None,
            fresh=self.fresh,
        )

    @property
    def connect(self) -> Connect | None:
        """What reaches the lab that runs the boots; None on a local board."""
        lab = self.lab
        if lab is None:
            return None
        # Only a lab needs HTTP, which takes a tenth of a second to import.
        from iotoll.labs.lava.runner import lava_runner

        return lambda: lava_runner(self.run, lab)

    # The steps.

    def source(self) -> None:
        """Sources of both sides, and the selection of cells."""
        prepare(self.run, self.progress, self.matrix.cells)
        if isinstance(self.board, RealBoard) and self.run.manifest.tree is not None:
            record = results.read(self.run.side("base") / "source.json", SourceRecord)
            check_source(self.board.hardware, record, self.dtbs, self.progress)

    def build(self) -> None:
        """Kernel images of both sides; the base first, since its failure is not the patch's."""
        for side in self.sides:
            self.build_side(side)

    @property
    def dtbs(self) -> list[str]:
        """Device trees that are built with the kernel, as make names them."""
        return self.board.dtbs if isinstance(self.board, RealBoard) else []

    def build_side(self, side: Side, warm: bool = False) -> None:
        """The kernel image of one side; ``warm`` as in `iotoll.kernels.build.build_side`."""
        if not self.cells:
            return
        if side == "candidate" and self.run.manifest.candidate_kind == "none":
            copy_tree(self.run.build("base"), self.run.build(side))
            return
        if side == "candidate" and SANDBOXED not in os.environ and self.run.manifest.tree:
            self.progress.say(
                "the candidate's makefiles run as you, with your files and network:"
                " 'iotoll ci build' runs them in a sandbox (docs/threat-model.md)"
            )
        arch, fragments = self.board.arch, self.board.fragments
        build_side(self.run, side, arch, fragments, self.progress, dtbs=self.dtbs, warm=warm)
        if isinstance(self.board, RealBoard) and self.board.blob is not None:
            add_dtb(self.run.build(side), self.board.hardware, self.board.blob)

    def build_job(self, side: Side) -> Job:
        """The build of one side, which may be done."""
        record = results.read(self.run.side(side) / "source.json", SourceRecord)
        return Job.make(record, self.board.arch, self.board.fragments, self.dtbs)

    def boot(self) -> None:
        """One boot of each side (or as many as asked for), side by side.

        Whose times are judged boot one by one: side by side they would disturb each other.
        """
        if self.needs_boots():
            abreast = 1 if self.judges_time else PARALLEL
            run_boots(self.run, self.bench, self.wanted, self.progress, abreast, self.connect)

    def collect(self) -> None:
        """Figures of every boot that ran."""
        if not self.needs_boots():
            return
        clock = self.run.manifest.clock
        with self.progress.step("analyse traces"):
            for side in self.sides:
                numbers = [
                    int(p.parent.name) for p in (self.run.side(side) / "boots").glob("*/boot.json")
                ]
                collect(self.run, self.cells, clock, side, sorted(numbers))

    def judge(self) -> None:
        """The verdict; it may ask for more boots."""
        manifest = self.run.manifest
        if manifest.kind == "measure":
            return
        source = self.run.side("candidate") / "source.json"
        asked = results.read(source, SourceRecord).accepts if source.is_file() else None
        verdict = accept.apply(self._verdict(), asked or [], self.policy, manifest.approved_by)
        results.write(self.run.verdict, beside(self.run, verdict, self.policy.blocks))

    def report(self) -> None:
        """The report, from the result files alone; before it, what the policy wants explained."""
        if self.explains:
            explained.after_verdict(self)
        with self.progress.step("write the report"):
            render_report(self.run)

    # What they share.

    def needs_boots(self) -> bool:
        """Whether anything is to be measured: cells are selected and the images differ."""
        return bool(self.cells) and not self.identical_images()

    def identical_images(self) -> bool:
        """Whether both sides' kernels are the same bytes, and nobody wants them booted."""
        if self.run.manifest.kind == "measure" or self.run.manifest.aa:
            return False
        images = {
            results.read(self.run.build(side) / "build.json", BuildRecord).sha256
            for side in self.sides
        }
        return len(images) == 1

    def _verdict(self) -> VerdictRecord:
        if not self.cells:
            why = results.read(self.run.selection, SelectionRecord).why
            return self.verdict(Outcome.PASS, f"Nothing to measure: {why}.")
        if self.identical_images():
            sentence = "Base and candidate build the same kernel image, byte for byte."
            return self.verdict(Outcome.PASS, sentence, identical_images=True)
        if self.judges_time:
            return self._time_verdict()
        if self.run.manifest.clock is Clock.TIME:
            sentence = (
                "A smoke test: both kernels ran the workload, but time on a virtual board "
                "cannot gate."
            )
            return self.verdict(Outcome.INCONCLUSIVE, sentence, can_gate=False)
        if not self.is_exact:
            sentence = (
                f"Board {self.board.name} is not exact: its counts also depend on the host, so no "
                "I/O can be compared with its twin. Use an exact board, such as virt-arm64."
            )
            return self.verdict(Outcome.INCONCLUSIVE, sentence, can_gate=False)
        return self._paired_verdict()

    def _paired_verdict(self) -> VerdictRecord:
        """I/O by I/O; what shows in one boot of each side must show in the further ones."""
        policy = self.instructions_policy
        judged = self._judged(policy)
        if judged.open:
            numbers = range(self.run.manifest.boots + 1, policy.perturb.boots + 1)
            self.progress.say(
                f"{len(judged.open)} cells show a growth: {len(numbers)} boots of each side, whose "
                "cells begin a stated bit later, must also show it"
            )
            self._boot_more([(side, n) for n in numbers for side in self.sides], cells=judged.open)
            self.collect()
            judged = self._judged(policy)
        return self.verdict(
            judged.outcome,
            judged.sentence,
            cells=judged.cells,
            regressions=judged.regressions,
            improvements=judged.improvements,
            pools=judged.pools,
            headline=judged.headline,
            warnings=self._warnings(),
        )

    def _boot_more(
        self,
        boots: list[tuple[Side, int]],
        abreast: int = PARALLEL,
        cells: Sequence[str] | None = None,
    ) -> None:
        if not self.stored:
            bench = self.bench if cells is None else replace(self.bench, cells=cells)
            run_boots(self.run, bench, boots, self.progress, abreast, self.connect)
        elif not all((self.run.boot(*boot) / "boot.json").is_file() for boot in boots):
            names = ", ".join(f"{side}/{number}" for side, number in boots)
            raise InfrastructureError(f"the run does not hold all boots that it needs: {names}")

    def _time_verdict(self) -> VerdictRecord:
        """Pairs of boots, judged at each interim analysis until a decision is reached."""
        # scipy takes a second to import, and the other clock does without.
        from iotoll.verdict.time.judging import decide_run

        decision = decide_run(self.run, self.cells)
        while decision.wanted:
            used = decision.sequential.used
            self.progress.say(f"undecided after {used} pairs: on to {decision.wanted}")
            self._boot_more(boot_order(self.run.manifest.seed, decision.wanted), abreast=1)
            self.collect()
            decision = decide_run(self.run, self.cells)
        manifest = self.run.manifest
        experiment = manifest.accelerator != "none"
        return self.verdict(
            decision.outcome,
            decision.sentence,
            cells=decision.cells,
            regressions=decision.regressions,
            improvements=decision.improvements,
            warnings=self._warnings(),
            sequential=decision.sequential.model_copy(update={"experiment": experiment}),
            can_gate=not experiment and not manifest.aa,
        )

    def _warnings(self) -> list[str]:
        return [
            f"{side}, {cell}: {text}"
            for side in self.sides
            for cell, records in self._result(side).cells.items()
            for record in records
            if record.invalid is None
            for text in fio_warnings(record)
        ]

    def _result(self, side: Side) -> SideResult:
        return results.read(self.run.side(side) / "result.json", SideResult)

    def _judged(self, policy: Policy) -> instructions.Judgement:
        base, candidate = (self._result(side) for side in self.sides)
        return instructions.judge(base, candidate, policy, self.cells)

    def verdict(self, outcome: Outcome, sentence: str, **more: object) -> VerdictRecord:
        """A verdict of this run with what every verdict names."""
        manifest = self.run.manifest
        values: dict[str, Any] = {
            "outcome": outcome,
            "exit_code": outcome.exit_code,
            "sentence": sentence,
            "clock": manifest.clock,
            "unit": manifest.clock.unit,
            "board": manifest.board,
            "matrix": manifest.matrix,
            "policy": manifest.policy,
            "policy_sha256": self.policy.sha256,
            "can_gate": manifest.clock is Clock.INSTRUCTIONS,
            **more,
        }
        values |= previous.with_coverage(self.run, sentence, list(values.get("warnings", [])))
        return VerdictRecord.model_validate(values)


STEPS: dict[str, Callable[[Flow], None]] = {
    "source": Flow.source,
    "build": Flow.build,
    "boot": Flow.boot,
    "collect": Flow.collect,
    "judge": Flow.judge,
    "report": Flow.report,
}
"""The steps in order. ``report`` runs after every verdict, also that of a failure."""


def execute(flow: Flow, until: str = "report", since: str = "source") -> VerdictRecord | None:
    """Run the steps from ``since`` up to ``until``; returns the verdict if there is one.

    A BrokenError or InfrastructureError becomes the verdict of a gate run; for a measure run it is
    raised. UsageError is always raised: there is nothing to judge.
    """
    names = list(STEPS)
    wanted = names[names.index(since) : names.index(until) + 1]
    is_gate = flow.run.manifest.kind == "gate"
    kept = previous.keep(flow.run)
    verdict = _steps(flow, wanted, is_gate)
    previous.tell_change(kept, verdict, flow.progress)
    return verdict


def _steps(flow: Flow, wanted: list[str], is_gate: bool) -> VerdictRecord | None:
    for name in wanted:
        try:
            STEPS[name](flow)
        except (BrokenError, InfrastructureError) as error:
            if not is_gate:
                raise
            return record_failure(flow, name, error)
    return results.read(flow.run.verdict, VerdictRecord) if flow.run.verdict.is_file() else None


def record_failure(
    flow: Flow, step: str, error: BrokenError | InfrastructureError
) -> VerdictRecord:
    """Write the verdict ``broken`` or ``infrastructure``, and its report."""
    broken = isinstance(error, BrokenError)
    outcome = Outcome.BROKEN if broken else Outcome.INFRASTRUCTURE
    failure = FailureRecord(
        outcome=outcome,
        step=error.step if isinstance(error, BrokenError) else step,
        message=str(error),
        log_tail=error.log_tail,
    )
    sentence = (
        _broken_sentence(error)
        if isinstance(error, BrokenError)
        else (f"Nothing is said about the candidate: {error}.")
    )
    verdict = flow.verdict(outcome, sentence, failure=failure)
    results.write(flow.run.verdict, verdict)
    if step != "report":
        flow.report()
    return verdict


def _broken_sentence(error: BrokenError) -> str:
    what = {
        "apply": "does not apply",
        "config": "loses a kernel option that the board needs",
        "build": "does not build",
        "boot": "does not boot",
        "workload": "does not survive the workload",
    }[error.step]
    return f"The candidate {what}: {error}."
