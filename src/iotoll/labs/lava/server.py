"""A LAVA server's REST interface (v0.2), as far as it is needed; and the lab's file server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from iotoll.core.digest import file_sha256
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.labs.lava.config import Lab
from iotoll.labs.lava.definition import File, definition_sha256
from iotoll.labs.lava.http import RETRIES, Http, ServerError, find_token
from iotoll.labs.local import running

API = "api/v0.2"
LOG_LIMIT = 128 << 20
"""Bytes of one job's log; LAVA adds some 80 bytes to each line of the console."""
QUOTED = 200  # characters of a strange answer that a message shows
UNFINISHED = ("Submitted", "Scheduling", "Scheduled", "Running")
TRACES = "traces"
"""Folder of the file server for what boards upload."""
PAGE = 200
PAGES = 100
WORKING = ("Good", "Unknown")


@dataclass(frozen=True)
class JobState:
    """A job as the server sees it; times are the server's, ISO 8601, or None if not reached.

    ``state`` is Submitted, Scheduling, Scheduled, Running, Canceling or Finished; ``health`` is
    Unknown until it is Complete, Incomplete or Canceled. ``definition`` is the digest of what was
    submitted, None where the server does not show it.
    """

    id: int
    name: str
    state: str
    health: str
    device: str | None
    submitted: str | None
    started: str | None
    ended: str | None
    definition: str | None = None

    @property
    def finished(self) -> bool:
        """Whether it will not change any more."""
        return self.state == "Finished"


@dataclass(frozen=True)
class Device:
    """A device as the server sees it; ``health`` and ``state`` are LAVA's words."""

    name: str
    health: str
    state: str

    @property
    def works(self) -> bool:
        """Whether LAVA gives it jobs."""
        return self.health in WORKING

    @property
    def words(self) -> str:
        """Name, health and state, for a message."""
        return f"{self.name} {self.health} ({self.state})"


def device_words(devices: Sequence[Device]) -> str:
    """Devices with their health, for a message."""
    return ", ".join(one.words for one in devices) or "there is no such device"


class LavaServer:
    """One LAVA server, with the rights of one user."""

    def __init__(self, http: Http) -> None:
        self.http = http

    @property
    def address(self) -> str:
        """The server's URL: what its jobs' numbers belong to."""
        return self.http.base

    def version(self) -> str:
        """The server's version."""
        path = f"{API}/system/version/"
        return str(_object(self.http.get(path), path).get("version", "unknown"))

    def validate(self, definition: str) -> None:
        """Check a definition by LAVA's strict schema; raises UsageError with LAVA's words."""
        path = f"{API}/jobs/validate/"
        answer = _object(self.http.post(path, {"definition": definition, "strict": True}), path)
        message = str(answer.get("message", answer))
        if message != "Job valid.":
            raise UsageError(f"LAVA refuses the job: {message}")

    def submit(self, definition: str) -> int:
        """Submit a job and return its number; after a ServerError it may be there all the same."""
        try:
            answer = self.http.post(f"{API}/jobs/", {"definition": definition})
        except ServerError as error:
            if error.status == 400:
                raise UsageError(f"LAVA refuses the job: {error}") from error
            raise
        numbers = _object(answer, "jobs/").get("job_ids")
        if not isinstance(numbers, list) or len(numbers) != 1 or not isinstance(numbers[0], int):
            raise ServerError(f"LAVA did not say which job it made: {str(answer)[:QUOTED]}")
        return numbers[0]

    def find(self, key: str) -> list[int]:
        """The jobs whose name ends with ``key``, oldest first."""
        fields = {"description__endswith": key, "ordering": "id"}
        # A server that does not know the filter would answer with every job.
        jobs = [j for j in self._pages("jobs", fields) if _name(j).endswith(key)]
        try:
            return sorted(int(j["id"]) for j in jobs)
        except (LookupError, TypeError, ValueError) as error:
            raise ServerError(f"jobs: the server's answer lacks {error}") from error

    def unfinished(self, word: str) -> list[JobState]:
        """The jobs that have not ended and whose names hold ``word``, newest first."""
        found = {}
        for state in UNFINISHED:
            fields = {"description__contains": word, "state": state, "ordering": "-id"}
            found.update({job.id: job for job in map(_job, self._pages("jobs", fields))})
        return [j for j in found.values() if word in j.name and j.state in UNFINISHED]

    def job(self, number: int) -> JobState:
        """How a job is now."""
        what = f"job {number}"
        return _job(_object(self.http.get(f"{API}/jobs/{number}/"), what), what)

    def jobs(self, numbers: Sequence[int]) -> dict[int, JobState]:
        """How these jobs are now, by one request for a page of them; without those it has not."""
        if len(numbers) < 2:  # one job has an address
            return {number: self.job(number) for number in numbers}
        fields = {"id__in": ",".join(str(number) for number in numbers), "ordering": "id"}
        found = [_job(entry) for entry in self._pages("jobs", fields)]
        return {job.id: job for job in found if job.id in numbers}

    def user(self) -> str:
        """The name of the user whose token we have; empty when the server knows none."""
        path = f"{API}/system/whoami/"
        return str(_object(self.http.get(path), path).get("user") or "")

    def tests(self, number: int) -> list[dict[str, Any]]:
        """All test cases of a job, as the server has them."""
        return list(self._pages(f"jobs/{number}/tests", {}))

    def log(self, number: int, start: int = 0) -> bytes:
        """A job's log from line ``start`` on, as YAML; empty when it has none.

        Raises ServerError for an answer that is not a log, as a proxy's page: asking again helps.
        """
        lines = f"?start={start}" if start else ""
        try:
            data = self.http.get_bytes(f"{API}/jobs/{number}/logs/{lines}", LOG_LIMIT)
        except ServerError as error:
            if error.status == 404:
                return b""
            raise
        if data.strip() and not data.startswith(b"- "):
            said = " ".join(data[:QUOTED].decode(errors="replace").split())
            raise ServerError(f"job {number}: what the server sent is not a log: {said}", 200)
        return data

    def cancel(self, number: int) -> None:
        """Cancel a job; nothing happens when it has ended."""
        self.http.post(f"{API}/jobs/{number}/cancel/", {})

    def devices(self, device_type: str, tags: Sequence[str] = ()) -> list[str]:
        """The names of the devices of a type, with all these tags, that LAVA gives jobs to.

        After a job that ended by the lab's fault LAVA calls a device's health unknown, and goes on.
        """
        return [one.name for one in self.fleet(device_type, tags) if one.works]

    def fleet(self, device_type: str, tags: Sequence[str] = ()) -> list[Device]:
        """All devices of a type with all these tags, however they are, by name."""
        found = self._devices(device_type, {})
        for tag in tags:  # LAVA tells tags by their numbers alone, and filters by one name
            tagged = {one.name for one in self._devices(device_type, {"tags__name": tag})}
            found = [one for one in found if one.name in tagged]
        return found

    def _devices(self, device_type: str, fields: dict[str, str]) -> list[Device]:
        fields = {"device_type": device_type, "ordering": "hostname", **fields}
        return [
            Device(str(entry["hostname"]), str(entry.get("health")), str(entry.get("state")))
            for entry in self._pages("devices", fields)
            if entry.get("device_type") == device_type
        ]

    def quarantine(self, device: str, reason: str) -> None:
        """Put a device into maintenance; LAVA shows the reason in the device's history."""
        path = f"{API}/devices/{quote(device, safe='')}/set_health/"
        self.http.post(path, {"health": "MAINTENANCE", "reason": reason}, answers=False)

    def set_health_check(self, device_type: str, definition: str) -> None:
        """Give a device type its health check; the user needs the right to change it."""
        path = f"{API}/devicetypes/{quote(device_type, safe='')}/health_check/"
        self.http.post(path, {"config": definition}, answers=False)

    def _pages(self, path: str, fields: dict[str, str]) -> Iterator[dict[str, Any]]:
        for page in range(PAGES):
            more = {"limit": str(PAGE), "offset": str(page * PAGE)}
            answer = self.http.get(f"{API}/{path}/", {**fields, **more})
            if not isinstance(answer, dict) or not isinstance(answer.get("results"), list):
                raise ServerError(f"{path}: the server's answer is not a list")
            yield from (_object(entry, path) for entry in answer["results"])
            if not answer.get("next"):
                return
        raise ServerError(f"{path}: over {PAGES * PAGE} entries")


