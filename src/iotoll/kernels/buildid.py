"""The build-id of a kernel: what its linker made of its contents, and /sys/kernel/notes shows."""

from __future__ import annotations

import mmap
from pathlib import Path

NAME = "build-ids"
"""The file beside a kernel image that holds them, one a line."""
_NOTE = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"
"""Head of an ELF note NT_GNU_BUILD_ID of 20 bytes, little-endian."""


def build_ids(path: Path) -> list[str]:
    """The build-ids in a vmlinux or an uncompressed image, in hex; a vDSO in it has its own.

    Empty where there is no such file, or it is compressed, or was linked without.
    """
    found: list[str] = []
    if not path.is_file():
        return found
    with path.open("rb") as stream:
        if path.stat().st_size == 0:
            return found
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = data.find(_NOTE)
            while at >= 0:
                start = at + len(_NOTE)
                found.append(data[start : start + 20].hex())
                at = data.find(_NOTE, start)
    return sorted(set(found))


def noted(folder: Path) -> list[str]:
    """The build-ids that were noted beside an image; those in the image itself if none were."""
    path = folder / NAME
    return (
        path.read_text(errors="replace").split() if path.is_file() else build_ids(folder / "Image")
    )
