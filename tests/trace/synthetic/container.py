"""Writes trace.dat version 6, in either byte order, for 4- and 8-byte longs and any page size.

After the man page trace-cmd.dat.v6(5) and the kernel's Documentation/trace/ring-buffer-design.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

TIME_EXTEND = 30
PADDING = 29
DELTA_BITS = 27
SHORT_WORDS = 28  # a record of up to 28 words has its length in the type field


@dataclass(frozen=True)
class Layout:
    """How a machine lays out what it writes."""

    big_endian: bool = False
    long_size: int = 8
    page_size: int = 4096

    def pack(self, codes: str, *values: int) -> bytes:
        """``struct.pack`` in this byte order, without padding."""
        return struct.pack((">" if self.big_endian else "<") + codes, *values)

    @property
    def name(self) -> str:
        """Short name, such as ``be32-64k``."""
        order = "be" if self.big_endian else "le"
        return f"{order}{self.long_size * 8}-{self.page_size >> 10}k"


@dataclass(frozen=True)
class Record:
    """One record of a CPU's ring buffer: its time (ns) and its bytes."""

    time: int
    data: bytes


def header_page(layout: Layout) -> str:
    """The text of events/header_page."""
    n = layout.long_size
    rest = layout.page_size - 8 - n
    rows = [
        ("u64 timestamp", 0, 8, 0),
        ("local_t commit", 8, n, 1),
        ("int overwrite", 8, 1, 1),
        ("char data", 8 + n, rest, 0),
    ]
    return "".join(
        f"\tfield: {name};\toffset:{at};\tsize:{size};\tsigned:{signed};\n"
        for name, at, size, signed in rows
    )


HEADER_EVENT = """# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\tdata max type_len  == 28
"""


def ring_buffer(layout: Layout, records: Iterable[Record]) -> bytes:
    """The pages of one CPU."""
    head = 8 + layout.long_size
    room = layout.page_size - head
    pages: list[tuple[int, bytearray]] = []
    last = 0
    for record in records:
        body = _entry(layout, record.time - last, record.data) if pages else b""
        if not pages or len(pages[-1][1]) + len(body) > room:
            pages.append((record.time, bytearray()))
            body = _entry(layout, 0, record.data)
        pages[-1][1].extend(body)
        last = record.time
    commit = "q" if layout.long_size == 8 else "i"
    out = bytearray()
    for time, data in pages:
        out += layout.pack("Q" + commit, time, len(data)) + data.ljust(room, b"\0")
    return bytes(out)


def _word(layout: Layout, kind: int, delta: int) -> bytes:
    # The kernel's struct has two bit fields in one word; compilers fill it from the low bits on
    # little-endian machines and from the high bits on big-endian ones.
    word = kind << DELTA_BITS | delta if layout.big_endian else delta << 5 | kind
    return layout.pack("I", word)


def _entry(layout: Layout, delta: int, data: bytes) -> bytes:
    if delta < 0:
        raise ValueError("the records of a CPU are out of order")
    low = (1 << DELTA_BITS) - 1
    extend = b""
    if delta > low:
        extend = _word(layout, TIME_EXTEND, delta & low) + layout.pack("I", delta >> DELTA_BITS)
        delta = 0
    data = data.ljust(-(-len(data) // 4) * 4, b"\0")
    words = len(data) // 4
    if 0 < words <= SHORT_WORDS:
        return extend + _word(layout, words, delta) + data
    return extend + _word(layout, 0, delta) + layout.pack("I", len(data) + 4) + data


def trace_dat(
    layout: Layout,
    formats: Mapping[str, Sequence[str]],
    comms: Mapping[int, str],
    cpus: Sequence[Sequence[Record]],
    clock: str = "local",
    options: Mapping[int, bytes] | None = None,
) -> bytes:
    """A whole file. ``formats`` has the format texts of each system's events.

    ``options`` are more options of the file, by their numbers in trace-cmd.dat.v6(5).
    """

    def block(codes: str, data: bytes) -> bytes:
        return layout.pack(codes, len(data)) + data

    out = bytearray(b"\x17\x08\x44tracing6\0")
    out += bytes([layout.big_endian, layout.long_size]) + layout.pack("I", layout.page_size)
    out += b"header_page\0" + block("Q", header_page(layout).encode())
    out += b"header_event\0" + block("Q", HEADER_EVENT.encode())
    out += layout.pack("I", 0)  # no formats of ftrace's own events
    out += layout.pack("I", len(formats))
    for system, texts in formats.items():
        out += system.encode() + b"\0" + layout.pack("I", len(texts))
        out += b"".join(block("Q", text.encode()) for text in texts)
    out += block("I", b"") + block("I", b"")  # no kernel symbols, no printk formats
    out += block("Q", "".join(f"{pid} {comm}\n" for pid, comm in comms.items()).encode())
    out += layout.pack("I", len(cpus))
    known = f"[{clock}] global counter\n".encode() + b"\0"
    out += b"options  \0"
    for number, value in {4: known, **(options or {})}.items():
        out += layout.pack("H", number) + block("I", value)
    out += layout.pack("H", 0)
    out += b"flyrecord\0"
    parts = [ring_buffer(layout, records) for records in cpus]
    at = _aligned(len(out) + 16 * len(parts), layout.page_size)
    body = bytearray()
    for part in parts:
        out += layout.pack("QQ", at + len(body), len(part))
        body += part
    return bytes(out.ljust(at, b"\0") + body)


def _aligned(size: int, page: int) -> int:
    return -(-size // page) * page
