"""Submits the job of a boot exactly once, whatever was interrupted before."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from iotoll.boots.local import BootPlan
from iotoll.core.digest import json_sha256
from iotoll.labs.lava import retry
from iotoll.labs.lava.config import Lab
from iotoll.labs.lava.definition import Job, definition_sha256, render
from iotoll.labs.lava.files import JobFiles
from iotoll.labs.lava.http import AccessError, ServerError
from iotoll.labs.lava.journal import Attempt, Journal
from iotoll.labs.lava.retry import Retry
from iotoll.labs.lava.server import JobState, Servers
from iotoll.records.results import write_text

POLL_SECONDS = 2.0
DOUBT_SECONDS = 20.0
"""How long a job may take to appear whose submission was not answered."""
SUPERSEDED = "superseded"
NO_KEY = "not-submitted"


def mark(series: str) -> str:
    """How the name of a job says to which series its run belongs."""
    return f"[{series}]"


def names(state: JobState, attempt: Attempt) -> bool:
    """Whether a job is the one of an attempt, by the key in its name."""
    return state.name.split()[-1:] == [attempt.key]


def inputs_of(plan: BootPlan) -> str:
    """Digest of all that a boot depends on."""
    return json_sha256([plan.identity(), plan.kernel_sha256])


class Submitter:
    """Makes and submits the jobs of one run directory, whose LAVA folder is ``folder``.

    ``subject`` is what LAVA's people read of the candidate in a job's metadata.
    """

    def __init__(
        self,
        folder: Path,
        lab: Lab,
        servers: Servers,
        series: str | None = None,
        retry: Retry | None = None,
        subject: str = "",
    ) -> None:
        self.retry = retry or Retry()
        self.subject = subject
        self.folder = folder
        self.lab = lab
        self.servers = servers
        self.series = series
        self._files = JobFiles(lambda path: self.retry(lambda: servers.files.add(path)))

    def begin(self, journal: Journal, plan: BootPlan, device: str | None = None) -> Attempt:
        """Submit a job for a boot, or take up the one that is there.

        ``device`` is the only one that may run a new job.
        """
        inputs = inputs_of(plan)
        attempts = journal.of(plan.name)
        if attempts and attempts[-1].outcome is None:
            attempt = attempts[-1]
            if not self.is_ours(attempt):
                # Whose job that is now, nobody knows: it is left alone.
                journal.ended(attempt, SUPERSEDED, f"job {attempt.number} is not this boot's")
            elif attempt.inputs == inputs:
                self._submit(journal, attempt, resumed=True)
                return attempt
            else:
                self.cancel(journal, attempt, "the boot's inputs have changed")
        key = journal.next_key(plan.name)
        definition = self.render(plan, key, device)
        self.retry(lambda: self.servers.lava.validate(definition))
        write_text(self.folder / f"{key}.yaml", definition)
        attempt = journal.intend(plan.name, key, inputs, definition_sha256(definition))
        self._submit(journal, attempt, resumed=False)
        return attempt

    def is_ours(self, attempt: Attempt) -> bool:
        """Whether what the journal says of an attempt is true of this server and its job.

        Another server, or the same one made anew, has other jobs under the same numbers.
        """
        path = self.folder / f"{attempt.key}.yaml"
        known = path.is_file() and definition_sha256(path.read_text()) == attempt.definition
        if not known:
            return False
        if attempt.number is None:
            return True  # it is looked for by its key
        if attempt.server != self.servers.lava.address:
            return False
        try:
            state = self.retry(partial(self.servers.lava.job, attempt.number))
        except ServerError as error:
            if error.status == 404:
                return False
            raise
        return names(state, attempt) and state.definition in (None, attempt.definition)

    def supersede(self, journal: Journal) -> list[int]:
        """Cancel what older runs of the same series have with LAVA; returns those jobs."""
        if self.series is None:
            return []
        word = mark(self.series)
        jobs = self.retry(lambda: self.servers.lava.unfinished(word))
        old = [job.id for job in jobs if f" {word} {journal.run}-" not in job.name]
        for number in old:
            self.retry(partial(self.servers.lava.cancel, number))
        return old

    def cancel(self, journal: Journal, attempt: Attempt, why: str) -> None:
        """Cancel the job of an attempt that has not ended."""
        number = attempt.number or self.retry(lambda: self._find(attempt.key, DOUBT_SECONDS))
        if number is not None and (attempt.number is None or self.is_ours(attempt)):
            self.retry(lambda: self.servers.lava.cancel(number))
        journal.ended(attempt, SUPERSEDED, why)

    def health_check(self, plan: BootPlan) -> str:
        """A boot's job as the health check of its device type; its files are uploaded first."""
        job = self._job(plan, f"iotoll health check of {plan.board.name}", {})
        return render(replace(job, health_check=True), plan.board.name, self.lab)

    def render(self, plan: BootPlan, key: str = NO_KEY, device: str | None = None) -> str:
        """The definition of a boot's job; its files are uploaded first."""
        metadata = {
            "iotoll.key": key,
            "iotoll.side": plan.side,
            "iotoll.boot": str(plan.number),
            **({"iotoll.subject": self.subject} if self.subject else {}),
        }
        series = f"{mark(self.series)} " if self.series else ""
        name = f"iotoll {plan.side} boot {plan.number} on {plan.board.name} {series}{key}"
        traces = self.servers.files.seen_from(self.lab.board(plan.board.name).file_server)
        job = replace(self._job(plan, name, metadata), device=device, traces=traces)
        return render(job, plan.board.name, self.lab)

    def _job(self, plan: BootPlan, name: str, metadata: Mapping[str, str]) -> Job:
        what = {"iotoll.board": plan.board.name, "iotoll.kernel": plan.kernel_sha256}
        return self._files.job(plan, name, {**metadata, **what})

    def _submit(self, journal: Journal, attempt: Attempt, resumed: bool) -> None:
        """Have exactly one job of this attempt with LAVA."""
        if attempt.number is not None:
            return
        doubt = resumed
        begun = time.monotonic()
        definition = (self.folder / f"{attempt.key}.yaml").read_text()
        while True:
            try:
                number = self._find(attempt.key, DOUBT_SECONDS) if doubt else None
                if number is None:
                    number = self.servers.lava.submit(definition)
                    if doubt:  # an unanswered submission may have come late
                        number = self._find(attempt.key, 0) or number
                journal.submitted(attempt, number, self.servers.lava.address)
                return
            except (ServerError, AccessError) as error:
                waited = time.monotonic() - begun
                if isinstance(error, AccessError) or waited > retry.RETRY_SECONDS:
                    self.retry.endure(error, waited)
                doubt = doubt or (isinstance(error, ServerError) and error.sent)
                time.sleep(retry.PAUSE_SECONDS)

    def _find(self, key: str, seconds: float) -> int | None:
        """The job with this key; a second one, which nobody asked for, is cancelled."""
        end = time.monotonic() + seconds
        while not (numbers := self.servers.lava.find(key)):
            if time.monotonic() >= end:
                return None
            time.sleep(POLL_SECONDS)
        for number in numbers[1:]:
            self.servers.lava.cancel(number)
        return numbers[0]
