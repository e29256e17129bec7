"""Reads the mails of an archive that are new: a public-inbox in git, or a mailbox.

A v2 inbox is a folder with epochs, ``git/0.git`` and so on; each commit of an epoch is one mail,
its blob ``m``. All of it is data of others: nothing that a repository configures is run.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from iotoll.core.digest import file_sha256
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.proc import no_programs, require_tool
from iotoll.kernels.tree import clean_env
from iotoll.patch import mail

LARGEST = 4 << 20
"""Bytes of a mail that is read; lists refuse larger ones."""
PAGE = 500
"""Mails that are read at a time: what is lost where a call is ended."""
_MAILBOX = 1 << 30  # bytes


@dataclass(frozen=True)
class Raw:
    """One mail as the archive has it; ``data`` is empty where it is larger than `LARGEST`."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Page:
    """Some mails in their order, and the position after them."""

    position: str
    mails: Sequence[Raw]


def sources(path: Path) -> list[Path]:
    """The repositories or the mailbox of an archive; raises UsageError where it is none."""
    epochs = [p for p in path.glob("git/*.git") if re.fullmatch(r"\d+\.git", p.name)]
    if epochs:
        return sorted(epochs, key=lambda p: int(p.stem))
    is_git = (path / "HEAD").is_file() or (path / ".git").exists()
    if path.is_file() or is_git:
        return [path]
    raise UsageError(f"{path}: name a public-inbox archive (git/0.git), a git epoch or a mailbox")


def pages(source: Path, position: str, since: str = "", until: str = "") -> Iterator[Page]:
    """The mails of one of `sources` after ``position`` (empty: all), oldest first.

    ``since`` and ``until`` are dates of the archive's commits, ISO, or empty.
    """
    if source.is_file():
        yield from _mailbox(source, position)
        return
    commits = _commits(source, position, since, until)
    for start in range(0, len(commits), PAGE):
        some = commits[start : start + PAGE]
        yield Page(some[-1], _read(source, some))


def _mailbox(path: Path, position: str) -> Iterator[Page]:
    if path.stat().st_size > _MAILBOX:
        raise UsageError(f"{path}: larger than {_MAILBOX >> 20} MiB: search for less")
    now = file_sha256(path)
    if now != position:
        found = mail.split(path.read_bytes())
        small = [raw if len(raw) <= LARGEST else b"" for raw in found]
        yield Page(now, [Raw(f"mail {n}", raw) for n, raw in enumerate(small, 1)])


def _commits(source: Path, position: str, since: str, until: str) -> list[str]:
    """Commits after ``position``; all of them where the archive was written anew."""
    words = ["rev-list", "--reverse"]
    words += [f"--since={since}T00:00:00Z"] if since else []
    words += [f"--until={until}T00:00:00Z"] if until else []
    if not _git(source, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", check=False):
        return []  # an epoch that has no mail yet
    shared = _git(source, "merge-base", position, "HEAD", check=False) if position else b""
    is_known = bool(position) and shared.decode().strip() == position
    return _git(source, *words, f"{position}..HEAD" if is_known else "HEAD").decode().split()


def _read(source: Path, commits: Sequence[str]) -> list[Raw]:
    names = "".join(f"{commit}:m\n" for commit in commits).encode()
    sizes = _git(source, "cat-file", "--batch-check", stdin=names).decode().splitlines()
    small, found = [], dict[str, bytes]()
    for commit, answer in zip(commits, sizes, strict=True):
        words = answer.split()
        if len(words) == 3 and words[1] == "blob":
            found[commit] = b""
            if int(words[2]) <= LARGEST:
                small.append(commit)
    wanted = "".join(f"{commit}:m\n" for commit in small).encode()
    whole, at = _git(source, "cat-file", "--batch", stdin=wanted), 0
    for commit in small:
        end = whole.index(b"\n", at)
        size = int(whole[at:end].split()[2])
        found[commit] = whole[end + 1 : end + 1 + size]
        at = end + size + 2
    return [Raw(commit, data) for commit, data in found.items()]


def _git(source: Path, *words: str, stdin: bytes = b"", check: bool = True) -> bytes:
    done = subprocess.run(
        [require_tool("git", "git"), *words],
        cwd=source,
        input=stdin,
        env=clean_env(no_programs({"safe.directory": "*"})),
        capture_output=True,
        check=False,
    )
    if check and done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise InfrastructureError(f"git {words[0]} in {source}: {said or 'failed'}: fetch it again")
    return done.stdout
