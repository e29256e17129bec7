"""The flow of one run: source → selection → build → run → collect → judge → report.

Every step reads and writes the run directory alone, so it can be repeated, resumed and tested by
itself; `STEPS` lists them in order. Failures become a verdict here, by the type of the exception:
whether a step failed never depends on a measured value.

What takes long to import is imported by the steps: make is at work before that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from iotoll.boots.schedule import PARALLEL, drop_stale, open_plans, run_boots, run_plans
from iotoll.core.errors import BrokenError, InfrastructureError
from iotoll.explain import automatic
from iotoll.gate import conclude as previous
from iotoll.gate import prefetch
from iotoll.gate.conclude import MoreBoots, conclude, failed, trailers, tried_notes
from iotoll.records import results
from iotoll.records.models import (
    Outcome,
    SelectionRecord,
    SideResult,
    VerdictRecord,
)
from iotoll.run.building import Building
from iotoll.run.opening import locked
from iotoll.verdict import accept
from iotoll.verdict.time.clocks import beside


@dataclass
class Flow(Building):
    """The steps of one run directory.

    With ``stored`` nothing boots: what a verdict needs and the run does not hold is an error.
    """

    @cached_property
    def later(self) -> prefetch.Work:
        """What is prefetched for the later steps of a gate on this machine."""
        is_here = self.explains and self.run.manifest.runner == "local"
        return prefetch.while_it_is_built(self) if is_here else iter(())

    @cached_property
    def stored_base(self) -> prefetch.StoredBase:
        """What of the base is prefetched while the candidate is built."""
        return prefetch.StoredBase(self)

    def while_compiling(self) -> AbstractContextManager[None]:
        """What is prefetched once make needs one processor."""
        work = chain(self.later, self.stored_base.pieces())
        return prefetch.meanwhile(work, prefetch.COMPILES)

    def boot(self) -> None:
        """One boot of each side (or as many as asked for), side by side.

        Whose times are judged boot one by one: side by side they would disturb each other.
        """
        self.stored_base.end()
        if self.needs_boots():
            abreast = 1 if self.judges_time else PARALLEL
            self._drop_stale()
            if prefetch.is_counted(self):
                plans = open_plans(self.run, self.bench, self.wanted)
                with prefetch.meanwhile(prefetch.while_it_boots(self, self.later), prefetch.STARTS):
                    run_plans(self.run, plans, self.progress, abreast)
                return
            run_boots(self.run, self.bench, self.wanted, self.progress, abreast, self.connect)

    def collect(self) -> None:
        """Figures of every boot that ran."""
        if not self.needs_boots():
            return
        # Each step imports what it alone needs: the first ones begin without numpy and jinja2.
        from iotoll.measure.collect import collect

        clock = self.run.manifest.clock
        with self.progress.step("analyse traces"):
            base: SideResult | None = None
            for side in self.sides:
                numbers = self.run.boot_numbers(side)
                found = collect(self.run, self.cells, clock, side, numbers, base, anew=self.stored)
                base = base or found

    def judge(self) -> None:
        """The verdict; it may ask for more boots."""
        manifest = self.run.manifest
        if manifest.kind == "measure":
            return
        asked = trailers(self.run)
        self._note_reached()
        verdict = self._verdict(asked)
        if verdict.outcome is Outcome.PASS and self._tried(verdict):
            verdict = self._verdict(asked)
        results.write(self.run.verdict, beside(self.run, verdict, self.policy.blocks))

    def _tried(self, passed: VerdictRecord) -> bool:
        """Boot once more with cells that may run what no selected cell did, if there are any."""
        # It needs numpy, as the steps before did.
        from iotoll.gate import reach

        selected = reach.wanted(self, passed)
        if selected is None:
            return False
        self.progress.say("; ".join(tried_notes(selected)))
        results.write(self.run.selection, selected)
        self.__dict__.pop("bench", None)  # its cells are others now
        run_boots(self.run, self.bench, self.wanted, self.progress, PARALLEL, self.connect)
        self._drop_stale()
        self.collect()
        self._note_reached()
        return True

    def _note_reached(self) -> None:
        """Note what ran in no tried cell: an earlier command may have ended before it did."""
        selected = results.read(self.run.selection, SelectionRecord)
        if selected.tried is None or self.stored or not self.cells:
            return
        from iotoll.gate import reach

        reach.reached(self)

    def _verdict(self, asked: Sequence[str]) -> VerdictRecord:
        """What the boots show, after those that it needs."""
        found = conclude(self)
        while isinstance(found, MoreBoots):
            self.progress.say(found.why)
            self._boot_more(found)
            self.collect()
            found = conclude(self, after=found)
        approved = self.run.manifest.approved_by
        return accept.apply(found, asked, self.policy, approved)

    def report(self) -> None:
        """The report, from the result files alone; before it, what the policy wants explained."""
        from iotoll.reports.page import render_report

        if self.explains:
            automatic.after_verdict(self)
        with self.progress.step("write the report"):
            render_report(self.run)

    def _drop_stale(self) -> list[str]:
        """Boots that an earlier verdict asked for, of what is no longer the same board and job."""
        dropped = drop_stale(self.run, self.bench, self.wanted)
        if dropped:
            names = ", ".join(dropped)
            self.progress.say(f"{names}: of another board, job or kernel than now: removed")
        return dropped

    def _boot_more(self, more: MoreBoots) -> None:
        names = [f"{side}/{number}" for side, number in more.boots]
        if not self.stored:
            bench = self.bench if more.cells is None else replace(self.bench, cells=more.cells)
            run_boots(self.run, bench, more.boots, self.progress, more.abreast, self.connect)
            dropped = self._drop_stale()
            if gone := [name for name in names if name in dropped]:
                raise InfrastructureError(
                    f"{', '.join(gone)}: iotoll was changed while it ran: run the command again"
                )
        elif not all((self.run.boot(*boot) / "boot.json").is_file() for boot in more.boots):
            listed = ", ".join(names)
            raise InfrastructureError(f"the run does not hold all boots that it needs: {listed}")


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
    kept = previous.keep_verdict(flow.run)
    verdict = _steps(flow, wanted, is_gate)
    previous.tell_change(kept, verdict, flow.progress)
    return verdict


def execute_alone(flow: Flow, until: str = "report") -> VerdictRecord | None:
    """As `execute`, while no other iotoll works on the run; UsageError if one does.

    Everything that the run names is read, and what it needs is looked for, before anything long.
    """
    _ = flow.board, flow.matrix, flow.policy, flow.lab, flow.desk
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
