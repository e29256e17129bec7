"""Whether make may go on in an O= folder that it has built another source in.

make knows of each object the files that it was made of, and makes it again when one of them is
newer. So a source that differs in the contents of such files alone is built where the last one
was. What make does not know, it cannot notice: that a header is found at another place now, that
a generated file has lost its rule, that a makefile's recipe or a script reads something else. Any
such source is built in an empty folder. ccache follows the same rule: see `direct_key`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from iotoll.core.digest import json_sha256
from iotoll.core.errors import InfrastructureError
from iotoll.kernels.compiled import HOST_SOURCES, SOURCES
from iotoll.kernels.kernel_job import RECIPE, KernelJob
from iotoll.kernels.tree import Change, KernelTree
from iotoll.records import results

HOLDS = ".iotoll-holds"
"""File of an O= folder: with what it was built, and each git tree that it may hold objects of."""
_MOST = 200
"""Changed paths that are looked at one by one; what changes more is another version."""
_FILE_MODES = ("100644", "100755")
_NONE = "000000"
_PLAIN = re.compile(r"\.(?:c|h|S|dts|dtsi|rst)$|^Documentation/.*\.(?:txt|yaml|svg)$")
"""What only compilers read, each of which notes it, or people."""
_STEERING = re.compile(r"^(?:scripts|tools|usr)/")
_NOT_BUILT = re.compile(r"^(?:Documentation|LICENSES|tools/(?:perf|testing))/|\.rst$")
"""Where a file of any other kind decides nothing, but for makefiles and Kconfig."""
_MAKEFILE = re.compile(r"(?:^|/)(?:Makefile|Kbuild)$")
_CONTINUED = re.compile(r"\\\n\s*")
_LISTS = re.compile(
    r"^[ \t]*(?!(?:always|extra|lib)-)[\w-]+-(?:y|m|objs|\$\(CONFIG_\w+\))[ \t]*[:+]?="
    r"(?:[ \t]+[\w./-]+\.o)*[ \t]*(?:#.*)?$",
    re.M,
)
"""A line that lists objects: each archive's command names its objects, and make compares it."""
_KCONFIG = re.compile(r"(?:^|/)Kconfig[^/]*$")
_READ_BY_PEOPLE = re.compile(r"^(?:MAINTAINERS|CREDITS|\.mailmap)$|(?:^|/)\.gitignore$")
_NO_SITES = (":!Documentation", ":!tools/testing", ":!MAINTAINERS", ":!CREDITS")


def direct_key(job: KernelJob) -> dict[str, str]:
    """Variables that let ccache's direct mode find only what the very same job has compiled.

    Direct mode compares the files that a compiler read. It cannot know that another one is found
    before them now, so it is sound only among builds of one source and one configuration. ccache
    has this variable in the keys of its direct mode, and the compiler passes over a folder that
    does not exist. There is no other mode: with a key of each file's text as well, which other
    sources could find, a kernel takes a quarter longer to build.
    """
    return {"CPATH": key_folder(job.key), "CCACHE_DEPEND": "1"}


def key_folder(key: str) -> str:
    """The folder in CPATH that stands for a job's key."""
    return f"/nonexistent/{key}"


def read_by_kconfig(path: str) -> bool:
    """Whether kconfig may read a file of the source: it can name any, but no compiler's."""
    return not _PLAIN.search(path) or bool(_STEERING.match(path))


