"""What a kernel is built from, as a key: the image cache, and make's O= folder, go by it."""

from __future__ import annotations

import functools
import importlib.util
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from iotoll.core.digest import file_sha256, json_sha256
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import cache_dir
from iotoll.kernels import cache, kconfig
from iotoll.kernels.tree import KernelTree, clean_env, run_tool
from iotoll.records.models import SourceRecord

Arch = Literal["arm", "arm64", "x86_64", "um"]

RECIPE = 4
"""Raise it when a change here or in `compiling` changes image bytes: a cached image is then old."""
PINNED = {
    # Names as Debian's kernels have them: a makefile that knows iotoll's build could be fast there.
    "KBUILD_BUILD_TIMESTAMP": "Mon Jan  5 10:00:00 UTC 2026",
    "KBUILD_BUILD_USER": "debian-kernel",
    "KBUILD_BUILD_HOST": "lists.debian.org",
    "KBUILD_BUILD_VERSION": "1",
    "LOCALVERSION": "",  # set but empty: no "+" for a patched git tree
}
# Kconfig asks these for their versions wherever they happen to be installed, and writes the answer
# into .config; no fragment needs them. Only a variable of make's own overrides the top Makefile.
UNUSED_TOOLS = ("RUSTC=none", "PAHOLE=none")


@dataclass(frozen=True)
class Target:
    """What an architecture builds, and with what."""

    make_target: str
    image: str
    compiler: str
    packages: dict[str, str]


BUILT = ".iotoll-built"
"""File of an O= folder: the key of the job whose build it holds; absent while make runs."""

_COMMON = {t: t for t in ("make", "flex", "bison", "bc", "perl", "ccache", "gcc")}
TARGETS: dict[Arch, Target] = {
    "arm64": Target(
        "Image",
        "arch/arm64/boot/Image",
        "aarch64-linux-gnu-gcc",
        {**_COMMON, "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu"},
    ),
    "arm": Target(
        "zImage",
        "arch/arm/boot/zImage",
        "arm-linux-gnueabihf-gcc",
        {**_COMMON, "arm-linux-gnueabihf-gcc": "gcc-arm-linux-gnueabihf"},
    ),
    "x86_64": Target(
        "bzImage",
        "arch/x86/boot/bzImage",
        "x86_64-linux-gnu-gcc",
        {**_COMMON, "x86_64-linux-gnu-gcc": "gcc-x86-64-linux-gnu"},
    ),
    # User Mode Linux is a program of this machine: it is built with its own compiler, and kbuild
    # takes the architecture below it from `uname -m`.
    "um": Target("linux", "linux", "gcc", _COMMON),
}


@dataclass(frozen=True)
class KernelJob:
    """One kernel to build: source state, architecture, fragments, toolchain, device trees."""

    source: SourceRecord
    arch: Arch
    fragments: tuple[Path, ...]
    toolchain: str
    key: str
    dtbs: tuple[str, ...] = ()

    @classmethod
    def make(
        cls, source: SourceRecord, arch: Arch, fragments: Sequence[str], dtbs: Sequence[str] = ()
    ) -> KernelJob:
        """Resolve names to files and check the tools; raises Usage- or InfrastructureError.

        ``dtbs`` are device trees as make names them (``hisilicon/hi3660-hikey960.dtb``).
        """
        if arch not in TARGETS:
            raise UsageError(f"architecture {arch}: choose from {', '.join(TARGETS)}")
        paths = tuple(kconfig.fragment_path(name) for name in fragments)
        toolchain = installed_toolchain(arch)
        parts = {
            "recipe": RECIPE,
            "git_tree": source.git_tree,
            "arch": arch,
            "fragments": [file_sha256(path) for path in paths],
            "toolchain": toolchain,
        }
        if dtbs:
            parts["dtbs"] = list(dtbs)
        return cls(source, arch, paths, toolchain, json_sha256(parts), tuple(dtbs))

    @property
    def cached(self) -> Path:
        """Where the finished image is kept."""
        return cache_dir() / "images" / self.key

    @property
    def is_done(self) -> bool:
        """Whether the finished image is in the cache, and is what was put there."""
        return cache.is_whole(self.cached)

    def is_warm(self, tree: KernelTree) -> bool:
        """Whether make's O= folder holds what this job built, from files as they are now.

        After another source make would compile many files again, below a candidate's overlay for
        every candidate anew. So it would where another folder's build has moved the sources
        meanwhile, though they are back, and where somebody has configured in the cache.
        """
        noted, config = self.out(tree) / BUILT, self.out(tree) / ".config"
        if not noted.is_file() or noted.read_text() != self.key:
            return False
        if not config.is_file() or config.stat().st_mtime > noted.stat().st_mtime:
            return False
        return self.last_built(tree) == self.source.git_tree

    def last_built(self, tree: KernelTree) -> str:
        """The git tree that make's O= folder was last built of, if src/ has not moved since.

        Empty otherwise, and where that build did not come to its end.
        """
        noted, moved = self.out(tree) / BUILT, tree.checked_out
        if not noted.is_file() or not moved.is_file():
            return ""
        if moved.stat().st_mtime > noted.stat().st_mtime:
            return ""
        return moved.read_text()

    def out(self, tree: KernelTree) -> Path:
        """Make's O= folder for this architecture and these fragments."""
        names = json_sha256([path.stem for path in self.fragments])[:8]
        return tree.work / "out" / f"{self.arch}-{names}"


def installed_toolchain(arch: Arch) -> str:
    """Return the compiler's and linker's version lines; a missing tool names its package."""
    if importlib.util.find_spec("tuxmake") is None:
        raise InfrastructureError("tuxmake is not installed: make setup, or pip install tuxmake")
    target = TARGETS[arch]
    for tool, package in target.packages.items():
        if shutil.which(tool) is None:
            raise InfrastructureError(f"{tool} is not installed: apt-get install {package}")
    if arch == "x86_64" and not Path("/usr/include/gelf.h").is_file():
        raise InfrastructureError("objtool needs libelf's headers: apt-get install libelf-dev")
    linker = target.compiler.removesuffix("gcc") + "ld"
    return "; ".join(_version(tool, *_place(tool)) for tool in (target.compiler, linker))


def _place(tool: str) -> tuple[str, int]:
    """Which file a tool is, and when that was written; neither where there is none."""
    path = shutil.which(tool)
    return (path, Path(path).stat().st_mtime_ns) if path else ("", 0)


@functools.cache
def _version(tool: str, _path: str, _written: int) -> str:
    """First line of what a tool says of its version, asked once a process."""
    done = run_tool([tool, "--version"], cwd=Path("/"), stdin=None, env=clean_env())
    return done.stdout.decode("utf-8", "replace").splitlines()[0]
