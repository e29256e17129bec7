"""Kernel images: the cache of built ones, and taking the user's ready-made ones."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from iotoll.core.digest import file_sha256
from iotoll.core.errors import InfrastructureError, UsageError, os_fix
from iotoll.records import results

KEPT = 40
"""Images kept in the cache, by last use; one takes about 10 MB."""

ABANDONED = 86400.0
"""Seconds after which what a killed build left half-made is removed."""

DIGESTS = "digests.json"
"""The file of an entry that holds the SHA-256 of each of the others."""

_MAGIC = {
    "arm": (0x24, b"\x18\x28\x6f\x01", "zImage"),
    "arm64": (0x38, b"ARM\x64", "Image"),
    "x86_64": (0x202, b"HdrS", "bzImage"),
    "um": (0, b"\x7fELF", "linux"),
}
_CONFIG_MARK = b"IKCFG_ST"
_LARGEST_IMAGE, _LARGEST_CONFIG = 512 << 20, 16 << 20
"""Bytes of a kernel and of its config; a few packed ones may claim to be any number."""


@contextlib.contextmanager
def new_entry(final: Path) -> Iterator[Path]:
    """Give a folder to fill; it becomes ``final`` at once, and only if the body succeeds.

    An entry that is there and whole stays: somebody else may be copying its files.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    # Not named by the process: another machine that shares the cache has the same numbers.
    temporary = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    temporary.chmod(0o755)
    try:
        yield temporary
        results.write_text(temporary / DIGESTS, json.dumps(_digests(temporary)) + "\n")
        # Another process may make the same entry from another work tree.
        if not is_whole(final):
            shutil.rmtree(final, ignore_errors=True)
            try:
                temporary.rename(final)
            except OSError:
                if not is_whole(final):
                    raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _prune(final.parent)


def is_whole(entry: Path) -> bool:
    """Whether an entry is there and its files are those that were put into it.

    A whole one counts as used now: who asks is about to copy it, and nobody may prune it before.
    """
    try:
        known = json.loads((entry / DIGESTS).read_text())
        if not known or known != _digests(entry):
            return False
    except (OSError, ValueError, RecursionError):
        return False
    with contextlib.suppress(OSError):  # one that may only be read is pruned by nobody here
        os.utime(entry)
    return True


def _digests(entry: Path) -> dict[str, str]:
    names = (path for path in sorted(entry.iterdir()) if path.name != DIGESTS)
    return {path.name: file_sha256(path) for path in names}


def copy_tree(entry: Path, folder: Path) -> None:
    """Copy an entry's files into ``folder``, each one atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for path in (p for p in entry.iterdir() if p.name != DIGESTS):
            _copy(path, folder / path.name)
    except OSError as error:
        raise InfrastructureError(
            f"cannot copy {entry} to {folder}: {error.strerror}: {os_fix(error)}"
        ) from error


def take(image: Path, arch: str, folder: Path) -> None:
    """Copy the user's image (may be gzipped) as ``Image``, its embedded config as ``config``.

    ``config`` says so in a comment when the kernel was built without CONFIG_IKCONFIG. Raises
    UsageError when the file is no kernel of ``arch``.
    """
    try:
        data = image.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = _unpacked(data, _LARGEST_IMAGE)
    except (OSError, zlib.error) as error:
        raise UsageError(f"{image}: cannot be read ({error}): check the file") from error
    offset, magic, name = _MAGIC[arch]
    if data[offset : offset + len(magic)] != magic:
        where = "" if arch == "um" else "arch/*/boot/"
        raise UsageError(f"{image}: is no {arch} kernel: give {where}{name} of a build")
    try:
        (folder / "Image").write_bytes(data)
        (folder / "config").write_bytes(embedded_config(data))
    except OSError as error:
        raise InfrastructureError(
            f"cannot write {folder}: {error.strerror}: {os_fix(error)}"
        ) from error


def embedded_config(image: bytes) -> bytes:
    """Return the .config inside an uncompressed image, or a comment that there is none."""
    start = image.find(_CONFIG_MARK)
    if start >= 0:
        with contextlib.suppress(zlib.error):
            return _unpacked(image[start + len(_CONFIG_MARK) :], _LARGEST_CONFIG)
    return b"# not known: the image carries no readable config (CONFIG_IKCONFIG)\n"


def _unpacked(data: bytes, most: int) -> bytes:
    """Unpack one gzip member; raises zlib.error where it is larger than ``most`` bytes, or cut."""
    unpacker = zlib.decompressobj(wbits=31)
    found = unpacker.decompress(data, most + 1)
    if len(found) > most:
        raise zlib.error(f"larger than {most >> 20} MiB unpacked")
    if not unpacker.eof:
        raise zlib.error("it is cut off")
    return found


def _copy(source: Path, target: Path) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(source, temporary)
    temporary.replace(target)


def _prune(folder: Path) -> None:
    used: list[tuple[float, Path]] = []
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another one prunes as well
            last = path.stat().st_mtime
            if not path.name.startswith("."):
                used.append((last, path))
            elif last < time.time() - ABANDONED:
                shutil.rmtree(path, ignore_errors=True)
    for _, path in sorted(used, reverse=True)[KEPT:]:
        shutil.rmtree(path, ignore_errors=True)
