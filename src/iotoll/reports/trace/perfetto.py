"""A trace for the Perfetto UI (https://ui.perfetto.dev): slices per thread and queue, counters.

Tracks: group "threads" holds one track per thread, with a slice per I/O and its sections inside;
group "device MAJ:MIN" holds one per hardware queue, with a slice per I/O from its first bio to its
completion, and the counters of I/Os in flight. I/Os that overlap lie on several tracks of one name,
which the UI shows as one track with lanes. Marks of the first request are instants.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

from iotoll.core.errors import InfrastructureError
from iotoll.core.progress import Progress
from iotoll.measure.iotable import Ints, IoTable, present
from iotoll.records.text import number
from iotoll.reports.page.view import section_label
from iotoll.reports.trace.reader import TraceCell
from iotoll.reports.trace.spans import AT_BLOCK, Spans, at_block, instants, lanes, spans

SEQUENCE = 1
CHUNK = 2_000
"""Packets that are kept in memory before they are written."""

MANY = 20_000
"""I/Os that take seconds to draw, so that one sees how far it is."""

_Begin = pb.TrackEvent.TYPE_SLICE_BEGIN
_End = pb.TrackEvent.TYPE_SLICE_END
_Instant = pb.TrackEvent.TYPE_INSTANT
_Counter = pb.TrackEvent.TYPE_COUNTER


class Writer:
    """Writes packets in chunks: a Perfetto trace is any number of ``Trace`` messages in a row."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.trace = pb.Trace()
        self.names: dict[str, int] = {}
        self.keys: dict[str, int] = {}
        self.texts: dict[str, int] = {}
        self.tracks = 0
        first = self._packet()
        first.sequence_flags = pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        first.first_packet_on_sequence = True

    def _packet(self) -> Any:
        if len(self.trace.packet) >= CHUNK:
            self.flush()
        packet = self.trace.packet.add()
        packet.trusted_packet_sequence_id = SEQUENCE
        return packet

    def flush(self) -> None:
        """Write what is kept."""
        self.stream.write(self.trace.SerializeToString())
        self.trace.Clear()

    def track(self, name: str, parent: int = 0, counter: str = "", rank: int = 0) -> int:
        """Add a track and return its number; ``counter`` is the unit of a counter track."""
        self.tracks += 1
        descriptor = self._packet().track_descriptor
        descriptor.uuid = self.tracks
        descriptor.name = name
        descriptor.sibling_order_rank = rank
        descriptor.child_ordering = pb.TrackDescriptor.EXPLICIT
        if parent:
            descriptor.parent_uuid = parent
        if counter:
            descriptor.counter.unit_name = counter
        return self.tracks

    def _intern(self, known: dict[str, int], text: str, packet: Any, field: str) -> int:
        if text not in known:
            known[text] = len(known) + 1
            entry = getattr(packet.interned_data, field).add()
            entry.iid = known[text]
            if field == "debug_annotation_string_values":
                entry.str = text.encode()
            else:
                entry.name = text
        return known[text]

    def _event(self, kind: int, track: int, time: int) -> Any:
        packet = self._packet()
        packet.timestamp = time
        packet.sequence_flags = pb.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet

    def begin(
        self, track: int, time: int, name: str, arguments: Mapping[str, int | str] | None = None
    ) -> None:
        """Open a slice."""
        self._named(_Begin, track, time, name, arguments or {})

    def end(self, track: int, time: int) -> None:
        """Close the slice that was opened last on the track."""
        self._event(_End, track, time)

    def instant(self, track: int, time: int, name: str) -> None:
        """Add a moment."""
        self._named(_Instant, track, time, name, {})

    def count(self, track: int, time: int, value: int) -> None:
        """Set a counter."""
        self._event(_Counter, track, time).track_event.counter_value = value

    def _named(
        self, kind: int, track: int, time: int, name: str, arguments: Mapping[str, int | str]
    ) -> None:
        packet = self._event(kind, track, time)
        event = packet.track_event
        event.name_iid = self._intern(self.names, name, packet, "event_names")
        for key, value in arguments.items():
            note = event.debug_annotations.add()
            note.name_iid = self._intern(self.keys, key, packet, "debug_annotation_names")
            if isinstance(value, int):
                note.int_value = value
            else:
                field = "debug_annotation_string_values"
                note.string_value_iid = self._intern(self.texts, value, packet, field)


