"""The lab's file server: what was sent is what is kept, or nothing is."""

from __future__ import annotations

import hashlib
import socket
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3

from iotoll.labs import fileserver

DATA = b"kernel" * 1000
HEX = hashlib.sha256(DATA).hexdigest()


def ask(
    server: ThreadingHTTPServer, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    url = f"http://127.0.0.1:{server.server_address[1]}{path}"
    words = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = urllib3.request(method, url, body=body, headers=words, retries=False)
    return answer.status, answer.data


def kept(tmp_path: Path) -> list[str]:
    folder = tmp_path / "files"
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_file_under_its_digest(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    path = f"/sha256/{HEX}"
    assert ask(server, "HEAD", path)[0] == 404
    assert ask(server, "PUT", path, DATA)[0] == 201
    assert ask(server, "GET", path) == (200, DATA)
    assert ask(server, "PUT", path, DATA)[0] == 201, "the same once more"
    assert kept(tmp_path) == [f"sha256/{HEX}"]


def test_trace_with_nul_bytes_is_written_once(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    data = bytes(range(256)) * 10
    path = f"/traces/{hashlib.sha256(data).hexdigest()}"
    assert ask(server, "PUT", path, data)[0] == 201
    assert ask(server, "GET", path) == (200, data)
    assert ask(server, "PUT", path, DATA)[0] == 422
    assert (tmp_path / f"files{path}").read_bytes() == data


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"/sha256/{'0' * 64}", {}, 422),
        (f"/traces/{'0' * 64}", {}, 422),
        ("/traces/no-digest", {}, 404),
        (f"/traces/../{HEX}", {}, 404),
        (f"/traces/..%2f..%2f{HEX}", {}, 404),
        ("/etc/passwd", {}, 404),
        (f"/sha256/{HEX}", {"Content_Length": "99999999999"}, 413),
    ],
)
def test_refused(
    server: ThreadingHTTPServer, tmp_path: Path, path: str, headers: dict[str, str], status: int
) -> None:
    assert ask(server, "PUT", path, DATA, **headers)[0] == status
    assert kept(tmp_path) == []


def test_upload_that_breaks_off(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    with socket.create_connection(server.server_address[:2]) as one:  # type: ignore[arg-type]
        head = f"PUT /sha256/{HEX} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(DATA)}\r\n\r\n"
        one.sendall(head.encode() + DATA[:100])
        one.shutdown(socket.SHUT_WR)
        assert b" 400 " in one.recv(1000).splitlines()[0]
    assert kept(tmp_path) == []


def test_request_without_a_length(server: ThreadingHTTPServer) -> None:
    with socket.create_connection(server.server_address[:2]) as one:  # type: ignore[arg-type]
        one.sendall(f"PUT /sha256/{HEX} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert b" 411 " in one.recv(1000).splitlines()[0]


def test_disk_is_not_filled_to_the_brim(
    server: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fileserver, "LEAST_FREE", 1 << 60)
    assert ask(server, "PUT", f"/sha256/{HEX}", DATA)[0] == 413
    assert kept(tmp_path) == []
