"""The command on the device under test: static, equal on all architectures, equal to the host."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from iotoll import _native
from iotoll.core.errors import ResultError
from iotoll.measure import board_records, boot_trace
from iotoll.measure.io_order import GATE_COLUMNS
from iotoll.measure.serial import receive
from iotoll.records.models import CellRecord, Clock, Section
from iotoll.reports.trace.filters import Filters
from iotoll.reports.trace.reader import load
from tests.trace import dut
from tests.trace.conftest import DATA
from tests.trace.dut import Dut
from tests.trace.native import analysed, record_of

SIZE = 2_000_000  # bytes: a ramdisk's share
PROBED = DATA / "ufs-probed.dat"


@pytest.fixture(params=list(dut.MACHINE))
def built(request: pytest.FixtureRequest) -> Dut:
    """The command of each architecture in turn."""
    return dut.find(request.param)


@pytest.fixture
def command() -> Dut:
    """The command of this machine."""
    return dut.native()


def test_it_is_small_and_static(built: Dut) -> None:
    assert built.path.stat().st_size < SIZE
    readelf = shutil.which("readelf")
    if readelf is None:
        pytest.skip("readelf is not installed (apt install binutils)")
    done = subprocess.run(
        [readelf, "-hldS", built.path], capture_output=True, text=True, check=True
    )
    assert "INTERP" not in done.stdout
    assert "(NEEDED)" not in done.stdout
    assert ".symtab" not in done.stdout, "it is not stripped"
    assert {"arm64": "AArch64", "x86_64": "X86-64", "arm": " ARM\n"}[built.arch] in done.stdout


@pytest.mark.parametrize("arch", ["arm64", "arm"])
def test_architectures_agree_byte_for_byte(trace: str, arch: str) -> None:
    one, two = dut.find(arch), dut.find("x86_64")
    words = ("record", trace, "--columns", "--comm", "fio", "--digest")
    text = one.output(*words)
    assert text == two.output(*words)
    assert one.output("send", data=text) == two.output("send", data=text)


def test_record_is_the_host_s(command: Dut, trace: str) -> None:
    (line,) = command.output("record", trace, "--comm", "fio").splitlines()
    found = json.loads(line)
    assert found.keys() == {"schema_version", "cell", "record"}
    assert found["cell"] == Path(trace).stem
    # A board counts events on both clocks: its calibration needs their numbers.
    assert found["record"] == record_of(trace, comm="fio", count_events=True)
    last = command.output("record", trace, "--device-mark", "last_before", "--unit", "instructions")
    record = json.loads(last)["record"]
    assert record == record_of(trace, device_mark="last_before", unit="instructions")


@pytest.mark.parametrize("clock", list(Clock))
def test_host_makes_the_same_cells_of_it(command: Dut, trace: str, clock: Clock) -> None:
    marked = ["--cells"] if boot_trace.BootTraceFile(Path(trace)).windows else []
    words = ("--comm", "fio", "--unit", clock.unit.value, "--digest", *marked)
    sent = command.output("send", data=command.output("record", trace, *words))
    received = [one.text for one in receive(sent.encode())]
    assert None not in received
    cells = [cell.record for cell in load(Path(trace), clock, Filters(comm="fio"))]
    # Sub-steps, threads and marks need more than the document's columns; filters, and what
    # `analyze` says of requests and of what is missing, are the host's.
    hosts: dict[str, object] = {"steps": [], "filters": {}, "blocks": None, "warnings": None}
    expected = [cell.model_copy(update=hosts) for cell in cells]
    found = [board_records.cell_of_dut(text or "", clock) for text in received]
    assert list(map(_unordered, found)) == list(map(_unordered, expected))
    for one, other in zip(found, expected, strict=True):
        assert _values(one) == _values(other)


def test_events_are_counted_on_both_clocks(trace: str) -> None:
    one, other = (
        [cell.record.sections for cell in load(Path(trace), clock, Filters(comm="fio"))]
        for clock in Clock
    )
    assert len(one) == len(other) > 0
    for sections, same in zip(one, other, strict=True):
        for section, part in sections.items():
            assert part.probe_events == same[section].probe_events


def _unordered(cell: CellRecord) -> CellRecord:
    return cell.model_copy(update={"in_order": None})


def _values(cell: CellRecord) -> dict[Section, Counter[int | None]]:
    """How often each value occurs in each section of what the gate pairs."""
    if cell.in_order is None:
        return {}
    return {section: Counter(values) for section, values in cell.in_order.sections.items()}


def test_fio_judges_the_cell_of_a_board_too(command: Dut) -> None:
    text = command.output("record", DATA / "ufs-read.dat", "--comm", "fio")
    cell = board_records.cell_of_dut(text, Clock.TIME, {"ios": 10**6, "error": 0})
    assert cell.trace_sha256 is None
    assert cell.invalid is not None
    assert "fio did 1000000 I/Os" in cell.invalid


def test_window_and_device_select(command: Dut) -> None:
    times = [time for time, text in _native.markers(str(PROBED)) if "cell" in text]
    window = (times[0], times[1])
    expected, table = analysed(PROBED, windows=[window], count_events=True)
    found = json.loads(
        command.output("record", PROBED, "--window", str(times[0]), str(times[1]), "--columns")
    )
    assert found["record"] == expected
    assert found["columns"] == {name: table[name] for name in GATE_COLUMNS.values()}
    other = json.loads(command.output("record", PROBED, "--device", "259:0"))
    assert other["record"]["device"]["dev"] == "259:0"


def test_chunks_are_sent_again(command: Dut, tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_text(command.output("record", PROBED, "--cells", "--columns"))
    lines = command.output("send", "--in", path).splitlines()
    assert max(map(len, lines)) <= 200
    lost = "\r\n".join(lines[:5] + lines[9:])
    one, two = receive(lost.encode())
    assert one.text is None
    assert two.text is not None
    assert one.missing == (range(5, 9),)
    assert one.request is not None
    again = command.output("send", "--in", path, *one.request.split())
    assert len(again.splitlines()) == 6
    one, two = receive((lost + "\n" + again).encode())
    assert [one.text, two.text] == path.read_text().splitlines()
    twice = command.output("send", "--in", path, "--repeat", "2")
    assert twice.splitlines() == lines * 2


def test_a_cell_of_any_name_can_be_sent(command: Dut) -> None:
    for name in ("", "ö" * 100, "a b\n#iotoll1 H", "../x"):
        text = json.dumps({"cell": name})
        (found,) = receive(command.output("send", data=text).encode())
        assert found.text == text


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "no command"),
        (["go"], 2, 'no command "go"'),
        (["record"], 2, "no trace named"),
        (["record", "absent.dat"], 2, "absent.dat: No such file"),
        (["record", "a", "b"], 2, 'unexpected argument "b"'),
        (["record", PROBED, "--sections"], 2, "invalid option '--sections'"),
        (["record", PROBED, "--unit", "us"], 2, "use ns or instructions"),
        (["record", PROBED, "--device", "sda"], 2, '--device: no "sda"; use major:minor'),
        (["record", PROBED, "--device-mark", "bell"], 2, "use auto or last_before"),
        (["record", PROBED, "--window", "1"], 2, "missing argument"),
        (["record", PROBED, "--window", "1", "x"], 2, "--window x: use a whole number"),
        (["record", PROBED, "--window", "1", "2", "--cells"], 2, "exclude each other"),
        (["record", DATA / "ufs-read.dat", "--cells"], 2, 'no "iotoll cell NAME"'),
        (["record", Path(__file__)], 4, "is not a trace.dat"),
        (["send", "--in", "absent"], 2, "absent: No such file"),
        (["send", "--in", Path(__file__)], 2, "a line that is no record"),
        (["send", "--chunks", "0"], 2, "use numbers from 1"),
        (["send", "--chunks", "3-2"], 2, "use numbers from 1"),
        (["send", "--repeat", "0"], 2, "nothing would be sent"),
        (["send"], 2, "holds no record"),
    ],
)
def test_errors_are_one_line(
    command: Dut, words: list[str | Path], code: int, message: str
) -> None:
    done = command.run(*words, data="")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("iotoll-dut: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_asked_again_must_be_there(command: Dut) -> None:
    text = command.output("record", PROBED, "--cells")
    for words, message in (
        (["--record", "00000000"], "not in the input"),
        (["--chunks", "1"], "several records"),
    ):
        done = command.run("send", *words, data=text)
        assert (done.returncode, message in done.stderr) == (2, True)
    done = command.run("send", "--chunks", "1-9999", data=text.splitlines()[0])
    assert (done.returncode, "only" in done.stderr) == (2, True)


def test_help_and_version(command: Dut) -> None:
    for option in ("--help", "-h"):
        assert "usage: iotoll-dut record" in command.output(option)
    assert command.output("--version").startswith("iotoll-dut 0.")


def test_documents_of_boards_are_checked(command: Dut) -> None:
    document = json.loads(
        command.output("record", PROBED, "--comm", "fio", "--unit", "instructions")
    )

    def refused(clock: Clock = Clock.INSTRUCTIONS, **changes: Any) -> str:
        with pytest.raises(ResultError) as caught:
            board_records.cell_of_dut(json.dumps({**document, **changes}), clock)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    record = document["record"]
    assert "its unit is not ns" in refused(Clock.TIME)
    assert "no column first_vfs_fs" in refused(columns={})
    assert "field more" in refused(more=1)
    assert "field columns/own_return" in refused(columns={"own_return": "1"})
    assert "record/gate does not belong" in refused(record={**record, "gate": {}})
    assert "field record/ios: no 'measured'" in refused(record={**record, "ios": {}})
    assert "field sections" in refused(record={**record, "sections": {"x": 1}})
    for text in ("", "{", "[" * 100_000):
        with pytest.raises(ResultError, match="not readable JSON"):
            board_records.cell_of_dut(text, Clock.TIME)
