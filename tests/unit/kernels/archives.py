"""A source archive that is a kernel's, as far as iotoll reads it, and changes of its files."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from iotoll.core.progress import Progress
from iotoll.kernels import source
from iotoll.kernels.tree import KernelTree

LINES = "".join(f"line {n}\n" for n in range(1, 31))
FILES = {
    "Makefile": "# x\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 99\nEXTRAVERSION = -rc1\nNAME = X\n",
    "drivers/ufs/core/ufshcd.c": LINES,
    'drivers/ufs/core/a "b".c': "odd name\n",
    "drivers/nvme/host/pci.c": LINES,
    "scripts/run.sh": "#!/bin/sh\n",
    "Documentation/x.rst": "words\n",
    ".gitignore": "*.o\n*.tmp\n",
    "kept.o": "ignored by .gitignore, but part of the source\n",
}


def diff(path: str, old: str = "line 15", new: str = "LINE 15", around: int = 1) -> str:
    """A patch of one line of a file with `LINES`."""
    number = int(old.split()[1])
    before = "".join(f" line {n}\n" for n in range(number - around, number))
    after = "".join(f" line {n}\n" for n in range(number + 1, number + around + 1))
    size = 2 * around + 1
    return (
        f"--- a/{path}\n+++ b/{path}\n@@ -{number - around},{size} +{number - around},{size} @@\n"
        f"{before}-{old}\n+{new}\n{after}"
    )


def make_archive(folder: Path) -> Path:
    """Pack `FILES` and a symbolic link as Debian's source package does."""
    path = folder / "linux-source-6.12.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        for name, text in FILES.items():
            info = tarfile.TarInfo(f"linux-source-6.12/{name}")
            info.size = len(text.encode())
            info.mode = 0o755 if name.endswith(".sh") else 0o644
            tar.addfile(info, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("linux-source-6.12/link")
        link.type, link.linkname = tarfile.SYMTYPE, "Makefile"
        tar.addfile(link)
    return path


def opened(name: Path) -> tuple[KernelTree, str]:
    """The tree ``name`` in the cache, and its base."""
    tree = source.open_tree(str(name), Progress(quiet=True))
    return tree, tree.tree_of("base")


def stamps(folder: Path) -> dict[str, int]:
    """When each file of a folder was written, in nanoseconds."""
    return {
        str(p.relative_to(folder)): p.lstat().st_mtime_ns for p in folder.rglob("*") if p.is_file()
    }
