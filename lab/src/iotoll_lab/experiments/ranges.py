"""Real git ranges with planted changes: ``iotoll experiment ranges`` makes, searches and counts.

Every range is a branch of one repository, which borrows the kernel tree's objects. Its commits
change one file each. Some cost instructions on the way of an I/O, some do not build, some do not
boot; each of those two is repaired by the commit after it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.kernels.source import base_of, open_tree
from iotoll.kernels.tree import clean_env, run_tool
from iotoll_lab.experiments.variants import entered

CELL = "ufs-4k-randread-t1-direct"
COSTLY: tuple[tuple[str, str], ...] = (
    ("block/blk-core.c", "submit_bio_noacct"),
    ("block/blk-mq.c", "blk_mq_submit_bio"),
    ("block/blk-mq.c", "blk_mq_start_request"),
    ("drivers/ufs/core/ufshcd.c", "ufshcd_queuecommand"),
    ("drivers/ufs/core/ufshcd.c", "ufshcd_compl_one_cqe"),
    ("fs/ext4/file.c", "ext4_file_read_iter"),
    ("mm/filemap.c", "kiocb_write_and_wait"),
)
"""Files and functions on the way of every I/O of `CELL`."""

FILES = (
    "block/bio.c",
    "block/blk-core.c",
    "block/blk-merge.c",
    "block/blk-mq.c",
    "drivers/nvme/host/core.c",
    "drivers/scsi/scsi_lib.c",
    "drivers/ufs/core/ufshcd.c",
    "fs/ext4/file.c",
    "fs/ext4/inode.c",
    "mm/filemap.c",
)
"""Files of the board's kernel that innocent commits change."""

UNBUILT = ("Documentation/block/index.rst", "drivers/net/dummy.c", "sound/core/pcm.c")
"""Files that are not in the board's kernel."""

NO_BUILD, NO_BOOT, OUTSIDE = 0.10, 0.05, 0.15


@dataclass(frozen=True)
class Planned:
    """What is known of one range: its commits oldest first, culprits with their cost, and skips."""

    name: str
    base: str
    commits: tuple[str, ...]
    costs: dict[str, int]
    no_build: tuple[str, ...]
    no_boot: tuple[str, ...]

    @property
    def skips(self) -> set[str]:
        """Commits that cannot be tested."""
        return {*self.no_build, *self.no_boot}


class Repository:
    """A bare repository beside the kernel tree in the cache, whose objects it borrows."""

    def __init__(self, root: Path, tree: str, progress: Progress) -> None:
        self.root = root
        kernel = open_tree(tree, progress)
        self.tree = str(base_of(tree, None, progress).git_tree)
        if not root.is_dir():
            self._run(["git", "init", "-q", "--bare", "--template=", str(root)], None, root.parent)
        info = root / "objects/info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "alternates").write_text(f"{kernel.git_dir / 'objects'}\n")

    def git(self, *words: str, stdin: bytes | None = None, index: Path | None = None) -> str:
        """Standard output of a git command in the repository."""
        return self._run(["git", *words], stdin, self.root, index)

    def _run(
        self, command: list[str], stdin: bytes | None, cwd: Path, index: Path | None = None
    ) -> str:
        cwd.mkdir(parents=True, exist_ok=True)
        # The same names and times each time: a range is a function of its seed.
        who = {"NAME": "Planted", "EMAIL": "planted@example.org", "DATE": "1767607200 +0000"}
        env = {f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in who.items()}
        if index is not None:
            env["GIT_INDEX_FILE"] = str(index)
        done = run_tool(command, cwd=cwd, stdin=stdin, env=clean_env(env))
        if done.returncode:
            words = done.stderr.decode("utf-8", "replace").strip()
            raise InfrastructureError(f"{' '.join(command[:2])} in {cwd}: {words}")
        return done.stdout.decode("utf-8", "surrogateescape")


def plant(
    repository: Repository,
    seed: int,
    number: int,
    length: int,
    most: int = 5,
    only: str | None = None,
) -> Planned:
    """Make range ``number`` of a seed: ``length`` commits, of which one to ``most`` cost.

    With ``only``, a file of `COSTLY`, all of them change that file and no other one.
    """
    if length < 16:
        raise UsageError("a range needs at least 16 commits")
    chance = random.Random(f"range {seed} {number}")
    culprits, no_build, no_boot = _places(chance, length, 1 + (number - 1) % most)
    base = _commit(repository, repository.tree, None, f"range {number}: before")
    files = _Files(repository)
    index = repository.root / f"index-{number}"
    repository.git("read-tree", repository.tree, index=index)
    commits: list[str] = []
    costs: dict[str, int] = {}
    for at in range(1, length + 1):
        files.begin()
        subject, cost = _change(chance, at, at in culprits, files, only)
        if at in no_build:
            files.spoil(only or "block/blk-core.c", _ERROR.format(n=at))
        if at in no_boot:
            files.spoil(only or "init/main.c", _PANIC.format(n=at))
        subject += " (broken)" if at in no_build or at in no_boot else ""
        sha = _add(repository, index, files.edits, commits[-1] if commits else base, subject)
        commits.append(sha)
        if cost:
            costs[sha] = cost
    name = f"range-{seed}-{number}" + (f"-{Path(only).stem}" if only else "")
    repository.git("update-ref", f"refs/heads/{name}", commits[-1])
    index.unlink()
    spoilt = [tuple(commits[at - 1] for at in sorted(places)) for places in (no_build, no_boot)]
    return Planned(name, base, tuple(commits), costs, *spoilt)


