"""Completions that another CPU ends: the interrupt between CPUs is completion (docs/boards.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotoll import _native
from iotoll.boards.qemu import TURNS
from iotoll.explain.tables import io_tables
from iotoll.measure.boot_trace import BootTraceFile
from tests.vm.conftest import measure, succeed

pytestmark = pytest.mark.vm
BOARD = "virt-arm64-smp4-q1"
DISKS = {"ufs": "sda", "nvme": "nvme0n1"}
# The thread of a cell with one has CPU 1, and the disks interrupt CPU 0.
CROSSED, AT_ONCE = "4k-randread-t1-direct", "4k-randread-t8-direct"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One boot; when a device's first cell has run, its requests end where the disk interrupts."""
    folder = tmp_path_factory.mktemp("cross")
    lines = ['extends = "default"', "calibrate = false"]
    # With the matrix's own 1190 one interrupt of 256 meets another softirq of its CPU.
    lines += ["[pace]", "stagger_us = 1150"]
    for device, disk in DISKS.items():
        lines += [f'[fio_cells."{device}-{CROSSED}"]']
        lines += [f"""exec_postrun = "sh -c 'echo 0 >/sys/block/{disk}/queue/rq_affinity'\""""]
    matrix = folder / "cross.toml"
    matrix.write_text("\n".join(lines) + "\n")
    cells = ",".join(f"{device}-{cell}" for device in DISKS for cell in (CROSSED, AT_ONCE))
    measure(folder / "run", BOARD, "--matrix", matrix, "--cells", cells, "--json")
    return folder / "run"


def own_completion(run: Path, cell: str) -> float:
    """The median of what the CPUs themselves executed in section 4, the recorder included."""
    result = json.loads((run / "sides/base/result.json").read_text())
    (record,) = result["cells"][cell]
    assert record.get("invalid") is None
    assert record["marks"]["interrupt"] == {"irq_handler_entry": record["ios"]["measured"]}
    boot = run / "sides/base/boots/1"
    device = cell.partition("-")[0]
    trace = boot / f"{device}/trace.dat"
    ((_, table),) = _native.analyze(
        str(trace),
        device=device_of(boot, device),
        comm="fio",
        unit="instructions",
        turns=boot / TURNS,
        windows=[(w.start, w.end) for w in BootTraceFile(trace).windows if w.name == cell],
    )
    whole = float(np.median([value for value in table["own_completion"] if value is not None]))
    assert whole > record["sections"]["completion"]["own"]["median"] > whole / 10, "net of it"
    return whole


def device_of(boot: Path, name: str) -> str:
    rows = (line.split() for line in (boot / "boot/devices").read_text().splitlines())
    return next(row[2] for row in rows if row[0] == name)


def slowest(run: Path, device: str) -> dict[str, Any]:
    """An I/O of the first cell, with its events."""
    trace = run / f"sides/base/boots/1/{device}/trace.dat"
    found = json.loads(succeed("analyze", trace, "--slowest", "1", "--json").stdout)
    return dict(found[0]["slowest"][0])


@pytest.mark.parametrize("device", DISKS)
def test_the_interrupt_between_cpus_is_completion(run: Path, device: str) -> None:
    crossed, at_once = f"{device}-{CROSSED}", f"{device}-{AT_ONCE}"
    tables = io_tables(run / "sides/base/boots/1", [crossed, at_once])
    assert set(tables[crossed]["submit_cpu"]) == set(tables[crossed]["complete_cpu"]) == {1}
    assert set(tables[at_once]["submit_cpu"]) == {0, 1, 2, 3}
    assert set(tables[at_once]["complete_cpu"]) == {0}, "rq_affinity 0"
    one = slowest(run, device)
    before = sum(one["elapsed"][name] for name in ("vfs_fs", "submission", "hardware"))
    events = [(event["at"], event["event"], event["fields"]) for event in one["events"]]
    (ipi,) = [at for at, _, fields in events if fields.get("name") == "IPI"]
    (left,) = [at for at, name, _ in events if at > ipi and name == "irq_handler_exit"]
    (softirq,) = [at for at, _, fields in events if fields.get("vec") == "BLOCK"]
    (done,) = [at for at, name, _ in events if name == "block_rq_complete"]
    assert before < ipi < done == before + one["elapsed"]["completion"]
    # Own is the disk's handler, that of the interrupt between CPUs, and the softirq.
    own, own_at_once = own_completion(run, crossed), own_completion(run, at_once)
    assert own > 1000 + (left - ipi) + (done - softirq) and own > own_at_once
    elapsed = [np.median(tables[cell]["elapsed_completion"]) for cell in (crossed, at_once)]
    assert elapsed[0] - elapsed[1] > own - own_at_once, "the way between CPUs is elapsed alone"
