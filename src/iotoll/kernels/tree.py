"""Private copies of kernel source trees in the cache: import once, then move between states fast.

Every tree the user names gets ``CACHE/trees/ID/``::

    git/          objects: imported from an archive, or borrowed (git alternates) from the user's
    lock          held (flock) while they are imported
    ccache/       what the compiler made of this tree
    work/PLACE/   a work tree (`iotoll.kernels.places` says which one a build takes):
        src/      its files; `checkout` changes only those that differ, so make rebuilds little
        index     git's of them
        out/      make's O= folders
        lock      held while src/ or out/ is in use, also by the compilers of a killed iotoll

A state of the source is a git *tree object*: its name is its content, so it is also the key of
built images. The user's own tree is only read.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from iotoll.core.errors import BrokenError, InfrastructureError, UsageError
from iotoll.core.lock import held
from iotoll.core.progress import Progress
from iotoll.core.scratch import scratch
from iotoll.patch.candidate import Patch
from iotoll.patch.diff import SUBMODULE_MODE, SYMLINK_MODE, changed_paths, check_path
from iotoll.records import results

GONE = "000000"
"""git's mode of what a change removes."""

WORK = "work"
"""The folder of a tree that holds its work trees."""
WAITS = (
    "another iotoll run is using this kernel tree: waiting for it (a kernel build takes minutes)"
)

_TAIL_LINES = 30
# In the sandbox files have another owner: git would write all of them anew, and make build all of
# them again.
_STAT = ("-c", "core.checkStat=minimal")
_CLEAN = ("clean", "-ffdx")


@dataclass(frozen=True)
class Change:
    """One path that differs between two trees: git's letter (A, D, M, T) and both modes."""

    path: str
    kind: str
    old_mode: str
    mode: str
    blob: str


@dataclass(frozen=True)
class Applied:
    """Result of applying patches: the new git tree object, and what a reader should know."""

    tree: str
    notes: tuple[str, ...] = ()


