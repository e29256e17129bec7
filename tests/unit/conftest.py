"""What unit tests of several packages share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from iotoll.labs.fileserver import make_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    """A lab's file server, whose files are in ``files``."""
    one = make_server("127.0.0.1", 0, tmp_path / "files")
    # A connection that a client keeps ends long after its test: what it says is no other test's.
    one.RequestHandlerClass.log_message = lambda *_: None  # type: ignore[attr-defined]
    threading.Thread(target=lambda: one.serve_forever(0.02), daemon=True).start()
    yield one
    one.shutdown()
    one.server_close()
