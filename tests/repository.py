"""Small git repositories that tests take for kernel trees."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    # The same commits each time: a cache may have them.
    for what, value in {"NAME": "t", "EMAIL": "t@example.com", "DATE": "1767225600 +0000"}.items()
}
MAKEFILE = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\nEXTRAVERSION =\n"
"""A kernel's Makefile, as far as iotoll reads it."""


def git(folder: Path, *words: str, stdin: str | None = None) -> str:
    """Run git there, without the user's own settings; what it printed."""
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        input=stdin,
        env={**os.environ, **AUTHOR, "GIT_CONFIG_GLOBAL": "/dev/null"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def put(folder: Path, name: str, text: str) -> None:
    """Write one file of a tree, with its folders."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def commit(folder: Path, subject: str) -> str:
    """Commit all files, ignored ones also; the commit."""
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


def kernel_tree(folder: Path, files: Mapping[str, str]) -> Path:
    """A new repository: branch main with one commit of these files and a kernel's Makefile."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in {"Makefile": MAKEFILE, **files}.items():
        put(folder, name, text)
    commit(folder, "base")
    return folder
