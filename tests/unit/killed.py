"""An iotoll that is killed while a git of its works: the lock is held until that one ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from iotoll.core.lock import attempted

_LIMIT = 60.0


def assert_git_keeps_lock(code: str, words: Sequence[object], lock: Path, folder: Path) -> None:
    """Run Python ``code`` with ``words``, whose first git never ends, and kill it.

    ``folder`` is for that git's files.
    """
    slow = folder / "bin/git"
    slow.parent.mkdir()
    os.mkfifo(folder / "go")
    slow.write_text(f"#!/bin/sh\ntouch {folder}/began\nread line <{folder}/go\n")
    slow.chmod(0o755)
    env = {**os.environ, "PATH": f"{slow.parent}:{os.environ['PATH']}"}
    deadline = time.monotonic() + _LIMIT
    with subprocess.Popen([sys.executable, "-c", code, *map(str, words)], env=env) as holder:
        while not (folder / "began").exists():
            assert holder.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        holder.kill()
    early = attempted(lock)
    (folder / "go").write_text("on\n")
    assert early is None
    while (stream := attempted(lock)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    stream.close()
