"""An HTTP server that answers as a test says, for what no real LAVA can be made to do."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from iotoll.labs.lava import http, retry, submission


@dataclass
class Request:
    """What the server was asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """What it says; ``None`` as status drops the connection without a word."""

    status: int | None
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def as_json(data: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(data).encode())


Play = Callable[[Request], Answer]


class Stub:
    """A server on a port of its own; set ``play``, look at ``requests``."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[Request] = []
        self.play: Play = lambda _: Answer(404)

    def answers(self, *answers: Answer) -> None:
        """Give these answers, one after the other; the last one for ever."""
        left = list(answers)
        self.play = lambda _: left.pop(0) if len(left) > 1 else left[0]

    def asked(self, method: str) -> list[Request]:
        return [request for request in self.requests if request.method == method]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: ClassVar[Stub]

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(self.command, self.path, dict(self.headers), body)
        self.stub.requests.append(request)
        answer = self.stub.play(request)
        if answer.status is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(b"" if self.command == "HEAD" else answer.body)
        except OSError:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_HEAD = _do

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setattr(http, "BACKOFF_SECONDS", 0.0)
    monkeypatch.setattr(retry, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(submission, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(submission, "DOUBT_SECONDS", 0.1)
    handler = type("StubHandler", (Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.stub = Stub(server.server_address[1])  # type: ignore[attr-defined]
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    yield handler.stub  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
