"""The step *run* in a LAVA lab: every boot is a LAVA job, and LAVA says when and where it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from iotoll.boots.local import BootPlan
from iotoll.boots.pair_order import first_side
from iotoll.boots.schedule import mark_done
from iotoll.core.errors import BrokenError, HangError, InfrastructureError
from iotoll.core.plain import plain
from iotoll.core.progress import Step
from iotoll.labs.lava import job_end
from iotoll.labs.lava.config import Lab
from iotoll.labs.lava.http import ServerError, TooLargeError
from iotoll.labs.lava.job_log import read_time
from iotoll.labs.lava.journal import Attempt, Journal, open_journal
from iotoll.labs.lava.patience import Patience, Tell, silent
from iotoll.labs.lava.server import JobState, Servers, connect, device_words
from iotoll.labs.lava.submission import SUPERSEDED, Submitter, names
from iotoll.labs.lava.watch import Watch
from iotoll.records import results
from iotoll.records.models import BootRecord, LavaAttempt, SourceRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir

Done = Callable[[BootPlan], None]
Failure = BrokenError | InfrastructureError
SUBJECT = 120  # characters of a patch's subject that a job's metadata shows
HANGS = 2
"""Boots that must hang before a kernel is blamed."""


@dataclass
class Running:
    """A boot whose job is with LAVA."""

    plan: BootPlan
    attempt: Attempt
    state: JobState | None = None


def lava_runner(
    run: RunDir, lab: Lab, device: str | None = None, tell: Tell = silent
) -> LavaRunner:
    """The runner of a run's boots in a LAVA lab, which it is connected to.

    ``device`` is the only one that may run them; ``tell`` gets a line of what is waited for.
    """
    return LavaRunner(run, lab, connect(lab), lambda plan: mark_done(run, plan), device, tell)


class LavaRunner:
    """Runs the boots of one run directory in one lab; ``done`` is told of each that ended well.

    ``device`` is the only one that may run them, None for any that the lab file allows.
    """

    def __init__(
        self,
        run: RunDir,
        lab: Lab,
        servers: Servers,
        done: Done,
        device: str | None = None,
        tell: Tell = silent,
    ) -> None:
        self.tell = tell
        self.patiently = Patience(tell)
        self.lab = lab
        self.done = done
        self.device = device
        self.lava = servers.lava
        self.files = servers.files
        self.run = run
        self.folder = lava_folder(run)
        self.issues = lab.issues
        self.hung: dict[str, str] = {}  # the boots that hung, and where
        self.submitter = Submitter(
            self.folder, lab, servers, run.manifest.series, self.patiently, subject(run)
        )

    def boots(self, plans: Sequence[BootPlan], step: Step) -> None:
        """Run the boots to their ends; resumes where it was stopped.

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
            while waiting := [one for one in self._looked(jobs) if not _ended(one)]:
                _show(step, waiting, len(jobs) - len(waiting), len(jobs))
                time.sleep(self.lab.jobs.poll_seconds)
        return [one.state for one in jobs if one.state]

    def collect(self, plans: Sequence[BootPlan]) -> list[BootPlan]:
        """Collect the boots whose jobs have ended; returns the plans of the others.

        Raises what the first failed job's end means.
        """
        with open_journal(self.folder) as journal:
            jobs = self._with_lava(journal, plans)
            ended = [one for one in self._looked(jobs) if _ended(one)]
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

    def forget(self, number: int, why: str) -> Attempt | None:
        """Note that a job is lost, so that its boot is submitted again; None if it has none."""
        with open_journal(self.folder) as journal:
            for attempt in journal.attempts:
                if attempt.number == number and attempt.outcome is None:
                    journal.ended(attempt, SUPERSEDED, why)
                    return attempt
        return None

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
        watch = Watch(self.lava, self.lab.jobs.log_seconds)
        waiting = self._ordered(waiting)
        while running or (waiting and not failed):
            if not failed:
                self._fill(journal, waiting, running)
            for one in self._looked(running):
                state = one.state
                if one not in running or state is None:  # cancelled, since another one failed
                    continue
                if not state.finished:
                    if watch.crashed(state):
                        self.patiently(partial(self.lava.cancel, state.id))
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
                time.sleep(self.lab.jobs.poll_seconds)
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
            if device is None and plan.name in self.hung:
                device = self._elsewhere(plan)
            waiting.remove(plan)
            running.append(Running(plan, self.submitter.begin(journal, plan, device)))

    def _elsewhere(self, plan: BootPlan) -> str | None:
        """Another board than that on which a boot hung, if one can be asked for by its tag."""
        board, avoid = self.lab.board(plan.board.name), self.hung[plan.name]
        for name in self.patiently(lambda: self.lava.devices(board.device_type, board.tags)):
            named = [*board.tags, name]
            if name != avoid and self.lava.devices(board.device_type, named) == [name]:
                return name
        return None

    def _device_of_other(self, plan: BootPlan, running: list[Running]) -> str | None:
        """The board on which the other boot of a pair runs or ran, once LAVA has chosen it."""
        for one in running:
            if _is_other(plan, one.plan):
                return one.state.device if one.state else None
        other: Side = "candidate" if plan.side == "base" else "base"
        path = self.run.boot(other, plan.number) / "boot.json"
        record = results.read(path, BootRecord) if path.is_file() else None
        return record.lava.device if record and record.lava else None

    def _looked(self, jobs: Sequence[Running]) -> list[Running]:
        """The same jobs, once the server said how they are: one request for all."""
        numbers = [one.attempt.number for one in jobs if one.attempt.number is not None]
        if not numbers:
            return list(jobs)
        try:
            states = self.patiently(lambda: self.lava.jobs(numbers))
        except ServerError as error:
            if error.status != 404:  # HTTP: not found
                raise
            states = {}
        for one in jobs:
            state = states.get(one.attempt.number or 0)
            if state is None:
                raise InfrastructureError(
                    f"job {one.attempt.number} of {self.lava.address} is gone, or hidden from us:"
                    f" 'iotoll lava forget {self.run.root} {one.attempt.number}' has its boot"
                    " submitted again"
                )
            if not names(state, one.attempt):
                raise InfrastructureError(
                    f"job {state.id} of {self.lava.address} is {state.name!r}, not that of"
                    f" {one.attempt.boot}: the server was made anew; run the same command again"
                )
            one.state = state
        return list(jobs)

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
            ended = self.patiently(lambda: job_end.fetch(self.lava, state, folder))
        except TooLargeError as error:
            return self._failed(journal, one, error)
        try:
            documents = job_end.judge(ended, plan, self.issues, one.attempt.key)
        except (BrokenError, InfrastructureError) as error:
            return self._failed(journal, one, error)
        attempts = [
            LavaAttempt(job=a.number, outcome=a.outcome or "done", why=a.why)
            for a in journal.of(plan.name)
        ]
        where = job_end.Where(
            self.lava.http.base,
            self.patiently(self.lava.version),
            self.lab.board(plan.board.name).device_type,
        )
        traces = self.patiently(lambda: job_end.traces(documents, self.files))
        job_end.store(ended, plan, documents, where, attempts, traces)
        journal.ended(one.attempt, "done", "")
        self.done(plan)
        return None

    def _failed(self, journal: Journal, one: Running, error: Failure) -> Failure:
        assert one.state is not None
        error = self._without_board(one) or error
        where = one.state.device or "no board"
        hung = [a for a in journal.of(one.plan.name) if a.outcome == "hang"]
        before = f", as LAVA job {hung[-1].number} did" if hung else ""
        before = before if isinstance(error, HangError) else ""
        error.args = (f"{error} (LAVA job {one.state.id} on {where}{before})",)
        journal.ended(one.attempt, job_end.outcome_of(error), str(error))
        return error

    def _without_board(self, one: Running) -> InfrastructureError | None:
        """What to say of a job that LAVA ended because no board was free in time."""
        state, board = one.state, self.lab.board(one.plan.board.name)
        assert state is not None
        begun, ended = read_time(state.submitted), read_time(state.ended)
        minutes = board.timeouts.queue
        if state.health != "Canceled" or state.device or begun is None or ended is None:
            return None
        if (ended - begun).total_seconds() < minutes * 60:
            return None
        fleet = self.patiently(lambda: self.lava.fleet(board.device_type, board.tags))
        return InfrastructureError(
            f"no board {board.asked} was free for {minutes} minutes:"
            f" {device_words(fleet)} [no-board]"
        )

    def _may_retry(self, journal: Journal, one: Running, error: Failure) -> bool:
        """Whether another job may be tried: never after a crash, or when somebody cancelled it.

        A hang is tried once more, since a lost board looks like one.
        """
        if isinstance(error, HangError):
            if sum(a.outcome == "hang" for a in journal.of(one.plan.name)) >= HANGS:
                return False
            self.hung[one.plan.name] = (one.state and one.state.device) or ""
            self.tell(f"{one.plan.name}: {error}: tried once more; only what repeats counts")
            return True
        cancelled = one.state is not None and one.state.health == "Canceled"
        lost = [a for a in journal.of(one.plan.name) if a.outcome == "infrastructure"]
        lab_failed = isinstance(error, InfrastructureError) and not cancelled
        return lab_failed and len(lost) < self.lab.jobs.attempts


def _ended(one: Running) -> bool:
    return one.state is not None and one.state.finished


def subject(run: RunDir) -> str:
    """The first line of what the run judges, for a job's metadata; empty if there is none."""
    path = run.side("candidate") / "source.json"
    if not path.is_file():
        return ""
    subjects = results.read(path, SourceRecord).patch_subjects
    more = f" (and {len(subjects) - 1} more)" if len(subjects) > 1 else ""
    return f"{plain(subjects[0])[:SUBJECT]}{more}" if subjects else ""


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
