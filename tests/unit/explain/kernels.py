"""Small kernel images and records for the tests of explain: real tables, made-up functions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from gzip import compress
from pathlib import Path

import numpy as np

from iotoll.explain.record import Record
from iotoll.kernels.symbols import Symbols

BASE = 0xFFFF_8000_8000_0000
NOP, RET, ERET = 0xD503201F, 0xD65F03C0, 0xD69F03E0


def call(place: int, target: int) -> int:
    """The instruction ``bl`` from an address to another one."""
    return 0x94000000 | (target - place) // 4 & 0x3FFFFFF


def symbols(functions: dict[str, list[int]], gap: int = 0) -> Symbols:
    """Functions one after the other, as words; ``gap`` more instructions lie before the first."""
    code = [NOP] * gap
    starts = []
    for words in functions.values():
        starts.append(BASE + 4 * len(code))
        code += words
    image = np.array(code, "<u4").tobytes()
    return Symbols(np.array(starts, np.uint64), tuple(functions), image, BASE)


HEAD = 64
"""Words before the first function of a `TracedImage`: its first bytes are the header."""


class TracedImage:
    """Made-up functions, a jump table behind them, and relocations of tracepoints' structures."""

    def __init__(self, functions: dict[str, list[int]]) -> None:
        self.starts = {}
        words = [0] * HEAD
        for name, code in functions.items():
            self.starts[name] = BASE + 4 * len(words)
            words += code
        self._words = words
        self._names = tuple(functions)

    def symbols(self, sites: list[tuple[int, int, str]], packed: bool = False) -> Symbols:
        """``sites`` are branch, block, and the event whose key it has; ``packed``: by RELR."""
        data = np.array(self._words, "<u4").tobytes()
        data += bytes(-len(data) % 8)
        table = BASE + len(data)
        events = sorted({event for _, _, event in sites if event})
        # As many entries as a kernel has: the rest are branches of no tracepoint.
        filler = self.starts["filler"]
        rows = [*sites, *[(filler + 4 * n, filler + 4 * n + 4, "") for n in range(16)]]
        keys = {event: BASE + 0x100000 + 0x100 * n for n, event in enumerate(["", *events])}
        for n, (branch, block, event) in enumerate(rows):
            at = table + 16 * n
            data += struct.pack("<iiq", branch - at, block - at - 4, keys[event] - at - 8 | 1)
        for event in events:
            place, value = keys[event] + 32, self.starts[f"__traceiter_{event}"]
            if packed:
                data += bytes(place - BASE - len(data)) + struct.pack("<Q", value)
            else:
                data += struct.pack("<QQQ", place, 1027, value)
        starts = np.array([self.starts[name] for name in self._names], np.uint64)
        return Symbols(starts, self._names, data, BASE)


def record(
    blocks: list[tuple[int, int]], runs: list[tuple[int, int]], marks: list[tuple[int, int, int]]
) -> Record:
    """Blocks (address, instructions), runs (block, executed) and marks (run, probe, value)."""
    done = np.concatenate([[0], np.cumsum([count for _, count in runs])]).astype(np.int64)
    rows = [(run, int(done[run]), probe, value) for run, probe, value in marks]
    kinds = [("run", "<u8"), ("executed", "<u8"), ("probe", "<u8"), ("value", "<u8")]
    return Record(
        np.array(blocks, [("address", "<u8"), ("instructions", "<u8")]),
        np.array([block << 10 | count for block, count in runs], np.uint32),
        np.array(rows, kinds),
    )


LAYOUTS = ("6.4", "6.4 packed", "5.10", "5.10 packed", "7", "7 packed")
"""Of kallsyms' tables: Linux 6.4 to 6.19, up to 6.3, and from 7 on; packed: by RELR."""


def _tables(names: dict[str, int]) -> list[bytes]:
    """Number of names, names, markers, tokens and their index."""
    tokens = [chr(code) if 32 < code < 127 else f"t{code}" for code in range(256)]
    table, index = b"", []
    for token in tokens:
        index.append(len(table))
        table += token.encode() + b"\0"
    compressed, marks = b"", []
    for number, name in enumerate(names):
        if number % 256 == 0:
            marks.append(len(compressed))
        compressed += _length(len(name)) + name.encode()
    return [
        struct.pack("<I", len(names)),
        compressed,
        struct.pack(f"<{len(marks)}I", *marks),
        table,
        struct.pack("<256H", *index),
    ]


def kallsyms_image(path: Path, names: dict[str, int], layout: str = "6.4") -> Path:
    """An arm64 Image with the tables of scripts/kallsyms.c; names (with type) to offsets."""
    release, _, packed = layout.partition(" ")
    size = 4 if release == "7" else 8
    offsets, parts = list(names.values()), _tables(names)
    first = struct.pack(f"<{len(offsets)}I", *offsets)
    base = struct.pack("<Q", BASE + 4096 if packed else 0)
    image = bytearray(4096)
    image[56:60] = b"ARM\x64"
    place = 0
    for part in {"5.10": [first, base, *parts], "6.4": [*parts, first, base], "7": parts}[release]:
        place = len(image) if part is base else place
        image += part
        image += bytes(-len(image) % size)
    pairs = [(place, 4096)]
    if release == "7":
        at = len(image)
        here = [4096 + offset - at - 4 * number for number, offset in enumerate(offsets)]
        image += struct.pack(f"<{len(here)}i", *here)
        # The symbols by name, which may look like one more offset.
        image += b"\0\1\2" * len(names)
        image += bytes(-len(image) % 8)
        pairs = [(0, 4096 + offsets[0]), (8, 4096 + offsets[-1]), (16, 77)]
    for place, value in pairs:
        if not packed:
            image += struct.pack("<3Q", BASE + place, 1027, BASE + value)
        elif release == "7":
            image += struct.pack("<Q", BASE + value)
    path.write_bytes(bytes(image))
    return path


X86 = 0xFFFF_FFFF_8100_0000


def bzimage(path: Path, names: dict[str, int], pack: Callable[[bytes], bytes] = compress) -> Path:
    """An x86-64 bzImage of Linux 6.4 and later; names (with type) to offsets from `X86`, of
    per-CPU variables (type a) to addresses."""
    rows = [one if name[0] == "a" else -1 - one for name, one in names.items()]
    image = bytearray(4096)
    for part in [*_tables(names), struct.pack(f"<{len(rows)}i", *rows), struct.pack("<Q", X86)]:
        image += part
        image += bytes(-len(image) % 8)
    segments = [(X86, bytes(image)), (0, bytes(64)), (X86 + len(image) + 4096, b"init")]
    elf, at = b"", 64 + 56 * len(segments)
    for address, part in segments:
        elf += struct.pack("<IIQQQQQQ", 1, 0, at, address, 0, len(part), len(part), 4096)
        at += len(part)
    head = struct.pack("<32xQ16xH6x", 64, len(segments))
    packed = pack(head + elf + b"".join(part for _, part in segments))
    setup = bytearray(1024)
    setup[0x1F1], setup[0x202:0x206] = 1, b"HdrS"
    setup[0x248:0x250] = struct.pack("<II", 16, len(packed))
    path.write_bytes(bytes(setup) + bytes(16) + packed)
    return path


def _length(size: int) -> bytes:
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])
