"""The commits that a pipeline compares, kept in the cache under the project's name.

A job's clone lies in another folder each time and is gone afterwards. Kernel trees, and with them
make's O= folders, are kept by the place of their objects, so the two commits go to a repository
that stays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from iotoll.core.digest import text_sha256
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.lock import held
from iotoll.core.paths import cache_dir
from iotoll.core.proc import no_programs, tail
from iotoll.core.progress import Progress
from iotoll.kernels.tree import clean_env, run_tool

# A commit may be asked for by its name, and 80,000 blobs are not compressed once more.
_UPLOAD = "git -c uploadpack.allowAnySHA1InWant=true -c pack.window=0 upload-pack"
_DEEPEST = 1000  # commits of a change whose subjects are kept


@dataclass(frozen=True)
class MergeChange:
    """Two commits of a clone: what is asked to be merged, and where it left its target."""

    clone: Path
    base: str
    candidate: str


def find_change(clone: Path, base: str | None, candidate: str, target: str | None) -> MergeChange:
    """Resolve a change in a clone.

    ``base`` is a revision or a full commit name that may have to be fetched; without it, the
    merge base with the branch ``target``. Raises UsageError for what cannot be found.
    """
    tip = _commit(clone, candidate)
    if base is not None:
        return MergeChange(clone, _commit(clone, base), tip)
    if target is None:
        raise UsageError("give --base, or --target: the branch that the change is for")
    upstream = _commit(clone, target)
    found = _git(clone, "merge-base", upstream, tip)
    if found is None:
        raise UsageError(
            f"{target} and {candidate} have no common ancestor in {clone}: fetch more history"
            " (GIT_DEPTH: 0), or give --base"
        )
    return MergeChange(clone, found, tip)


def check_range(change: MergeChange, most: int) -> None:
    """Raise UsageError for a range that holds no commit, or more than ``most``."""
    name = f"{change.base[:12]}..{change.candidate[:12]}"
    found = _git(change.clone, "rev-list", "--count", f"{change.base}..{change.candidate}")
    count = int(found or 0)
    if not 0 < count <= most:
        raise UsageError(f"{name}: holds {count} commits, a search takes 1 to {most} of them")


def check_on_branch(change: MergeChange, branch: str | None) -> None:
    """Raise UsageError unless all commits of the change are on ``branch``, which is trusted."""
    if not branch:
        raise UsageError("--trusted: name the branch that a search in a lab may take commits of")
    words = ("merge-base", "--is-ancestor", change.candidate, _commit(change.clone, branch))
    if _git(change.clone, *words) is None:
        raise UsageError(
            f"{change.candidate[:12]} is not on {branch}: its kernels boot on a lab's boards,"
            " which take reviewed commits only: search on a virtual board"
        )


def earlier_tag(clone: Path, tag: str) -> str:
    """The newest tag before ``tag``, which a pipeline of a tag is compared with.

    Raises UsageError where the clone knows none.
    """
    found = _git(clone, "describe", "--tags", "--abbrev=0", f"refs/tags/{tag}^")
    if found is None:
        raise UsageError(f"{tag}: no earlier tag in {clone}: fetch more history (GIT_DEPTH: 0)")
    return f"refs/tags/{found}"


def keep(change: MergeChange, project: str) -> Path:
    """Copy the change's commits into the cache; returns the repository that holds them.

    Done again it does nothing. Subjects of the candidate's commits come along, its history not.
    """
    kept = place(project)
    waits = f"another iotoll keeps commits of {project}: waiting for it"
    with held(kept.with_suffix(".lock"), Progress(), waits) as stream:
        if not _holds(kept, change):
            _fetch(kept, change, stream.fileno())
    return kept


def _fetch(kept: Path, change: MergeChange, lock: int) -> None:
    """Fetch the change's commits; the repository is made if need be.

    ``lock`` is the file descriptor that holds it, also for the gits of an iotoll that was killed.
    """
    # A git that was killed leaves its lock behind.
    (kept / "shallow.lock").unlink(missing_ok=True)
    (kept / "config.lock").unlink(missing_ok=True)
    _must(kept.parent, lock, "init", "-q", "--bare", "--template=", str(kept))
    _must(kept, lock, "config", "gc.auto", "0")
    count = _git(change.clone, "rev-list", "--count", f"{change.base}..{change.candidate}")
    depth = min(int(count or 0), _DEEPEST) + 1
    words = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", f"--depth={depth}"]
    refs = [f"+{commit}:refs/iotoll/{commit}" for commit in (change.base, change.candidate)]
    source = f"file://{change.clone.resolve()}"
    _must(kept, lock, *words, f"--upload-pack={_UPLOAD}", source, *refs)


def ensure(clone: Path, base: str, candidate: str, project: str) -> Path:
    """As `keep`, for commits by their names; the clone is asked only for what the cache lacks."""
    kept = place(project)
    if _holds(kept, MergeChange(clone, base, candidate)):
        return kept
    return keep(find_change(clone, base, candidate, None), project)


def place(project: str) -> Path:
    """Where a project's commits are kept; no other project has the same place."""
    return cache_dir() / "repositories" / f"{own_name(project)}.git"


def own_name(text: str) -> str:
    """A file's name for a text: readable, and with a digest, since a/b and a-b look alike."""
    slug = re.sub(r"[^A-Za-z0-9.!-]+", "-", text).strip("-.")[:100]
    return f"{slug or 'project'}-{text_sha256(text)[:12]}"


def _holds(kept: Path, change: MergeChange) -> bool:
    # A ref is written last: then everything that it names is there.
    refs = [f"refs/iotoll/{commit}^{{tree}}" for commit in (change.base, change.candidate)]
    return kept.is_dir() and all(
        _git(kept, "rev-parse", "--verify", "-q", ref) is not None for ref in refs
    )


def _commit(clone: Path, revision: str) -> str:
    words = ("rev-parse", "--verify", "-q", "--end-of-options", f"{revision}^{{commit}}")
    found = _git(clone, *words)
    if found is None and re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", revision):
        # CI clones are shallow: the merge base is often not in them.
        _git(clone, "fetch", "-q", "--depth=1", "origin", revision)
        found = _git(clone, *words)
    if found is None:
        raise UsageError(f"{revision}: no such commit in {clone}: fetch it, or name another")
    return found


def _git(folder: Path, *words: str) -> str | None:
    done = run_tool(["git", *words], cwd=folder, stdin=None, env=_env())
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None


def _must(folder: Path, lock: int, *words: str) -> None:
    done = run_tool(["git", *words], cwd=folder, stdin=None, env=_env(), keep_open=[lock])
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip()
        raise InfrastructureError(f"git {words[0]} in {folder} failed", tail(lines))


def _env() -> dict[str, str]:
    return clean_env({**no_programs(), "GIT_TERMINAL_PROMPT": "0"})
