"""The functions of a kernel image: names and addresses from its own kallsyms tables.

The image that booted is the source, so that a ready-made image, or one whose build folder has been
used for another kernel since, has its own symbols. The tables are those that scripts/kallsyms.c
writes: number of names, compressed names, markers, tokens, index of tokens; then offsets, and up to
Linux 6 their base. Up to Linux 6.3 these two stand first (404bad70fcf7 moved them). Each is checked
against the next, so nothing is guessed from a chance match. Of x86-64, the kernel is unpacked
from its bzImage.

Pointers of an image are where they belong, or, if it is relocatable and not packed by RELR (as
binutils from 2.43 on pack it), in its relocation table, and 0 where they belong.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotoll.core.errors import UsageError
from iotoll.kernels.x86 import LONGEST, decode, instructions

ARM64, X86_64 = "arm64", "x86_64"
"""Machines whose code is understood."""

RET = 0xD65F03C0
"""The instruction ``ret`` of arm64."""

NOWHERE = "[unknown]"
"""Where an address belongs to no function of the image: code that the kernel made at run time."""

USER = "[user space]"

_DIGITS = b"".join(b"%d\0" % digit for digit in range(10))
_ALIGNED = 8, 4
"""What tables are aligned to: of Linux up to 6, and of Linux 7."""
_BEHIND = 16  # words behind the last offset that may look like one more
_MARKED = 256  # kallsyms_markers has the offset of every 256th name
_TEXT = "tTwW"
_RELATIVE = 1027  # R_AARCH64_RELATIVE
_IMAGE_ALIGNED = 1 << 21  # of an arm64 image in memory, but for what its header says
_TEXT_OFFSET = 8  # of that in the header: 0 from Linux 5.8 on
_KERNEL = 0xFFF0 << 48  # first address of the kernel, of up to 52 bits
_FEWEST = 1000  # names that a kernel has at least

_BZIMAGE = slice(0x202, 0x206)  # of x86-64: Documentation/arch/x86/boot.rst
_SECTORS = 0x1F1  # of 512 bytes each, behind the first one
_PAYLOAD = 0x248
_GZIP = b"\x1f\x8b"
_LOAD = 1


@dataclass(frozen=True, eq=False)
class Symbols:
    """Functions in order of address; ``starts`` has shape (functions,), unsigned addresses.

    A function reaches to the next one. Of several names of one address the first is used. Equal is
    only what is the same object, as `read_symbols` returns it for the same bytes.
    """

    starts: npt.NDArray[np.uint64]
    names: tuple[str, ...]
    image: bytes
    base: int
    machine: str = ARM64

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The first function of each name."""
        return {name: number for number, name in reversed(list(enumerate(self.names)))}

    def index(self, addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Number of the function that holds each address; -1: user space, -2: none of the image."""
        found = np.searchsorted(self.starts, addresses, side="right").astype(np.int64) - 1
        found[(found < 0) | (addresses >= np.uint64(self.base + len(self.image)))] = -2
        found[addresses < np.uint64(1 << 63)] = -1
        return found

    def words(self, addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
        """The instructions at addresses, as the image has them; 0 where it has none."""
        code = np.frombuffer(self.image, "<u4", len(self.image) // 4)
        place = (addresses - np.uint64(self.base)) // np.uint64(4)
        inside = (addresses >= np.uint64(self.base)) & (place < len(code))
        return np.where(inside, code[np.where(inside, place, 0)], 0).astype(np.uint32)

    def name(self, index: int) -> str:
        """Name of a function by the number that `index` gave."""
        return {-1: USER, -2: NOWHERE}.get(index) or self.names[index]

    def span(self, name: str) -> tuple[int, int] | None:
        """First address of a function, and the first one behind it; None if there is none."""
        number = self._numbers.get(name)
        if number is None:
            return None
        last = self.base + len(self.image)
        end = int(self.starts[number + 1]) if number + 1 < len(self.names) else last
        return int(self.starts[number]), end

    def code(self, name: str) -> bytes:
        """The bytes of a function; empty if there is none of that name."""
        span = self.span(name)
        return self.image[span[0] - self.base : span[1] - self.base] if span else b""

    @cached_property
    def codes(self) -> dict[str, bytes]:
        """The bytes of each function by its name, in order of address."""
        return {name: self.code(name) for name in self.names}

    def instructions(self, name: str) -> npt.NDArray[np.uint64]:
        """Addresses of a function's instructions, padding included; none if there is none."""
        return self.instructions_in(*(self.span(name) or (self.base, self.base)))

    def instructions_in(self, begin: int, end: int) -> npt.NDArray[np.uint64]:
        """The same of the code from an instruction's address on to before another one."""
        if self.machine == ARM64:
            return np.arange(begin, end, 4, dtype=np.uint64)
        code = np.frombuffer(self.image[begin - self.base : end - self.base], np.uint8)
        return np.uint64(begin) + instructions(code)[0].place.astype(np.uint64)

    def behind(self, address: int) -> int:
        """The address behind the instruction at another one."""
        if self.machine == ARM64:
            return address + 4
        at = address - self.base
        code = np.frombuffer(self.image[at : at + LONGEST], np.uint8)
        return address + int(decode(code).length[0])

    def pointers(self, values: npt.NDArray[np.uint64]) -> list[tuple[int, int]]:
        """Where the image has pointers to some addresses, and to which: (place, address)."""
        words = np.frombuffer(self.image, "<u8", len(self.image) // 8)
        hits = np.flatnonzero(np.isin(words, values.astype(np.uint64)))
        relocated = (hits > 1) & (words[hits - 1] == _RELATIVE)
        places = np.where(relocated, words[hits - 2], np.uint64(self.base) + 8 * hits.astype("<u8"))
        return list(zip(places.tolist(), words[hits].tolist(), strict=True))

    def returns(self, name: str) -> list[int]:
        """Addresses of the ``ret`` instructions of a function."""
        words = np.frombuffer(self.code(name)[: len(self.code(name)) // 4 * 4], "<u4")
        span = self.span(name)
        return [span[0] + 4 * int(i) for i in np.nonzero(words == RET)[0]] if span else []


def read_symbols(image: Path) -> Symbols:
    """Read the functions of an uncompressed arm64 Image; raises UsageError if it has no table.

    Of the images that were read last, the functions are remembered, by all of an image's bytes.
    """
    try:
        data = image.read_bytes()
    except OSError as error:
        raise UsageError(f"{image}: cannot be read: {error.strerror}") from error
    if data[56:60] != b"ARM\x64":
        raise UsageError(f"{image}: is not an uncompressed arm64 Image: only those are explained")
    found = _symbols(data)
    if found is None:
        raise UsageError(f"{image}: has no symbol table: build it with KALLSYMS and RELOCATABLE")
    return found


def read_functions(image: Path) -> Symbols:
    """As `read_symbols`, also of an x86-64 bzImage."""
    try:
        data = image.read_bytes()
    except OSError as error:
        raise UsageError(f"{image}: cannot be read: {error.strerror}") from error
    if data[_BZIMAGE] != b"HdrS":
        return read_symbols(image)
    try:
        found = _symbols(*_unpacked(data))
    except UsageError as error:
        raise UsageError(f"{image}: {error}") from error
    if found is None:
        raise UsageError(f"{image}: has no symbol table: build it with KALLSYMS")
    return found


def _unpacked(data: bytes) -> tuple[bytes, int]:
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
        if kind == _LOAD and address >> 63
    ]
    base = min(address for address, _ in parts)
    image = bytearray(max(address + len(part) for address, part in parts) - base)
    for address, part in parts:
        image[address - base : address - base + len(part)] = part
    return bytes(image), base


@lru_cache(maxsize=4)  # two kernels, and the same two with function_graph's profiler
def _symbols(data: bytes, base: int | None = None) -> Symbols | None:
    """``base`` is the image's first address where that is known: then it is of x86-64."""
    at = data.find(_DIGITS)
    while at >= 0:
        found = _tables(data, at, base)
        if found is not None:
            return found
        at = data.find(_DIGITS, at + 1)
    return None


def _tables(data: bytes, digits: int, image: int | None) -> Symbols | None:
    """All tables around the tokens of the digits at a place; None where they do not agree."""
    start = digits
    for _ in range(ord("0")):
        start = data.rfind(b"\0", 0, start - 1) + 1
    tokens, ends = [], [start]
    for _ in range(256):
        end = data.index(b"\0", ends[-1])
        tokens.append(data[ends[-1] : end])
        ends.append(end + 1)
    expected = [place - start for place in ends[:-1]]
    for size in _ALIGNED:
        index = _aligned(ends[-1], size)
        if data[index : index + 512] != struct.pack("<256H", *expected):
            continue
        known = (
            _addresses(data, index + 512) if image is None else _of_x86(data, index + 512, image)
        )
        for base, addresses in known:
            names = _names(data, tokens, len(addresses), start, size)
            if names is not None:
                machine = ARM64 if image is None else X86_64
                return _functions(data, base, addresses, names, machine)
        if size == _ALIGNED[0] and image is None:
            found = _before_6_4(data, tokens, start)
            if found is not None:
                return found
    return None


def _before_6_4(data: bytes, tokens: list[bytes], end: int) -> Symbols | None:
    """Tables of Linux up to 6.3: offsets, their base and the number of names, then the names."""
    size = _ALIGNED[0]
    words = np.frombuffer(data[: end // size * size], "<u4")
    counts = words[0::2].astype(np.int64)
    first = 2 * np.arange(len(counts)) - 2 - (counts + 1) // 2 * 2
    likely = (words[1::2] == 0) & (counts >= _FEWEST) & (first >= 0)
    likely &= words[np.where(likely, first, 0)] == 0
    for number in np.flatnonzero(likely)[::-1].tolist():
        count, offsets = int(counts[number]), words[first[number] :][: counts[number]]
        if np.all(offsets[1:] >= offsets[:-1]):
            bases = _bases(data, size * (number - 1))
            names = _expand(data, tokens, count, size * (number + 1), end, size)
            if bases is not None and names is not None:
                image, base = bases
                return _functions(data, image, [base + int(o) for o in offsets], names)
    return None


def _addresses(data: bytes, offsets: int) -> Iterator[tuple[int, list[int]]]:
    """What a table of offsets may be: the address of the image's first byte, and the symbols'."""
    found = _offsets(data, offsets)
    if found is not None:
        base, first, values = found
        yield base, [first + int(offset) for offset in values]
    yield from _relative(data, offsets)


def _of_x86(data: bytes, start: int, image: int) -> Iterator[tuple[int, list[int]]]:
    """Of x86-64 (KALLSYMS_ABSOLUTE_PERCPU): offsets below 0 count down from behind the base, and
    others are addresses of per-CPU variables. The base behind them is the image's own."""
    at = data.find(struct.pack("<Q", image), _aligned(start, 8))
    while at >= 0 and at % 8:
        at = data.find(struct.pack("<Q", image), at + 1)
    count = (at - start) // 4
    # One word may be there to align the base.
    for number in (count, count - 1) if at >= 0 else ():
        offsets = np.frombuffer(data, "<i4", number, start).astype(object)
        yield image, [one if one >= 0 else image - 1 - one for one in offsets]


def _relative(data: bytes, start: int) -> Iterator[tuple[int, list[int]]]:
    """Of Linux 7: each offset is from its own place, and what is behind may continue the order."""
    words = np.frombuffer(data[start : start + (len(data) - start) // 4 * 4], "<i4")
    targets = start + 4 * np.arange(len(words)) + words
    down = np.nonzero((targets[1:] < targets[:-1]) | (targets[1:] < 0))[0]
    count = int(down[0]) + 1 if len(down) else len(words)
    base = _base_of(data, targets[:count])
    if base is None:
        return
    for number in range(count, max(count - _BEHIND, 0), -1):
        yield base, [base + target for target in targets[:number].tolist()]


def _base_of(data: bytes, symbols: npt.NDArray[np.int64]) -> int | None:
    """The address of the image's first byte: that with which most pointers are symbols."""
    words = np.frombuffer(data[: len(data) // 8 * 8], "<u8")
    places = np.append(words[1:] == _RELATIVE, False)  # of the relocation table
    values = words[(words >= np.uint64(_KERNEL)) & ~places]
    parts, counts = np.unique(values // np.uint64(_IMAGE_ALIGNED), return_counts=True)
    if not len(parts):
        return None
    # Most pointers of a kernel lead into its own image.
    highest = int(parts[np.argmax(counts)]) * _IMAGE_ALIGNED
    bases = range(highest, highest - len(data) - _IMAGE_ALIGNED, -_IMAGE_ALIGNED)
    hits = {b: int(np.isin(values - np.uint64(b), symbols).sum()) for b in bases}
    best = max(hits, key=lambda b: hits[b])
    return best if hits[best] else None


def _offsets(data: bytes, start: int) -> tuple[int, int, npt.NDArray[np.uint32]] | None:
    """Addresses of image and base, and the offsets: increasing, the base right behind them."""
    words = np.frombuffer(data[start : start + (len(data) - start) // 4 * 4], "<u4")
    down = np.nonzero(words[1:] < words[:-1])[0]
    if not len(down):
        return None
    count = int(down[0]) + 1
    # The base's own low half may continue the order, or a padding word may end it.
    for number in (count, count - 1, count - 2):
        at = _aligned(start + 4 * number, 8)
        bases = _bases(data, at) if number > 0 else None
        if bases is not None:
            return *bases, words[:number]
    return None


def _bases(data: bytes, at: int) -> tuple[int, int] | None:
    """Addresses of the image's first byte, and of what the offsets count from.

    Where the image holds that address itself, it is one of the image's first. Else a relocation
    entry has the address of that place and the value.
    """
    words = np.frombuffer(data[: len(data) // 8 * 8], "<u8")
    value, behind = int(words[at // 8]), struct.unpack_from("<Q", data, _TEXT_OFFSET)[0]
    if value:
        image = (value - behind) // _IMAGE_ALIGNED * _IMAGE_ALIGNED + behind
        return (image, value) if value >= _KERNEL else None
    types = np.nonzero(words[1:-1] == _RELATIVE)[0] + 1
    images, values = words[types - 1] - np.uint64(at), words[types + 1]
    low = images & np.uint64(_IMAGE_ALIGNED - 1)
    hits = (low == 0) & (values >= images) & (values - images < len(data))
    if np.count_nonzero(hits) != 1:
        return None
    return int(images[hits][0]), int(values[hits][0])


def _names(data: bytes, tokens: list[bytes], count: int, end: int, size: int) -> list[bytes] | None:
    """The names with their type letters, where the markers behind them agree; else None."""
    wanted = struct.pack("<I", count)
    at = data.rfind(wanted, 0, end)
    while at >= 0:
        if at % 4 == 0:
            found = _expand(data, tokens, count, _aligned(at + 4, size), end, size)
            if found is not None:
                return found
        at = data.rfind(wanted, 0, at)
    return None


def _expand(
    data: bytes, tokens: list[bytes], count: int, start: int, end: int, size: int
) -> list[bytes] | None:
    names, marks, at = [], [], start
    for number in range(count):
        if at >= end:
            return None
        if number % _MARKED == 0:
            marks.append(at - start)
        length = data[at]
        at += 1
        if length & 0x80:
            length = length & 0x7F | data[at] << 7
            at += 1
        names.append(b"".join(tokens[code] for code in data[at : at + length]))
        at += length
    table = _aligned(at, size)
    if list(struct.unpack_from(f"<{len(marks)}I", data, table)) != marks:
        return None
    return names


def _functions(
    data: bytes, base: int, addresses: list[int], names: list[bytes], machine: str = ARM64
) -> Symbols:
    kept: dict[int, str] = {}
    for address, name in zip(addresses, names, strict=True):
        text = name.decode("ascii", "replace")
        # $x and $d are the assembler's own marks for code and data.
        if address >= base and text[0] in _TEXT and not text[1:].startswith("$"):
            kept.setdefault(address, text[1:])
    starts = np.array(sorted(kept), np.uint64)
    return Symbols(starts, tuple(kept[int(start)] for start in starts), data, base, machine)


def _aligned(place: int, size: int) -> int:
    return -(-place // size) * size