def clean_env(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which git and make obey only what iotoll tells them."""
    keep = ("PATH", "HOME", "TMPDIR", "USER", "LOGNAME")
    env = {k: v for k, v in os.environ.items() if k in keep}
    return env | {"LC_ALL": "C", "LANG": "C"} | dict(extra or {})


class KernelTree:
    """One kernel source in the cache; made by `iotoll.kernels.source.open_tree`."""

    def __init__(self, root: Path, place: str = "main") -> None:
        self.root = root
        self.work = root / WORK / place
        self.src = self.work / "src"
        self.git_dir = root / "git"
        self.lock_stream: IO[str] | None = None

    def at(self, place: str) -> KernelTree:
        """The same objects with another work tree."""
        return KernelTree(self.root, place)

    def git(
        self,
        *args: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        work: Path | None = None,
        check: bool = True,
        nice: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git on this tree's objects and src/ (or ``work``).

        Raises InfrastructureError when it fails and ``check`` is set. A ``nice`` one lets all
        other processes go first. The lock of a held tree outlives a killed iotoll for as long as
        its git writes.
        """
        folder = work or (self.src if self.src.is_dir() else self.root)
        settings = {
            "GIT_DIR": str(self.git_dir),
            "GIT_WORK_TREE": str(folder),
            "GIT_INDEX_FILE": str(self.work / "index"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_TERMINAL_PROMPT": "0",
        }
        command = [*(("nice", "-n", "19") if nice else ()), "git", *args]
        all_env = clean_env({**settings, **(env or {})})
        done = run_tool(command, cwd=folder, stdin=stdin, env=all_env, keep_open=self.kept_open)
        if check and done.returncode:
            raise InfrastructureError(
                f"git {args[0]} in {self.root}: {_last_line(done.stderr)}: free disk space, or"
                " remove that folder to have it made again",
                _tail(done.stderr),
            )
        return done

    @contextlib.contextmanager
    def locked(self, progress: Progress) -> Iterator[None]:
        """Hold the work tree; waits (with a message) while another iotoll holds it. Re-entrant."""
        if self.lock_stream is not None:
            yield
            return
        with held(self.lock, progress, WAITS) as stream:
            self.lock_stream = stream
            try:
                yield
            finally:
                self.lock_stream = None

    @property
    def kept_open(self) -> list[int]:
        """What a process that writes below the held work tree inherits, for it to stay held."""
        return [self.lock_stream.fileno()] if self.lock_stream else []

    @property
    def lock(self) -> Path:
        """The file whose lock is that of the work tree."""
        return self.work / "lock"

    def has(self, tree: str | None) -> bool:
        """Tell whether a git object is there (it is not after the cache was emptied)."""
        if tree is None or not self.git_dir.is_dir():
            return False
        return self.git("cat-file", "-e", tree, check=False).returncode == 0

    def borrowed(self) -> list[Path]:
        """Folders of other repositories' objects that this tree's git reads as well."""
        found: list[Path] = []
        todo = [self.git_dir / "objects"]
        while todo:
            notes = todo.pop() / "info/alternates"
            lines = notes.read_text().splitlines() if notes.is_file() else []
            for line in lines:
                folder = Path(os.path.normpath(notes.parents[1] / line))
                if line and not line.startswith("#") and folder not in found:
                    found.append(folder)
                    todo.append(folder)
        return found

    @property
    def ccache(self) -> Path:
        """Where the compiler's cache of this tree lies.

        A tree has its own, since objects tell as much as their sources. One that borrows the
        objects of another tree of the cache can read that one's sources, and shares its.
        """
        trees = self.root.parent
        lenders = [path.parents[1] for path in self.borrowed() if path.is_relative_to(trees)]
        return (lenders[-1] if lenders else self.root) / "ccache"

    def tree_of(self, commit: str) -> str:
        """Return the git tree object of a commit."""
        return self.git("rev-parse", "--verify", f"{commit}^{{tree}}").stdout.decode().strip()

    def version(self, tree: str) -> str:
        """Return the kernel version by the tree's Makefile, e.g. ``6.12.117``."""
        done = self.git("cat-file", "blob", f"{tree}:Makefile", check=False)
        text = done.stdout.decode("utf-8", "replace")
        found = [
            re.search(rf"^{name}[ \t]*=[ \t]*(.*)$", text, re.M)
            for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL", "EXTRAVERSION")
        ]
        parts = [match[1].strip() if match else "" for match in found]
        if done.returncode or not parts[0].isdigit() or not parts[1].isdigit():
            raise UsageError("this is not a Linux kernel tree: its Makefile names no VERSION")
        return ".".join(p for p in parts[:3] if p) + parts[3]

    def changed(self, old: str, new: str) -> dict[str, str]:
        """Return the paths that differ between two trees, each with its new mode (or `GONE`)."""
        return {change.path: change.mode for change in self.changes(old, new)}

    def changes(self, old: str, new: str) -> list[Change]:
        """Each path that differs between two trees; a renamed one is removed and added."""
        words = ("--raw", "--no-abbrev", "--no-renames")
        raw = self.git("diff-tree", "-r", "-z", *words, old, new).stdout
        fields = raw.decode("utf-8", "replace").split("\0")
        pairs = zip(fields[0::2], fields[1::2], strict=False)
        found = []
        for meta, path in pairs:
            old_mode, mode, _, blob, kind = meta.removeprefix(":").split()
            found.append(Change(path, kind, old_mode, mode, blob))
        return found

    def diff(self, old: str, new: str) -> bytes:
        """Return the changes from one tree to another as a unified diff with function names."""
        words = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "-U3", "-p")
        return self.git("diff-tree", *words, old, new).stdout

    @property
    def checked_out(self) -> Path:
        """Names the git tree that src/ is, or is to become; written when that changes."""
        return self.work / "checked-out"

    def checkout(self, tree: str) -> None:
        """Make src/ exactly ``tree``; files that are right already keep their time stamps."""
        self._name_checkout(tree)
        self.git(*_STAT, "read-tree", "--reset", "-u", tree)
        self.git(*_CLEAN)

    def move(self, known: str, tree: str) -> list[str] | None:
        """Change the files of src/ that differ between two trees, and return their paths.

        All others are left as they are, which `is_as_noted` looks at. None where git refuses, or
        src/ is not known to be ``known``: `checkout` then makes it right.
        """
        if not known:
            return None
        self._name_checkout(tree)
        moved = self.git(*_STAT, "read-tree", "-m", "-u", known, tree, check=False)
        # An index that was not of ``known`` would be a mixture now.
        if moved.returncode or self.git("write-tree").stdout.decode().strip() != tree:
            return None
        return [path for path, mode in self.changed(known, tree).items() if mode != GONE]

    def is_as_noted(self) -> bool:
        """Whether all files of src/ are as git noted them when it wrote them, and no others.

        Looks at 80,000 files, on one processor at most and only when nothing else wants it.
        """
        one = (*_STAT, "-c", "core.preloadIndex=false")
        if self.git(*one, "diff-files", "--quiet", check=False, nice=True).returncode:
            return False
        return not self.git(*_CLEAN, "--dry-run", nice=True).stdout

    def _name_checkout(self, tree: str) -> None:
        self.src.mkdir(parents=True, exist_ok=True)
        if not self.checked_out.is_file() or self.checked_out.read_text() != tree:
            results.write_text(self.checked_out, tree)
        # A killed git leaves this behind; we hold the lock, so nobody is using it.
        (self.work / "index.lock").unlink(missing_ok=True)

    def apply(self, base: str, patches: Sequence[Patch], what: str) -> Applied:
        """Apply patches to tree ``base`` without touching src/; ``what`` names the base in errors.

        Exact context first (git apply); else with at most two lines of fuzz (GNU patch), which
        is noted. Raises BrokenError("apply") with the tool's own lines.
        """
        notes: list[str] = []
        with scratch() as folder:
            env = {"GIT_INDEX_FILE": str(folder / "index")}
            self._read_tree(base, folder / "index", env)
            for number, patch in enumerate(patches, 1):
                label = f"patch {number} of {len(patches)}" if len(patches) > 1 else "the patch"
                label += f' "{patch.subject}"' if patch.subject else ""
                notes += self._apply_one(patch, label, what, env, folder)
            tree = self.git("write-tree", env=env).stdout.decode().strip()
        self.check_change(base, tree)
        return Applied(tree, tuple(notes))

    def _read_tree(self, tree: str, index: Path, env: dict[str, str]) -> None:
        """Make an index of a tree: a copy of a src/'s, where it is of this one, takes no time."""
        for known in self.root.glob(f"{WORK}/*/index"):
            with contextlib.suppress(OSError):
                shutil.copyfile(known, index)
                copied = self.git("write-tree", env=env, check=False)
                if copied.stdout.decode().strip() == tree:
                    return
                index.unlink()
        self.git("read-tree", tree, env=env)

    def _apply_one(
        self, patch: Patch, label: str, what: str, env: dict[str, str], folder: Path
    ) -> list[str]:
        args = ("apply", "--cached", "--whitespace=nowarn", "-")
        exact = self.git(*args, stdin=patch.text, env=env, check=False)
        if exact.returncode == 0:
            return []
        own_lines = _tail(exact.stderr)
        fuzzy = self._patch_with_fuzz(patch, env, folder / "fuzz")
        if fuzzy is None or fuzzy.returncode:
            lines = own_lines + ("\n" + _tail(fuzzy.stdout) if fuzzy else "")
            reverse = self.git(*args, "-R", "--check", stdin=patch.text, env=env, check=False)
            if reverse.returncode == 0:
                why = f"{label} is already in {what}: name another --base, or drop it"
                raise BrokenError("apply", why, lines)
            why = _failing_files(exact.stderr, changed_paths(patch.text, "patch"))
            raise BrokenError("apply", f"{label} does not apply to {what}: {why}", lines)
        return [f"{label} needed fuzz to apply: {text}" for text in _fuzzy(fuzzy.stdout)] or [
            f"{label} applied with GNU patch, not with git apply"
        ]

    def _patch_with_fuzz(
        self, patch: Patch, env: dict[str, str], folder: Path
    ) -> subprocess.CompletedProcess[bytes] | None:
        if shutil.which("patch") is None:
            return None
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        paths = changed_paths(patch.text, "patch")
        names = "\0".join(paths).encode()
        index_args = ("checkout-index", "-q", "-z", "--stdin", f"--prefix={folder}/")
        self.git(*index_args, stdin=names, env=env, check=False)
        # -u: no other form of a diff, above all no ed script, which git refused.
        command = ["patch", "-p1", "-u", "-F2", "--batch", "--forward", "-r-"]
        command += ["--no-backup-if-mismatch"]
        done = run_tool(command, cwd=folder, stdin=patch.text, env=clean_env())
        if done.returncode == 0:
            update = ("update-index", "--add", "--remove", "-z", "--stdin")
            self.git(*update, stdin=names, env=env, work=folder)
        return done

    def check_change(self, base: str, tree: str) -> None:
        """Look at what a change really does, whatever its headers say.

        Raises UsageError when it makes a symbolic link, a submodule or a binary file, or names a
        path that leaves the tree.
        """
        entries = self.changes(base, tree)
        for change in entries:
            check_path(change.path, "the candidate")
            if change.mode in (SYMLINK_MODE, SUBMODULE_MODE):
                raise UsageError(
                    f"the patch makes {change.path} a symbolic link or submodule: refused"
                )
        # By its bytes: a .gitattributes of the candidate could call it text.
        blobs = {change.blob: change.path for change in entries if change.mode != GONE}
        asked = "\n".join(blobs).encode()
        out = self.git("cat-file", "--batch", stdin=asked).stdout
        for path in blobs.values():
            head, _, out = out.partition(b"\n")
            size = int(head.split()[2])
            if b"\0" in out[:size]:
                raise UsageError(f"the patch makes {path} a binary file: refused")
            out = out[size + 1 :]


_FAILED = re.compile(
    r"error: (?:patch failed: (.+):(\d+)|(.+?): (?:(does not exist in index)|.*))$"
)


def _failing_files(errors: bytes, changed: Sequence[str]) -> str:
    """How many files of a patch git refuses, and which; its first words where it names none."""
    lines = errors.decode("utf-8", "replace").splitlines()
    named: dict[str, str] = {}
    for match in filter(None, map(_FAILED.match, lines)):
        if match[1]:
            named.setdefault(match[1], f"{match[1]}:{match[2]}")
        elif match[4]:
            named.setdefault(match[3], f"{match[3]} is not in it")
        else:
            named.setdefault(match[3], match[3])
    failed = [named[path] for path in changed if path in named]
    if not failed:
        return next(iter(lines), "git apply failed").removeprefix("error: ")
    shown = ", ".join(failed[:3]) + (f" and {len(failed) - 3} more" if len(failed) > 3 else "")
    if len(changed) == 1:
        return shown if shown.endswith(" in it") else f"it fails at {shown}"
    several = "all" if len(failed) == len(changed) else f"{len(failed)} of"
    return f"{several} its {len(changed)} files fail: {shown}"


def _fuzzy(output: bytes) -> list[str]:
    """What GNU patch fitted in with fuzz, each with its file."""
    found, path = [], ""
    for line in output.decode("utf-8", "replace").splitlines():
        if line.startswith("patching file "):
            path = line.removeprefix("patching file ").strip("'")
        elif "fuzz" in line:
            found.append(f"{path}: {line.strip()}")
    return found


def run_tool(
    command: Sequence[str],
    *,
    cwd: Path,
    stdin: bytes | None,
    env: dict[str, str],
    keep_open: Sequence[int] = (),
) -> subprocess.CompletedProcess[bytes]:
    """Run a short command with captured output; a missing program is an InfrastructureError.

    ``keep_open`` are file descriptors that it inherits.
    """
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            input=stdin or b"",
            env=env,
            capture_output=True,
            check=False,
            pass_fds=tuple(keep_open),
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        if not cwd.is_dir():
            raise UsageError(f"{cwd}: no such folder") from error
        tool = command[0]
        raise InfrastructureError(f"{tool} is not installed: apt-get install {tool}") from error


def _tail(output: bytes) -> str:
    return "\n".join(output.decode("utf-8", "replace").rstrip().splitlines()[-_TAIL_LINES:])


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "failed without a word"
