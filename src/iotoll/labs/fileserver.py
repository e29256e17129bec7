"""The lab's file server: kernels and ramdisks for LAVA jobs, and raw traces from boards.

Files are written once and never changed. ``PUT`` is accepted when the body has the length and the
SHA-256 that the request says, else nothing is kept:

- ``/sha256/HEX`` is a file of that digest: what a job downloads;
- ``/traces/HEX`` is what a board uploads, in a folder of its own that may be emptied at any time.

``GET`` and ``HEAD`` serve both.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import sys
import tempfile
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import click

FILE_LIMIT = 2 << 30
"""Bytes of one file; a trace of a whole boot takes some 100 MB."""
LEAST_FREE = 1 << 30
"""Bytes of the disk that uploads leave free."""
PIECE = 1 << 20
IDLE_SECONDS = 60.0

PLACE = re.compile(r"/(sha256|traces)/(?P<sha256>[0-9a-f]{64})")


class Refused(Exception):
    """A request that is not served, with its HTTP status."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """Serves one connection."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    folder: ClassVar[Path]

    def do_PUT(self) -> None:
        """Store a new file."""
        try:
            self._store()
        except Refused as error:
            self._answer(error.status, f"{error}\n")
        except (OSError, ValueError) as error:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, f"cannot store it: {error}\n")
        else:
            self._answer(HTTPStatus.CREATED, "stored\n")

    def do_GET(self) -> None:
        """Send a file."""
        self._send(body=True)

    def do_HEAD(self) -> None:
        """Tell whether a file is there, and its size."""
        self._send(body=False)

    def _path(self) -> Path:
        if not PLACE.fullmatch(self.path):
            raise Refused(HTTPStatus.NOT_FOUND, "no such path: /sha256/HEX or /traces/HEX")
        return self.folder / self.path.removeprefix("/")

    def _store(self) -> None:
        path = self._path()
        text = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,12}", text):
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "Content-Length is missing")
        size = int(text)
        free = shutil.disk_usage(self.folder).free
        if size > min(FILE_LIMIT, free - LEAST_FREE):
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{size} bytes are too many")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix="upload-") as out:
            digest = hashlib.sha256()
            left = size
            while left and (data := self.rfile.read(min(left, PIECE))):
                out.write(data)
                digest.update(data)
                left -= len(data)
            out.flush()
            if left:
                raise Refused(HTTPStatus.BAD_REQUEST, f"{left} of {size} bytes did not come")
            if digest.hexdigest() != path.name:
                raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "its SHA-256 is another one")
            Path(out.name).chmod(0o644)
            with contextlib.suppress(FileExistsError):  # the same file
                os.link(out.name, path)

    def _send(self, body: bool) -> None:
        try:
            with self._path().open("rb") as stream:
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Content-Length", str(os.fstat(stream.fileno()).st_size))
                self.end_headers()
                if body:
                    shutil.copyfileobj(stream, self.wfile, PIECE)
        except Refused as error:
            self._answer(error.status, f"{error}\n")
        except FileNotFoundError:
            self._answer(HTTPStatus.NOT_FOUND, "no such file\n")

    def _answer(self, status: HTTPStatus, text: str) -> None:
        data = text.encode()
        # A refused body was not read: what follows on the connection is no request.
        self.close_connection = self.close_connection or status >= HTTPStatus.BAD_REQUEST
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)


def make_server(host: str, port: int, folder: Path) -> ThreadingHTTPServer:
    """A server that listens; ``serve_forever`` runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    handler = type("FolderHandler", (Handler,), {"folder": folder})
    return ThreadingHTTPServer((host, port), handler)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8012, show_default=True, type=click.IntRange(1, 65535))
@click.option("--folder", required=True, type=click.Path(path_type=Path))
def main(host: str, port: int, folder: Path) -> None:
    """Serve FOLDER until it is told to stop."""
    print(f"serving {folder} on http://{host}:{port}/", file=sys.stderr, flush=True)
    make_server(host, port, folder).serve_forever()


if __name__ == "__main__":
    main()
