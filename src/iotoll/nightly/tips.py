"""The tip of a branch on a night, asked of the user's own git tree."""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
from dataclasses import dataclass

from iotoll.core.errors import InfrastructureError
from iotoll.core.proc import no_programs
from iotoll.nightly.config import Branch

_SECONDS = 1800  # for one fetch
_REVERTS = re.compile(r"This reverts commit ([0-9a-f]{7,64})")


@dataclass(frozen=True)
class Tip:
    """A branch's commit on a night; ``release`` is its tag, or empty."""

    commit: str
    subject: str
    release: str
    author: str = ""


def fetch(branch: Branch) -> None:
    """Fetch the branch's remote; raises InfrastructureError when that fails."""
    if branch.remote is not None:
        _git(branch, "fetch", "--quiet", "--tags", branch.remote)


def tip(branch: Branch, before: str | None = None) -> Tip:
    """The tip now, or as it was at the end of the day ``before`` (an ISO date, UTC)."""
    # Without the first parents an old commit that was merged later would count as that day's tip.
    words = ["rev-list", "-1", "--first-parent"]
    if before is not None:
        words.append(f"--before={before}T23:59:59+00:00")
    commit = _git(branch, *words, branch.ref, "--").strip()
    if not commit:
        raise InfrastructureError(f"{branch.ref} had no commit on {before}")
    tags = _git(branch, "tag", "--points-at", commit).split()
    found = [tag for tag in tags if fnmatch.fnmatchcase(tag, branch.releases)]
    author = _git(branch, "log", "-1", "--format=%an <%ae>", commit).strip()
    return Tip(commit, subject(branch, commit), found[0] if found else "", author)


def subject(branch: Branch, commit: str) -> str:
    """The first line of a commit's message."""
    return _git(branch, "log", "-1", "--format=%s", commit).strip()


def listed(branch: Branch, good: str, bad: str) -> dict[str, tuple[str, str]]:
    """Author and subject of each commit after ``good`` up to ``bad``, newest first."""
    words = ("log", "--format=%H%x00%an%x00%s", f"{good}..{bad}", "--")
    rows = (line.split("\0", 2) for line in _git(branch, *words).splitlines())
    return {sha: (author, words) for sha, author, words in rows}


def reverts(branch: Branch, good: str, bad: str) -> dict[str, str]:
    """Reverted commits by the commit after ``good`` up to ``bad`` that says so, as git words it."""
    text = _git(branch, "log", "--format=%H%x00%B%x01", f"{good}..{bad}", "--")
    found = {}
    for entry in text.split("\x01"):
        sha, _, body = entry.strip().partition("\0")
        for named in _REVERTS.findall(body):
            found[named] = sha
    return found


def commits(branch: Branch, good: str, bad: str, most: int) -> list[str]:
    """The commits after ``good`` up to ``bad``, newest first, at most ``most``."""
    return _git(branch, "rev-list", f"--max-count={most}", f"{good}..{bad}", "--").split()


def _git(branch: Branch, *words: str) -> str:
    command = ["git", "-C", branch.tree, *words]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            check=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **no_programs()},
        )
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip().splitlines() or ["no reason given"])[-1][:200]
        raise InfrastructureError(f"git {words[0]} of {branch.name}: {why}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfrastructureError(f"git {words[0]} of {branch.name}: {error}") from error
    return done.stdout
