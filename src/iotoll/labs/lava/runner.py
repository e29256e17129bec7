"""The step *run* in a LAVA lab: every boot is a LAVA job, and LAVA says when and where it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from iotoll.boots.console import CRASH, read_console
from iotoll.boots.local import BootPlan
from iotoll.boots.pair_order import first_side
from iotoll.boots.schedule import mark_done
from iotoll.core.errors import BrokenError, BrokenStep, HangError, InfrastructureError, UsageError
from iotoll.core.plain import plain
from iotoll.core.progress import Step
from iotoll.labs.lava import job_end
from iotoll.labs.lava.config import Lab
from iotoll.labs.lava.http import ServerError, TooLargeError
from iotoll.labs.lava.job_log import read_log, read_time
from iotoll.labs.lava.journal import Attempt, Journal, open_journal
from iotoll.labs.lava.retry import Retry, Tell, silent
from iotoll.labs.lava.server import JobState, LavaServer, Servers, connect, device_words
from iotoll.labs.lava.submission import SUPERSEDED, Submitter, inputs_of, names
from iotoll.records import results
from iotoll.records.models import BootRecord, LavaAttempt, SourceRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir

LOOK_SECONDS = 10.0
KEPT = 1 << 20
"""Bytes of a job's log that are kept while it runs: a crash is looked for in what came last."""


@dataclass
class _Seen:
    """What is known of a job's log: ``lines`` of it were read, ``last`` is the end of them."""

    due: float
    lines: int = 0
    first: bytes = b""
    last: bytes = b""
    crashed: bool = False


class Watch:
    """Tells which running jobs have a crashed kernel, so that they can be cancelled.

    Each job's log is asked for every ``seconds``, from the first line on that is not known yet.
    """

    def __init__(self, lava: LavaServer, seconds: float = LOOK_SECONDS) -> None:
        self.lava = lava
        self.seconds = seconds
        self._jobs: dict[int, _Seen] = {}

    def crashed(self, state: JobState) -> bool:
        """Whether a job's kernel crashed; true at the second look, when its trace is complete."""
        if state.state != "Running":
            return False
        now = time.monotonic()
        seen = self._jobs.setdefault(state.id, _Seen(now + self.seconds))
        if now < seen.due:
            return False
        seen.due = now + self.seconds
        before, seen.crashed = seen.crashed, seen.crashed or self._look(state.id, seen)
        return before

    def _look(self, number: int, seen: _Seen) -> bool:
        try:
            data = self.lava.log(number, seen.lines)
        except (InfrastructureError, UsageError):
            return False  # the job's own end will tell
        first = data.partition(b"\n")[0]
        if seen.lines and first == seen.first:  # a server that does not know `start` sent it all
            seen.lines, seen.last = 0, b""
        seen.first = seen.first or first
        seen.lines += data.count(b"\n")
        seen.last = (seen.last + data)[-KEPT:]
        # LAVA also writes down for which words it waits: so the console alone counts.
        if not CRASH.search(seen.last.decode(errors="replace")):
            return False
        return read_console(read_log(seen.last).console).crashed


