"""The parts of an uncompressed trace.dat of version 6, little-endian, as trace-cmd writes it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass


class Reader:
    """Walks the sections of a file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        taken = self.data[self.at : self.at + count]
        self.at += count
        return taken

    def number(self, size: int) -> int:
        """The next unsigned integer of ``size`` bytes."""
        return int.from_bytes(self.take(size), "little")

    def block(self, size: int) -> bytes:
        """A block behind its length of ``size`` bytes."""
        return self.take(self.number(size))

    def blocks(self) -> list[bytes]:
        """Some blocks behind their number."""
        return [self.block(8) for _ in range(self.number(4))]

    def text(self) -> str:
        """A null-terminated string without its null."""
        end = self.data.index(b"\0", self.at)
        found = self.take(end - self.at)
        self.at += 1
        return found.decode()


@dataclass(frozen=True)
class Plain:
    """A file's parts; ``pages`` are offsets by CPU, the formats' texts are by system."""

    magic: bytes
    page_size: int
    headers: dict[str, bytes]
    ftrace: list[bytes]
    systems: list[tuple[str, list[bytes]]]
    cmdlines: bytes
    options: bytes
    pages: list[Sequence[int]]


def parts_of(data: bytes) -> Plain:
    """Read a file."""
    reader = Reader(data)
    magic = reader.take(10 + 2 + 1 + 1)
    page_size = reader.number(4)
    headers = {reader.text(): reader.block(8) for _ in ("header_page", "header_event")}
    ftrace = reader.blocks()
    systems = [(reader.text(), reader.blocks()) for _ in range(reader.number(4))]
    reader.block(4), reader.block(4)  # kallsyms and printk formats
    cmdlines = reader.block(8)
    cpus = reader.number(4)
    start = reader.at
    reader.take(10)
    while reader.number(2):
        reader.block(4)
    reader.take(10)
    options = data[start : reader.at]
    places = [(reader.number(8), reader.number(8)) for _ in range(cpus)]
    pages = [range(at, at + size, page_size) for at, size in places]
    return Plain(magic, page_size, headers, ftrace, systems, cmdlines, options, [*pages])


def event_name(form: bytes) -> str:
    """The event that a format is of."""
    return form.split(b"\n")[0].removeprefix(b"name: ").decode()


def stamp(data: bytes, page: int) -> int:
    """A page's time stamp (clock units)."""
    return int.from_bytes(data[page : page + 8], "little")


def repeated(data: bytes, times: int) -> bytes:
    """The same file with its events ``times`` times, each after the other in time."""
    parts = parts_of(data)
    head = data[: data.rindex(parts.options) + len(parts.options)]
    stamps = [stamp(data, page) for pages in parts.pages for page in pages]
    period = 2 * (max(stamps) - min(stamps)) + 1_000_000_000
    at = -(-(len(head) + 16 * len(parts.pages)) // parts.page_size) * parts.page_size
    places, body = b"", bytearray()
    for pages in parts.pages:
        places += struct.pack("<QQ", at + len(body), times * len(pages) * parts.page_size)
        for copy in range(times):
            for page in pages:
                body += struct.pack("<Q", stamp(data, page) + copy * period)
                body += data[page + 8 : page + parts.page_size]
    return (head + places).ljust(at, b"\0") + bytes(body)
