"""One recording in other formats: perf.data and Perfetto, made of a trace.dat's raw records.

Written after the formats' own descriptions (tools/perf/Documentation/perf.data-file-format.txt,
Perfetto's message classes), and independent of the product's readers.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from tests.trace.plain import Plain, event_name, parts_of
from tests.trace.thin import sized

IDENTIFIER, TID, TIME, CPU, RAW = 1 << 16, 1 << 1, 1 << 2, 1 << 7, 1 << 10
SAMPLE, COMM, FINISHED_ROUND = 9, 3, 68
FIELD = re.compile(r"field:([^;]*?)(\w+)(?:\[\w*\])?;\s*offset:(\d+);\s*size:(\d+);\s*signed:(\d)")

Record = tuple[int, int, bytes]
"""Time (ns), CPU, and the bytes of an event."""


def records_of(data: bytes, parts: Plain) -> list[Record]:
    """All events of a little-endian file of version 6, in order of time."""
    found: list[Record] = []
    for cpu, pages in enumerate(parts.pages):
        for at in pages:
            found += ((ts, cpu, body) for ts, body in _page(data[at : at + parts.page_size]))
    return sorted(found, key=lambda record: record[:2])


def _page(page: bytes) -> Iterator[tuple[int, bytes]]:
    now, commit = struct.unpack_from("<QQ", page)
    at, end = 16, 16 + (commit & 0x7FFFFFF)
    while at < end:
        (word,) = struct.unpack_from("<I", page, at)
        kind, delta = word & 31, word >> 5
        at += 4
        if kind == 29 and not delta:
            return
        if kind in (29, 0):
            (size,) = struct.unpack_from("<I", page, at)
            if kind == 0:
                now += delta
                yield now, page[at + 4 : at + size]
            at += size
        elif kind == 30:
            now += delta + (struct.unpack_from("<I", page, at)[0] << 27)
            at += 4
        elif kind == 31:
            now = delta + (struct.unpack_from("<I", page, at)[0] << 27)
            at += 4
        else:
            now += delta
            yield now, page[at : at + 4 * kind]
            at += 4 * kind


def formats_of(parts: Plain) -> dict[int, tuple[str, str, list[tuple[str, str, int, int, bool]]]]:
    """Group, name and fields (type, name, offset, size, signed) of each event by its number."""
    found = {}
    for system, texts in [("ftrace", parts.ftrace), *parts.systems]:
        for text in texts:
            plain = text.decode()
            number = int(re.search(r"^ID: (\d+)", plain, re.M)[1])  # type: ignore[index]
            fields = [
                (kind.strip(), name, int(offset), int(size), signed == "1")
                for kind, name, offset, size, signed in FIELD.findall(plain)
            ]
            found[number] = (system, event_name(text), fields)
    return found


def comms_of(parts: Plain) -> dict[int, str]:
    """Names of tasks by thread number."""
    lines = parts.cmdlines.rstrip(b"\0").decode().splitlines()
    return {int(pid): name for pid, name in (line.split(" ", 1) for line in lines)}


def perf_data(data: bytes) -> bytes:
    """A perf.data of the same events, as ``perf record -a -e 'block:*' ...`` writes it."""
    parts = parts_of(data)
    formats, records = formats_of(parts), records_of(data, parts)
    kinds = sorted({struct.unpack_from("<H", body)[0] for _, _, body in records} & formats.keys())
    sample = IDENTIFIER | TID | TIME | CPU | RAW
    attributes, ids = b"", b""
    ids_at = 104
    for place, kind in enumerate(kinds):
        attribute = struct.pack("<IIQQQQQ", 2, 128, kind, 1, sample, 0, 1 << 18).ljust(128, b"\0")
        attributes += attribute + struct.pack("<QQ", ids_at + 8 * place, 8)
        ids += struct.pack("<Q", 100 + kind)
    body = bytearray()
    for pid, name in comms_of(parts).items():
        text = name.encode() + b"\0"
        text = text.ljust(-(-len(text) // 8) * 8, b"\0")
        told = struct.pack("<II", pid, pid) + text + struct.pack("<IIQIIQ", pid, pid, 0, 0, 0, 0)
        body += struct.pack("<IHH", COMM, 0, 8 + len(told)) + told
    for number, (ts, cpu, raw) in enumerate(records):
        (kind,) = struct.unpack_from("<H", raw)
        if kind not in formats:
            continue
        (pid,) = struct.unpack_from("<i", raw, 4)
        padded = raw.ljust(-(-(len(raw) + 4) // 8) * 8 - 4, b"\0")
        told = struct.pack("<QiiQII", 100 + kind, pid, pid, ts, cpu, 0)
        told += struct.pack("<I", len(padded)) + padded
        body += struct.pack("<IHH", SAMPLE, 0, 8 + len(told)) + told
        if number % 500 == 499:
            body += struct.pack("<IHH", FINISHED_ROUND, 0, 8)
    tracing = parts.magic[:10] + b"0.6\0" + parts.magic[-2:] + struct.pack("<I", parts.page_size)
    for name, header in parts.headers.items():
        tracing += name.encode() + b"\0" + sized(header, 8)
    tracing += struct.pack("<I", len(parts.ftrace)) + b"".join(sized(f, 8) for f in parts.ftrace)
    tracing += struct.pack("<I", len(parts.systems))
    for system, texts in parts.systems:
        tracing += system.encode() + b"\0" + struct.pack("<I", len(texts))
        tracing += b"".join(sized(text, 8) for text in texts)
    tracing += sized(b"", 4) + sized(b"", 4) + sized(parts.cmdlines, 8)
    at = ids_at + len(ids)
    start = at + len(attributes)
    head = b"PERFILE2" + struct.pack("<QQ", 104, 144)
    head += struct.pack("<QQQQQQ", at, len(attributes), start, len(body), 0, 0)
    head += struct.pack("<QQQQ", 1 << 1, 0, 0, 0)
    behind = start + len(body)
    table = struct.pack("<QQ", behind + 16, len(tracing))
    return head + ids + attributes + bytes(body) + table + tracing


def user_dev(dev: int) -> int:
    """A device number of the kernel's as user space has it, and Perfetto stores it."""
    major, minor = dev >> 20, dev & 0xFFFFF
    return (major & 0xFFF) << 8 | minor & 0xFF | (minor & 0xFFF00) << 12


