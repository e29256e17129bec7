"""The same recording in each format that `iotoll analyze` reads gives the same I/Os."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iotoll import _native
from iotoll.core.errors import UsageError
from iotoll.measure.boot_trace import BootTraceFile
from iotoll.reports.trace.reader import open_trace
from tests.trace import exported
from tests.trace.conftest import DATA, as_version_6
from tests.trace.native import Table, analysed
from tests.trace.synthetic.container import Layout
from tests.trace.synthetic.drivers import DRIVERS
from tests.trace.synthetic.formats import KERNELS
from tests.trace.synthetic.machine import Machine
from tests.trace.synthetic.scenarios import Bench, single
from tests.unit.analyzing import refused

BLKTRACE = DATA / "blktrace"
RUNS = ("nvme-ext4-5.10", "nvme-ext4-6.12", "nvme-ext4-7.3", "scsi-5.10", "scsi-6.12")
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
}


def rows(path: Path) -> tuple[BootTraceFile, Table]:
    """A recording of any format, and the table of its I/Os."""
    file = open_trace(path)
    return file, analysed(file.data)[1]


def report(trace: Path, *options: str) -> bytes:
    """What trace-cmd prints of a trace."""
    command = ["trace-cmd", "report", *options, "-i", str(trace)]
    return subprocess.run(command, capture_output=True, check=True).stdout


def test_g4_10_perf_data_gives_the_same_rows(trace: str, trace_cmd: str, tmp_path: Path) -> None:
    plain = as_version_6(Path(trace), tmp_path).read_bytes()
    file, found = rows(exported.write(tmp_path, "x", exported.perf_data(plain)))
    assert file.recording is not None
    assert (file.recording.format, file.recording.notes) == ("perf.data", [])
    assert found == analysed(trace)[1]


def test_g4_10_perfetto_gives_the_same_rows(trace: str, trace_cmd: str, tmp_path: Path) -> None:
    plain = as_version_6(Path(trace), tmp_path).read_bytes()
    file, found = rows(exported.write(tmp_path, "x", exported.perfetto(plain)))
    assert file.recording is not None
    assert (file.recording.format, file.recording.notes) == ("Perfetto", [])
    assert found == analysed(trace)[1]
    assert file.outline == _native.outline(trace)


def test_g4_10_text_with_nanoseconds_gives_the_same_rows(
    trace: str, trace_cmd: str, tmp_path: Path
) -> None:
    file, found = rows(exported.write(tmp_path, "x", report(Path(trace), "-t")))
    assert file.recording is not None
    assert (file.recording.resolution, file.recording.notes) == (1, [])
    assert found == analysed(trace)[1]


def test_g4_10_text_in_microseconds_gives_the_same_ios(
    trace: str, trace_cmd: str, tmp_path: Path
) -> None:
    file, found = rows(exported.write(tmp_path, "x", report(Path(trace))))
    assert file.recording is not None and file.recording.resolution == 1000
    truth = analysed(trace)[1]
    # Each time is rounded to the nearest microsecond.
    for column in ("start", "end"):
        off = [abs(a - b) for a, b in zip(found[column], truth[column], strict=True)]
        assert max(off) <= 500, column
    for column in ("pid", "op", "dev", "sector", "bytes", "path", "requests"):
        assert found[column] == truth[column], column


@pytest.mark.parametrize("packing", PACKERS)
def test_g4_10_a_packed_file_gives_the_same_rows(packing: str, tmp_path: Path) -> None:
    trace = DATA / "ufs-read.dat"
    packed = exported.write(tmp_path, "a.dat.x", PACKERS[packing](trace.read_bytes()))
    file, found = rows(packed)
    assert file.recording is not None and file.recording.packing == packing
    assert file.name == "a"
    assert found == analysed(trace)[1]


@pytest.mark.parametrize("tool", ["zstd", "lz4"])
def test_g4_10_files_of_other_packers(tool: str, tmp_path: Path) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed (apt install {tool})")
    trace = DATA / "ufs-read.dat"
    packed = tmp_path / "a.dat.x"
    subprocess.run([tool, "-q", "-f", str(trace), "-o", str(packed)], check=False)
    if not packed.exists():
        subprocess.run([tool, "-q", "-f", str(trace), str(packed)], check=True)
    file, found = rows(packed)
    assert file.recording is not None and file.recording.packing == tool
    assert found == analysed(trace)[1]


def test_g4_10_a_cut_packed_file_says_so(tmp_path: Path) -> None:
    packed = gzip.compress((DATA / "ufs-read.dat").read_bytes())
    path = exported.write(tmp_path, "a.gz", packed[: len(packed) // 2])
    with pytest.raises(UsageError, match=r"a\.gz: cannot be unpacked as gzip \(.*\); copy it"):
        open_trace(path)


NAMED = {
    b"": "is empty",
    b"PK\x03\x04": "is an archive of files",
    b"\x7fELF" + bytes(60): "is a program or a core dump (ELF)",
    b"\xd4\xc3\xb2\xa1\x02\0\x04\0" + bytes(16): "is a capture of network packets (pcap)",
    b"\x0a\x0d\x0d\x0a" + bytes(24): "is a capture of network packets (pcap)",
    bytes(72) + b"\x02\0\x02\xc0" + bytes(40): "is a trace of Windows (ETL)",
    b"\x57\x1d\xd1\x75" + bytes(40): "is a part of an LTTng trace (CTF), which is not read",
    b"-----BEGIN PGP MESSAGE-----\n": "is encrypted (PGP); decrypt it first",
    b"age-encryption.org/v1\n": "is encrypted (age); decrypt it first",
    b"Salted__" + bytes(range(64)): "is encrypted (openssl enc); decrypt it first",
    b"LZIP\x01": "is packed by lzip; unpack it first",
    b"version https://git-lfs.github.com/spec/v1\n": "is a pointer of Git LFS; fetch the file",
    b'{"fio version": "fio-3.39", "jobs": []}': "is fio's JSON; give it with --fio",
    b'{"traceEvents": []}': "is JSON (of a Chrome trace",
    b"SQLite format 3\0": "is a table of a tool's results",
    b"/* CTF 1.8 */ trace {": "is a part of an LTTng trace (CTF), which is not read",
    b"<!DOCTYPE html><p>x</p>": "is HTML without the text of a trace",
    b"  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n": (
        "is the text of blkparse; give the raw files of blktrace, or what `blkparse -i NAME -d"
    ),
    b"some words\n": "is none of the recordings that are read (trace.dat, blktrace,",
    bytes(range(256)): "is none of the recordings that are read",
    b"# tracer: nop\n#\n": "is text of ftrace without an event",
}


@pytest.mark.parametrize("content", NAMED, ids=[str(n) for n in range(len(NAMED))])
def test_g4_10_what_is_not_supported_is_named(content: bytes, tmp_path: Path) -> None:
    path = exported.write(tmp_path, "x", content)
    with pytest.raises(UsageError) as caught:
        open_trace(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ") and NAMED[content] in line and "; " in line
    assert "corrupt" not in line and "damaged" not in line


PERF_TYPES = {
    0: "samples of the processor's counters",
    1: "samples of other events",
    8: r"records of a hardware unit \(Intel PT",
}


@pytest.mark.parametrize("number", PERF_TYPES)
def test_g4_10_perf_data_without_tracepoints_is_named(number: int, tmp_path: Path) -> None:
    if shutil.which("trace-cmd") is None:
        pytest.skip("trace-cmd is not installed")
    plain = as_version_6(DATA / "ufs-read.dat", tmp_path).read_bytes()
    whole = bytearray(exported.perf_data(plain))
    (at, size) = struct.unpack_from("<QQ", whole, 24)
    for place in range(at, at + size, 144):
        struct.pack_into("<I", whole, place, number)
    path = exported.write(tmp_path, "x", bytes(whole))
    with pytest.raises(UsageError, match=rf"without tracepoints: it has {PERF_TYPES[number]}"):
        open_trace(path)


@pytest.mark.parametrize("kept", [0.02, 0.5, 0.98])
@pytest.mark.parametrize("trace", ["ufs-read.dat", "nvme-write-sync-8.dat"])
def test_g4_10_a_cut_file_is_said_to_be_cut(trace: str, kept: float, tmp_path: Path) -> None:
    data = (DATA / trace).read_bytes()
    path = exported.write(tmp_path, "x.dat", data[: int(len(data) * kept)])
    line = refused(path)
    assert line.startswith(f"{path}: ends at ") and "copy or record it again" in line


def test_g4_10_a_folder_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text("/* CTF 1.8 */")
    assert "is a folder of an LTTng trace (CTF), which is not read" in refused(tmp_path)
    (tmp_path / "metadata").unlink()
    assert "is a folder; name a file" in refused(tmp_path)


SYSTRACE = """<!DOCTYPE html>
<html><script>var x = "fio-9 [001] .... 1.0: not: this";</script>
<script class="trace-data" type="application/text">
# tracer: nop
            fio-1234  ( 1230) [001] d..1.  10.000100: sys_pwrite64(fd: 3, buf: 7ffe, count: 1000)
            fio-1234  ( 1230) [001] d..1.  10.000101: block_bio_queue: 8,0 WS 64 + 8 [fio]
            fio-1234  ( 1230) [001] d..1.  10.000105: block_rq_issue: 8,0 WS 4096 () 64 + 8 [fio]
          <idle>-0    (-----) [000] d.h..  10.000200: block_rq_complete: 8,0 WS () 64 + 8 [0]
            fio-1234  ( 1230) [001] .....  10.000230: sys_pwrite64 -> 0x1000
