"""The step *run* in a LAVA lab: every boot is a LAVA job, and LAVA says when and where it runs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from iotoll.digest import json_sha256
from iotoll.errors import BrokenError, InfrastructureError
from iotoll.image import whole_cpio
from iotoll.lava import collect
from iotoll.lava.config import Lab
from iotoll.lava.http import ServerError
from iotoll.lava.job import File, render, virtual_job
from iotoll.lava.journal import Attempt, Journal, open_journal
from iotoll.lava.server import JobState, Servers
from iotoll.models import LavaAttempt
from iotoll.paths import dut_command
from iotoll.progress import Step
from iotoll.results import write_text
from iotoll.rundir import RunDir
from iotoll.runner import BootPlan

POLL_SECONDS = 2.0
PATIENCE_SECONDS = 900.0
"""How long a server may be down before we give up; LAVA's jobs go on meanwhile."""
PAUSE_SECONDS = 5.0
DOUBT_SECONDS = 20.0
"""How long a job may take to appear whose submission was not answered."""
SUPERSEDED = "superseded"

T = TypeVar("T")


@dataclass
class Running:
    """A boot whose job is with LAVA."""

    plan: BootPlan
    attempt: Attempt
    state: JobState | None = None


class LavaRunner:
    """Runs the boots of one run directory in one lab; as a local board, but for the waiting."""

    def __init__(self, run: RunDir, lab: Lab, servers: Servers) -> None:
        self.run = run
        self.lab = lab
        self.servers = servers
        self._files: dict[str, tuple[File, File]] = {}

    def boots(
        self, plans: Sequence[BootPlan], done: Callable[[BootPlan], None], step: Step
    ) -> None:
        """Run the boots to their ends, ``done`` each as it ends; goes on where it was stopped.

        Raises BrokenError or InfrastructureError as a local boot would. What fails in the base is
        not the candidate's fault, so the base is waited for.
        """
        for plan in plans:
            self.lab.board(plan.board.name)
        with open_journal(self.run.root / "lava") as journal:
            failed = self._loop(journal, list(plans), done, step)
        base = next((e for p, e in failed if p.side == "base"), None)
        if isinstance(base, BrokenError):
            raise InfrastructureError(f"the base kernel fails: {base}", base.log_tail) from base
        if failed:
            raise base or failed[0][1]

    def _loop(
        self,
        journal: Journal,
        waiting: list[BootPlan],
        done: Callable[[BootPlan], None],
        step: Step,
    ) -> list[tuple[BootPlan, BrokenError | InfrastructureError]]:
        failed: list[tuple[BootPlan, BrokenError | InfrastructureError]] = []
        running: list[Running] = []
        total = len(waiting)
        while running or (waiting and not failed):
            while waiting and not failed and len(running) < self.lab.jobs.queue_limit:
                running.append(self._begin(journal, waiting.pop(0)))
            for one in list(running):
                one.state = self._patiently(lambda o=one: self._look(o))  # type: ignore[misc]
                if not one.state.finished:
                    continue
                running.remove(one)
                error = self._finish(journal, one)
                if error is None:
                    done(one.plan)
                elif isinstance(error, InfrastructureError) and self._may_retry(journal, one.plan):
                    waiting.insert(0, one.plan)
                else:
                    failed.append((one.plan, error))
                    self._cancel([r for r in running if r.plan.side == "candidate"])
            self._show(step, running, total - len(waiting) - len(running), total)
            if running:
                time.sleep(POLL_SECONDS)
        return failed

    def _show(self, step: Step, running: list[Running], ended: int, total: int) -> None:
        jobs = ", ".join(
            f"{r.attempt.number} {r.state.state.lower()}"
            + (f" on {r.state.device}" if r.state.device else "")
            for r in running
            if r.state
        )
        step.update(ended, total, f"jobs: {jobs}" if jobs else f"{ended} of {total} boots")

    # One job.

    def _begin(self, journal: Journal, plan: BootPlan) -> Running:
        """Submit a job for a boot, or take up the one that is there."""
        inputs = json_sha256([plan.identity(), str(plan.kernel_sha256)])
        attempts = journal.of(plan.name)
        if attempts and attempts[-1].outcome is None:
            attempt = attempts[-1]
            if attempt.inputs == inputs:
                self._submit(journal, attempt, resumed=True)
                return Running(plan, attempt)
            if attempt.number is not None:
                self._patiently(lambda: self.servers.lava.cancel(int(attempt.number or 0)))
            journal.ended(attempt, SUPERSEDED, "the boot's inputs have changed")
        key = journal.next_key(plan.name)
        definition = self._render(plan, key)
        write_text(self._definition(key), definition)
        attempt = journal.intend(plan.name, key, inputs)
        self._submit(journal, attempt, resumed=False)
        return Running(plan, attempt)

    def _definition(self, key: str) -> Path:
        return self.run.root / "lava" / f"{key}.yaml"

    def _render(self, plan: BootPlan, key: str) -> str:
        kernel, ramdisk = self._upload(plan)
        metadata = {
            "iotoll.key": key,
            "iotoll.side": plan.side,
            "iotoll.boot": str(plan.number),
            "iotoll.board": plan.board.name,
            "iotoll.kernel": kernel.sha256,
        }
        name = f"iotoll {plan.side} boot {plan.number} on {plan.board.name} {key}"
        job = virtual_job(plan.board, name, kernel, ramdisk, metadata)
        definition = render(job, plan.board.name, self.lab)
        self._patiently(lambda: self.servers.lava.validate(definition))
        return definition

    def _upload(self, plan: BootPlan) -> tuple[File, File]:
        what = json_sha256([str(plan.kernel), plan.job_sha256])
        if what not in self._files:
            with tempfile.TemporaryDirectory(prefix="iotoll-") as name:
                ramdisk = Path(name) / "ramdisk.cpio"
                whole_cpio(plan.image, plan.job, dut_command(plan.board.arch), ramdisk)
                store = self.servers.files
                kernel = self._patiently(lambda: store.add(plan.kernel))
                self._files[what] = (kernel, self._patiently(lambda: store.add(ramdisk)))
        return self._files[what]

    def _submit(self, journal: Journal, attempt: Attempt, resumed: bool) -> None:
        """Have exactly one job of this attempt with LAVA, whatever happened before."""
        if attempt.number is not None:
            return
        doubt = resumed
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                number = self._find(attempt.key, DOUBT_SECONDS) if doubt else None
                if number is None:
                    number = self.servers.lava.submit(self._definition(attempt.key).read_text())
                    if doubt:  # an unanswered submission may have come late
                        number = self._find(attempt.key, 0) or number
                journal.submitted(attempt, number)
                return
            except ServerError as error:
                if time.monotonic() > end:
                    raise
                doubt = doubt or error.sent
                time.sleep(PAUSE_SECONDS)

    def _find(self, key: str, patience: float) -> int | None:
        """The job with this key; a second one, which nobody asked for, is cancelled."""
        end = time.monotonic() + patience
        while not (numbers := self.servers.lava.find(key)):
            if time.monotonic() >= end:
                return None
            time.sleep(POLL_SECONDS)
        for number in numbers[1:]:
            self.servers.lava.cancel(number)
        return numbers[0]

    def _look(self, one: Running) -> JobState:
        assert one.attempt.number is not None
        return self.servers.lava.job(one.attempt.number)

    def _finish(
        self, journal: Journal, one: Running
    ) -> BrokenError | InfrastructureError | None:
        """Collect a finished job; returns what went wrong with it."""
        plan, state = one.plan, one.state
        assert state is not None
        folder = self.run.root / "lava" / one.attempt.key
        ended = self._patiently(lambda: collect.fetch(self.servers.lava, state, folder))
        try:
            texts = collect.judge(ended, plan)
        except (BrokenError, InfrastructureError) as error:
            error.args = (f"{error} (LAVA job {state.id} on {state.device})",)
            journal.ended(one.attempt, collect.outcome_of(error), str(error))
            return error
        attempts = [
            LavaAttempt(job=a.number, outcome=a.outcome or "done", why=a.why)
            for a in journal.of(plan.name)
        ]
        url, version = self.servers.lava.http.base, self._patiently(self.servers.lava.version)
        device_type = self.lab.board(plan.board.name).device_type
        collect.store(ended, plan, texts, (url, version, device_type), attempts)
        journal.ended(one.attempt, "done", "")
        return None

    def _may_retry(self, journal: Journal, plan: BootPlan) -> bool:
        lost = [a for a in journal.of(plan.name) if a.outcome == "infrastructure"]
        return len(lost) < self.lab.jobs.attempts

    def _cancel(self, running: Sequence[Running]) -> None:
        for one in running:
            if one.attempt.number is not None:
                number = one.attempt.number
                self._patiently(lambda n=number: self.servers.lava.cancel(n))  # type: ignore[misc]

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask a server, and again while it is down or busy, for as long as our patience lasts."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return ask()
            except ServerError as error:
                if error.status in (400, 404, 405) or time.monotonic() > end:
                    raise
                time.sleep(PAUSE_SECONDS)

