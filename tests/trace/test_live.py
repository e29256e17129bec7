"""``iotoll-dut live`` on a tracefs made of a fixture's own pages, against the fixture itself.

The ring buffers are named pipes, which give every page once, as the kernel does.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.trace import dut
from tests.trace.conftest import DATA, as_version_6
from tests.trace.plain import event_name, parts_of

PIPE_SIZE = 1 << 20
MISSED = 1 << 31


@dataclass
class Fake:
    """A folder that looks like tracefs, and the pages that its ring buffers are to give."""

    root: Path
    plain: Path
    pages: list[list[bytes]] = field(default_factory=list)
    pipes: list[int] = field(default_factory=list)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def feed(self, cpu: int, page: bytes) -> None:
        """Let a ring buffer have one more page, as soon as there is room."""
        while True:
            with contextlib.suppress(BlockingIOError):
                assert os.write(self.pipes[cpu], page) == len(page)
                return
            time.sleep(0.01)

    def stop(self) -> None:
        """Switch tracing off."""
        (self.root / "tracing_on").write_text("0\n")

    def start(self, *words: str) -> subprocess.Popen[str]:
        """``iotoll-dut live`` on it, in the background."""
        command = dut.native()
        process = subprocess.Popen(
            [command.path, "live", "--tracefs", self.root, "--interval", "5", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process


def write(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def tracefs(root: Path, plain: Path) -> Fake:
    """Make it from an uncompressed version 6 file."""
    fake = Fake(root, plain)
    data = plain.read_bytes()
    parts = parts_of(data)
    for name, text in parts.headers.items():
        write(root / "events" / name, text)
    for text in parts.ftrace:
        write(root / f"events/ftrace/{event_name(text)}/format", text)
    enabled = ""
    for system, texts in parts.systems:
        for text in texts:
            enabled += f"{system}:{event_name(text)}\n"
            write(root / f"events/{system}/{event_name(text)}/format", text)
    write(root / "set_event", enabled)
    write(root / "tracing_on", "1\n")
    write(root / "trace_clock", "[local] global\n")
    write(root / "saved_cmdlines", parts.cmdlines)
    for cpu, pages in enumerate(parts.pages):
        folder = root / f"per_cpu/cpu{cpu}"
        write(folder / "stats", "dropped events: 0\n")
        os.mkfifo(folder / "trace_pipe_raw")
        # Open for both, so that the pipe lives on between two looks.
        pipe = os.open(folder / "trace_pipe_raw", os.O_RDWR | os.O_NONBLOCK)
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        fake.pipes.append(pipe)
        fake.pages.append([data[at : at + parts.page_size] for at in pages])
    return fake


@pytest.fixture
def fake(request: pytest.FixtureRequest, tmp_path: Path, trace_cmd: str) -> Any:
    """The tracefs of the fixture that the test's parameter names."""
    plain = as_version_6(DATA / f"{request.param}.dat", tmp_path)
    made = tracefs(tmp_path / "tracefs", plain)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()
    for pipe in made.pipes:
        os.close(pipe)


