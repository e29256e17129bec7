"""Traces of kernels that cannot be booted here, against the truth of who wrote them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from iotoll import _native
from tests.trace.native import table_of
from tests.trace.synthetic.container import Layout
from tests.trace.synthetic.drivers import DRIVERS
from tests.trace.synthetic.formats import KERNELS
from tests.trace.synthetic.machine import SECTIONS, Machine
from tests.trace.synthetic.scenarios import SCENARIOS, machine, possible

PC = Layout()
LAYOUTS = [
    PC,
    Layout(page_size=65536),
    Layout(long_size=4),
    Layout(big_endian=True),
    Layout(big_endian=True, page_size=65536),
    Layout(big_endian=True, long_size=4),
]
CASES = [
    (kernel, driver, scenario)
    for kernel in KERNELS
    for driver in DRIVERS
    for scenario in SCENARIOS
    if possible(driver, scenario, kernel)
]


def measured(made: Machine, folder: Path) -> dict[tuple[int, int], dict[str, Any]]:
    """What the native module says of each I/O, by thread and start."""
    path = folder / "synthetic.dat"
    path.write_bytes(made.file())
    table = table_of(path)
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return {(row["pid"], row["start"]): row for row in rows}


def check(made: Machine, folder: Path) -> None:
    found = measured(made, folder)
    assert sorted(found) == sorted((io.pid, io.start) for io in made.ios)
    for io in made.ios:
        row = found[io.pid, io.start]
        assert row["op"] == io.op
        sections = {name: row[f"elapsed_{name}"] for name in SECTIONS}
        assert sections == io.sections, f"I/O of thread {io.pid} at {io.start}"
        assert sum(sections.values()) == io.end - io.start


@pytest.mark.parametrize(("kernel", "driver", "scenario"), CASES)
def test_sections(kernel: str, driver: str, scenario: str, tmp_path: Path) -> None:
    check(machine(PC, kernel, driver, scenario), tmp_path)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("kernel", KERNELS)
def test_sections_in_every_layout(layout: Layout, kernel: str, tmp_path: Path) -> None:
    for driver in ("nvme", "ufs"):
        if possible(driver, "single", kernel):
            check(machine(layout, kernel, driver, "single"), tmp_path)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_every_record_is_read(layout: Layout, tmp_path: Path) -> None:
    made = machine(layout, "5.4", "ufs", "shared")
    path = tmp_path / "synthetic.dat"
    path.write_bytes(made.file())
    info = json.loads(_native.trace_info(str(path)))
    assert sum(info["events"].values()) == sum(len(records) for records in made.records)
    assert info["endian"] == ("big" if layout.big_endian else "little")
    assert (info["long_size"], info["page_size"]) == (layout.long_size, layout.page_size)
    assert info["lost_events"] == 0


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("driver", DRIVERS)
def test_libtracecmd_reads_the_same(
    layout: Layout, driver: str, tmp_path: Path, trace_cmd: str
) -> None:
    made = machine(layout, "4.14", driver, "single")
    path = tmp_path / "synthetic.dat"
    path.write_bytes(made.file())
    command = [trace_cmd, "report", "-t", "-R", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"-(\d+) +\[(\d+)\] +(\d+)\.(\d{9}): +(\w+): +(.*)", text)
    times = sorted(int(s) * 10**9 + int(ns) for _, _, s, ns, _, _ in lines)
    assert times == sorted(r.time for records in made.records for r in records)
    starts = {(io.pid, io.start) for io in made.ios}
    seen = {
        (int(pid), int(s) * 10**9 + int(ns))
        for pid, _, s, ns, event, _ in lines
        if event.startswith("sys_enter_")
    }
    assert seen == starts
    issued = [rest for *_, event, rest in lines if event == "block_rq_issue"]
    assert len(issued) == len(made.ios)
    assert all("nr_sector=8" in rest and re.search(r"rwbs=(R|WS) ", rest) for rest in issued)
