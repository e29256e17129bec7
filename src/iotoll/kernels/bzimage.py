"""What an x86-64 bzImage unpacks in memory: the kernel's code and data from its first address on.

The layout is that of Documentation/arch/x86/boot.rst: the boot sector says where the packed vmlinux
lies, an ELF file whose segments say where they belong.
"""

from __future__ import annotations

import struct
import zlib

from iotoll.core.errors import UsageError

_MAGIC = slice(0x202, 0x206)
_SECTORS = 0x1F1  # of 512 bytes each, behind the first one
_PAYLOAD = 0x248
_GZIP = b"\x1f\x8b"
_LOAD = 1
_KERNEL = 1 << 63
"""Addresses of the kernel; the segment of per-CPU variables has others."""


def is_bzimage(data: bytes) -> bool:
    """Whether the bytes are those of a bzImage."""
    return data[_MAGIC] == b"HdrS"


def unpacked(data: bytes) -> tuple[bytes, int]:
    """The kernel as it lies in memory, and its first address; raises UsageError if it cannot be."""
    if len(data) < _PAYLOAD + 8:
        raise UsageError("is cut off")
    first, size = struct.unpack_from("<II", data, _PAYLOAD)
    at = ((data[_SECTORS] or 4) + 1) * 512 + first
    packed = data[at : at + size]
    if not packed.startswith(_GZIP):
        raise UsageError("its kernel is not packed by gzip: build it with CONFIG_KERNEL_GZIP")
    try:
        return _in_memory(zlib.decompressobj(31).decompress(packed))
    except (zlib.error, struct.error, ValueError) as error:
        raise UsageError(f"its packed kernel cannot be read: {error}") from error


def _in_memory(elf: bytes) -> tuple[bytes, int]:
    (table,) = struct.unpack_from("<Q", elf, 32)
    (count,) = struct.unpack_from("<H", elf, 56)
    rows = [struct.unpack_from("<IIQQQQQQ", elf, table + 56 * row) for row in range(count)]
    parts = [
        (address, elf[place : place + size])
        for kind, _, place, address, _, size, _, _ in rows
        if kind == _LOAD and address >= _KERNEL
    ]
    base = min(address for address, _ in parts)
    image = bytearray(max(address + len(part) for address, part in parts) - base)
    for address, part in parts:
        image[address - base : address - base + len(part)] = part
    return bytes(image), base
