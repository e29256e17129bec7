"""Every event, time stamp and field against libtracecmd, which trace-cmd itself reads with."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("oracle") / "events.c"
DATA = Path(__file__).with_name("data")
KERNELS = sorted(str(path.relative_to(DATA)) for path in DATA.glob("kernels/**/*.dat"))
TRACEFS = Path("/sys/kernel/tracing")
CONVERSIONS = [("6", "none"), ("7", "none"), ("7", "zlib"), ("7", "zstd")]
CLOCKS = ["local", "mono", "boot", "counter", "uptime", "x86-tsc"]


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our small program around libtracecmd."""
    for tool in ("pkg-config", "cc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed, so the oracle cannot be built")
    flags = ["pkg-config", "--cflags", "--libs", "libtracecmd"]
    found = subprocess.run(flags, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip("libtracecmd is not installed, so there is no oracle (apt install "
                    "libtracecmd-dev)")  # fmt: skip
    program = tmp_path_factory.mktemp("oracle") / "events"
    command = ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2"]
    files = ["-o", str(program), str(SOURCE)]
    subprocess.run([*command, *files, *found.stdout.split()], check=True)
    return program


@pytest.fixture(scope="session")
def dump() -> Path:
    """Our reader's example that prints the same lines."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed, so our reader's example cannot be built")
    # Without --release: `cargo test` has built it, and the release takes more than all comparisons.
    build = ["cargo", "build", "--quiet", "--locked", "--package", "tracedat", "--example", "dump"]
    done = subprocess.run(
        [*build, "--message-format", "json"], check=True, cwd=ROOT, stdout=subprocess.PIPE
    )
    built = [json.loads(line) for line in done.stdout.splitlines()]
    (program,) = [one["executable"] for one in built if one.get("executable")]
    return Path(program)


def events(program: Path, trace: Path) -> Iterator[str]:
    """The lines that a program prints of a trace."""
    command = [str(program), str(trace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield from process.stdout
    assert process.returncode == 0, command


def compare(oracle: Path, dump: Path, trace: Path) -> int:
    """Compare line by line; the number of events."""
    count = 0
    for theirs, ours in itertools.zip_longest(events(oracle, trace), events(dump, trace)):
        assert ours == theirs, f"event {count} of {trace.name}"
        count += 1
    return count


def convert(trace_cmd: str, trace: Path, version: str, packing: str, target: Path) -> None:
    """Write the trace in another version or packing."""
    command = [trace_cmd, "convert", "-i", str(trace), "-o", str(target)]
    command += ["--file-version", version]
    command += [] if version == "6" else ["--compression", packing]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "is not supported" in done.stdout + done.stderr:
        pytest.skip(f"this trace-cmd cannot write {packing}")
    assert done.returncode == 0, done.stderr


def test_fixtures(oracle: Path, dump: Path, trace: str) -> None:
    assert compare(oracle, dump, Path(trace)) > 5000


@pytest.mark.parametrize("name", KERNELS)
def test_other_kernels(oracle: Path, dump: Path, name: str) -> None:
    assert compare(oracle, dump, DATA / name) > 0


@pytest.mark.parametrize(("version", "packing"), CONVERSIONS)
def test_conversions(
    oracle: Path,
    dump: Path,
    trace_cmd: str,
    trace: str,
    version: str,
    packing: str,
    tmp_path: Path,
) -> None:
    target = tmp_path / "converted.dat"
    convert(trace_cmd, Path(trace), version, packing, target)
    assert compare(oracle, dump, target) > 5000


@contextlib.contextmanager
def instance(name: str, clock: str, wanted: list[str]) -> Iterator[Path]:
    """A ring buffer of this machine's kernel of our own, with some events on."""
    path = TRACEFS / "instances" / name
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no instance of tracefs can be made here ({error})")
    try:
        available = (path / "trace_clock").read_text().replace("[", "").replace("]", "").split()
        if clock not in available:
            pytest.skip(f"this machine has no trace clock {clock}")
        (path / "trace_clock").write_text(clock)
        for event in wanted:
            (path / "events" / event / "enable").write_text("1")
        yield path
    finally:
        # trace-cmd extract has removed it when it went well.
        with contextlib.suppress(OSError):
            path.rmdir()


def work(folder: Path) -> None:
    """Something to trace."""
    for number in range(300):
        (folder / "scratch").write_bytes(bytes(4096))
        if number % 100 == 0:
            time.sleep(0.01)


def record(trace_cmd: str, clock: str, folder: Path) -> Path:
    """Record two instances of this machine's kernel with trace-cmd."""
    names = [f"oracle-{os.getpid()}-{n}" for n in (1, 2)]
    recorded = folder / "recorded.dat"
    with (
        instance(names[0], clock, ["syscalls"]) as first,
        instance(names[1], clock, ["irq", "sched/sched_switch"]) as second,
    ):
        work(folder)
        (first / "trace_marker").write_text("a marker")
        for path in (first, second):
            (path / "tracing_on").write_text("0")
        command = [trace_cmd, "extract", "-o", str(recorded), "-B", names[0], "-B", names[1]]
        subprocess.run(command, capture_output=True, check=True)
    return recorded


@pytest.mark.parametrize("clock", CLOCKS)
def test_instances_and_clocks(
    oracle: Path, dump: Path, trace_cmd: str, clock: str, tmp_path: Path
) -> None:
    # trace-cmd 3.1.6 asks for the size of saved_cmdlines first and reads it later: when tasks
    # have come or gone in between, the file cannot be read by anything.
    for _ in range(10):
        recorded = record(trace_cmd, clock, tmp_path)
        opened = subprocess.run([oracle, recorded], stdout=subprocess.DEVNULL, check=False)
        if opened.returncode == 0:
            break
    count = compare(oracle, dump, recorded)
    assert count > 500
    for version, packing in [("6", "none"), ("7", "none")]:
        target = tmp_path / f"{version}.dat"
        convert(trace_cmd, recorded, version, packing, target)
        assert compare(oracle, dump, target) == count


def numbers(*values: tuple[int, int]) -> bytes:
    """Integers of the given sizes (bytes), little-endian."""
    return b"".join(value.to_bytes(size, "little") for value, size in values)


ONE_SAMPLE = numbers((0, 8), (0, 4), (1, 4), (1, 4), (5, 8), (777, 8), (1, 8), (0, 8))
TWO_SAMPLES = numbers(
    *[(0, 8), (1, 4), (1, 4), (2, 4)],
    *[(10**9, 8), (2 * 10**12, 8), (777, 8), (99777, 8), (1, 8), (1, 8), (0, 8), (0, 8)],
)
OPTIONS = {
    "offset": [(7, b"1234567\0")],
    "negative offset": [(7, b"-1000\0")],
    "date": [(1, b"0x1234\0")],
    "both": [(1, b"0x1234\0"), (7, b"0x10\0")],
    "one sample of a guest": [(12, ONE_SAMPLE)],
    "two samples of a guest": [(12, TWO_SAMPLES)],
}


@pytest.mark.parametrize("name", OPTIONS)
def test_clock_options(oracle: Path, dump: Path, trace_cmd: str, name: str, tmp_path: Path) -> None:
    """Options that move time stamps, put into the options of a version 6 file."""
    source = DATA / "ufs-read.dat"
    plain, moved = tmp_path / "plain.dat", tmp_path / "moved.dat"
    convert(trace_cmd, source, "6", "none", plain)
    data = plain.read_bytes()
    added = b""
    for number, value in OPTIONS[name]:
        added += number.to_bytes(2, "little") + len(value).to_bytes(4, "little") + value
    at = data.index(b"options  \0") + 10
    table = data.index(b"flyrecord\0", at) + 10
    # Whole pages are put in, so that the data stay aligned; the tables of CPUs follow them.
    shift = -(-len(added) // 4096) * 4096
    filler = shift - len(added) - 6
    added += (9).to_bytes(2, "little") + filler.to_bytes(4, "little") + bytes(filler)
    first = int.from_bytes(data[table : table + 8], "little")
    head = bytearray(data[:at] + added + data[at:first])
    for place in range(table + shift, table + shift + 16, 16):
        offset = int.from_bytes(head[place : place + 8], "little")
        head[place : place + 8] = (offset + shift).to_bytes(8, "little")
    moved.write_bytes(bytes(head) + data[first:])
    assert compare(oracle, dump, moved) > 5000
    before, after = next(events(dump, plain)), next(events(dump, moved))
    assert before.split()[2] != after.split()[2]
