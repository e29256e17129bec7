"""Android boot images (header version 0): what iotoll has mkbootimg write, and a board reads."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

MAGIC = b"ANDROID!"
HEADER = struct.Struct("<8s10I16s512s32s1024s")
DTB_MAGIC = b"\xd0\x0d\xfe\xed"
UNPACKED_MAX = 256 << 20


class BootImageError(ValueError):
    """The bytes are no boot image that this board starts."""


@dataclass(frozen=True)
class BootImage:
    """A parsed boot image: ``kernel`` is an unpacked arm64 Image, ``dtb`` the blob behind it."""

    page_size: int
    kernel_address: int
    ramdisk_address: int
    tags_address: int
    kernel: bytes
    dtb: bytes
    ramdisk: bytes
    cmdline: str


def parse(data: bytes) -> BootImage:
    """Parse a boot image, in a partition or not; raises BootImageError."""
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        raise BootImageError("no Android boot image")
    fields = HEADER.unpack_from(data)
    kernel_size, kernel_at, ramdisk_size, ramdisk_at, second = fields[1:6]
    tags_at, page, version = fields[7], fields[8], fields[9]
    if page < 2048 or page & (page - 1) or page > 1 << 16:
        raise BootImageError(f"page size {page}")
    if version != 0 or second:
        raise BootImageError("only header version 0 without a second stage is started")
    kernel_end = page + kernel_size
    ramdisk_begin = page + -(-kernel_size // page) * page
    if not kernel_size or ramdisk_begin + ramdisk_size > len(data):
        raise BootImageError("the image is cut")
    kernel, dtb = _split(data[page:kernel_end])
    cmdline = (fields[12].rstrip(b"\0") + fields[14].rstrip(b"\0")).decode("ascii", "replace")
    ramdisk = data[ramdisk_begin : ramdisk_begin + ramdisk_size]
    return BootImage(page, kernel_at, ramdisk_at, tags_at, kernel, dtb, ramdisk, cmdline)


def _split(packed: bytes) -> tuple[bytes, bytes]:
    """Split a gzip'd kernel from the DTB behind it."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        kernel = unpacker.decompress(packed, UNPACKED_MAX)
    except zlib.error as error:
        raise BootImageError(f"the kernel is not gzip'd, or corrupt ({error})") from error
    if not unpacker.eof:
        raise BootImageError("the kernel is cut, or unpacks to more than 256 MiB")
    if kernel[0x38:0x3C] != b"ARM\x64":
        raise BootImageError("the kernel is not an arm64 Image")
    dtb = unpacker.unused_data
    if dtb[:4] != DTB_MAGIC or len(dtb) < int.from_bytes(dtb[4:8], "big"):
        raise BootImageError("no device tree behind the kernel")
    return kernel, dtb[: int.from_bytes(dtb[4:8], "big")]
