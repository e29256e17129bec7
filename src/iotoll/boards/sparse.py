"""Android sparse images, as fastboot sends them: read in one pass, hostile input expected."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

MAGIC = 0xED26FF3A
FILE = struct.Struct("<IHHHHIIII")
CHUNK = struct.Struct("<HHII")
RAW, FILL, SKIP, CRC = 0xCAC1, 0xCAC2, 0xCAC3, 0xCAC4
STEP = 1 << 20


class SparseError(ValueError):
    """The bytes are no valid sparse image."""


@dataclass(frozen=True)
class Header:
    """The head of a sparse image: block size in bytes, blocks when unpacked, chunks."""

    block: int
    blocks: int
    chunks: int
    head: int
    chunk_head: int

    @property
    def unpacked(self) -> int:
        """Bytes of the unpacked image."""
        return self.block * self.blocks


def read_header(stream: BinaryIO) -> Header | None:
    """Read the head of an image at the stream's begin; None when it is no sparse image."""
    raw = stream.read(FILE.size)
    if len(raw) < FILE.size or struct.unpack_from("<I", raw)[0] != MAGIC:
        stream.seek(0)
        return None
    _, major, _, head, chunk_head, block, blocks, chunks, _ = FILE.unpack(raw)
    if major != 1 or head < FILE.size or chunk_head < CHUNK.size or not block or block % 4:
        raise SparseError(f"version {major}, heads of {head} and {chunk_head}, blocks of {block}")
    stream.read(head - FILE.size)
    return Header(block, blocks, chunks, head, chunk_head)


def pieces(stream: BinaryIO, header: Header) -> Iterator[tuple[int, bytes]]:
    """Yield (offset in the unpacked image, bytes) of all that is written; at most 1 MiB each."""
    at = 0
    for number in range(header.chunks):
        kind, blocks, total = _chunk(stream, header, number)
        size = blocks * header.block
        if at + size > header.unpacked:
            raise SparseError(f"chunk {number} ends behind the image")
        body = total - header.chunk_head
        if kind == RAW and body == size:
            for done in range(0, size, STEP):
                yield at + done, _exactly(stream, min(STEP, size - done), number)
        elif kind == FILL and body == 4:
            word = _exactly(stream, 4, number)
            for done in range(0, size, STEP):
                yield at + done, word * (min(STEP, size - done) // 4)
        elif kind == CRC and body == 4:
            _exactly(stream, 4, number)
            continue
        elif not (kind == SKIP and body == 0):
            raise SparseError(f"chunk {number} is of type {kind:#x} with {body} bytes")
        at += size


def _chunk(stream: BinaryIO, header: Header, number: int) -> tuple[int, int, int]:
    raw = _exactly(stream, header.chunk_head, number)
    kind, _, blocks, total = CHUNK.unpack(raw[: CHUNK.size])
    return kind, blocks, total


def _exactly(stream: BinaryIO, size: int, number: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise SparseError(f"the image is cut in chunk {number}")
    return data
