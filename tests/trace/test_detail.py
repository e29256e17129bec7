"""Events of single I/Os against trace-cmd's own reading of the same trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iotoll import _native
from tests.trace.native import analysed
from tests.trace.test_oracle import Line, report

DATA = Path(__file__).with_name("data")
ENOUGH = 10_000


def chosen(path: Path, count: int = 12) -> list[tuple[int, int, int, str | None, None, bool]]:
    """The longest I/Os of a trace, as `io_events` wants them."""
    record, table = analysed(path)
    sections = [column for name, column in table.items() if name.startswith("elapsed_")]
    spans = [sum(parts) for parts in zip(*sections, strict=True)]
    order = sorted(range(len(spans)), key=lambda row: -spans[row])[:count]
    dev = record["device"]["dev"]
    return [
        (table["pid"][r], table["start"][r], table["start"][r] + spans[r], dev, None, True)
        for r in order
    ]


def detail(path: Path, ios: list[Any], limit: int = ENOUGH) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_native.io_events(str(path), ios, limit=limit))
    return found


def key(line: Line) -> tuple[int, int, int, str]:
    return line.ts, line.cpu, line.pid, line.name


def test_every_event_of_the_task_is_there(trace_cmd: str, trace: str) -> None:
    path = Path(trace)
    ios = chosen(path)
    lines = list(report(trace_cmd, path))
    for (pid, start, end, *_), found in zip(ios, detail(path, ios), strict=True):
        mine = [e for e in found["events"] if e[2] == pid]
        wanted = [key(x) for x in lines if x.pid == pid and start <= x.ts <= end]
        assert [tuple(e[:4]) for e in mine] == wanted
        assert found["cut"] == 0


def test_events_are_real_ordered_and_within_the_io(trace_cmd: str, trace: str) -> None:
    path = Path(trace)
    ios = chosen(path)
    known = {key(x) for x in report(trace_cmd, path)}
    for (_, start, end, *_), found in zip(ios, detail(path, ios), strict=True):
        times = [e[0] for e in found["events"]]
        assert times == sorted(times) and times[0] == start and times[-1] == end
        assert {tuple(e[:4]) for e in found["events"]} <= known


def test_every_completion_of_a_request_is_there(trace_cmd: str, trace: str) -> None:
    path = Path(trace)
    ios = chosen(path)
    ends = [x for x in report(trace_cmd, path) if x.name == "block_rq_complete"]
    for found in detail(path, ios):
        issued = [
            (dict(e[4])["sector"], dict(e[4])["nr_sector"])
            for e in found["events"]
            if e[3] == "block_rq_issue" and dict(e[4])["nr_sector"] != "0"
        ]
        done = [dict(e[4])["sector"] for e in found["events"] if e[3] == "block_rq_complete"]
        last = found["events"][-1][0]
        for sector, _ in issued:
            at = [x.ts for x in ends if x.span()[1] == int(sector) and x.ts <= last]
            assert not at or sector in done


def test_fields_are_those_that_trace_cmd_prints(trace_cmd: str) -> None:
    path = DATA / "ufs-probed.dat"
    lines = {key(x): x.text for x in report(trace_cmd, path)}
    checked = set()
    for found in detail(path, chosen(path)):
        for time, cpu, pid, name, fields in found["events"]:
            text, values = lines[time, cpu, pid, name], dict(fields)
            if name in ("block_bio_queue", "block_rq_issue", "block_rq_complete"):
                major, minor = values["dev"].split(":")
                assert text.startswith(f"{major},{minor} {values['rwbs']} ")
                assert f" {values['sector']} + {values['nr_sector']} " in text
            elif name == "sched_switch":
                assert f" ==> {values['next_comm']}:{values['next_pid']} " in text
            elif name == "irq_handler_entry":
                assert text == f"irq={values['irq']} name={values['name']}"
            elif name == "softirq_entry":
                assert f"[action={values['vec']}]" in text
            else:
                continue
            checked.add(name)
    assert len(checked) >= 5


def test_driver_events_come_by_tag_and_the_interrupt_by_cpu() -> None:
    path = DATA / "ufs-read.dat"
    for found in detail(path, chosen(path)):
        names = [e[3] for e in found["events"]]
        phases = [dict(e[4])["str_t"] for e in found["events"] if e[3] == "ufshcd_command"]
        assert phases == ["send_req", "complete_rsp"]
        tags = {dict(e[4])["tag"] for e in found["events"] if e[3] == "ufshcd_command"}
        assert len(tags) == 1
        assert names.index("irq_handler_entry") < names.index("block_rq_complete")


def test_nvme_completions_are_its_own() -> None:
    path = DATA / "nvme-write-sync-8.dat"
    for found in detail(path, chosen(path)):
        events = [(e[3], dict(e[4]), e[2]) for e in found["events"]]
        own = {f["cid"] for n, f, _ in events if n == "nvme_setup_cmd"}
        done = {f["cid"] for n, f, _ in events if n == "nvme_complete_rq"}
        assert done <= {str(int(cid) & 0xFFF) for cid in own}


def test_the_limit_is_kept_and_said() -> None:
    path = DATA / "ufs-read.dat"
    ios = chosen(path, 3)
    for whole, some in zip(detail(path, ios), detail(path, ios, 4), strict=True):
        assert len(some["events"]) == 4
        assert some["cut"] == len(whole["events"]) - 4


@pytest.mark.parametrize("call", ["io_events", "outline"])
def test_errors_name_the_file(tmp_path: Path, call: str) -> None:
    path = tmp_path / "missing.dat"
    with pytest.raises(_native.TraceError, match=r"missing\.dat: "):
        if call == "outline":
            _native.outline(str(path))
        else:
            _native.io_events(str(path), [], limit=1)


def test_outline(trace: str, trace_cmd: str) -> None:
    first, tasks = _native.outline(trace)
    lines = list(report(trace_cmd, Path(trace)))
    assert first == lines[0].ts
    assert "fio" in tasks.values()