def finish(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def expected(path: Path, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dut.native().output("record", path, *words).splitlines()]


def same(live: list[dict[str, Any]], traced: list[dict[str, Any]]) -> None:
    """Everything but what only a file has."""
    assert [one["cell"] for one in live] == [one["cell"] for one in traced]
    for one, two in zip(live, traced, strict=True):
        assert one["record"]["trace"].pop("version") == 0
        assert two["record"]["trace"].pop("version") == 6
        assert one == two


@pytest.mark.parametrize("fake", ["ufs-probed"], indirect=True)
def test_cells_are_measured_as_they_come(fake: Fake) -> None:
    process = fake.start("--cells", "--comm", "fio", "--device", "8:0", "--unit", "instructions")
    assert process.stdout is not None
    for page in fake.pages[0]:
        fake.feed(0, page)
        time.sleep(0.01)  # a look or two
    first = json.loads(process.stdout.readline())
    assert process.poll() is None, "a cell is given out when it has ended, not at the end of all"
    fake.stop()
    words = ("--comm", "fio", "--device", "8:0", "--unit", "instructions")
    same([first, *finish(process)], expected(fake.plain, "--cells", *words))


@pytest.mark.parametrize(
    ("fake", "device"),
    [("ufs-read", "8:0"), ("virtio-split-flush", "254:0")],
    indirect=["fake"],
)
def test_what_was_recorded_before_is_measured_too(fake: Fake, device: str) -> None:
    for cpu, pages in enumerate(fake.pages):
        for page in pages:
            fake.feed(cpu, page)
    fake.stop()
    live = finish(fake.start("--name", "plain", "--until-stopped"))
    assert live[0]["record"]["device"]["dev"] == device, "the one with most bios"
    same(live, expected(fake.plain, "--device", device))


@pytest.mark.parametrize("fake", ["nvme-write-sync-8"], indirect=True)
def test_more_than_the_buffer_holds(fake: Fake) -> None:
    words = ("--device", "259:0", "--name", "plain", "--comm", "fio", "--columns")
    process = fake.start(*words)
    for page in fake.pages[0]:
        fake.feed(0, page)
    fake.stop()
    same(finish(process), expected(fake.plain, "--device", "259:0", "--comm", "fio", "--columns"))


@pytest.mark.parametrize("fake", ["ufs-read"], indirect=True)
def test_lost_pages_drop_the_same_ios(fake: Fake) -> None:
    whole = fake.plain.read_bytes()
    (pages,) = fake.pages
    start = whole.index(pages[0])
    gone = (3, 7)  # pages that were overwritten: the next ones say so
    kept = b""
    for number, page in enumerate(pages):
        if number in gone:
            continue
        commit = int.from_bytes(page[8:16], "little") | (MISSED if number - 1 in gone else 0)
        kept += page[:8] + commit.to_bytes(8, "little") + page[16:]
    sizes = start.to_bytes(8, "little") + (len(kept) + len(gone) * len(pages[0])).to_bytes(
        8, "little"
    )
    lossy = whole[:start].replace(
        sizes, start.to_bytes(8, "little") + len(kept).to_bytes(8, "little")
    )
    assert lossy != whole[:start]
    fake.plain.write_bytes(lossy + kept)
    process = fake.start("--device", "8:0", "--name", "plain")
    for at in range(0, len(kept), len(pages[0])):
        fake.feed(0, kept[at : at + len(pages[0])])
        time.sleep(0.01)
    fake.stop()
    live, traced = finish(process), expected(fake.plain, "--device", "8:0")
    assert live[0]["record"]["trace"]["lost_ranges"] == len(gone)
    assert live[0]["record"]["ios"]["dropped_lost"] > 0
    same(live, traced)


@pytest.mark.parametrize("fake", ["ufs-read"], indirect=True)
def test_it_ends_by_itself(fake: Fake) -> None:
    (one,) = finish(fake.start("--seconds", "0"))
    assert (one["cell"], one["record"]["ios"]["seen"]) == ("live", 0)


@pytest.mark.parametrize("fake", ["ufs-read"], indirect=True)
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--device", "sda"), 2, '--device: no "sda"; use major:minor'),
        (("--device", "8:0", "--window", "1"), 2, "invalid option '--window'"),
        (("--device", "8:0", "--seconds", "x"), 2, "use a whole number"),
        (("--device", "8:0", "--tracefs", "/nowhere"), 2, "/nowhere/set_event: No such file"),
    ],
)
def test_errors(fake: Fake, words: tuple[str, ...], code: int, message: str) -> None:
    process = fake.start(*words)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("fake", ["ufs-read"], indirect=True)
def test_nothing_is_being_recorded(fake: Fake) -> None:
    (fake.root / "set_event").write_text("")
    process = fake.start("--device", "8:0")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "no event is enabled" in err
    (fake.root / "set_event").write_text("block:block_rq_issue\n")
    (fake.root / "events/block/block_rq_issue/format").unlink()
    process = fake.start("--device", "8:0")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "block_rq_issue/format" in err
