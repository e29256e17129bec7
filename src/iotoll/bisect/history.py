"""What a search asks the user's git tree, which is only read: commits, parents, authors, paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from iotoll.core.errors import UsageError
from iotoll.core.proc import no_programs
from iotoll.kernels.compiled import find as find_coverage
from iotoll.kernels.tree import clean_env, run_tool
from iotoll.patch import selection

SHORT = 12


@dataclass(frozen=True)
class Commit:
    """One commit as a reader wants it named; ``date`` is ISO 8601."""

    sha: str
    author: str
    email: str
    date: str
    subject: str

    @property
    def short(self) -> str:
        """Enough of its name for a kernel tree."""
        return self.sha[:SHORT]

    @property
    def line(self) -> str:
        """As in a commit message: ``1234567890ab ("subject")``."""
        return f'{self.short} ("{self.subject}")'


class History:
    """One git tree; raises UsageError for what it does not hold."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self._known: dict[str, Commit] = {}

    def ask(self, *words: str) -> str:
        """Standard output of a git command; raises UsageError where git refuses."""
        env = clean_env(no_programs())
        done = run_tool(["git", *words], cwd=self.repository, stdin=None, env=env)
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            why = lines[0] if lines else f"{words[0]} failed"
            raise UsageError(f"git in {self.repository}: {why}")
        return done.stdout.decode("utf-8", "replace").strip()

    def commit(self, name: str, option: str) -> str:
        """The commit that a revision names; ``option`` is what the user wrote it after."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        try:
            return self.ask(*words)
        except UsageError as error:
            raise UsageError(
                f"{option} {name}: no such commit in {self.repository}: fetch it, or name another"
            ) from error

    def known(self, sha: str) -> Commit:
        """Author, date and subject of a commit."""
        if sha not in self._known:
            text = self.ask("show", "-s", "--format=%an%x00%ae%x00%aI%x00%s", sha)
            author, email, date, subject = text.split("\0", 3)
            self._known[sha] = Commit(sha, author, email, date, subject)
        return self._known[sha]

    def graph(
        self, good: Sequence[str], bad: str, first_parent: bool = False, paths: Sequence[str] = ()
    ) -> dict[str, list[str]]:
        """Commits that ``bad`` reaches and no ``good`` does, newest first, with their parents.

        With ``paths`` those that change them, with their parents among these, as git has it.
        """
        words = ["rev-list", "--topo-order", "--parents"]
        words += ["--first-parent"] if first_parent else []
        words += [bad, *(f"^{name}" for name in good)]
        text = self.ask(*words, *(["--", *paths] if paths else ["--"]))
        rows = [line.split() for line in text.splitlines()]
        return {row[0]: row[1:2] if first_parent else row[1:] for row in rows}

    def empty(self, good: str, bad: str, paths: Sequence[str] = ()) -> UsageError:
        """The error for a range without commits, in the same words for every command."""
        where = " that changes these paths" if paths else ""
        ends = f"{good[:SHORT]}..{bad[:SHORT]}"
        if good != bad and self.graph([bad], good):
            return UsageError(f"{ends}: holds no commit{where}: B is behind A: swap the two")
        return UsageError(f"{ends}: holds no commit{where}: name an older A")

    def parents(self, sha: str) -> list[str]:
        """The parents of a commit."""
        return self.ask("rev-list", "--parents", "-1", sha).split()[1:]

    def differing(self, one: str, other: str) -> list[str]:
        """Paths in which two commits differ; a renamed file is two of them."""
        return self.ask("diff", "--name-only", "--no-renames", one, other).splitlines()

    def merge_bases(self, one: str, other: str) -> list[str]:
        """The best common ancestors; raises UsageError when there is none."""
        try:
            return self.ask("merge-base", "--all", one, other).splitlines()
        except UsageError as error:
            raise UsageError(
                f"{one[:SHORT]} and {other[:SHORT]}: no common ancestor in {self.repository}:"
                " fetch more history (git fetch --unshallow)"
            ) from error

    def changed(self, shas: Sequence[str]) -> dict[str, list[str]]:
        """Paths that each commit changes against its first parent; a merge's are not listed."""
        words = ["log", "--no-walk=unsorted", "--format=%x01%H", "--name-only", "--no-renames"]
        env = clean_env(no_programs())
        text = "".join(f"{sha}\n" for sha in shas).encode()
        command = ["git", *words, "--stdin"]
        done = run_tool(command, cwd=self.repository, stdin=text, env=env)
        if done.returncode:
            raise UsageError(f"git in {self.repository}: cannot list what commits change")
        found: dict[str, list[str]] = {}
        for block in done.stdout.decode("utf-8", "replace").split("\x01")[1:]:
            sha, *paths = block.split("\n")
            found[sha] = [path for path in paths if path]
        return found


def selected_cells(history: History, good: str, bad: str, known: Sequence[str]) -> list[str]:
    """Those of the ``known`` cells that the paths select in which two commits differ."""
    chosen = selection.select(history.differing(good, bad), known)
    return [cell.cell for cell in chosen.cells]


def without_effect(history: History, commits: Iterable[str], sources: set[str]) -> dict[str, float]:
    """Weight 0 for each commit none of whose files is among ``sources``, nor steers a build.

    ``sources`` are the files of a kernel that was built; where none is known no commit is ruled
    out. Nor is a merge: its own changes are not listed, and in a search along first parents it
    brings a branch.
    """
    if not sources:
        return {}
    single = [commit for commit in commits if len(history.parents(commit)) == 1]
    return {
        commit: 0.0
        for commit, paths in history.changed(single).items()
        if find_coverage(paths, sources, "", "").nothing or not paths
    }
