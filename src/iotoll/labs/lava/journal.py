"""The journal of a run's LAVA jobs: what was meant to be done, before it is, and what was.

One JSON object per line, only ever appended, and on the disk before the next step is taken. So a
process that is killed anywhere leaves a journal from which the next one goes on: a job that was
intended and has no number is looked for on the server, by its key, before it is submitted again.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iotoll.core.errors import InfrastructureError, ResultError
from iotoll.core.lock import alone

NAME = "journal.jsonl"
DEATHS = ("broken", "hang")
"""Outcomes of which two make a kernel broken, and one nothing."""


@dataclass
class Attempt:
    """One LAVA job: one attempt at one boot, whose job definition is stored as ``KEY.yaml``.

    ``inputs`` is the digest of all that the boot depends on, ``definition`` that of ``KEY.yaml``.
    ``number`` is None until ``server`` has answered, ``outcome`` until the job has ended and was
    judged. A number means nothing without its server, and a server may begin to count anew.
    """

    key: str
    boot: str
    inputs: str
    definition: str = ""
    number: int | None = None
    server: str = ""
    outcome: str | None = None
    why: str = ""
    step: str = ""

    @property
    def is_death(self) -> bool:
        """Whether the kernel crashed, hung or failed at the workload."""
        return self.outcome in DEATHS


@dataclass
class Journal:
    """The journal of one run directory, read, and open for appending."""

    path: Path
    run: str
    attempts: list[Attempt] = field(default_factory=list)

    def of(self, boot: str) -> list[Attempt]:
        """All attempts at a boot, oldest first."""
        return [attempt for attempt in self.attempts if attempt.boot == boot]

    def next_key(self, boot: str) -> str:
        """The key of the next attempt at a boot: no other job anywhere has it."""
        return f"{self.run}-{boot.replace('/', '-')}-{len(self.of(boot)) + 1}"

    def intend(self, boot: str, key: str, inputs: str, definition: str = "") -> Attempt:
        """Note a job that is about to be submitted."""
        attempt = Attempt(key, boot, inputs, definition)
        self._add("intend", key=key, boot=boot, inputs=inputs, definition=definition)
        self.attempts.append(attempt)
        return attempt

    def submitted(self, attempt: Attempt, number: int, server: str = "") -> None:
        """Note the number that a server gave."""
        self._add("submitted", key=attempt.key, number=number, server=server)
        attempt.number, attempt.server = number, server

    def ended(self, attempt: Attempt, outcome: str, why: str, step: str = "") -> None:
        """Note how it ended, why it was judged so, and the step in which a kernel died."""
        more = {"step": step} if step else {}
        self._add("ended", key=attempt.key, outcome=outcome, why=why, **more)
        attempt.outcome, attempt.why, attempt.step = outcome, why, step

    def _add(self, event: str, **values: Any) -> None:
        _append(self.path, {"event": event, **values})


@contextlib.contextmanager
def open_journal(folder: Path) -> Iterator[Journal]:
    """Open a run's journal, made if it is missing; only one process may have it open."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    why = f"another iotoll works on the LAVA jobs of {folder.parent}: wait for it"
    with alone(path, InfrastructureError(why)):
        _mend(path)
        if path.stat().st_size == 0:
            _append(path, {"event": "run", "run": secrets.token_hex(6)})
            _sync(folder)
        yield read_journal(path)


def read_journal(path: Path) -> Journal:
    """Read a journal; a last line that was cut off is left out."""
    journal: Journal | None = None
    try:
        text = path.read_bytes().decode()
        for line in text.split("\n")[:-1]:
            entry = json.loads(line)
            if entry["event"] == "run":
                journal = Journal(path, str(entry["run"]))
                continue
            if journal is None:
                raise ValueError("it does not begin with 'run'")
            _replay(journal, entry)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ResultError(
            f"{path}: the journal is damaged ({error!r}): cancel its jobs in LAVA, then remove it"
        ) from error
    if journal is None:
        raise ResultError(f"{path}: the journal is empty: remove it")
    return journal


def _replay(journal: Journal, entry: dict[str, Any]) -> None:
    if entry["event"] == "intend":
        definition = str(entry.get("definition", ""))
        journal.attempts.append(Attempt(entry["key"], entry["boot"], entry["inputs"], definition))
        return
    attempt = {a.key: a for a in journal.attempts}[entry["key"]]
    if entry["event"] == "submitted":
        attempt.number, attempt.server = int(entry["number"]), str(entry.get("server", ""))
    elif entry["event"] == "ended":
        attempt.outcome, attempt.why = str(entry["outcome"]), str(entry["why"])
        attempt.step = str(entry.get("step", ""))
    else:
        raise ValueError(f"unknown event {entry['event']}")


def _append(path: Path, entry: dict[str, Any]) -> None:
    try:
        with path.open("ab") as out:
            out.write(json.dumps(entry, sort_keys=True).encode() + b"\n")
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        raise InfrastructureError(f"cannot write {path}: {error.strerror}") from error


def _mend(path: Path) -> None:
    """Cut off a last line without an end: what it says was not yet done when it was written."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
