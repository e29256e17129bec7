"""The flow of one run: source → selection → build → run → collect → judge → report.

Every step reads and writes the run directory alone, so it can be repeated, resumed and tested by
itself; `STEPS` lists them in order. Failures become a verdict here, by the type of the exception:
whether a step failed never depends on a measured value.

What takes long to import is imported by the steps: make is at work before that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from iotoll.boards.board import RealBoard
from iotoll.boards.equip import families
from iotoll.boards.flash import add_dtb, check_source
from iotoll.boots.schedule import PARALLEL, drop_stale, open_plans, run_boots, run_plans
from iotoll.core.errors import BrokenError, InfrastructureError
from iotoll.kernels.build import build_side
from iotoll.kernels.cache import copy_tree
from iotoll.kernels.compiled import read_by_builds
from iotoll.kernels.kernel_job import KernelJob
from iotoll.kernels.source import prepare
from iotoll.patch.selection import choose
from iotoll.records import results
from iotoll.records.models import (
    SelectionRecord,
    SideResult,
    SourceRecord,
    VerdictRecord,
)
from iotoll.records.models.run import Side
from iotoll.run import ahead, explained, previous, sandboxed
from iotoll.run.conclude import MoreBoots, conclude, failed
from iotoll.run.lock import locked
from iotoll.run.setup import Setup
from iotoll.verdict import accept
from iotoll.verdict.time.clocks import beside


@dataclass
class Flow(Setup):
    """The steps of one run directory.

    With ``stored`` nothing boots: what a verdict needs and the run does not hold is an error. With
    ``explains`` the report also has what the policy wants explained.
    """

    explains: bool = False

    @cached_property
    def later(self) -> ahead.Work:
        """What is done ahead for the later steps of a gate on this machine."""
        is_here = self.explains and self.run.manifest.runner == "local"
        return ahead.while_it_is_built(self) if is_here else iter(())

    def source(self) -> None:
        """Sources of both sides, and the selection of cells."""
        known = families(self.board, self.matrix)
        prepare(self.run, self.progress, self.matrix.cells, known)
        if isinstance(self.board, RealBoard) and self.run.manifest.tree is not None:
            record = results.read(self.run.side("base") / "source.json", SourceRecord)
            check_source(self.board.hardware, record, self.dtbs, self.progress)

    def build(self) -> None:
        """Kernel images of both sides; the base first, since its failure is not the patch's.

        The base's also where no cell is selected: its list of sources confirms that.
        """
        while True:
            for side in self.sides:
                self.build_side(side)
            if not self.select_compiled([self.run.build(side) for side in self.sides]):
                return

    def select_compiled(self, folders: Sequence[Path]) -> bool:
        """Select cells for paths that a rule calls no part of a kernel, and that a build read.

        ``folders`` are those of builds. Returns whether there were such paths.
        """
        selected = results.read(self.run.selection, SelectionRecord)
        found = read_by_builds(selected.harmless, folders)
        if not found:
            return False
        self.progress.say(
            f"{', '.join(sorted(found))}: objects of the board's kernel are made of it (or of a"
            " header of its name), so it selects cells"
        )
        known = families(self.board, self.matrix)
        left = set(selected.changed_paths) - set(selected.harmless)
        chosen = choose(selected.changed_paths, self.matrix.cells, None, known, found | left)
        results.write(self.run.selection, chosen)
        return True

    @property
    def is_unconfirmed(self) -> bool:
        """Whether no cell is selected only because rules call all of it no part of a kernel."""
        selected = results.read(self.run.selection, SelectionRecord)
        return not selected.cells and bool(selected.harmless)

    def build_side(self, side: Side, warm: bool = False) -> None:
        """The kernel image of one side; ``warm`` as in `iotoll.kernels.build.build_side`."""
        if not self.cells and not (side == "base" and self.is_unconfirmed):
            return
        if side == "candidate" and self.run.manifest.candidate_kind == "none":
            copy_tree(self.run.build("base"), self.run.build(side))
            return
        if side == "candidate" and self._in_sandbox():
            return
        build_side(self.run, side, self.kernel_spec, self.progress, warm=warm)
        self.add_blob(side)

    def add_blob(self, side: Side) -> None:
        """Put the device tree beside a built kernel, where it is a file of the lab's own."""
        if isinstance(self.board, RealBoard) and self.board.blob is not None:
            add_dtb(self.run.build(side), self.board.hardware, self.board.blob)

    def _in_sandbox(self) -> bool:
        """Build the candidate in the sandbox if this is a desk that allows it; else say why not.

        An image that is in the cache already needs no makefile of the candidate's.
        """
        if not self.needs_sandbox:
            return False
        builds = self.run.manifest.tree is not None and not self.build_job("candidate").is_done
        spec = self.kernel_spec
        why = sandboxed.why_not(self.run, spec) if builds else ""
        if builds and not why:
            self.sandbox_refused = ""  # this one saw all that a boot's does, and more
        why = self.sandbox_refused or why
        if why:
            self.progress.say(
                "the candidate's makefiles and kernel run as you, with your files and network; no"
                f" sandbox: {why} (docs/threat-model.md)"
            )
        if why or not builds:
            return False
        self.build_side("base", warm=True)
        step = self.progress.step("build the candidate in the sandbox")
        with step, ahead.meanwhile(self.later, ahead.COMPILES):
            sandboxed.at_desk(self.run, spec, self.progress)
        self.add_blob("candidate")
        return True

    def build_job(self, side: Side) -> KernelJob:
        """The build of one side, which may be done."""
        return sandboxed.job_of(self.run, side, self.kernel_spec)

    def boot(self) -> None:
        """One boot of each side (or as many as asked for), side by side.

        Whose times are judged boot one by one: side by side they would disturb each other.
        """
        if self.needs_boots():
            from iotoll.run import ran

            abreast = 1 if self.judges_time else PARALLEL
            self._drop_stale()
            if ran.can_watch(self):
                plans = ran.watched(self, open_plans(self.run, self.bench, self.wanted))
                with ahead.meanwhile(ahead.while_it_boots(self), ahead.STARTS):
                    run_plans(self.run, plans, self.progress, abreast)
                return
            run_boots(self.run, self.bench, self.wanted, self.progress, abreast, self.connect)

    def collect(self) -> None:
        """Figures of every boot that ran."""
        if not self.needs_boots():
            return
        from iotoll.measure.collect import collect

        clock = self.run.manifest.clock
        with self.progress.step("analyse traces"):
            base: SideResult | None = None
            for side in self.sides:
                numbers = [
                    int(p.parent.name) for p in (self.run.side(side) / "boots").glob("*/boot.json")
                ]
                found = collect(self.run, self.cells, clock, side, sorted(numbers), base)
                base = base or found

    def judge(self) -> None:
        """The verdict; it may ask for more boots."""
        manifest = self.run.manifest
        if manifest.kind == "measure":
            return
        source = self.run.side("candidate") / "source.json"
        asked = results.read(source, SourceRecord).accepts if source.is_file() else None
        found = conclude(self)
        while isinstance(found, MoreBoots):
            self.progress.say(found.why)
            self._boot_more(found)
            self.collect()
            found = conclude(self, after=found)
        verdict = accept.apply(found, asked or [], self.policy, manifest.approved_by)
        results.write(self.run.verdict, beside(self.run, verdict, self.policy.blocks))

    def report(self) -> None:
        """The report, from the result files alone; before it, what the policy wants explained."""
        from iotoll.reports.page import render_report

        if self.explains:
            explained.after_verdict(self)
        with self.progress.step("write the report"):
            render_report(self.run)

    def _drop_stale(self) -> None:
        """Boots that an earlier verdict asked for, of what is no longer the same board and job."""
        dropped = drop_stale(self.run, self.bench, self.wanted)
        if dropped:
            names = ", ".join(dropped)
            self.progress.say(f"{names}: of another board, job or kernel than now: removed")

    def _boot_more(self, more: MoreBoots) -> None:
        if not self.stored:
            bench = self.bench if more.cells is None else replace(self.bench, cells=more.cells)
            run_boots(self.run, bench, more.boots, self.progress, more.abreast, self.connect)
            self._drop_stale()
        elif not all((self.run.boot(*boot) / "boot.json").is_file() for boot in more.boots):
            names = ", ".join(f"{side}/{number}" for side, number in more.boots)
            raise InfrastructureError(f"the run does not hold all boots that it needs: {names}")


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


def execute_alone(flow: Flow, until: str = "report") -> VerdictRecord | None:
    """As `execute`, while no other iotoll works on the run; UsageError if one does.

    Everything that the run names is read, and what it needs is looked for, before anything long.
    """
    _ = flow.board, flow.matrix, flow.policy, flow.lab
    with locked(flow.run):
        if until not in ("source", "build"):
            flow.preflight()
        return execute(flow, until)


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
    verdict = failed(flow, step, error)
    results.write(flow.run.verdict, verdict)
    if step != "report":
        flow.report()
    return verdict