Done = Callable[[BootPlan], None]
Failure = BrokenError | InfrastructureError
SUBJECT = 120  # characters of a patch's subject that a job's metadata shows
BLAMED = 2
"""Tries of a boot in which a kernel must crash or hang before it is blamed."""
BESIDE = 1000
"""Added to the number of a candidate's boot that died: the base's that runs beside its second."""


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
        self.retry = Retry(tell)
        self.lab = lab
        self.done = done
        self.device = device
        self.lava = servers.lava
        self.files = servers.files
        self.run = run
        self.folder = lava_folder(run)
        self.issues = lab.issues
        self.died: dict[str, str] = {}  # the boots that crashed or hung, and where
        self.submitter = Submitter(
            self.folder, lab, servers, run.manifest.series, self.retry, subject(run)
        )

    def boots(self, plans: Sequence[BootPlan], step: Step) -> None:
        """Run the boots to their ends; resumes where it was stopped.

        A boot in which the kernel crashes or hangs is repeated once, the candidate's beside one of
        the base. What died twice is not tried again by the same command: the journal knows it.
        Raises BrokenError or InfrastructureError as a local boot would. What fails in the base is
        not the candidate's fault, so the base is waited for.
        """
        with open_journal(self.folder) as journal:
            self.submitter.supersede(journal)
            failed = _known(journal, plans)
            failed = failed or self._loop(journal, [*self._besides(journal, plans), *plans], step)
        which, base = next(((p, e) for p, e in failed if p.side == "base"), (None, None))
        if which and isinstance(base, BrokenError):
            beside = " as well, beside the candidate's second try" if which.number > BESIDE else ""
            raise InfrastructureError(
                f"the base kernel fails{beside}: {base}", base.log_tail
            ) from base
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
                        self.retry(partial(self.lava.cancel, state.id))
                    continue
                running.remove(one)
                error = self._finish(journal, one)
                if error is None:
                    continue
                if self._may_retry(journal, one, error):
                    beside = self._besides(journal, [one.plan])
                    waiting[:0] = [*beside, one.plan]
                    total += len(beside)
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
                paired = _beside_whom(plan)
                device = self._device_of_other(paired, running)
                if device is None and any(_is_other(paired, one.plan) for one in running):
                    continue
            if device is None and plan.name in self.died:
                device = self._elsewhere(plan)
            waiting.remove(plan)
            running.append(Running(plan, self.submitter.begin(journal, plan, device)))

    def _besides(self, journal: Journal, plans: Sequence[BootPlan]) -> list[BootPlan]:
        """The base's boots beside candidates that crashed, on the same board where it can be.

        Not beside one that hung: it takes as long as the longest time-out.
        """
        found = []
        for plan in plans:
            died = _deaths(journal, plan)
            if plan.side == "base" or [a.outcome for a in died] != ["broken"]:
                continue
            beside = replace(
                plan,
                side="base",
                number=plan.number + BESIDE,
                kernel=self.run.build("base") / plan.kernel.name,
                folder=self.folder / "beside" / str(plan.number),
            )
            if any(a.outcome == "done" for a in journal.of(beside.name)):
                continue
            if plan.name in self.died:
                self.died[beside.name] = self.died[plan.name]
            found.append(beside)
        return found

    def _elsewhere(self, plan: BootPlan) -> str | None:
        """Another board than that on which a boot died, if one can be asked for by its tag."""
        board, avoid = self.lab.board(plan.board.name), self.died[plan.name]
        for name in self.retry(lambda: self.lava.devices(board.device_type, board.tags)):
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
            states = self.retry(lambda: self.lava.jobs(numbers))
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
            ended = self.retry(lambda: job_end.fetch(self.lava, state, folder))
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
            self.retry(self.lava.version),
            self.lab.board(plan.board.name).device_type,
        )
        traces = self.retry(lambda: job_end.traces(documents, self.files))
        job_end.store(ended, plan, documents, where, attempts, traces)
        journal.ended(one.attempt, "done", "")
        if plan.number < BESIDE:
            self.done(plan)
        return None

    def _failed(self, journal: Journal, one: Running, error: Failure) -> Failure:
        assert one.state is not None
        error = self._without_board(one) or error
        where = one.state.device or "no board"
        died = [a for a in journal.of(one.plan.name) if a.is_death]
        before = f", as LAVA job {died[-1].number} did" if died else ""
        before = before if isinstance(error, BrokenError) else ""
        error.args = (f"{error} (LAVA job {one.state.id} on {where}{before})",)
        step = error.step if isinstance(error, BrokenError) else ""
        journal.ended(one.attempt, job_end.outcome_of(error), str(error), step)
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
        fleet = self.retry(lambda: self.lava.fleet(board.device_type, board.tags))
        return InfrastructureError(
            f"no board {board.asked} was free for {minutes} minutes:"
            f" {device_words(fleet)} [no-board]"
        )

    def _may_retry(self, journal: Journal, one: Running, error: Failure) -> bool:
        """Whether another job may be tried: never when somebody cancelled it.

        A crash and a hang are tried once more, since a board at fault looks like either; the base
        that boots beside a candidate is not.
        """
        if isinstance(error, BrokenError):
            if one.plan.number > BESIDE or len(_deaths(journal, one.plan)) >= BLAMED:
                return False
            self.died[one.plan.name] = (one.state and one.state.device) or ""
            self.tell(f"{one.plan.name}: {error}: tried once more; only what repeats counts")
            return True
        cancelled = one.state is not None and one.state.health == "Canceled"
        lost = [a for a in journal.of(one.plan.name) if a.outcome == "infrastructure"]
        lab_failed = isinstance(error, InfrastructureError) and not cancelled
        return lab_failed and len(lost) < self.lab.jobs.attempts


def _beside_whom(plan: BootPlan) -> BootPlan:
    """The candidate's boot that one of the base runs beside; the same plan for any other."""
    if plan.number < BESIDE:
        return plan
    return replace(plan, side="candidate", number=plan.number - BESIDE)


def _deaths(journal: Journal, plan: BootPlan) -> list[Attempt]:
    """The tries of this boot, as it is now, in which the kernel crashed or hung."""
    inputs = inputs_of(plan)
    return [a for a in journal.of(plan.name) if a.is_death and a.inputs == inputs]


def _known(journal: Journal, plans: Sequence[BootPlan]) -> list[tuple[BootPlan, Failure]]:
    """The boots that died as often as a kernel must to be blamed, with what they died of."""
    found: list[tuple[BootPlan, Failure]] = []
    for plan in plans:
        if len(deaths := _deaths(journal, plan)) >= BLAMED:
            step: BrokenStep = "boot" if deaths[-1].step == "boot" else "workload"
            kind = HangError if deaths[-1].outcome == "hang" else BrokenError
            found.append((plan, kind(step, deaths[-1].why)))
    return found


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
