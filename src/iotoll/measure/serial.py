"""Finds the records that ``iotoll-dut send`` printed in the log of a serial console.

A console log is hostile: kernel messages fall into our lines, line ends change, characters get
lost, and the board may print anything. A record is taken only when all its chunks are there, none
came with two contents, and the whole has the SHA-256 that its header says; else this module says
what has to be sent again. It never guesses. docs/dut.md describes the lines.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.records.results import write_text

LOG_LIMIT = 64 << 20  # bytes: an hour and a half at 115,200 baud; one record takes some 10 KB
PACKED_LIMIT = 16 << 20  # bytes of one packed record
TEXT_LIMIT = 64 << 20  # bytes of one unpacked record
RECORD_LIMIT = 4096  # records in one log
REACH = 16  # lines of others that may stand between the two parts of a line of ours
REPAIR_LIMIT = 20_000  # broken lines of one log that are tried to be put together

_MAGIC = b"#iotoll1 "
_DATA = re.compile(
    rb"#iotoll1 D (?P<id>[0-9a-f]{8}) (?P<number>[0-9]{1,6})/(?P<chunks>[0-9]{1,6})"
    rb" (?P<data>[A-Za-z0-9+/]{1,160}={0,2}) (?P<crc>[0-9a-f]{8})"
)
_ABOUT = re.compile(
    rb"#iotoll1 [HE] (?P<id>[0-9a-f]{8}) (?P<cell>[A-Za-z0-9._-]{1,48}) (?P<packing>[a-z0-9]{1,16})"
    rb" (?P<size>[0-9]{1,9}) (?P<packed>[0-9]{1,9}) (?P<chunks>[0-9]{1,6})"
    rb" (?P<sha256>[0-9a-f]{64}) (?P<crc>[0-9a-f]{8})"
)
_LONGEST = 200
# A kernel message's time, with the priority that some consoles show before it.
_STAMP = re.compile(rb"(?:<\d{1,3}>)?\[ {0,5}\d{1,6}\.\d{6}\]")


@dataclass(frozen=True)
class Received:
    """One record of a log: complete (``text`` is its JSON), or what it lacks.

    ``record`` is its number, the first letters of the document's SHA-256. ``cell`` is None where
    neither header nor trailer arrived. ``missing`` are the chunks, counted from 1, that did not
    arrive. ``problem`` is one line.
    """

    record: str
    cell: str | None
    text: str | None
    missing: tuple[range, ...] = ()
    problem: str | None = None

    @property
    def request(self) -> str | None:
        """The options of ``iotoll-dut send`` that make the board send what is missing."""
        if self.text is not None:
            return None
        if not self.missing:  # header and trailer come with any chunk; a contradiction needs all
            return f"--record {self.record}" + (" --chunks 1" if self.cell is None else "")
        return f"--record {self.record} --chunks {_ranges(self.missing)}"


@dataclass(frozen=True)
class _Header:
    cell: str
    packing: str
    size: int
    packed: int
    chunks: int
    sha256: str


@dataclass
class _Parts:
    header: _Header | None = None
    of: int | None = None
    chunks: dict[int, bytes] = field(default_factory=dict)
    problem: str | None = None


def receive(log: bytes) -> list[Received]:
    """Find the records of a log, in the order in which they first appear.

    Raises InfrastructureError for a log over ``LOG_LIMIT``.
    """
    if len(log) > LOG_LIMIT:
        raise InfrastructureError(
            f"the serial log has {len(log)} bytes, at most {LOG_LIMIT} are read: split it"
        )
    found: dict[str, _Parts] = {}
    for line in _lines(log):
        name = line["id"].decode()
        if name not in found and len(found) >= RECORD_LIMIT:
            raise InfrastructureError(f"the serial log has over {RECORD_LIMIT} records: split it")
        _take(found.setdefault(name, _Parts()), line)
    return [_finish(name, parts) for name, parts in found.items()]


def deliver(log: Path, out: Path, say: Callable[[str], None]) -> bool:
    """Write the complete records of a log into the folder ``out``; tells whether all were.

    ``say`` gets a line per record. Raises UsageError when the log cannot be read.
    """
    try:
        found = receive(log.read_bytes())
    except OSError as error:
        raise UsageError(f"{log}: {error.strerror}") from error
    if not found:
        say(f"{log}: no record of iotoll-dut send")
    for one in found:
        if one.text is None:
            say(f"{one.cell or 'unnamed'} {one.record}: {one.problem}")
            say(f"  on the board: iotoll-dut send --in FILE {one.request}")
            continue
        path = out / f"{one.cell}-{one.record}.json"
        write_text(path, one.text + "\n")
        say(f"{one.cell} {one.record}: {path}")
    return bool(found) and all(one.text is not None for one in found)


@click.command("receive")
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the records.", default=".")
def receive_command(log: Path, out: Path) -> None:
    """Extract the records of iotoll-dut from the LOG of a serial console.

    Writes OUT/CELL-NUMBER.json for each complete one. For the others it says what to run on the
    board, with the file that was sent, to get what is missing; then the exit code is 4.
    """
    raise SystemExit(0 if deliver(log, out, click.echo) else 4)


def _lines(log: bytes) -> Iterator[re.Match[bytes]]:
    """All lines of ours whose CRC is right, also those that others were printed into."""
    lines = re.split(rb"[\r\n]+", log)
    repairs = 0
    for place, text in enumerate(lines):
        at = text.find(_MAGIC)
        while at >= 0:
            good = _match(text[at : at + _LONGEST])
            if good is None and repairs < REPAIR_LIMIT:
                repairs += 1
                good = _repair(text[at:], lines[place + 1 : place + 1 + REACH])
            if good is not None:
                yield good
            at = text.find(_MAGIC, at + len(_MAGIC))


def _match(text: bytes) -> re.Match[bytes] | None:
    match = _DATA.match(text) or _ABOUT.match(text)
    if match and zlib.crc32(match[0][:-9]) == int(match["crc"], 16):
        return match
    return None


def _repair(start: bytes, following: list[bytes]) -> re.Match[bytes] | None:
    """Put a line together that the kernel printed into: the CRC says whether it was right."""
    text = start[: 2 * _LONGEST]
    for line in following:
        if stamp := _STAMP.search(text):
            text = text[: stamp.start()]
        if len(text) > _LONGEST:
            return None
        if _STAMP.match(line):
            continue  # another message of the same burst
        text += line[: 2 * _LONGEST]
        if good := _match(text[:_LONGEST]):
            return good
    return None


def _take(parts: _Parts, line: re.Match[bytes]) -> None:
    word = {name: value.decode() for name, value in line.groupdict().items()}
    chunks = int(word["chunks"])
    if parts.of not in (None, chunks):
        parts.problem = f"it is said to have {parts.of} chunks and {chunks}"
        return
    parts.of = chunks
    if "data" not in word:
        header = _Header(
            word["cell"],
            word["packing"],
            int(word["size"]),
            int(word["packed"]),
            chunks,
            word["sha256"],
        )
        if parts.header not in (None, header):
            parts.problem = "two headers contradict each other"
        parts.header = header
        return
    number = int(word["number"])
    try:
        data = base64.b64decode(word["data"], validate=True)
    except ValueError:
        parts.problem = f"chunk {number} is not base64"
        return
    if not 1 <= number <= chunks:
        parts.problem = f"there is a chunk {number} of {chunks}"
    elif parts.chunks.setdefault(number, data) != data:
        parts.problem = f"chunk {number} came with two contents"


def _finish(name: str, parts: _Parts) -> Received:
    header, of = parts.header, parts.of or 0
    cell = header.cell if header else None
    if parts.problem is not None:
        return Received(name, cell, None, (), parts.problem)
    if header and (problem := _refused(name, header)):
        return Received(name, cell, None, (), problem)
    missing = _gaps(sorted(parts.chunks), of)
    if missing:
        problem = f"{of - len(parts.chunks)} of {of} chunks are missing: {_ranges(missing)}"
        return Received(name, cell, None, missing, problem)
    if header is None:
        return Received(name, cell, None, (), "header and trailer are missing")
    packed = b"".join(parts.chunks[n] for n in range(1, of + 1))
    text = _unpack(packed, header)
    if text is None:
        problem = "its chunks do not make up what the header says (SHA-256)"
        return Received(name, cell, None, (), problem)
    return Received(name, cell, text)


def _refused(name: str, header: _Header) -> str | None:
    """Why a header cannot be right, before anything of its size is made."""
    if header.packing != "zlib":
        return f"packed as {header.packing}, which this version does not know: update iotoll"
    if header.packed > PACKED_LIMIT or header.size > TEXT_LIMIT:
        return f"{header.packed} bytes packed, {header.size} unpacked: too large"
    if not header.sha256.startswith(name):
        return "its number and its SHA-256 contradict each other"
    return None


def _unpack(packed: bytes, header: _Header) -> str | None:
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(packed, header.size + 1)
        text = data.decode()
    except (zlib.error, UnicodeDecodeError):
        return None
    whole = unpacker.eof and not unpacker.unused_data and len(packed) == header.packed
    right = len(data) == header.size and hashlib.sha256(data).hexdigest() == header.sha256
    return text if whole and right else None


def _gaps(numbers: list[int], of: int) -> tuple[range, ...]:
    """What rising ``numbers`` lack of 1 to ``of``."""
    ends = zip([0, *numbers], [*numbers, of + 1], strict=True)
    return tuple(range(low + 1, high) for low, high in ends if high - low > 1)


def _ranges(gaps: tuple[range, ...]) -> str:
    """Chunks 3, 7, 8 and 9 as ``3,7-9``."""
    return ",".join(f"{g[0]}-{g[-1]}" if len(g) > 1 else str(g[0]) for g in gaps)