class _Files:
    """The texts of a range's files as its commits change them, one commit after the other."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.texts: dict[str, str] = {}
        self.edits: dict[str, str] = {}
        self.repairs: dict[str, str] = {}

    def begin(self) -> None:
        """Begin a commit; it repairs what the one before has spoilt."""
        self.edits = dict(self.repairs)
        self.texts |= self.repairs
        self.repairs = {}

    def read(self, path: str) -> str:
        """The text of a file as it is now."""
        if path not in self.texts:
            where = f"{self.repository.tree}:{path}"
            self.texts[path] = self.repository.git("cat-file", "blob", where)
        return self.texts[path]

    def write(self, path: str, text: str) -> None:
        """Change a file in this commit."""
        self.texts[path] = self.edits[path] = text

    def spoil(self, path: str, more: str) -> None:
        """Append to a file in this commit what the next one takes away."""
        self.repairs[path] = self.read(path)
        self.write(path, self.read(path) + more)


_ERROR = '\n#error "planted {n}: does not build"\n'
_PANIC = (
    "\nstatic int __init iotoll_panic_{n}(void)\n{{\n"
    '\tpanic("planted {n}: does not boot");\n\treturn 0;\n}}\ncore_initcall(iotoll_panic_{n});\n'
)
_COST = """
static __always_inline int iotoll_planted_{n}(void)
{{
	unsigned long turns = {turns};

#if defined(CONFIG_ARM64)
	asm volatile("1: subs %0, %0, #1\\n b.gt 1b" : "+r" (turns) : : "cc");
#endif
	return 0;
}}
"""
_COLD = """
static noinline __used int iotoll_cold_{n}(int x)
{{
	return x * {a} + (x >> {b});
}}
"""


def _places(chance: random.Random, length: int, count: int) -> tuple[set[int], set[int], set[int]]:
    """Where culprits and broken commits stand: nothing hides a culprit, and B can be tested."""
    wanted = round(length * NO_BUILD), round(length * NO_BOOT)
    free = list(range(2, length - 1))
    chance.shuffle(free)
    broken: list[int] = []
    for at in free:
        if len(broken) < sum(wanted) and not {at - 1, at, at + 1} & set(broken):
            broken.append(at)
    left = [at for at in range(1, length + 1) if not {at, at - 1} & set(broken)]
    return set(chance.sample(left, count)), set(broken[: wanted[0]]), set(broken[wanted[0] :])


def _change(
    chance: random.Random, at: int, costs: bool, files: _Files, only: str | None
) -> tuple[str, int]:
    """Edit one file; returns the subject and the instructions that it costs."""
    if costs:
        path, function = chance.choice([one for one in COSTLY if only in (None, one[0])])
        turns = chance.randint(10, 250)
        call = f"\tint planted_{at} __maybe_unused = iotoll_planted_{at}();\n"
        helper = _COST.format(n=at, turns=turns)
        files.write(path, entered(files.read(path), path, function, call, helper))
        return f"{path}: look again in {function}()", 2 * turns
    if only is None and chance.random() < OUTSIDE:
        path = chance.choice(UNBUILT)
        mark = "\n.. planted {n}\n" if path.endswith(".rst") else "\n/* planted {n} */\n"
        files.write(path, files.read(path) + mark.format(n=at))
        return f"{path}: a remark", 0
    path = only or chance.choice(FILES)
    cold = _COLD.format(n=at, a=chance.randint(3, 999), b=chance.randint(1, 9))
    files.write(path, files.read(path) + cold)
    return f"{path}: a helper for later", 0


def _add(
    repository: Repository, index: Path, edits: dict[str, str], parent: str, subject: str
) -> str:
    for path, text in edits.items():
        data = text.encode("utf-8", "surrogateescape")
        blob = repository.git("hash-object", "-w", "--stdin", stdin=data).strip()
        repository.git("update-index", "--cacheinfo", f"100644,{blob},{path}", index=index)
    tree = repository.git("write-tree", index=index).strip()
    return _commit(repository, tree, parent, subject)


def _commit(repository: Repository, tree: str, parent: str | None, subject: str) -> str:
    words = ["-p", parent] if parent else []
    return repository.git("commit-tree", *words, "-m", subject, tree).strip()