def _job(found: dict[str, Any], what: str = "jobs") -> JobState:
    submitted = _text(found.get("original_definition"))
    try:
        return JobState(
            id=int(found["id"]),
            name=_name(found),
            state=str(found["state"]),
            health=str(found["health"]),
            device=_text(found.get("actual_device")),
            submitted=_text(found.get("submit_time")),
            started=_text(found.get("start_time")),
            ended=_text(found.get("end_time")),
            definition=definition_sha256(submitted) if submitted else None,
        )
    except (LookupError, TypeError, ValueError) as error:
        raise ServerError(f"{what}: the server's answer lacks {error}") from error


def _object(answer: Any, what: str) -> dict[str, Any]:
    """An answer that should be a JSON object; raises ServerError when it is none."""
    if not isinstance(answer, dict):
        raise ServerError(f"{what}: the server's answer is not an object: {str(answer)[:QUOTED]}")
    return answer


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _name(job: dict[str, Any]) -> str:
    return str(job.get("description") or "")


class FileStore:
    """The lab's file server: each file once, under its SHA-256."""

    def __init__(self, http: Http) -> None:
        self.http = http

    def add(self, path: Path) -> File:
        """Upload a file unless it is there; returns where jobs find it."""
        sha256 = file_sha256(path)
        name = f"sha256/{sha256}"
        if not self.http.exists(name):
            with path.open("rb") as body:
                self.http.put(name, body, path.stat().st_size)
        return File(f"{self.http.base}/{name}", sha256)

    def seen_from(self, address: IPv4Address | None) -> str | None:
        """Where a board that sees the file server under ``address`` puts its raw traces."""
        if address is None:
            return None
        found = urlsplit(self.http.base)
        folder = quote(found.path, safe="/%")  # it becomes a word of a shell on the board
        return f"http://{address}:{found.port or 80}{folder}/{TRACES}"

    def trace(self, sha256: str) -> tuple[str, int | None]:
        """Where a board's raw trace is, and its size in bytes; None when it is not there."""
        name = f"{TRACES}/{sha256}"
        return f"{self.http.base}/{name}", self.http.size(name)


@dataclass(frozen=True)
class Servers:
    """A lab's LAVA server and its file server."""

    lava: LavaServer
    files: FileStore


def connect(lab: Lab, retries: int = RETRIES) -> Servers:
    """Connect to a lab; raises InfrastructureError when it is the local one, and not up.

    ``retries`` is how often one request is repeated at once when the server does not answer.
    """
    server, files, token_file = lab.server, lab.files, None
    if not server:
        state = running()
        if state is None:
            raise InfrastructureError("no lab is up on this machine: iotoll lab up (make lab)")
        server, files, token_file = state.url, state.files_url, state.token_file
    token = find_token(token_file)
    return Servers(LavaServer(Http(server, token, retries)), FileStore(Http(files, None, retries)))
