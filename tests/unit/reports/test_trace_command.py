"""``iotoll analyze`` as a user types it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from iotoll.measure.substeps import steps
from iotoll.records.models import CellRecord, Clock, Section
from iotoll.records.text import number
from iotoll.reports.trace.filters import Filters
from iotoll.reports.trace.reader import TraceCell, load
from iotoll.reports.trace.slowest import EVENT_LIMIT, print_slowest, ranked, readable, slowest
from iotoll.reports.trace.table import print_cell
from tests.trace.synthetic.container import Layout
from tests.trace.synthetic.drivers import DRIVERS
from tests.trace.synthetic.formats import KERNELS
from tests.trace.synthetic.machine import Machine
from tests.trace.synthetic.scenarios import Bench, single
from tests.unit.analyzing import refused, run
from tests.unit.runs import BOOTS
from tests.unit.tables import READ, SPLIT, SYNC8, cell, full_cell

UFS = BOOTS / "base/ufs/trace.dat"


def test_json_follows_the_schema() -> None:
    records = json.loads(run(UFS, "--clock", "instructions", "--comm", "fio", "--json").stdout)
    cells = [CellRecord.model_validate(r) for r in records]
    assert [c.cell for c in cells][:2] == ["ufs-4k-randread-t1-direct", "ufs-4k-randread-t1-sync"]
    assert cells[0].filters == {"--comm": "fio"}


def test_more_ios_than_are_kept_one_by_one(tmp_path: Path) -> None:
    made = Machine(Layout(), KERNELS[-1], cpus=2)
    single(Bench(made, DRIVERS["nvme"](made)), count=17_000)
    trace = tmp_path / "long.dat"
    trace.write_bytes(made.file())
    (record,) = [CellRecord.model_validate(r) for r in json.loads(run(trace, "--json").stdout)]
    total, truth = record.total.elapsed, np.array([io.end - io.start for io in made.ios])
    assert (total.count, total.resolution) == (17_000, 1 / 256)
    assert total.median == pytest.approx(np.median(truth), rel=1 / 256)
    assert total.mean == pytest.approx(truth.mean())
    assert "quantiles known to 0.4 %" in run(trace).stdout.replace("\xa0", " ")
    assert "quantiles known" not in run(SYNC8).stdout


def test_all_outputs_of_one_call_hold_the_same_ios(tmp_path: Path) -> None:
    import polars as pl

    out = [f"--{kind}={tmp_path / kind}" for kind in ("parquet", "perfetto", "svg")]
    found = run(SYNC8, "--pid", 872, "--slowest", 3, "--json", *out)
    (record,) = json.loads(found.stdout)
    assert record["ios"]["selected"] == len(pl.read_parquet(tmp_path / "parquet")) == 128
    assert [io["pid"] for io in record["slowest"]] == [872] * 3
    assert "--pid 872" in (tmp_path / "svg" / "nvme-write-sync-8-cdf.svg").read_text()
    assert found.stderr.count("wrote ") == 5


def test_the_table_always_shows_the_counts() -> None:
    for extra in ([], ["--pid", "872"], ["--window", "0", "0.5"]):
        text = run(SYNC8, *extra).stdout.replace("\xa0", " ")
        assert " seen = " in text and " attributed + " in text and " in flight" in text
        assert ("Only: " in text) == bool(extra)
    assert "! no I/O to show" in text


def test_several_traces() -> None:
    records = json.loads(run(SYNC8, READ, "--json").stdout)
    assert [r["cell"] for r in records] == ["nvme-write-sync-8", "ufs-read"]
    assert "take one TRACE" in refused(SYNC8, READ, "--perfetto", "x")


def test_fio_beside_the_trace() -> None:
    fio = BOOTS / "base/ufs/fio.json"
    text = run(UFS, "--clock", "instructions", "--comm", "fio", "--fio", fio).stdout
    assert "agrees: 256 I/Os and all bytes" in text.replace("\xa0", " ")
    assert refused(UFS, "--fio", fio, "--pid", 1) == ("--fio compares whole cells: leave out --pid")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent.dat"], "no such file"),
        ([SYNC8, "--window", "2", "1"], "FROM must be before TO"),
        ([SYNC8, "--device", "nosuch"], "--device nosuch: is not a device of this machine"),
        ([SYNC8, "--min-size", "big"], "--min-size big: give bytes"),
    ],
)
def test_usage_errors_are_one_line(words: list[Any], message: str) -> None:
    assert message in refused(*words)


def test_quiet_prints_only_what_was_asked_for() -> None:
    assert run(SYNC8, "--quiet").stdout == ""
    text = run(SYNC8, "--quiet", "--slowest", 1).stdout
    assert text.strip().startswith("Slowest 1: ") and "seen = " not in text


def shown(made: TraceCell, **options: Any) -> str:
    stream = io.StringIO()
    print_cell(made.record, Console(file=stream, width=options.get("width", 100)))
    return stream.getvalue().replace("\xa0", " ")


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def test_table_shows_sub_steps_and_marks() -> None:
    made = full_cell()
    record = made.record.model_copy(update={"steps": steps(made.table)})
    text = shown(replace(made, record=record))
    assert "bio_queue -> getrq" in text and "then tag wait" in text
    assert "device -> irq" not in text, "hardware has no meaning on this clock"
    assert "hardware ends at irq_handler_entry" in unwrapped(text)
    assert "vfs_fs ends at block_bio_queue" in unwrapped(text)


PROBED = SYNC8.with_name("ufs-probed.dat")


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("clock", list(Clock))
@pytest.mark.parametrize("path", [SYNC8, SPLIT, READ, PROBED])
def test_tables_fit_the_terminal(path: Path, clock: Clock, width: int) -> None:
    for made in load(path, clock, Filters(comm="fio")):
        text = shown(made, width=width)
        lines = [line.rstrip() for line in text.splitlines()]
        assert max(map(len, lines)) <= width and "…" not in text
        assert made.record.steps or path == SPLIT
        for step in made.record.steps:
            if step.section is Section.HARDWARE and clock is Clock.INSTRUCTIONS:
                continue
            # Its figures stand in one line, and its meaning in whole words.
            (figures,) = [x for x in lines if f"{step.step}  " in x and number(step.median) in x]
            assert number(step.p99) in figures
            ((place, words),) = [
                (at, x.removeprefix(step.step).strip())
                for at, x in enumerate(lines)
                if x.startswith(step.step) and number(step.median) not in x
            ]
            while words != step.meaning:
                place += 1
                assert lines[place].startswith("  ")
                words += f" {lines[place].strip()}"
        narrow = "Too narrow for: " in text
        assert not narrow if width == 120 else narrow or width == 80 or path != PROBED


def test_shares_add_up() -> None:
    text = shown(cell(SPLIT))
    block = text[text.index("Elapsed") : text.index("overhead")]
    shares = [float(line.split()[-2]) for line in block.splitlines() if line.endswith("%")]
    assert len(shares) == 4 and sum(shares) == pytest.approx(100, abs=0.2)


def test_the_slowest_are_the_longest_with_all_their_events() -> None:
    made = cell(READ)
    found = slowest(made, 5)
    longest = sorted(ranked(made, made.table).tolist(), reverse=True)[:5]
    assert [io.duration - io.elapsed[Section.HARDWARE] for io in found] == longest
    for slow in found:
        assert sum(slow.elapsed.values()) == slow.duration
        assert slow.events[0].at == 0 and slow.events[-1].at == slow.duration
        assert slow.events[0].event.startswith("sys_enter_") and slow.events_left_out == 0
        assert len(slow.events) < EVENT_LIMIT
    few = replace(made, table=made.table.take(np.arange(3)))
    assert len(slowest(few, 1000)) == 3


def test_f4_7_on_the_clock_time_the_device_counts() -> None:
    made = cell(READ, Clock.TIME)
    longest = sorted(made.table.duration.tolist(), reverse=True)[:5]
    assert [io.duration for io in slowest(made, 5)] == longest


def test_f4_7_bytes_that_are_no_text_are_dots() -> None:
    assert readable("nvme0n1") == "nvme0n1"
    assert readable("a\x00\ufffd\x1b[31mb\u202e") == "a...[31mb."


def test_f4_7_a_task_that_the_trace_does_not_have_is_refused() -> None:
    message = refused(READ, "--comm", "nobody")
    assert "--comm nobody: no I/O of the trace fits; tasks in the trace: " in message


@pytest.mark.parametrize("option", ["--parquet", "--perfetto"])
def test_f4_7_a_folder_that_is_not_there_is_refused(option: str, tmp_path: Path) -> None:
    assert "does not exist" in refused(READ, option, tmp_path / "none" / "x")


def test_f4_7_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from iotoll.core.errors import InfrastructureError
    from iotoll.core.progress import Progress
    from iotoll.reports.trace import perfetto

    target = tmp_path / "x.pftrace"
    target.write_bytes(b"old")

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(perfetto.Writer, "flush", full)
    with pytest.raises(InfrastructureError, match="No space left"):
        perfetto.write_perfetto([cell(READ)], target, Progress(quiet=True))
    assert [p.name for p in tmp_path.iterdir()] == ["x.pftrace"]
    assert target.read_bytes() == b"old"


def test_the_slowest_of_tables_with_sectors() -> None:
    made = full_cell()
    assert [io.duration for io in slowest(made, 2)] == [io.duration for io in slowest(cell(), 2)]


@pytest.mark.parametrize("width", [80, 109, 110, 160])
def test_slowest_are_told_whole_in_any_terminal(width: int) -> None:
    made = full_cell()
    (slow,) = slowest(made, 1)
    stream = io.StringIO()
    print_slowest(made, [slow], Console(file=stream, width=width))
    text = stream.getvalue()
    letters = "".join(text.split())  # a long field goes on in the next line
    assert max(map(len, text.splitlines())) <= width and "…" not in text
    for event in slow.events:
        task = f"{event.task}{event.pid}"
        pair = (task, event.event) if width >= 110 else (event.event, task)
        fields = (f"{k}={v}" for k, v in event.fields.items() if v)
        assert "".join([*pair, *fields]).replace(" ", "") in letters


def test_slowest_print_without_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cell(READ)
    (slow,) = slowest(made, 1)
    event = slow.events[0].model_copy(update={"task": "[red]x\x1b[31m", "fields": {"a": "[/]"}})
    hostile = slow.model_copy(update={"events": [event], "events_left_out": 7})
    stream = io.StringIO()
    print_slowest(made, [hostile], Console(file=stream, width=100))
    text = stream.getvalue()
    assert "[red]x" in text and "a=[/]" in text and "\x1b" not in text
    assert "7 more events left out" in text.replace("\xa0", " ")


def test_f6_9_a_trace_that_is_damaged_meanwhile_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F6.9: slowest.py read the analyser's answer unguarded."""
    from iotoll.core.errors import InfrastructureError
    from iotoll.reports.trace import slowest as module

    file = SimpleNamespace(data=tmp_path / "t.dat")
    cell = SimpleNamespace(table=None, longest=None, trace=file.data, file=file, dev="")
    monkeypatch.setattr(module, "ranked", lambda *_: np.zeros(0, dtype=np.int64))
    cell.table = SimpleNamespace(take=lambda order: [])
    (tmp_path / "t.dat").write_bytes(b"no trace")
    with pytest.raises(InfrastructureError, match=r"t\.dat: .*run the boot again"):
        module.slowest(cell, 1)  # type: ignore[arg-type]