class Folder:
    """What make's O= folder ``out`` holds."""

    def __init__(self, out: Path, job: KernelJob) -> None:
        self._out = out
        self._notes = out / HOLDS
        self._tools = json_sha256([RECIPE, job.toolchain, [path.stem for path in job.fragments]])

    def begin(self, source: str) -> None:
        """Note that objects of the git tree ``source`` come into the folder now."""
        held = self._held()
        lines = [self._tools, *held, *([] if source in held else [source])]
        results.write_text(self._notes, "".join(f"{line}\n" for line in lines))

    def end(self, source: str) -> None:
        """Note that it holds a whole build of ``source`` and nothing else."""
        results.write_text(self._notes, f"{self._tools}\n{source}\n")

    def why_empty(self, tree: KernelTree, source: str) -> str:
        """Why ``source``, which ``tree``'s work tree is now, cannot be built in it; else empty."""
        if not any(self._out.iterdir()):
            return ""
        if self._lines()[:1] != [self._tools]:
            return "it is not known what make's folder holds"
        for one in self._held():
            try:
                why = self._why_not_after(tree, one, source)
            except InfrastructureError:
                return "the source that it was built of is not in the cache any more"
            if why:
                return why
        return ""

    def _lines(self) -> list[str]:
        return self._notes.read_text().split() if self._notes.is_file() else []

    def _held(self) -> list[str]:
        lines = self._lines()
        return lines[1:] if lines[:1] == [self._tools] else []

    def _why_not_after(self, tree: KernelTree, old: str, new: str) -> str:
        changes = tree.changes(old, new)
        host = self._list(HOST_SOURCES)
        strange = [change for change in changes if not _make_knows(change, host)]
        if len(strange) > _MOST:
            return f"{len(strange)} files were added, removed or decide how it is built"
        strange = [change for change in strange if not _lists_objects(tree, old, new, change)]
        for change in strange:
            if self._decides(tree, change):
                return f"{change.path} {_WHAT[change.kind]}, and make does not notice all of that"
        names = {change.path: _named(change.path) for change in strange}
        sites = self._sites(tree, set(names.values()), {change.path for change in changes})
        noted = self._noted({name for name in names.values() if "/" not in name})
        for path, name in names.items():
            if name in sites:
                return f"{path} was added or removed, and {sites[name]} names {name}"
            if name in noted:
                return f"{path} was added or removed, and make has used a {name}"
        return ""

    def _decides(self, tree: KernelTree, change: Change) -> bool:
        """Whether a change decides how things are built, whoever names its path."""
        folder = change.path.rpartition("/")[0]
        if (self._out / change.path).is_file():
            return True  # make has made a file of this name
        if _MAKEFILE.search(change.path):
            # In a folder in which make did nothing, only one that names it reads it.
            return not folder or (self._out / folder).is_dir()
        modes = {change.old_mode, change.mode} - {_NONE}
        is_file = modes <= set(_FILE_MODES)
        if _NOT_BUILT.search(change.path):
            return not is_file
        return not is_file or read_by_kconfig(change.path) or self._gathers(tree, folder)

    def _gathers(self, tree: KernelTree, folder: str) -> bool:
        """Whether the makefile next to a folder, or above it, may list what is in folders."""
        while True:
            for name in ("Kbuild", "Makefile"):
                path = tree.src / folder / name
                if path.is_file():
                    is_read = (self._out / folder).is_dir()
                    text = path.read_text(errors="replace") if is_read else ""
                    return bool(re.search(r"\$[({](?:wildcard|shell)\b", text))
            if not folder:
                return True
            folder = folder.rpartition("/")[0]

    def _sites(self, tree: KernelTree, names: set[str], changed: set[str]) -> dict[str, str]:
        """Per name a file of the source that has it in its text and may be read in a build.

        Files that the change touches do not count: what they are part of is made again.
        """
        if not names:
            return {}
        words = [word for name in sorted(names) for word in ("-e", name)]
        found = tree.git(
            "grep", "-I", "-F", "-w", "-o", "-z", *words, "--", ".", *_NO_SITES, check=False
        )
        built = set(self._list(SOURCES)) if len(self._held()) == 1 else set()
        sites: dict[str, str] = {}
        for line in found.stdout.decode("utf-8", "replace").splitlines():
            path, _, name = line.partition("\0")
            counts = not built or path in built or read_by_kconfig(path)
            if name and path not in changed and counts:
                sites.setdefault(name, path)
        return sites

    def _noted(self, names: set[str]) -> set[str]:
        """Those names that make's notes have, of files in the source or elsewhere."""
        ends = {name: f"/{name}".encode() for name in names}
        found: set[str] = set()
        for path in self._out.rglob(".*.cmd") if names else ():
            # The first line is the command, the second the source: neither is looked up.
            text = path.read_bytes().partition(b"\nsource_")[2].partition(b"\n")[2]
            found |= {
                name
                for name, end in ends.items()
                if name not in found and re.search(re.escape(end) + rb"[\s):;]", text)
            }
        return found

    def _list(self, name: str) -> Sequence[str]:
        path = self._out / name
        return path.read_text().splitlines() if path.is_file() else ()


def _named(path: str) -> str:
    """The words by which something could name a path."""
    parts = path.split("/")
    return "/".join(parts[-2:] if _MAKEFILE.search(path) else parts[-1:])


def _lists_objects(tree: KernelTree, old: str, new: str, change: Change) -> bool:
    """Whether a makefile differs in lines that list objects, and in no others."""
    if change.kind != "M" or not _MAKEFILE.search(change.path):
        return False
    texts = [tree.git("cat-file", "blob", f"{one}:{change.path}").stdout for one in (old, new)]
    joined = [_CONTINUED.sub(" ", text.decode("utf-8", "replace")) for text in texts]
    rest = [[line for line in _LISTS.sub("", one).split("\n") if line] for one in joined]
    return rest[0] == rest[1]


_WHAT = {"A": "is new", "D": "is gone", "M": "changed", "T": "is of another kind"}


def _make_knows(change: Change, host: Sequence[str]) -> bool:
    """Whether make makes all anew that depends on a changed path, or nothing does."""
    if _READ_BY_PEOPLE.search(change.path) or _KCONFIG.search(change.path):
        return True  # what kconfig makes of it is compared
    is_same = change.kind == "M" and {change.old_mode, change.mode} <= set(_FILE_MODES)
    steers = change.path in host or _STEERING.match(change.path)
    return is_same and not steers and bool(_PLAIN.search(change.path))


def is_from_future(times: Iterable[int]) -> bool:
    """Whether one of make's notes (nanoseconds since 1970) was written later than now.

    The clock went back: make then takes an object that is too old for one that is newer.
    """
    return max(times, default=0) > time.time_ns()