def perfetto(data: bytes, bundle: int = 40) -> bytes:
    """A Perfetto trace of the same events; those without a message of their own are generic."""
    parts = parts_of(data)
    formats = formats_of(parts)
    trace = proto.Trace()
    for pid, name in comms_of(parts).items():
        thread = trace.packet.add().process_tree.threads.add()
        thread.tid, thread.name = pid, name
    open_bundles: dict[int, Any] = {}
    known = {f.name: f for f in proto.FtraceEvent.DESCRIPTOR.fields if f.message_type}
    for ts, cpu, raw in records_of(data, parts):
        (kind,) = struct.unpack_from("<H", raw)
        if kind not in formats:
            continue
        if cpu not in open_bundles or len(open_bundles[cpu].event) >= bundle:
            open_bundles[cpu] = trace.packet.add().ftrace_events
            open_bundles[cpu].cpu = cpu
        _, name, fields = formats[kind]
        event = open_bundles[cpu].event.add()
        event.timestamp = ts
        (event.pid,) = struct.unpack_from("<I", raw, 4)
        values = {f[1]: _value(raw, f) for f in fields if not f[1].startswith("common_")}
        if name == "print":
            text = raw[next(f[2] for f in fields if f[1] == "buf") :]
            event.print.buf = text.split(b"\0")[0].decode()
        elif name in known:
            _fill(getattr(event, name), values)
        else:
            _generic(event.generic, name, values)
    return bytes(trace.SerializeToString())


def _value(raw: bytes, field: tuple[str, str, int, int, bool]) -> int | str | None:
    kind, name, offset, size, signed = field
    if "__data_loc" in kind:
        (word,) = struct.unpack_from("<I", raw, offset)
        return raw[word & 0xFFFF :][: word >> 16].split(b"\0")[0].decode("utf-8", "replace")
    if size not in (1, 2, 4, 8) or (kind == "char" and size > 1):
        return raw[offset : offset + size].split(b"\0")[0].decode("utf-8", "replace")
    number = int.from_bytes(raw[offset : offset + size], "little", signed=signed)
    return user_dev(number) if name in ("dev", "old_dev") else number


def _fill(message: Any, values: dict[str, int | str | None]) -> None:
    message.SetInParent()
    for field in message.DESCRIPTOR.fields:
        value = values.get(field.name)
        if value is None:
            continue
        is_text = field.type == field.TYPE_STRING
        if is_text is isinstance(value, str):
            setattr(message, field.name, value)


def _generic(message: Any, name: str, values: dict[str, int | str | None]) -> None:
    message.event_name = name
    for key, value in values.items():
        field = message.field.add()
        field.name = key
        if isinstance(value, str):
            field.str_value = value
        elif value is not None and value < 0:
            field.int_value = value
        elif value is not None:
            field.uint_value = value


def write(folder: Path, name: str, content: bytes) -> Path:
    """Write a file into a folder of a test."""
    path = folder / name
    path.write_bytes(content)
    return path
