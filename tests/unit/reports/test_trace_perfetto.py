"""The Perfetto trace read back with its own message classes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
from rich.console import Console

from iotoll.core.errors import InfrastructureError
from iotoll.core.progress import Progress
from iotoll.records.models import Section
from iotoll.records.text import number
from iotoll.reports.trace import perfetto
from iotoll.reports.trace.perfetto import write_perfetto
from iotoll.reports.trace.reader import TraceCell
from iotoll.reports.trace.spans import lanes
from tests.unit.tables import SPLIT, SYNC8, cell, full_cell

SECTIONS = {s.value for s in Section}
QUIET = Progress(quiet=True)


@dataclass
class Slice:
    name: str
    begin: int
    end: int
    depth: int
    arguments: dict[str, Any]
    children: list[Slice] = field(default_factory=list)


@dataclass
class Read:
    """What a reader of the format sees."""

    tracks: dict[int, Any] = field(default_factory=dict)
    slices: dict[int, list[Slice]] = field(default_factory=lambda: defaultdict(list))
    instants: dict[int, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    counters: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def path(self, uuid: int) -> tuple[str, ...]:
        track = self.tracks[uuid]
        above = self.path(track.parent_uuid) if track.parent_uuid else ()
        return (*above, track.name)

    def under(self, group: str) -> dict[int, list[Slice]]:
        return {u: s for u, s in self.slices.items() if self.path(u)[0].startswith(group)}


def read(path: Path) -> Read:
    """Parse a trace, resolving interned names, and check what every reader relies on."""
    trace = pb.Trace()
    trace.ParseFromString(path.read_bytes())
    found = Read()
    tables: dict[str, dict[int, str]] = defaultdict(dict)
    stacks: dict[int, list[Slice]] = defaultdict(list)
    first = trace.packet[0]
    assert first.sequence_flags == pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == first.trusted_packet_sequence_id
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in found.tracks
            assert not track.parent_uuid or track.parent_uuid in found.tracks
            found.tracks[track.uuid] = track
        for kind in ("event_names", "debug_annotation_names"):
            tables[kind] |= {e.iid: e.name for e in getattr(packet.interned_data, kind)}
        for entry in packet.interned_data.debug_annotation_string_values:
            tables["texts"][entry.iid] = entry.str.decode()
        if packet.HasField("track_event"):
            _event(packet, found, tables, stacks)
    assert not any(stacks.values()), "every slice that begins ends"
    return found


def _event(packet: Any, found: Read, tables: Any, stacks: Any) -> None:
    event, time = packet.track_event, packet.timestamp
    track = event.track_uuid
    assert packet.sequence_flags == pb.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
    assert track in found.tracks
    stack = stacks[track]
    if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
        notes = {}
        for note in event.debug_annotations:
            text = note.WhichOneof("value") == "string_value_iid"
            value = tables["texts"][note.string_value_iid] if text else note.int_value
            notes[tables["debug_annotation_names"][note.name_iid]] = value
        name = tables["event_names"][event.name_iid]
        made = Slice(name, time, -1, len(stack), notes)
        (stack[-1].children if stack else found.slices[track]).append(made)
        stack.append(made)
    elif event.type == pb.TrackEvent.TYPE_SLICE_END:
        stack.pop().end = time
    elif event.type == pb.TrackEvent.TYPE_INSTANT:
        assert stack, "marks lie inside their I/O"
        assert stack[-1].begin <= time
        found.instants[track].append((time, tables["event_names"][event.name_iid]))
    else:
        found.counters[track].append((time, event.counter_value))


@pytest.fixture(params=["today", "full"])
def drawn(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[TraceCell, Read]:
    made = cell() if request.param == "today" else full_cell()
    write_perfetto([made], tmp_path / "x.pftrace", QUIET)
    return made, read(tmp_path / "x.pftrace")


def test_slices_nest_and_lanes_do_not_overlap(drawn: tuple[TraceCell, Read]) -> None:
    for slices in drawn[1].slices.values():
        before = -1
        for io in slices:
            assert before <= io.begin < io.end
            before = io.end
            at = io.begin
            for part in io.children:
                assert part.name in SECTIONS and part.children == []
                assert at <= part.begin < part.end <= io.end
                at = part.end


def test_one_slice_per_io_whose_sections_add_up(drawn: tuple[TraceCell, Read]) -> None:
    made, found = drawn
    table = made.table
    threads = found.under("threads")
    ios = sorted((io for s in threads.values() for io in s), key=lambda io: (io.begin, io.end))
    assert len(ios) == len(table)
    spans = sorted(zip(table["start"].tolist(), table.end.tolist(), strict=True))
    assert [(io.begin, io.end) for io in ios] == spans
    assert all(sum(p.end - p.begin for p in io.children) == io.end - io.begin for io in ios)
    for section in Section:
        total = sum(p.end - p.begin for io in ios for p in io.children if p.name == section.value)
        assert total == table.elapsed(section).sum()
    names = {found.path(track) for track in threads}
    assert names == {("threads", f"fio {pid}") for pid in table["pid"].tolist()}


def test_queues_hold_the_time_in_block_layer_and_device(drawn: tuple[TraceCell, Read]) -> None:
    made, found = drawn
    table = made.table
    queues = found.under("device")
    ios = [io for s in queues.values() for io in s]
    wanted = sum(int(table.elapsed(s).sum()) for s in list(Section)[1:4])
    assert sum(io.end - io.begin for io in ios) == wanted
    names = {found.path(track) for track in queues}
    if table.has("queue"):
        rows = zip(table["dev"].tolist(), table["queue"].tolist(), strict=True)
        assert names == {(f"device {dev}", f"queue {queue}") for dev, queue in rows}
    else:
        assert names == {(f"device {made.dev}", "no queue number")}


def test_counters_are_never_negative_and_end_at_zero(drawn: tuple[TraceCell, Read]) -> None:
    made, found = drawn
    names = {found.path(track) for track in found.counters}
    devices = 2 if made.table.has("dev") else 1
    queues = 6 if made.table.has("queue") else 0
    assert len(names) == len(found.counters) == devices + queues
    deepest = 0
    for track, values in found.counters.items():
        assert found.tracks[track].counter.unit_name == "I/Os"
        assert [t for t, _ in values] == sorted({t for t, _ in values})
        assert min(v for _, v in values) == 0 and values[-1][1] == 0
        deepest = max(deepest, *(v for _, v in values))
    assert 2 <= deepest <= 8, "eight threads with one I/O each"


def test_depth_is_the_number_of_open_slices(drawn: tuple[TraceCell, Read]) -> None:
    found = drawn[1]
    for track, values in found.counters.items():
        device, name = found.path(track)
        queue = name.partition(", ")[2]
        ios = [
            io
            for u, slices in found.under(device).items()
            if not queue or found.path(u)[1] == queue
            for io in slices
        ]
        for time, value in values[:: max(1, len(values) // 50)]:
            assert value == sum(io.begin <= time < io.end for io in ios)


def test_arguments_say_what_the_io_was(drawn: tuple[TraceCell, Read]) -> None:
    made, found = drawn
    ios = [io for s in found.under("threads").values() for io in s]
    assert {io.arguments["path"] for io in ios} == set(made.table["path"])
    assert sum(io.arguments["bytes"] for io in ios) == made.table["bytes"].sum()
    several = [io for io in ios if io.arguments["requests"] > 1]
    assert several and all(
        "drawn one after the other" in io.arguments["sections"] for io in several
    )
    assert all("sections" not in io.arguments for io in ios if io.arguments["requests"] <= 1)
    if made.table.has("device_mark"):
        assert {io.arguments["device_mark"] for io in ios} == {"block_rq_issue"}
        assert sum("sector" in io.arguments for io in ios) < len(ios)


def test_marks_are_instants(tmp_path: Path) -> None:
    made = full_cell()
    write_perfetto([made], tmp_path / "x.pftrace", QUIET)
    marks = [m for s in read(tmp_path / "x.pftrace").instants.values() for m in s]
    wanted = [
        (time, name.removeprefix("at_"))
        for name in ("at_bio_queue", "at_getrq", "at_device", "at_irq", "at_rq_complete")
        for time in np.ma.compressed(made.table[name]).tolist()
    ]
    assert sorted(marks) == sorted(wanted)


def test_several_cells_share_their_tracks(tmp_path: Path) -> None:
    write_perfetto([cell(SPLIT), cell(SPLIT)], tmp_path / "x.pftrace", QUIET)
    found = read_unchecked(tmp_path / "x.pftrace")
    paths = [found.path(u) for u in found.tracks]
    assert len(set(paths)) == len(paths)


def read_unchecked(path: Path) -> Read:
    trace = pb.Trace()
    trace.ParseFromString(path.read_bytes())
    tracks = [p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")]
    return Read(tracks={t.uuid: t for t in tracks})


def test_chunks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_perfetto([cell(SYNC8)], tmp_path / "a", QUIET)
    monkeypatch.setattr(perfetto, "CHUNK", 7)
    write_perfetto([cell(SYNC8)], tmp_path / "b", QUIET)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_many_ios_show_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = StringIO()
    progress = Progress(console=Console(file=said))
    write_perfetto([cell(SYNC8)], tmp_path / "few", progress)
    assert said.getvalue() == ""
    monkeypatch.setattr(perfetto, "MANY", 100)
    write_perfetto([cell(SYNC8)], tmp_path / "many", progress)
    assert said.getvalue().splitlines()[0] == f"draw {number(len(cell(SYNC8).table))} I/Os ..."


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"cannot write .*absent"):
        write_perfetto([cell()], tmp_path / "absent" / "x", QUIET)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=40))
def test_lanes_hold_no_overlap_and_are_few(parts: list[tuple[int, int]]) -> None:
    spans = sorted((start, start + size) for start, size in parts)
    chosen = lanes([s for s, _ in spans], [e for _, e in spans])
    by_lane: dict[int, int] = {}
    for (start, end), lane in zip(spans, chosen, strict=True):
        assert by_lane.get(lane, 0) <= start
        by_lane[lane] = end
    deepest = max((sum(s <= t < e for s, e in spans) for t, _ in spans), default=0)
    assert len(by_lane) == deepest
