"""The HTTP client: what is repeated, what errors mean, and where the token never is."""

from __future__ import annotations

import logging
import socket
import time
from pathlib import Path

import pytest

from iotoll.core.errors import UsageError
from iotoll.labs.lava import http
from iotoll.labs.lava.http import Http, ServerError, TooLargeError, find_token
from tests.unit.labs.lava.conftest import Answer, Request, Stub, as_json

TOKEN = "s3cr3t0123456789abcdef"


def test_get_is_repeated_while_the_server_is_busy(stub: Stub) -> None:
    stub.answers(Answer(503), Answer(500), Answer(429), as_json({"version": "1"}))
    assert Http(stub.url).get("v") == {"version": "1"}
    assert len(stub.requests) == 4


def test_get_is_given_up_after_some_times(stub: Stub) -> None:
    stub.answers(Answer(502, b"<html>Bad\nGateway</html>"))
    with pytest.raises(ServerError, match=r"GET .*/v: status 502: <html>Bad Gateway") as caught:
        Http(stub.url, retries=2).get("v")
    assert caught.value.status == 502
    assert len(stub.requests) == 3


@pytest.mark.parametrize("answer", [Answer(503), Answer(None)])
def test_post_is_never_repeated(stub: Stub, answer: Answer) -> None:
    stub.answers(answer)
    with pytest.raises(ServerError) as caught:
        Http(stub.url).post("jobs/", {"definition": "x"})
    assert caught.value.sent, "it may have been carried out"
    assert len(stub.requests) == 1


def test_connection_that_was_refused_sent_nothing() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    with pytest.raises(ServerError) as caught:
        Http(f"http://127.0.0.1:{port}", retries=0).post("jobs/", {})
    assert not caught.value.sent


def test_silent_server(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "READ_SECONDS", 0.1)

    def sleep(_: Request) -> Answer:
        time.sleep(0.5)
        return as_json({})

    stub.play = sleep
    with pytest.raises(ServerError, match="timed out") as caught:
        Http(stub.url, retries=0).post("jobs/", {})
    assert caught.value.status is None
    assert caught.value.sent


@pytest.mark.parametrize("status", [401, 403])
def test_wrong_token(stub: Stub, status: int) -> None:
    stub.answers(as_json({"detail": "Invalid token."}, status))
    with pytest.raises(UsageError, match=r"Invalid token.*is the token right"):
        Http(stub.url, TOKEN).get("jobs/")
    assert len(stub.requests) == 1


def test_token_is_in_no_message_and_no_log(stub: Stub, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = Http(stub.url, TOKEN, retries=1)
    words = []
    for answer in (Answer(503), Answer(401), Answer(404), Answer(None), Answer(200, b"{")):
        stub.answers(answer)
        for method in ("get", "post"):
            with pytest.raises((ServerError, UsageError)) as caught:
                client.get("jobs/") if method == "get" else client.post("jobs/", {})
            words += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
    assert stub.requests[0].headers["Authorization"] == f"Token {TOKEN}"
    assert TOKEN not in " ".join(words) + caplog.text + repr(client)


def test_redirect_is_not_followed_with_the_token(stub: Stub) -> None:
    stub.answers(Answer(302, headers={"Location": f"{stub.url}/elsewhere"}))
    with pytest.raises(ServerError, match="status 302"):
        Http(stub.url, TOKEN).get("jobs/")
    assert [r.path for r in stub.requests] == ["/jobs/"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe", b"[" * 100_000])
def test_answer_that_is_no_json(stub: Stub, body: bytes) -> None:
    stub.answers(Answer(200, body))
    with pytest.raises(ServerError, match="the answer is not JSON"):
        Http(stub.url).get("v")


def test_body_of_exactly_the_limit_and_one_more(stub: Stub) -> None:
    stub.answers(Answer(200, b"x" * 1000))
    assert Http(stub.url).get_bytes("log", 1000) == b"x" * 1000
    with pytest.raises(TooLargeError, match="over 999 bytes"):
        Http(stub.url).get_bytes("log", 999)


def test_json_that_is_too_large(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.Http._request, "__defaults__", (100, False))
    stub.answers(Answer(200, b'"' + b"x" * 200 + b'"'))
    with pytest.raises(TooLargeError):
        Http(stub.url).get("v")


def test_body_that_ends_early(stub: Stub) -> None:
    stub.answers(Answer(200, b"{}", {"Content-Length": "100", "Connection": "close"}))
    with pytest.raises(ServerError):
        Http(stub.url, retries=0).get("v")


def test_put_and_exists(stub: Stub, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    stub.answers(Answer(404), Answer(201), Answer(200), Answer(507))
    http_ = Http(stub.url)
    assert not http_.exists("f")
    with path.open("rb") as body:
        http_.put("f", body, 3)
    assert stub.requests[-1].body == b"abc"
    assert http_.exists("f")
    with pytest.raises(ServerError, match="507"):
        http_.exists("f")


def test_token_from_environment_before_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(http.TOKEN_VARIABLE, raising=False)
    monkeypatch.delenv(http.TOKEN_FILE_VARIABLE, raising=False)
    with pytest.raises(UsageError, match="set IOTOLL_LAVA_TOKEN or IOTOLL_LAVA_TOKEN_FILE"):
        find_token(None)
    path = tmp_path / "token"
    with pytest.raises(UsageError, match="No such file"):
        find_token(str(path))
    path.write_text("\n")
    with pytest.raises(UsageError, match="is empty"):
        find_token(str(path))
    path.write_text("from-file\n")
    assert find_token(str(path)) == "from-file"
    monkeypatch.setenv(http.TOKEN_FILE_VARIABLE, str(path))
    assert find_token(None) == "from-file"
    monkeypatch.setenv(http.TOKEN_VARIABLE, "from-environment")
    assert find_token(None) == "from-environment"