CPU:1 [LOST 12 EVENTS]
            fio-1234  ( 1230) [001] .....  10.000990: sys_fsync(fd: 3)
</script></html>
"""


def test_g4_10_systrace(tmp_path: Path) -> None:
    file = open_trace(exported.write(tmp_path, "x.html", SYSTRACE.encode()))
    assert file.recording is not None and file.recording.format == "systrace"
    record, table = analysed(file.data)
    assert (table["start"], table["end"]) == ([10_000_100_000], [10_000_230_000])
    assert (table["dev"], table["sector"], table["bytes"]) == (["8:0"], [64], [4096])
    assert [table[f"elapsed_{s}"] for s in ("vfs_fs", "submission")] == [[1000], [4000]]
    assert record["trace"]["lost_events"] == 12
    assert file.outline[1] == {1234: "fio"}


def test_g4_10_lines_that_are_not_understood_are_counted(tmp_path: Path) -> None:
    odd = SYSTRACE.replace("8,0 WS 4096 () 64 + 8", "something else")
    file = open_trace(exported.write(tmp_path, "x.html", odd.encode()))
    assert file.recording is not None
    (note,) = file.recording.notes
    assert "1 events are printed in a way that is not known" in note
    assert "the first a block_rq_issue in line 7" in note


def test_g4_10_two_texts_in_one_are_refused(trace_cmd: str, tmp_path: Path) -> None:
    text = report(DATA / "ufs-read.dat")
    path = exported.write(tmp_path, "x", text + text)
    with pytest.raises(UsageError, match=r"goes back by .* are two recordings in it\?"):
        open_trace(path)


def test_g4_10_ticks_in_text_are_ticks(tmp_path: Path) -> None:
    lines = [
        "  fio-12  [001]2125827: block_rq_issue: 8,0 WS 4096 () 64 + 8 [fio]",
        "  <idle>-0  [001]2125927: block_rq_complete: 8,0 WS () 64 + 8 [0]",
    ]
    file = open_trace(exported.write(tmp_path, "x", "\n".join([*lines, ""]).encode()))
    assert _native.ticks(str(file.data)) == "ticks"


def test_the_numbers_of_perfetto_are_those_of_its_message_classes() -> None:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

    source = (DATA.parents[2] / "crates/traceconv/src/perfetto.rs").read_text()
    import re

    lists = dict(re.findall(r"const (\w+): &\[\(u32, &str, Ty\)\] = &\[(.*?)\];", source, re.S))
    field = re.compile(r'\((\d+), "(\w+)", Ty::\w+\)')
    entries = re.findall(
        r'\(\s*(\d+),\s*"\w+",\s*"(\w+)",\s*(?:&\[(.*?)\]|([A-Z]+)),?\s*\)', source, re.S
    )
    entries += re.findall(r'const \w+: Event = \(\s*(\d+),\s*"\w+",\s*"(\w+)",()()', source)
    assert len(entries) > 20
    known = {f.name: f for f in proto.FtraceEvent.DESCRIPTOR.fields}
    for number, name, inside, named in entries:
        assert known[name].number == int(number), name
        fields = {f.name: f.number for f in known[name].message_type.fields}
        for place, inner in field.findall(inside or lists.get(named, "")):
            assert fields[inner] == int(place), (name, inner)


def dump_of(run: str) -> bytes:
    """What `blkparse -d` writes of a run: its records in order of time, from the first event on."""
    records = []
    for path in sorted(BLKTRACE.glob(f"{run}.blktrace.*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            _, sequence, time = struct.unpack_from("<IIQ", data, at)
            (action,) = struct.unpack_from("<I", data, at + 28)
            size = 48 + struct.unpack_from("<H", data, at + 46)[0]
            records.append((action >> 16 & 1 << 10, time, sequence, data[at : at + size]))
            at += size
    first = min(time for note, time, _, _ in records if not note)
    notes = [body for note, _, _, body in records if note]
    events = sorted((time, sequence, body) for note, time, sequence, body in records if not note)
    moved = [body[:8] + struct.pack("<Q", time - first) + body[16:] for time, _, body in events]
    return b"".join([*notes, *moved])


@pytest.mark.parametrize("run", RUNS)
def test_g4_7_blkparse_d_gives_the_rows_of_the_raw_files(run: str, tmp_path: Path) -> None:
    file, found = rows(exported.write(tmp_path, "x.bin", dump_of(run)))
    assert file.is_blktrace
    record, truth = analysed(BLKTRACE / run)
    first = min(truth["start"]) - min(found["start"])
    times = [c for c in truth if c in ("start", "end") or c.startswith("at_")]
    moved = {c: [None if v is None else v - first for v in truth[c]] for c in times}
    assert found == truth | moved
    told = analysed(file.data)[0]
    assert told["ios"] == record["ios"]


@pytest.mark.parametrize("run", RUNS[:3])
def test_g4_7_blkparse_itself(run: str, tmp_path: Path) -> None:
    if shutil.which("blkparse") is None:
        pytest.skip("blkparse is not installed (apt install blktrace)")
    out = tmp_path / "x.bin"
    command = ["blkparse", "-q", "-O", "-i", run, "-d", str(out)]
    subprocess.run(command, cwd=BLKTRACE, check=True, capture_output=True)
    found, truth = analysed(out)[1], analysed(BLKTRACE / run)[1]
    for column in ("pid", "dev", "sector", "bytes", "path", "elapsed_hardware"):
        assert found[column] == truth[column], column


def with_clock(
    folder: Path, clock: str, options: dict[int, bytes] | None = None, **kind: Any
) -> Path:
    """A trace of a machine with that trace clock, and more options of its file."""
    made = Machine(Layout(**kind), KERNELS[-1], cpus=2)
    single(Bench(made, DRIVERS["nvme"](made)), count=3)
    path = folder / "clock.dat"
    path.write_bytes(made.file(clock, options))
    return path


def test_g4_10_a_guest_file_has_the_times_of_its_host(tmp_path: Path) -> None:
    plain = analysed(with_clock(tmp_path, "local"))[1]
    # TIME_SHIFT of one sample: trace id, flags, CPUs; their number, time, offset, scale, fraction.
    shift = struct.pack("<QIIIQQQQ", 0, 0, 1, 1, 5, 777, 1, 0)
    shifted = analysed(with_clock(tmp_path, "local", {12: shift}))[1]
    assert shifted["start"] == [at + 777 for at in plain["start"]]
    for column in ("pid", "dev", "sector", "elapsed_hardware"):
        assert shifted[column] == plain[column]


def test_g4_10_a_host_file_that_names_its_guests_is_read(tmp_path: Path) -> None:
    plain = analysed(with_clock(tmp_path, "local"))[1]
    guest = b"vm\0" + struct.pack("<QIII", 7, 1, 0, 0)
    assert analysed(with_clock(tmp_path, "local", {13: guest}))[1] == plain


def test_g4_2_ticks_whose_length_the_file_names_become_ns(tmp_path: Path) -> None:
    ticks = with_clock(tmp_path, "x86-tsc")
    plain = analysed(ticks)[1]
    # TSC2NSEC: ns are ticks * 3 / 2^1.
    trace = with_clock(tmp_path, "x86-tsc", {14: struct.pack("<IIQ", 3, 1, 0)})
    assert _native.ticks(str(trace)) is None
    record, found = analysed(trace)
    assert record["unit"] == "ns"
    assert found["start"] == [at * 3 // 2 for at in plain["start"]]


@pytest.mark.parametrize("clock", ["x86-tsc", "counter", "uptime", "ppc-tb"])
def test_g4_2_ticks_are_named(clock: str, tmp_path: Path) -> None:
    trace = with_clock(tmp_path, clock)
    assert _native.ticks(str(trace)) == clock
    record, _ = analysed(trace)
    assert (record["unit"], record["trace"]["clock"]) == ("ticks", clock)


@pytest.mark.parametrize("clock", ["local", "global", "mono", "boot", "tai", "perf", "mono_raw"])
def test_g4_2_clocks_of_nanoseconds_stay_so(clock: str, tmp_path: Path) -> None:
    trace = with_clock(tmp_path, clock)
    assert _native.ticks(str(trace)) is None
    assert analysed(trace)[0]["unit"] == "ns"


@pytest.mark.parametrize("big_endian", [False, True])
def test_g4_10_files_of_big_endian_machines_packed(big_endian: bool, tmp_path: Path) -> None:
    made = Machine(Layout(big_endian=big_endian, long_size=4), KERNELS[-1], cpus=2)
    single(Bench(made, DRIVERS["nvme"](made)), count=3)
    plain = exported.write(tmp_path, "a.dat", made.file())
    packed = exported.write(tmp_path, "b.dat.gz", gzip.compress(made.file()))
    assert rows(packed)[1] == analysed(plain)[1]


def test_g4_10_split_files_are_read(trace_cmd: str, tmp_path: Path) -> None:
    trace = DATA / "ufs-read.dat"
    whole = analysed(trace)[1]
    command = ["trace-cmd", "split", "-i", str(trace), "-o", str(tmp_path / "cut.dat"), "-r"]
    done = subprocess.run([*command, "-e", "20000"], capture_output=True, check=False, text=True)
    pieces = sorted(tmp_path.glob("cut.dat*"))
    assert len(pieces) > 1, done.stderr
    counts = [len(analysed(piece)[1]["start"]) for piece in pieces]
    starts = {start for piece in pieces for start in analysed(piece)[1]["start"]}
    assert starts <= set(whole["start"])
    # An I/O that a cut goes through is in neither piece.
    assert sum(counts) >= len(whole["start"]) - 16 * len(pieces)


def test_g4_9_two_recordings_in_one_file_are_refused(trace_cmd: str, tmp_path: Path) -> None:
    first = (DATA / "ufs-read.dat").read_bytes()
    second = as_version_6(DATA / "nvme-write-sync-8.dat", tmp_path).read_bytes()
    for one, other in ((first, second), (second, first)):
        path = exported.write(tmp_path, "two.dat", one + other)
        with pytest.raises(_native.TraceError, match="two recordings in one file") as caught:
            _native.outline(str(path))
        assert f"the second from byte {len(one)} on" in str(caught.value)
