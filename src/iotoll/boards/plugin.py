"""The plugin that records what a board executes: built by tools/plugin/build.sh into the cache."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from iotoll.core.errors import InfrastructureError
from iotoll.core.paths import data_dir


@cache
def plugin() -> Path:
    """The plugin, built if it was not; raises InfrastructureError where it cannot be built."""
    done = subprocess.run(
        ["bash", str(data_dir("tools/plugin") / "build.sh")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not done.stdout.strip():
        last = done.stderr.strip().splitlines()[-1:] or ["tools/plugin/build.sh failed"]
        raise InfrastructureError(last[0], done.stderr)
    return Path(done.stdout.strip())


def plugin_words(prefix: Path, probes: str, spans: Path | None) -> tuple[str, ...]:
    """QEMU's words that record into ``PREFIX.*``; paths must have no comma."""
    words = f"{plugin()},out={prefix},probes={probes}"
    return "-plugin", f"{words},spans={spans}" if spans else words
