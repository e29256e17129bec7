"""HTTP to a lab's servers: one place for tokens, time-outs, retries and what errors mean."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import urllib3

from iotoll.core.errors import InfrastructureError, UsageError

TOKEN_VARIABLE = "IOTOLL_LAVA_TOKEN"
TOKEN_FILE_VARIABLE = "IOTOLL_LAVA_TOKEN_FILE"
CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
RETRIES = 6
BACKOFF_SECONDS = 0.5  # then twice as long each time: half a minute in all
TRANSIENT = (429, 500, 502, 503, 504)
ANSWER_LIMIT = 32 << 20
"""Bytes of one answer in JSON; a page of 200 test cases has some 200 KB."""


class ServerError(InfrastructureError):
    """The server did not answer, or not with what was asked for; ``status`` is None if it did not.

    ``sent`` says whether the request may have been carried out all the same.
    """

    def __init__(self, message: str, status: int | None = None, sent: bool = True) -> None:
        super().__init__(message)
        self.status = status
        self.sent = sent


class AccessError(UsageError):
    """The server knows us not, or does not let us do this; ``status`` is 401 or 403."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Answer(NamedTuple):
    """An answer that is no error: its status, its body, and the length that its header says."""

    status: int
    data: bytes
    length: int | None


class TooLargeError(InfrastructureError):
    """An answer is larger than anything that makes sense; asking again would not help."""


class Http:
    """Requests to one base URL; the token appears in no message."""

    def __init__(self, base: str, token: str | None = None, retries: int = RETRIES) -> None:
        self.base = base.rstrip("/")
        self._headers = {"Authorization": f"Token {token}"} if token else {}
        retry = urllib3.Retry(
            total=retries,
            backoff_factor=BACKOFF_SECONDS,
            backoff_jitter=BACKOFF_SECONDS,
            status_forcelist=TRANSIENT,
            allowed_methods=["GET", "HEAD"],
            raise_on_status=False,
        )
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
        # Redirects are not followed: the token would go along.
        self._pool = urllib3.PoolManager(retries=retry, timeout=timeout, headers=self._headers)

    def get(self, path: str, fields: Mapping[str, str] | None = None) -> Any:
        """JSON of a GET, which is repeated when the server is down or busy."""
        return self._json("GET", path, self._request("GET", path, fields=fields))

    def get_bytes(self, path: str, limit: int) -> bytes:
        """The body of a GET; raises TooLargeError when it has more than ``limit`` bytes."""
        return self._request("GET", path, limit=limit).data

    def post(self, path: str, data: Any, answers: bool = True) -> Any:
        """JSON of a POST, which is never repeated here: it may have been carried out.

        None if not ``answers``: then the server has nothing to say but its status.
        """
        answer = self._request("POST", path, json=data)
        return self._json("POST", path, answer) if answers else None

    def exists(self, path: str) -> bool:
        """Tell whether there is something at ``path``."""
        return self._request("HEAD", path, missing=True).status != 404

    def size(self, path: str) -> int | None:
        """Bytes of what is at ``path``; None when nothing is there."""
        found = self._request("HEAD", path, missing=True)
        return None if found.status == 404 else found.length

    def put(self, path: str, body: IO[bytes], size: int) -> None:
        """Send a file."""
        self._request("PUT", path, body=body, headers={"Content-Length": str(size)})

    def _request(
        self,
        method: str,
        path: str,
        limit: int = ANSWER_LIMIT,
        missing: bool = False,
        **more: Any,
    ) -> Answer:
        """An answer that is no error; 404 is none if ``missing``."""
        headers = {**self._headers, **more.pop("headers", {})}
        url = f"{self.base}/{path}"
        try:
            answer = self._pool.request(
                method, url, headers=headers, redirect=False, preload_content=False, **more
            )
            try:
                data = answer.read(limit + 1)
            finally:
                answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            # urllib3's own words name host and cause, never headers.
            cause = getattr(error, "reason", None) or error
            never = isinstance(cause, urllib3.exceptions.NewConnectionError)
            raise ServerError(f"{method} {url}: {cause}", sent=not never) from error
        if not (missing and answer.status == 404):
            self._check(method, path, answer.status, data)
        if len(data) > limit:
            answer.close()
            raise TooLargeError(f"{method} {url}: the answer has over {limit} bytes")
        length = answer.headers.get("Content-Length", "")
        return Answer(answer.status, data, int(length) if length.isdecimal() else None)

    def _json(self, method: str, path: str, answer: Answer) -> Any:
        try:
            return json.loads(answer.data)
        except (ValueError, RecursionError) as error:
            raise ServerError(f"{method} {self.base}/{path}: the answer is not JSON") from error

    def _check(self, method: str, path: str, status: int, data: bytes) -> None:
        if status < 300:
            return
        text = " ".join(data[:400].decode(errors="replace").split())
        words = f"{method} {self.base}/{path}: status {status}: {text}"
        if status in (401, 403):
            raise AccessError(f"{words}: is the token right, and may its user do this?", status)
        raise ServerError(words, status, sent=status not in (404, 405))


def find_token(default: str | None) -> str:
    """The user's LAVA token: from the environment, or a file; raises UsageError without one."""
    if token := os.environ.get(TOKEN_VARIABLE):
        return token.strip()
    name = os.environ.get(TOKEN_FILE_VARIABLE) or default
    if not name:
        raise UsageError(f"no LAVA token: set {TOKEN_VARIABLE} or {TOKEN_FILE_VARIABLE}")
    try:
        token = Path(name).read_text().strip()
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}: where is the LAVA token?") from error
    if not token:
        raise UsageError(f"{name}: is empty: where is the LAVA token?")
    return token
