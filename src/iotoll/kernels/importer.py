"""Brings a kernel source into the cache: from an archive, or by borrowing a git tree's objects."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import subprocess
import tarfile
import zlib
from pathlib import Path
from typing import IO, cast

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.progress import Progress, Step
from iotoll.kernels.tree import KernelTree, clean_env, run_tool

BASE_REF = "refs/heads/base"
"""Where an imported archive's commit is found."""

_BAD_ARCHIVE = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError)


def from_archive(tree: KernelTree, archive: Path, progress: Progress) -> None:
    """Import a source archive (tar, gz, bz2 or xz) once; about 20 s for a kernel.

    Goes through ``git fast-import`` from the compressed stream, so neither 80,000 files nor
    80,000 loose objects are written on the way. A killed import leaves nothing that counts.
    """
    if tree.git_dir.is_dir():
        return
    unfinished = KernelTree(tree.root)
    unfinished.git_dir = tree.root / "git.unfinished"
    shutil.rmtree(unfinished.git_dir, ignore_errors=True)
    _init(unfinished)
    size = archive.stat().st_size
    with progress.step(f"unpack {archive.name}", total=size) as step, archive.open("rb") as raw:
        try:
            with _decompress(raw) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
                _fast_import(unfinished, tar, raw, step)
                # tarfile ends in silence where a stream is cut; its decompressor does not.
                while stream.read(1 << 20):
                    pass
        except _BAD_ARCHIVE as error:
            raise UsageError(
                f"{archive}: cannot be unpacked ({error}): fetch or install it again"
            ) from error
    unfinished.git_dir.rename(tree.git_dir)


def from_git(tree: KernelTree, objects: Path) -> None:
    """Borrow the objects of a git repository (its ``objects`` folder) without copying them."""
    if not tree.git_dir.is_dir():
        unfinished = KernelTree(tree.root)
        unfinished.git_dir = tree.root / "git.unfinished"
        shutil.rmtree(unfinished.git_dir, ignore_errors=True)
        _init(unfinished)
        (unfinished.git_dir / "objects" / "info" / "alternates").write_text(f"{objects}\n")
        unfinished.git_dir.rename(tree.git_dir)


def _decompress(raw: IO[bytes]) -> IO[bytes]:
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\xfd7zXZ"):
        return lzma.open(raw)
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(raw))
    return bz2.open(raw) if magic.startswith(b"BZh") else raw


def _init(tree: KernelTree) -> None:
    command = ["git", "init", "-q", "--bare", "--template=", str(tree.git_dir)]
    done = run_tool(command, cwd=tree.root, stdin=None, env=clean_env())
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip()
        raise InfrastructureError(f"git init in {tree.root}: {words}: free disk space", words)
    (tree.git_dir / "objects" / "info").mkdir(parents=True, exist_ok=True)
    # Bytes as they are (no line-ending or attribute magic), and no surprise background gc.
    settings = {"core.bare": "false", "core.autocrlf": "false", "gc.auto": "0"}
    for key, value in settings.items():
        tree.git("config", key, value)


def _fast_import(tree: KernelTree, tar: tarfile.TarFile, raw: IO[bytes], step: Step) -> None:
    command = ["git", f"--git-dir={tree.git_dir}", "-c", "core.compression=1"]
    command += ["-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--done", "--depth=0"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_env()
    ) as process:
        assert process.stdin is not None and process.stderr is not None
        try:
            _write_stream(process.stdin, tar, raw, step)
            process.stdin.close()
        except BrokenPipeError:
            pass  # git died; its own words follow
        words = process.stderr.read().decode("utf-8", "replace").strip()
    if process.returncode:
        raise InfrastructureError(f"git fast-import into {tree.root}: {words or 'failed'}", words)


def _write_stream(out: IO[bytes], tar: tarfile.TarFile, raw: IO[bytes], step: Step) -> None:
    out.write(
        f"commit {BASE_REF}\ncommitter iotoll <iotoll@localhost> 0 +0000\ndata 0\n\n".encode()
    )
    count = 0
    for member in tar:
        mode, data = _content(tar, member)
        name = member.name.removeprefix("./").partition("/")[2]
        if mode and name:
            out.write(b"M %s inline %s\ndata %d\n" % (mode, _quoted(name), len(data)))
            out.write(data)
            out.write(b"\n")
            count += 1
        if count % 500 == 0:
            step.update(completed=raw.tell(), note=f"{count} files")
    out.write(b"done\n")


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[bytes, bytes]:
    """Return git's mode and the bytes of one member; an empty mode for folders and the like."""
    if member.issym():
        return b"120000", member.linkname.encode()
    stream = tar.extractfile(member) if member.isreg() else None
    if stream is None:
        return b"", b""
    return (b"100755" if member.mode & 0o100 else b"100644"), stream.read()


def _quoted(name: str) -> bytes:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return b'"%s"' % escaped.encode("utf-8", "surrogateescape")
