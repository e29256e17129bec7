"""On which commit a mailed patch was made: as it states, or the one that has its files' blobs.

A mail may claim anything. A commit that it states is used where the tree has it and where it has
the blobs that the patch's index lines name; what is not so is said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from iotoll.core.errors import UsageError
from iotoll.kernels.tree import KernelTree
from iotoll.patch.mail import Stated

_MOST_PATHS = 40
"""Files of a patch that are compared: so many tell one kernel from another."""
_PARENTS = 200
"""Commits of HEAD's own history that are looked at: a branch of patches has fewer."""
_REFS = 400
"""Tags and branches that are looked at, the newest first."""
_PREREQUISITES = 500
"""Newest commits outside the stated base among which prerequisite patches are looked for."""
_NO_PROGRAMS = ("--no-color", "--no-ext-diff", "--no-textconv")
_REF_FORMAT = (
    "%(if)%(*objectname)%(then)%(*objecttype) %(*objectname)"
    "%(else)%(objecttype) %(objectname)%(end) %(refname:short)"
)


class Ask(Protocol):
    """Asks the user's repository with git; raises UsageError where git fails."""

    def __call__(self, *args: str, stdin: bytes | None = None) -> str:
        """What git printed, without white space around it."""


@dataclass(frozen=True)
class Found:
    """The base of a patch: its ``commit`` (empty: the tree's only one), and why in one sentence.

    ``by`` says who names it; ``prerequisites`` are commits, oldest first, that a mail states.
    """

    commit: str
    why: str
    by: Literal["mail", "blobs", "guess"] = "guess"
    prerequisites: tuple[str, ...] = ()


Blobs = Mapping[str, str]
"""As `iotoll.patch.diff.preimages` returns them."""


def find(ask: Ask, head: str, stated: Stated, wanted: Blobs) -> Found:
    """The commit on which a patch was made; ``head`` is the tree's own, taken where none fits."""
    wanted = _some(wanted)
    claim = ""
    if stated.commit:
        found, claim = _as_stated(ask, stated, wanted)
        if found is not None:
            return found
    said = f"{claim}; " if claim else ""
    if not any(wanted.values()):
        return Found(head, f"{said}HEAD ({head[:12]}), as the patch names no blob that it changes")
    named = [(head, "HEAD")]
    if _fits(ask, [head], wanted)[0] < len(wanted):
        named = _candidates(ask, head)
    counts = _fits(ask, [commit for commit, _ in named], wanted)
    best = max(range(len(named)), key=lambda n: (counts[n], -n))
    commit, name = named[best]
    if counts[best] == len(wanted):
        why = f"{name} ({commit[:12]}), which has all {len(wanted)} files that the patch changes"
        return Found(commit, f"{said}{why}, by their blobs", "blobs")
    if not counts[best]:
        commit, name = named[0]
    why = f"no tag or branch has all {len(wanted)} files that the patch changes: {name}"
    return Found(commit, f"{said}{why} ({commit[:12]}) has {counts[best]}")


def of_archive(tree: KernelTree, git_tree: str, name: str, stated: Stated, wanted: Blobs) -> Found:
    """What is to be said of the only version of an archive, ``name``, as the base of a patch."""
    wanted = _some(wanted)

    def ask(*args: str, stdin: bytes | None = None) -> str:
        return tree.git(*args, stdin=stdin).stdout.decode("utf-8", "replace").strip()

    claim = (
        f"base-commit {stated.commit[:12]} of the mail cannot be looked up in an archive; "
        if stated.commit
        else ""
    )
    has, count = "", 0
    if wanted:
        count = _fits(ask, [git_tree], wanted)[0]
        has = f", which has {count} of {len(wanted)} files that the patch changes, by their blobs"
    fits = any(wanted.values()) and count == len(wanted)  # new files alone fit any tree
    by: Literal["blobs", "guess"] = "blobs" if fits else "guess"
    return Found("", f"{claim}{name}, the archive's only version{has}", by)


def _some(wanted: Blobs) -> Blobs:
    # git reads one name a line.
    usable = sorted(path for path in wanted if "\n" not in path)
    return {path: wanted[path] for path in usable[:_MOST_PATHS]}


def _as_stated(ask: Ask, stated: Stated, wanted: Blobs) -> tuple[Found | None, str]:
    """The base that a mail states, or None and why it is not taken."""
    short = stated.commit[:12]
    try:
        commit = ask("rev-parse", "--verify", "--quiet", f"{stated.commit}^{{commit}}")
    except UsageError:
        return None, f"base-commit {short} of the mail is not in the tree"
    commits: tuple[str, ...] = ()
    if stated.prerequisites:
        commits = _prerequisites(ask, stated)
        missing = len(stated.prerequisites) - len(commits)
        if missing:
            number = f"{missing} of {len(stated.prerequisites)}"
            return None, f"{number} prerequisite patches of the mail are not in the tree"
    elif wanted and (has := _fits(ask, [stated.commit], wanted)[0]) < len(wanted):
        return None, (
            f"base-commit {short} of the mail has {has} of {len(wanted)} files that the patch"
            " changes, so it is not taken"
        )
    return Found(commit, f"{short}, the mail's base-commit", "mail", commits), ""


def _candidates(ask: Ask, head: str) -> list[tuple[str, str]]:
    """Commits and their names: HEAD and its own history, then tags and branches, newest first."""
    own = ask("rev-list", "--first-parent", f"--max-count={_PARENTS}", head).split()
    named = {commit: "HEAD" if not n else f"HEAD~{n}" for n, commit in enumerate(own)}
    refs = ("refs/heads", "refs/tags", "refs/remotes")
    order = ("--sort=-creatordate", f"--count={_REFS}", f"--format={_REF_FORMAT}")
    for line in ask("for-each-ref", *order, *refs).splitlines():
        kind, commit, name = line.split(" ", 2)
        if kind == "commit":
            named.setdefault(commit, name)
    return list(named.items())


def _fits(ask: Ask, commits: Sequence[str], wanted: Blobs) -> list[int]:
    """How many of the ``wanted`` files each commit (or tree) has as the patch names them."""
    paths = list(wanted)
    lines = [f"{commit}:{path}" for commit in commits for path in paths]
    text = "\n".join(lines).encode("utf-8", "replace")
    answers = ask("cat-file", "--batch-check", stdin=text + b"\n").split("\n")
    counts = []
    for number in range(len(commits)):
        mine = answers[number * len(paths) : (number + 1) * len(paths)]
        counts.append(sum(_is(one, wanted[p]) for one, p in zip(mine, paths, strict=False)))
    return counts


def _is(answer: str, blob: str) -> bool:
    """Whether git's line about a file shows the blob, or that there is no file."""
    found = re.fullmatch(r"([0-9a-f]{40,64}) blob \d+", answer)
    return found[1].startswith(blob) if found and blob else not blob and answer.endswith(" missing")


def _prerequisites(ask: Ask, stated: Stated) -> tuple[str, ...]:
    """The commits of the prerequisite patches in the order of the mail, as far as there are any."""
    refs = ("HEAD", "--branches", "--tags", "--remotes", "--not", stated.commit)
    words = ("log", "-p", "--no-merges", f"--max-count={_PREREQUISITES}", *_NO_PROGRAMS)
    text = ask(*words, *refs)
    known: dict[str, str] = {}
    for line in ask("patch-id", "--stable", stdin=text.encode("utf-8", "replace")).splitlines():
        patch, commit = line.split()
        known.setdefault(patch, commit)
    return tuple(known[one] for one in stated.prerequisites if one in known)
