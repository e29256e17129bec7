"""HTTP to a lab's servers: one place for tokens, time-outs, retries and what errors mean."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import urllib3

from iotoll.errors import InfrastructureError, UsageError

TOKEN_VARIABLE = "IOTOLL_LAVA_TOKEN"
TOKEN_FILE_VARIABLE = "IOTOLL_LAVA_TOKEN_FILE"
CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
RETRIES = 6
BACKOFF_SECONDS = 0.5  # then twice as long each time: half a minute in all
TRANSIENT = (429, 500, 502, 503, 504)


class ServerError(InfrastructureError):
    """The server did not answer, or not with what was asked for; ``status`` is None if it did not.

    ``sent`` says whether the request may have been carried out all the same.
    """

    def __init__(self, message: str, status: int | None = None, sent: bool = True) -> None:
        super().__init__(message)
        self.status = status
        self.sent = sent


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
        answer = self._request("GET", path, fields=fields)
        return self._json("GET", path, answer)

    def get_bytes(self, path: str, limit: int) -> bytes:
        """The body of a GET, of at most ``limit`` bytes."""
        answer = self._request("GET", path, preload_content=False)
        try:
            data = answer.read(limit + 1)
        except urllib3.exceptions.HTTPError as error:
            raise ServerError(f"GET {self.base}/{path}: {error}") from error
        finally:
            answer.release_conn()
        self._check("GET", path, answer, data)
        if len(data) > limit:
            raise ServerError(f"GET {self.base}/{path}: over {limit} bytes")
        return data

    def post(self, path: str, data: Any) -> Any:
        """JSON of a POST, which is never repeated here: it may have been carried out."""
        answer = self._request("POST", path, json=data)
        return self._json("POST", path, answer)

    def exists(self, path: str) -> bool:
        """Tell whether there is something at ``path``."""
        answer = self._request("HEAD", path)
        if answer.status not in (200, 404):
            self._check("HEAD", path, answer, b"")
        return bool(answer.status == 200)

    def put(self, path: str, body: IO[bytes], size: int) -> None:
        """Send a file."""
        headers = {"Content-Length": str(size)}
        answer = self._request("PUT", path, body=body, headers=headers)
        self._check("PUT", path, answer, answer.data)

    def _request(self, method: str, path: str, **more: Any) -> urllib3.BaseHTTPResponse:
        headers = {**self._headers, **more.pop("headers", {})}
        try:
            return self._pool.request(
                method, f"{self.base}/{path}", headers=headers, redirect=False, **more
            )
        except urllib3.exceptions.HTTPError as error:
            # urllib3's own words name host and cause, never headers.
            never = isinstance(error, urllib3.exceptions.NewConnectionError)
            cause = getattr(error, "reason", None) or error
            never = never or isinstance(cause, urllib3.exceptions.NewConnectionError)
            raise ServerError(f"{method} {self.base}/{path}: {cause}", sent=not never) from error

    def _json(self, method: str, path: str, answer: urllib3.BaseHTTPResponse) -> Any:
        self._check(method, path, answer, answer.data)
        try:
            return answer.json()
        except (ValueError, UnicodeDecodeError) as error:
            raise ServerError(f"{method} {self.base}/{path}: no JSON") from error

    def _check(self, method: str, path: str, answer: urllib3.BaseHTTPResponse, data: bytes) -> None:
        if answer.status < 300:
            return
        text = " ".join(data[:400].decode(errors="replace").split())
        words = f"{method} {self.base}/{path}: status {answer.status}: {text}"
        if answer.status in (401, 403):
            raise UsageError(f"{words}: is the token right, and may its user do this?")
        raise ServerError(words, answer.status, sent=answer.status not in (404, 405))


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