def write_perfetto(cells: Sequence[TraceCell], path: Path, progress: Progress) -> None:
    """Write all cells of one trace; raises InfrastructureError when the file cannot be written."""
    ios = sum(len(cell.table) for cell in cells)
    shown = progress if ios >= MANY else Progress(quiet=True)
    # Under another name until it is whole: a full disk leaves the old file, never half of one.
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("wb") as stream, shown.step(f"draw {number(ios)} I/Os", 2 * ios) as step:
            writer = Writer(stream)
            tracks = _Tracks(writer)
            drawn = (place for cell in cells for place in _Drawing(writer, tracks, cell).draw())
            for done, _ in enumerate(drawn):
                if done % CHUNK == 0:
                    step.update(done)
            writer.flush()
        part.replace(path)
    except OSError as error:
        raise InfrastructureError(f"cannot write {path}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


class _Tracks:
    """Tracks by what they show, made when they are first needed."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.known: dict[tuple[Any, ...], int] = {}

    def _once(self, key: tuple[Any, ...], name: str, **more: Any) -> int:
        if key not in self.known:
            self.known[key] = self.writer.track(name, **more)
        return self.known[key]

    def thread(self, pid: int, task: str, lane: int) -> int:
        group = self._once(("threads",), "threads")
        return self._once(("t", pid, lane), f"{task} {pid}", parent=group, rank=pid)

    def _device(self, dev: str) -> int:
        return self._once(("d", dev), f"device {dev}")

    def queue(self, dev: str, queue: int | None, lane: int) -> int:
        name = "no queue number" if queue is None else f"queue {queue}"
        rank = 1_000 + (queue or 0)
        return self._once(("q", dev, queue, lane), name, parent=self._device(dev), rank=rank)

    def depth(self, dev: str, queue: int | None) -> int:
        name = "I/Os in flight" + ("" if queue is None else f", queue {queue}")
        rank = 0 if queue is None else 1 + queue
        group = self._device(dev)
        return self._once(("c", dev, queue), name, parent=group, counter="I/Os", rank=rank)


def _groups(*keys: Iterable[Any]) -> dict[tuple[Any, ...], list[int]]:
    found: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(*keys, strict=True)):
        found.setdefault(key, []).append(row)
    return found


def _queues(table: IoTable) -> list[int | None]:
    column = table.get("queue")
    if column is None:
        return [None] * len(table)
    values: list[int | None] = column.tolist()
    return values


class _Drawing:
    """The slices and counters of one cell."""

    def __init__(self, writer: Writer, tracks: _Tracks, cell: TraceCell) -> None:
        self.writer, self.tracks, self.cell = writer, tracks, cell
        self.table: IoTable = cell.table
        self.spans: Spans = spans(self.table)
        self.ends: Ints = self.table.end
        devices = self.table.get("dev")
        self.devices: list[str] = (
            [cell.dev] * len(self.table) if devices is None else devices.tolist()
        )
        self.queues = _queues(self.table)
        self.instants: dict[int, list[tuple[int, str]]] = {}
        for name, rows, times in instants(self.table):
            for row, time in zip(rows.tolist(), times.tolist(), strict=True):
                self.instants.setdefault(row, []).append((time, name))

    def draw(self) -> Iterator[None]:
        """Write everything; yields twice for each I/O, after its slices of thread and of queue."""
        starts = self.table["start"]
        for (pid,), rows in _groups(self.table["pid"].tolist()).items():
            placed = lanes(starts[rows].tolist(), self.ends[rows].tolist())
            for row, lane in zip(rows, placed, strict=True):
                self._on_thread(self.tracks.thread(pid, self.cell.task(pid), lane), row)
                yield
        first, last = at_block(self.spans)
        for (dev, queue), rows in _groups(self.devices, self.queues).items():
            rows = [rows[i] for i in np.argsort(first[rows], kind="stable").tolist()]
            placed = lanes(first[rows].tolist(), last[rows].tolist())
            for row, lane in zip(rows, placed, strict=True):
                self._on_queue(self.tracks.queue(dev, queue, lane), row)
                yield
            if queue is not None:
                self._depth(self.tracks.depth(dev, queue), first[rows], last[rows])
        for (dev,), rows in _groups(self.devices).items():
            self._depth(self.tracks.depth(dev, None), first[rows], last[rows])

    def _name(self, row: int) -> str:
        size = int(self.table["bytes"][row])
        shown = f"{size >> 10} KiB" if size > 0 and size % 1024 == 0 else f"{size} B"
        return f"{self.table['op'][row]} {shown}"

    def _arguments(self, row: int) -> dict[str, int | str]:
        table = self.table
        found: dict[str, int | str] = {
            "cell": self.cell.record.cell,
            "path": str(table["path"][row]),
            "bytes": int(table["bytes"][row]),
            "requests": int(table["requests"][row]),
            "device": self.devices[row],
        }
        for name in (
            "direction",
            "kind",
            "start_mark",
            "device_mark",
            "interrupt_mark",
            "end_mark",
        ):
            column = table.get(name)
            if column is not None:
                found[name] = str(column[row])
        sector = table.get("sector")
        if sector is not None and present(sector)[row]:
            found["sector"] = int(sector[row])
        if not self.spans.exact[row]:
            found["sections"] = "sums over several requests, drawn one after the other"
        return found

    def _on_thread(self, track: int, row: int) -> None:
        writer, end = self.writer, int(self.ends[row])
        writer.begin(track, int(self.table["start"][row]), self._name(row), self._arguments(row))
        marks = sorted(self.instants.get(row, []))
        for section, begin, until in self.spans.of(row):
            writer.begin(track, begin, section_label(self.cell.record, section))
            for time, name in marks:
                if begin <= time < until or (time == until == end):
                    writer.instant(track, time, name)
            writer.end(track, until)
        writer.end(track, end)

    def _on_queue(self, track: int, row: int) -> None:
        parts = [p for p in self.spans.of(row) if p[0] in AT_BLOCK]
        if not parts:
            return
        task = self.cell.task(int(self.table["pid"][row]))
        name = f"{self._name(row)} ({task} {self.table['pid'][row]})"
        self.writer.begin(track, parts[0][1], name, self._arguments(row))
        for section, begin, until in parts:
            self.writer.begin(track, begin, section_label(self.cell.record, section))
            self.writer.end(track, until)
        self.writer.end(track, parts[-1][2])

    def _depth(self, track: int, first: Ints, last: Ints) -> None:
        """One value per moment at which the number changes; the last one is 0."""
        busy = last > first
        times = np.concatenate([first[busy], last[busy]])
        steps = np.concatenate([np.ones(busy.sum(), np.int64), -np.ones(busy.sum(), np.int64)])
        moments, place = np.unique(times, return_inverse=True)
        change = np.zeros(len(moments), np.int64)
        np.add.at(change, place, steps)
        for time, value in zip(moments.tolist(), np.cumsum(change).tolist(), strict=True):
            self.writer.count(track, time, value)
