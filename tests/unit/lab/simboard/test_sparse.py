"""Sparse images: those of img2simg unpack to the original; hostile ones are refused."""

from __future__ import annotations

import io
import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotoll.boards import sparse

BLOCK = 4096


def image(*chunks: tuple[int, int, bytes], blocks: int = 4, **head: int) -> bytes:
    fields = {"major": 1, "head": 28, "chunk_head": 12, "block": BLOCK, **head}
    data = sparse.FILE.pack(
        sparse.MAGIC,
        fields["major"],
        0,
        fields["head"],
        fields["chunk_head"],
        fields["block"],
        blocks,
        len(chunks),
        0,
    )
    for kind, count, body in chunks:
        data += sparse.CHUNK.pack(kind, 0, count, 12 + len(body)) + body
    return data


def unpacked(data: bytes) -> bytes:
    stream = io.BytesIO(data)
    header = sparse.read_header(stream)
    assert header is not None
    out = bytearray(header.unpacked)
    for at, piece in sparse.pieces(stream, header):
        out[at : at + len(piece)] = piece
    return bytes(out)


def test_every_kind_of_chunk() -> None:
    raw = bytes(range(256)) * 16
    data = image(
        (sparse.RAW, 1, raw),
        (sparse.SKIP, 1, b""),
        (sparse.CRC, 0, bytes(4)),
        (sparse.FILL, 2, b"abcd"),
    )
    assert unpacked(data) == raw + bytes(BLOCK) + b"abcd" * (2 * BLOCK // 4)


def test_images_of_img2simg_unpack(tmp_path: Path) -> None:
    if shutil.which("img2simg") is None:
        pytest.skip("img2simg is not installed (apt-get install android-sdk-libsparse-utils)")
    source = random.Random(1)
    blocks = [
        source.choice([bytes(BLOCK), b"\xff" * BLOCK, source.randbytes(BLOCK)]) for _ in range(900)
    ]
    raw, packed = tmp_path / "raw", tmp_path / "sparse"
    raw.write_bytes(b"".join(blocks))
    subprocess.run(["img2simg", raw, packed], check=True, capture_output=True)
    assert packed.stat().st_size < raw.stat().st_size
    assert unpacked(packed.read_bytes()) == raw.read_bytes()


def test_other_files_are_no_sparse_images() -> None:
    for data in (b"", b"x", bytes(100)):
        stream = io.BytesIO(data)
        assert sparse.read_header(stream) is None
        assert stream.tell() == 0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (image(major=2), "version 2"),
        (image(block=0), "blocks of 0"),
        (image(head=8), "heads of 8"),
        (image((sparse.RAW, 5, bytes(5 * BLOCK))), "ends behind the image"),
        (image((sparse.FILL, 1 << 31, b"abcd")), "ends behind the image"),
        (image((sparse.RAW, 1, b"short")), "chunk 0 is of type"),
        (image((0x1234, 1, b"")), "type 0x1234"),
        (image((sparse.RAW, 1, bytes(BLOCK)))[:-1], "cut in chunk 0"),
    ],
)
def test_damaged_images_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(sparse.SparseError, match=words):
        unpacked(data)


@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_bytes_are_refused_or_stay_inside(tail: bytes, cut: int) -> None:
    data = (image((sparse.FILL, 1, b"abcd"), (sparse.RAW, 1, bytes(BLOCK))) + tail)[: cut + 28]
    data = data[:28] + bytes(
        a ^ b for a, b in zip(data[28:], tail.ljust(len(data), b"\0"), strict=False)
    )
    stream = io.BytesIO(data)
    header = sparse.read_header(stream)
    assert header is not None
    try:
        for at, piece in sparse.pieces(stream, header):
            assert at + len(piece) <= header.unpacked
    except sparse.SparseError:
        pass


def test_magic_is_that_of_android() -> None:
    assert struct.pack("<I", sparse.MAGIC) == b"\x3a\xff\x26\xed"
