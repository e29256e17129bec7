"""The step *run* in a LAVA lab: every boot is a LAVA job, and LAVA says when and where it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from iotoll.boots.local import BootPlan
from iotoll.boots.order import first_side
from iotoll.boots.schedule import mark_done
from iotoll.core.errors import BrokenError, InfrastructureError
from iotoll.core.progress import Step
from iotoll.labs.lava import collect
from iotoll.labs.lava.config import Lab
from iotoll.labs.lava.http import TooLargeError
from iotoll.labs.lava.journal import Attempt, Journal, open_journal
from iotoll.labs.lava.server import JobState, Servers, connect
from iotoll.labs.lava.submission import POLL_SECONDS, Submitter, names, patiently
from iotoll.labs.lava.watch import Watch
from iotoll.records import results
from iotoll.records.models import BootRecord, LavaAttempt
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir

Done = Callable[[BootPlan], None]
Failure = BrokenError | InfrastructureError


@dataclass
class Running:
    """A boot whose job is with LAVA."""

    plan: BootPlan
    attempt: Attempt
    state: JobState | None = None


def lava_runner(run: RunDir, lab: Lab, device: str | None = None) -> LavaRunner:
    """The runner of a run's boots in a LAVA lab, which it is connected to.

    ``device`` is the only one that may run them.
    """
    return LavaRunner(run, lab, connect(lab), lambda plan: mark_done(run, plan), device)


class LavaRunner:
    """Runs the boots of one run directory in one lab; ``done`` is told of each that ended well.

    ``device`` is the only one that may run them, None for any that the lab file allows.
    """

    def __init__(
        self, run: RunDir, lab: Lab, servers: Servers, done: Done, device: str | None = None
    ) -> None:
        self.lab = lab
        self.done = done
        self.device = device
        self.lava = servers.lava
        self.files = servers.files
        self.run = run
        self.folder = lava_folder(run)
        self.issues = lab.issues
        self.submitter = Submitter(self.folder, lab, servers, run.manifest.series)

    def boots(self, plans: Sequence[BootPlan], step: Step) -> None:
        """Run the boots to their ends; goes on where it was stopped.

        Raises BrokenError or InfrastructureError as a local boot would. What fails in the base is
        not the candidate's fault, so the base is waited for.
        """
        with open_journal(self.folder) as journal:
            self.submitter.supersede(journal)
            failed = self._loop(journal, list(plans), step)
        base = next((e for p, e in failed if p.side == "base"), None)
        if isinstance(base, BrokenError):
            raise InfrastructureError(f"the base kernel fails: {base}", base.log_tail) from base
        if failed:
            raise base or failed[0][1]

    def submit(self, plans: Sequence[BootPlan]) -> list[Attempt]:
        """Submit the boots' jobs, those that are not with LAVA yet, and do not wait for them."""
        with open_journal(self.folder) as journal:
            self.submitter.supersede(journal)
            return [self.submitter.begin(journal, plan) for plan in plans]

    def wait(self, plans: Sequence[BootPlan], step: Step) -> list[JobState]:
        """Wait until LAVA has ended the boots' jobs; those without one are left out."""
        with open_journal(self.folder) as journal:
            jobs = self._with_lava(journal, plans)
            while waiting := [one for one in jobs if not self._look(one).finished]:
                _show(step, waiting, len(jobs) - len(waiting), len(jobs))
                time.sleep(POLL_SECONDS)
        return [one.state for one in jobs if one.state]

    def collect(self, plans: Sequence[BootPlan]) -> list[BootPlan]:
        """Collect the boots whose jobs have ended; returns the plans of the others.

        Raises what the first failed job's end means.
        """
        with open_journal(self.folder) as journal:
            jobs = self._with_lava(journal, plans)
            ended = [one for one in jobs if self._look(one).finished]
            errors = [self._finish(journal, one) for one in ended]
        for error in errors:
            if error is not None:
                raise error
        collected = [one.plan for one in ended]
        return [plan for plan in plans if plan not in collected]

    def _with_lava(self, journal: Journal, plans: Sequence[BootPlan]) -> list[Running]:
        last = {plan.name: journal.of(plan.name)[-1:] for plan in plans}
        return [
            Running(plan, attempt)
            for plan in plans
            for attempt in last[plan.name]
            if attempt.number is not None and attempt.outcome is None
        ]

    def cancel(self, why: str) -> list[Attempt]:
        """Cancel every job of the run that has not ended."""
        with open_journal(self.folder) as journal:
            open_ones = [a for a in journal.attempts if a.outcome is None]
            for attempt in open_ones:
                self.submitter.cancel(journal, attempt, why)
        return open_ones

    def _loop(
        self, journal: Journal, waiting: list[BootPlan], step: Step
    ) -> list[tuple[BootPlan, Failure]]:
        failed: list[tuple[BootPlan, Failure]] = []
        running: list[Running] = []
        total = len(waiting)
        watch = Watch(self.lava)
        waiting = self._ordered(waiting)
        while running or (waiting and not failed):
            if not failed:
                self._fill(journal, waiting, running)
            for one in list(running):
                if one not in running:  # cancelled, since another one failed
                    continue
                state = self._look(one)
                if not state.finished:
                    if watch.crashed(state):
                        patiently(partial(self.lava.cancel, state.id))
                    continue
                running.remove(one)
                error = self._finish(journal, one)
                if error is None:
                    continue
                if self._may_retry(journal, one, error):
                    waiting.insert(0, one.plan)
                else:
                    failed.append((one.plan, error))
                    self._leave(journal, running)
            _show(step, running, total - len(waiting) - len(running), total)
            if running:
                time.sleep(POLL_SECONDS)
        return failed

    # Both boots of a pair on one board, where the lab wants that.

    def _ordered(self, plans: list[BootPlan]) -> list[BootPlan]:
        """Which side of a pair runs first, by the run's seed, where pairs share a board."""
        if not any(self._pairs(plan) for plan in plans):
            return plans
        seed = self.run.manifest.seed
        return sorted(plans, key=lambda p: (p.number, p.side != first_side(seed, p.number)))

    def _pairs(self, plan: BootPlan) -> bool:
        return self.lab.board(plan.board.name).same_board

    def _fill(self, journal: Journal, waiting: list[BootPlan], running: list[Running]) -> None:
        """Submit what may be submitted; the second boot of a pair waits for the first's board."""
        for plan in list(waiting):
            if len(running) >= self.lab.jobs.queue_limit:
                return
            device = self.device
            if device is None and self._pairs(plan):
                device = self._device_of_other(plan, running)
                if device is None and any(_is_other(plan, one.plan) for one in running):
                    continue
            waiting.remove(plan)
            running.append(Running(plan, self.submitter.begin(journal, plan, device)))

    def _device_of_other(self, plan: BootPlan, running: list[Running]) -> str | None:
        """The board on which the other boot of a pair runs or ran, once LAVA has chosen it."""
        for one in running:
            if _is_other(plan, one.plan):
                return one.state.device if one.state else None
        other: Side = "candidate" if plan.side == "base" else "base"
        path = self.run.boot(other, plan.number) / "boot.json"
        record = results.read(path, BootRecord) if path.is_file() else None
        return record.lava.device if record and record.lava else None

    def _look(self, one: Running) -> JobState:
        number = one.attempt.number
        assert number is not None
        state = patiently(lambda: self.lava.job(number))
        if not names(state, one.attempt):
            raise InfrastructureError(
                f"job {number} of {self.lava.address} is {state.name!r}, not that of"
                f" {one.attempt.boot}: the server was made anew; run the same command again"
            )
        one.state = state
        return state

    def _leave(self, journal: Journal, running: list[Running]) -> None:
        """Cancel what is of no use after a failure: all but the base."""
        for one in [r for r in running if r.plan.side == "candidate"]:
            self.submitter.cancel(journal, one.attempt, "another boot of the run failed")
            running.remove(one)

    def _finish(self, journal: Journal, one: Running) -> Failure | None:
        """Collect a finished job; returns what went wrong with it."""
        plan, state = one.plan, one.state
        assert state is not None
        folder = self.folder / one.attempt.key
        try:
            ended = patiently(lambda: collect.fetch(self.lava, state, folder))
        except TooLargeError as error:
            return self._failed(journal, one, error)
        try:
            documents = collect.judge(ended, plan, self.issues, one.attempt.key)
        except (BrokenError, InfrastructureError) as error:
            return self._failed(journal, one, error)
        attempts = [
            LavaAttempt(job=a.number, outcome=a.outcome or "done", why=a.why)
            for a in journal.of(plan.name)
        ]
        where = collect.Where(
            self.lava.http.base,
            patiently(self.lava.version),
            self.lab.board(plan.board.name).device_type,
        )
        traces = patiently(lambda: collect.traces(documents, self.files))
        collect.store(ended, plan, documents, where, attempts, traces)
        journal.ended(one.attempt, "done", "")
        self.done(plan)
        return None

    def _failed(self, journal: Journal, one: Running, error: Failure) -> Failure:
        assert one.state is not None
        error.args = (f"{error} (LAVA job {one.state.id} on {one.state.device})",)
        journal.ended(one.attempt, collect.outcome_of(error), str(error))
        return error

    def _may_retry(self, journal: Journal, one: Running, error: Failure) -> bool:
        """Whether another job may be tried: never after a crash, or when somebody cancelled it."""
        cancelled = one.state is not None and one.state.health == "Canceled"
        lost = [a for a in journal.of(one.plan.name) if a.outcome == "infrastructure"]
        lab_failed = isinstance(error, InfrastructureError) and not cancelled
        return lab_failed and len(lost) < self.lab.jobs.attempts


def _is_other(plan: BootPlan, other: BootPlan) -> bool:
    return other.number == plan.number and other.side != plan.side


def lava_folder(run: RunDir) -> Path:
    """Where a run keeps its journal, job definitions and logs."""
    return run.root / "lava"


def _show(step: Step, running: Sequence[Running], ended: int, total: int) -> None:
    jobs = [
        f"{one.attempt.number} {one.state.state.lower()}"
        + (f" on {one.state.device}" if one.state.device else "")
        for one in running
        if one.state
    ]
    note = f"LAVA jobs {', '.join(jobs)}" if jobs else f"{ended} of {total} boots"
    step.update(ended, total, note)
