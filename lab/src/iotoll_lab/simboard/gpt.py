"""Partition tables as a board's firmware has them: GPT with the disk's own block size.

util-linux writes a GPT of 4 KiB blocks only to a block device, and a simulated disk is a file.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ENTRIES = 128
ENTRY = struct.Struct("<16s16sQQQ72s")
HEADER = struct.Struct("<8s4sIIIQQQQ16sQIII")
SIGNATURE = b"EFI PART"
REVISION = b"\0\0\1\0"
LINUX = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")


@dataclass(frozen=True)
class Partition:
    """One partition; ``start`` and ``size`` are in bytes."""

    name: str
    start: int
    size: int


class TableError(ValueError):
    """The bytes are no valid partition table."""


def build(partitions: Sequence[Partition], disk: int, block: int) -> tuple[bytes, bytes]:
    """Return the table for the disk's begin (with a protective MBR) and that for its end.

    ``disk`` and ``block`` are in bytes. Ids are derived from the names: same table, same bytes.
    """
    blocks, table = disk // block, -(-ENTRIES * ENTRY.size // block)
    first, last = 2 + table, blocks - table - 2
    entries = bytearray(ENTRIES * ENTRY.size)
    for index, item in enumerate(partitions):
        start, end = item.start // block, (item.start + item.size) // block - 1
        if item.start % block or item.size % block or start < first or end > last:
            raise TableError(f"partition {item.name} does not fit on a disk of {disk} bytes")
        name = item.name.encode("utf-16-le")
        unique = uuid.uuid5(uuid.NAMESPACE_DNS, f"{item.name}.partition.iotoll")
        ENTRY.pack_into(
            entries, index * ENTRY.size, LINUX.bytes_le, unique.bytes_le, start, end, 0, name
        )
    padded = bytes(entries).ljust(table * block, b"\0")

    def header(own: int, other: int, at: int) -> bytes:
        unique = uuid.uuid5(uuid.NAMESPACE_DNS, "disk.iotoll").bytes_le
        rest = (own, other, first, last, unique, at, ENTRIES, ENTRY.size, zlib.crc32(entries))
        blank = HEADER.pack(SIGNATURE, REVISION, HEADER.size, 0, 0, *rest)
        full = HEADER.pack(SIGNATURE, REVISION, HEADER.size, zlib.crc32(blank), 0, *rest)
        return full.ljust(block, b"\0")

    mbr = bytearray(block)
    mbr[446:462] = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xEE, b"\xff" * 3, 1, blocks - 1)
    mbr[510:512] = b"\x55\xaa"
    begin = bytes(mbr) + header(1, blocks - 1, 2) + padded
    return begin, padded + header(blocks - 1, 1, blocks - 1 - table)


def parse(read: Callable[[int, int], bytes], disk: int, block: int) -> list[Partition]:
    """Read the table at the disk's begin; ``read`` takes offset and length. Raises TableError."""
    raw = read(block, HEADER.size)
    if len(raw) < HEADER.size or raw[:8] != SIGNATURE:
        raise TableError("no GPT on the disk")
    fields = HEADER.unpack(raw)
    size, crc, at, count, each, table_crc = (fields[i] for i in (2, 3, 10, 11, 12, 13))
    blank = raw[:16] + bytes(4) + raw[20:]
    if size != HEADER.size or zlib.crc32(blank) != crc:
        raise TableError("the GPT's header is corrupt")
    if each != ENTRY.size or not 0 < count <= ENTRIES:
        raise TableError(f"a GPT of {count} entries of {each} bytes is not understood")
    entries = read(at * block, count * each)
    if zlib.crc32(entries) != table_crc:
        raise TableError("the GPT's entries are corrupt")
    found = []
    for type_id, _, start, end, _, name in ENTRY.iter_unpack(entries):
        if type_id == bytes(16):
            continue
        item = Partition(_name(name), start * block, (end - start + 1) * block)
        if item.size <= 0 or item.start + item.size > disk:
            raise TableError(f"partition {item.name} ends behind the disk")
        found.append(item)
    return found


def _name(raw: bytes) -> str:
    return raw.decode("utf-16-le", "replace").split("\0", 1)[0]
